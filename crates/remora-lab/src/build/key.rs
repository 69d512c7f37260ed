//! Keys of the cache: a hash over everything that a result depends on.

use std::fmt;
use std::fs;
use std::io::{self, Read};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use sha2::{Digest, Sha256};

/// The name of a cache entry's content: 16 hexadecimal digits.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Key(String);

impl fmt::Display for Key {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.0)
    }
}

/// Collects what a result depends on. Every part is preceded by its length, so that two different
/// sequences of parts never hash alike.
pub(crate) struct KeyHasher(Sha256);

impl KeyHasher {
    /// Starts the key of a `kind` of result; the kind carries the version of its recipe.
    pub(crate) fn new(kind: &str) -> Self {
        Self(Sha256::new()).with(kind)
    }

    /// Adds one part.
    #[must_use]
    pub(crate) fn with(mut self, part: impl AsRef<[u8]>) -> Self {
        self.add(part);
        self
    }

    /// Adds one part.
    pub(crate) fn add(&mut self, part: impl AsRef<[u8]>) {
        let part = part.as_ref();
        self.0.update((part.len() as u64).to_le_bytes());
        self.0.update(part);
    }

    /// Adds every file below `folder` whose path relative to it satisfies `is_part`: name,
    /// executable bit and content, in order of name.
    pub(crate) fn add_folder(
        &mut self,
        folder: &Path,
        is_part: &dyn Fn(&Path) -> bool,
    ) -> io::Result<()> {
        self.add_below(folder, Path::new(""), is_part)
    }

    fn add_below(
        &mut self,
        folder: &Path,
        below: &Path,
        is_part: &dyn Fn(&Path) -> bool,
    ) -> io::Result<()> {
        let mut names = Vec::new();
        for entry in fs::read_dir(folder.join(below))? {
            names.push(entry?.file_name());
        }
        names.sort();
        for name in names {
            let relative = below.join(&name);
            let path = folder.join(&relative);
            let metadata = fs::metadata(&path)?;
            if metadata.is_dir() {
                self.add_below(folder, &relative, is_part)?;
            } else if is_part(&relative) {
                self.add(relative.as_os_str().as_encoded_bytes());
                self.add([u8::from(metadata.permissions().mode() & 0o100 != 0)]);
                self.add(fs::read(&path)?);
            }
        }
        Ok(())
    }

    /// The key.
    pub(crate) fn finish(self) -> Key {
        let mut text = hex(&self.0.finalize());
        text.truncate(16);
        Key(text)
    }
}

/// The SHA-256 of a file, in hexadecimal digits.
pub(crate) fn sha256_of_file(path: &Path) -> io::Result<String> {
    let mut file = fs::File::open(path)?;
    let mut hasher = Sha256::new();
    let mut chunk = vec![0; 1 << 16];
    loop {
        let length = file.read(&mut chunk)?;
        match chunk.get(..length) {
            Some(bytes) if !bytes.is_empty() => hasher.update(bytes),
            _ => return Ok(hex(&hasher.finalize())),
        }
    }
}

/// Writes bytes as lower-case hexadecimal digits.
pub(crate) fn hex(bytes: &[u8]) -> String {
    use fmt::Write;
    bytes.iter().fold(String::with_capacity(bytes.len() * 2), |mut text, byte| {
        // Writing to a String cannot fail.
        let _ = write!(text, "{byte:02x}");
        text
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn when_parts_are_cut_differently_the_keys_differ() {
        let one = KeyHasher::new("test").with("ab").with("c").finish();
        let other = KeyHasher::new("test").with("a").with("bc").finish();
        assert_ne!(one, other);
        assert_eq!(one.to_string().len(), 16);
    }

    #[test]
    fn when_a_file_is_no_part_its_change_leaves_the_key() {
        let folder = tempfile::tempdir().unwrap();
        fs::write(folder.path().join("go.mod"), "module a\n").unwrap();
        let key = || {
            let mut hasher = KeyHasher::new("test");
            hasher
                .add_folder(folder.path(), &|path| path.extension() != Some("md".as_ref()))
                .unwrap();
            hasher.finish()
        };
        let before = key();
        fs::write(folder.path().join("README.md"), "words\n").unwrap();
        assert_eq!(key(), before);
        fs::write(folder.path().join("go.sum"), "sums\n").unwrap();
        assert_ne!(key(), before);
    }
}
