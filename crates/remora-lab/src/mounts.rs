//! What is mounted, out of `/proc/self/mountinfo`.

use std::fs;
use std::path::{Path, PathBuf};

use rustix::io::Errno;
use rustix::mount::{UnmountFlags, unmount};

use crate::error::LabError;

const MOUNTINFO: &str = "/proc/self/mountinfo";

/// One mount.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Mount {
    /// Where it is mounted.
    pub(crate) target: PathBuf,
    /// The type of its file system.
    pub(crate) kind: String,
}

/// All mounts, in the order in which they were made.
pub(crate) fn list() -> Result<Vec<Mount>, LabError> {
    let text = fs::read_to_string(MOUNTINFO).map_err(LabError::file("read", MOUNTINFO))?;
    Ok(parse(&text))
}

fn parse(text: &str) -> Vec<Mount> {
    let mount = |line: &str| {
        let (before, after) = line.split_once(" - ")?;
        let target = PathBuf::from(unescape(before.split(' ').nth(4)?));
        Some(Mount { target, kind: after.split(' ').next()?.to_owned() })
    };
    text.lines().filter_map(mount).collect()
}

/// Undoes the octal escapes of proc_pid_mountinfo(5) for space, tab, newline and backslash.
fn unescape(path: &str) -> String {
    path.replace("\\040", " ").replace("\\011", "\t").replace("\\012", "\n").replace("\\134", "\\")
}

/// The mounts under a directory, the last made first: the order in which they can go.
fn below(mounts: Vec<Mount>, directory: &Path) -> Vec<PathBuf> {
    let targets = mounts.into_iter().map(|mount| mount.target);
    targets.filter(|target| target.starts_with(directory)).rev().collect()
}

/// Unmounts everything under a directory.
pub(crate) fn unmount_below(directory: &Path) -> Result<(), LabError> {
    for target in below(list()?, directory) {
        match unmount(&target, UnmountFlags::DETACH) {
            // Another mount covers it, or it went with the one it was in.
            Ok(()) | Err(Errno::NOENT | Errno::INVAL) => {}
            Err(error) => {
                let action = format!("unmount {}", target.display());
                return Err(LabError::system(action)(error));
            }
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "\
22 1 254:0 / / rw,relatime - ext4 /dev/vda rw
31 22 0:25 / /sys/fs/cgroup/cpu rw,relatime shared:9 - cgroup cgroup rw,cpu
40 22 254:0 /a /lab/hosts/my\\040host/lib rw - ext4 /dev/vda rw
41 40 0:40 / /lab/hosts/my\\040host/lib/kubelet rw - tmpfs tmpfs rw
42 22 0:41 / /laboratory rw - tmpfs tmpfs rw
";

    #[test]
    fn when_mounts_are_nested_the_inner_one_goes_first() {
        assert_eq!(
            below(parse(TEXT), Path::new("/lab")),
            [Path::new("/lab/hosts/my host/lib/kubelet"), Path::new("/lab/hosts/my host/lib")]
        );
    }

    #[test]
    fn when_a_mount_has_optional_fields_its_type_is_still_found() {
        let mounts = parse(TEXT);
        assert_eq!(mounts.len(), 5);
        assert_eq!(
            mounts.get(1),
            Some(&Mount { target: PathBuf::from("/sys/fs/cgroup/cpu"), kind: "cgroup".to_owned() })
        );
    }
}
