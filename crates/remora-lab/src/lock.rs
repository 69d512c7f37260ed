//! One at a time: locks that the kernel takes back when their holder dies.

use std::fs::{File, OpenOptions};
use std::path::Path;

use rustix::fs::{FlockOperation, flock};
use rustix::io::Errno;

use crate::error::LabError;
use crate::files;

/// A lock, held until it is dropped or the process ends.
#[derive(Debug)]
pub(crate) struct Lock {
    _file: File,
}

/// Takes a lock; `None` when another process holds it.
pub(crate) fn try_lock(path: &Path) -> Result<Option<Lock>, LabError> {
    if let Some(parent) = path.parent() {
        files::create_dir(parent)?;
    }
    let file = OpenOptions::new()
        .create(true)
        .truncate(false)
        .write(true)
        .open(path)
        .map_err(LabError::file("open", path))?;
    match flock(&file, FlockOperation::NonBlockingLockExclusive) {
        Ok(()) => Ok(Some(Lock { _file: file })),
        Err(Errno::WOULDBLOCK) => Ok(None),
        Err(error) => Err(LabError::file("lock", path)(error.into())),
    }
}

/// Takes the lock of whoever changes the lab.
pub(crate) fn for_change(path: &Path) -> Result<Lock, LabError> {
    try_lock(path)?.ok_or_else(|| {
        LabError::Refused(
            "another `remora lab up` or `remora lab down` is at work: wait for it or stop it"
                .to_owned(),
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn when_a_lock_is_held_it_is_not_given_again_until_it_is_dropped() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("sub/lock");
        let held = try_lock(&path).unwrap();
        assert!(held.is_some());
        assert!(for_change(&path).unwrap_err().to_string().contains("at work"));
        drop(held);
        assert!(try_lock(&path).unwrap().is_some());
    }
}
