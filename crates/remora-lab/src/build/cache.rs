//! The content-addressed cache: entries appear whole, by one rename, and are never changed.

use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};

use rustix::fs::FlockOperation;

use super::Key;

/// Why the cache could not be used.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum CacheError {
    /// Neither variable says where the cache is.
    #[error("no place for the cache: set REMORA_CACHE_DIR, or HOME")]
    NoPlace,
    /// A file operation failed.
    #[error("cannot {action} {}", path.display())]
    Io {
        /// What was attempted.
        action: &'static str,
        /// On what.
        path: PathBuf,
        /// The system's answer.
        source: io::Error,
    },
}

impl CacheError {
    pub(crate) fn io(action: &'static str, path: &Path) -> impl FnOnce(io::Error) -> Self {
        let path = path.to_owned();
        move |source| Self::Io { action, path, source }
    }
}

/// Whether an entry was made now or found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Made {
    /// Made by this call.
    Now,
    /// There already.
    Before,
}

/// A folder of finished results, each named after its key.
#[derive(Debug, Clone)]
pub struct Cache {
    root: PathBuf,
}

impl Cache {
    /// Opens `REMORA_CACHE_DIR`, else `~/.cache/remora`.
    ///
    /// # Errors
    /// When no place is known or the folder cannot be made.
    pub fn open() -> Result<Self, CacheError> {
        let root = match (std::env::var_os("REMORA_CACHE_DIR"), std::env::var_os("HOME")) {
            (Some(root), _) if !root.is_empty() => PathBuf::from(root),
            (_, Some(home)) if !home.is_empty() => Path::new(&home).join(".cache/remora"),
            _ => return Err(CacheError::NoPlace),
        };
        Self::at(root)
    }

    /// Opens the folder `root`, making it where it is absent.
    ///
    /// # Errors
    /// When the folder cannot be made.
    pub fn at(root: impl Into<PathBuf>) -> Result<Self, CacheError> {
        let root = root.into();
        fs::create_dir_all(&root).map_err(CacheError::io("make", &root))?;
        Ok(Self { root })
    }

    /// The folder of the cache.
    #[must_use]
    pub fn root(&self) -> &Path {
        &self.root
    }

    /// Where an entry is, or will be.
    #[must_use]
    pub fn entry(&self, kind: &str, name: &str, key: &Key) -> PathBuf {
        self.root.join(kind).join(format!("{name}-{key}"))
    }

    /// Where the log of an entry is.
    #[must_use]
    pub fn log(&self, name: &str, key: &Key) -> PathBuf {
        self.root.join("logs").join(format!("{name}-{key}.log"))
    }

    /// Returns the entry, made by `make` in an empty folder where it is absent. Of several
    /// processes that ask at once, one makes it and the others wait.
    pub(crate) fn make<E: From<CacheError>>(
        &self,
        (kind, name, key): (&str, &str, &Key),
        make: impl FnOnce(&Path) -> Result<(), E>,
    ) -> Result<(PathBuf, Made), E> {
        let entry = self.entry(kind, name, key);
        if entry.exists() {
            return Ok((entry, Made::Before));
        }
        let folder = self.root.join(kind);
        fs::create_dir_all(&folder).map_err(CacheError::io("make", &folder))?;
        let _lock = lock(&folder.join(format!(".{name}-{key}.lock")))?;
        if entry.exists() {
            return Ok((entry, Made::Before));
        }
        // The lock is ours, so what an interrupted run left is nobody's.
        let unfinished = folder.join(format!(".{name}-{key}.unfinished"));
        remove(&unfinished)?;
        fs::create_dir(&unfinished).map_err(CacheError::io("make", &unfinished))?;
        if let Err(error) = make(&unfinished) {
            remove(&unfinished)?;
            return Err(error);
        }
        fs::rename(&unfinished, &entry).map_err(CacheError::io("move into place", &entry))?;
        Ok((entry, Made::Now))
    }
}

/// Takes the lock of a file until the returned handle is dropped; the process's end frees it too.
fn lock(path: &Path) -> Result<File, CacheError> {
    let file = File::create(path).map_err(CacheError::io("open", path))?;
    rustix::fs::flock(&file, FlockOperation::LockExclusive)
        .map_err(|errno| CacheError::io("lock", path)(errno.into()))?;
    Ok(file)
}

/// Removes a folder with all it holds; its absence is success.
pub(crate) fn remove(folder: &Path) -> Result<(), CacheError> {
    match fs::remove_dir_all(folder) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => {
            Err(CacheError::io("remove", folder)(error))
        }
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::super::KeyHasher;
    use super::*;

    fn key(text: &str) -> Key {
        KeyHasher::new(text).finish()
    }

    #[test]
    fn when_an_entry_is_there_it_is_not_made_again() {
        let folder = tempfile::tempdir().unwrap();
        let cache = Cache::at(folder.path()).unwrap();
        let at = ("builds", "etcd", &key("a"));
        let write = |text: &'static str| {
            move |entry: &Path| -> Result<(), CacheError> {
                fs::write(entry.join("bin"), text).map_err(CacheError::io("write", entry))
            }
        };
        let (first, made) = cache.make(at, write("one")).unwrap();
        assert_eq!(made, Made::Now);
        let (second, made) = cache.make(at, write("two")).unwrap();
        assert_eq!((&first, made), (&second, Made::Before));
        assert_eq!(fs::read_to_string(first.join("bin")).unwrap(), "one");
    }

    #[test]
    fn when_making_fails_nothing_is_left() {
        let folder = tempfile::tempdir().unwrap();
        let cache = Cache::at(folder.path()).unwrap();
        let at = ("builds", "etcd", &key("a"));
        let failed = cache.make(at, |_| Err(CacheError::NoPlace));
        assert!(matches!(failed, Err(CacheError::NoPlace)));
        assert!(!cache.entry(at.0, at.1, at.2).exists());
        assert!(!folder.path().join(format!("builds/.etcd-{}.unfinished", at.2)).exists());
    }
}
