//! Small files: written whole or not at all, private ones private from the start.

use std::fs;
use std::io::Write;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::error::LabError;

/// Who may read a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Access {
    /// Everybody on the machine.
    Public,
    /// Its owner only.
    Private,
}

impl Access {
    fn mode(self) -> u32 {
        match self {
            Self::Public => 0o644,
            Self::Private => 0o600,
        }
    }
}

/// Makes a directory and its parents.
pub(crate) fn create_dir(path: &Path) -> Result<(), LabError> {
    fs::create_dir_all(path).map_err(LabError::file("create directory", path))
}

/// Reads a file that may be absent.
pub(crate) fn read_if_present(path: &Path) -> Result<Option<String>, LabError> {
    match fs::read_to_string(path) {
        Ok(text) => Ok(Some(text)),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(None),
        Err(source) => Err(LabError::file("read", path)(source)),
    }
}

/// Writes a file so that a reader sees the old or the new content, never a part.
/// Returns whether the content changed.
pub(crate) fn write(path: &Path, content: &str, access: Access) -> Result<bool, LabError> {
    if fs::read(path).is_ok_and(|old| old == content.as_bytes()) {
        return Ok(false);
    }
    if let Some(parent) = path.parent() {
        create_dir(parent)?;
    }
    let draft = draft_path(path);
    let mut file = fs::OpenOptions::new()
        .write(true)
        .create(true)
        .truncate(true)
        .mode(access.mode())
        .open(&draft)
        .map_err(LabError::file("create", &draft))?;
    file.write_all(content.as_bytes()).map_err(LabError::file("write", &draft))?;
    fs::rename(&draft, path).map_err(LabError::file("replace", path))?;
    Ok(true)
}

fn draft_path(path: &Path) -> PathBuf {
    let mut name = path.file_name().unwrap_or_default().to_os_string();
    name.push(format!(".{}.new", std::process::id()));
    path.with_file_name(name)
}

/// Reads a JSON file of the lab that may be absent.
pub(crate) fn read_json<T: DeserializeOwned>(path: &Path) -> Result<Option<T>, LabError> {
    let Some(text) = read_if_present(path)? else { return Ok(None) };
    serde_json::from_str(&text).map(Some).map_err(|error| LabError::Malformed {
        path: path.to_path_buf(),
        reason: error.to_string(),
    })
}

/// Writes a JSON file of the lab.
pub(crate) fn write_json<T: Serialize>(path: &Path, value: &T) -> Result<bool, LabError> {
    let mut text = serde_json::to_string_pretty(value).map_err(|error| LabError::Malformed {
        path: path.to_path_buf(),
        reason: error.to_string(),
    })?;
    text.push('\n');
    write(path, &text, Access::Public)
}

/// Removes a file; an absent one is fine.
pub(crate) fn remove_file(path: &Path) -> Result<(), LabError> {
    match fs::remove_file(path) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
            Err(LabError::file("remove", path)(error))
        }
        Ok(()) | Err(_) => Ok(()),
    }
}

/// Makes `link` point at `target`, whatever it pointed at before.
pub(crate) fn link(target: &Path, link: &Path) -> Result<(), LabError> {
    if fs::read_link(link).is_ok_and(|old| old == target) {
        return Ok(());
    }
    if let Some(parent) = link.parent() {
        create_dir(parent)?;
    }
    let draft = draft_path(link);
    remove_file(&draft)?;
    std::os::unix::fs::symlink(target, &draft).map_err(LabError::file("create link", &draft))?;
    fs::rename(&draft, link).map_err(LabError::file("replace", link))
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    #[test]
    fn when_the_content_is_the_same_nothing_is_written() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("sub/file");
        assert!(write(&path, "one", Access::Private).unwrap());
        assert!(!write(&path, "one", Access::Private).unwrap());
        assert!(write(&path, "two", Access::Private).unwrap());
        assert_eq!(fs::read_to_string(&path).unwrap(), "two");
        assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
        assert_eq!(fs::read_dir(dir.path().join("sub")).unwrap().count(), 1);
    }

    #[test]
    fn when_a_link_points_elsewhere_it_is_replaced() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("link");
        link(Path::new("/one"), &path).unwrap();
        link(Path::new("/two"), &path).unwrap();
        assert_eq!(fs::read_link(&path).unwrap(), Path::new("/two"));
    }

    #[test]
    fn when_a_json_file_is_damaged_the_error_names_it() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("state.json");
        fs::write(&path, "{").unwrap();
        let error = read_json::<serde_json::Value>(&path).unwrap_err();
        assert!(error.to_string().contains("state.json"), "{error}");
    }
}
