//! Where `third-party/` is.

use std::path::{Path, PathBuf};

use super::BuildError;

/// The `third-party/` folder of a checkout: pins, patches, small programs and package lists.
#[derive(Debug, Clone)]
pub struct Sources {
    third_party: PathBuf,
}

impl Sources {
    /// Finds the folder: under `REMORA_SOURCE_DIR`, else in the checkout this program was built
    /// from.
    ///
    /// # Errors
    /// When neither place has `third-party/components.toml`.
    pub fn find() -> Result<Self, BuildError> {
        let checkout = match std::env::var_os("REMORA_SOURCE_DIR") {
            Some(folder) => PathBuf::from(folder),
            None => PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/../..")),
        };
        let third_party = checkout.join("third-party");
        if third_party.join("components.toml").is_file() {
            Ok(Self { third_party: third_party.canonicalize().unwrap_or(third_party) })
        } else {
            Err(BuildError::NoSources { folder: checkout })
        }
    }

    /// Takes `third_party` as the folder.
    pub fn at(third_party: impl Into<PathBuf>) -> Self {
        Self { third_party: third_party.into() }
    }

    /// The folder of a component.
    #[must_use]
    pub fn component(&self, name: &str) -> PathBuf {
        self.third_party.join(name)
    }

    /// The list of components.
    #[must_use]
    pub fn components_file(&self) -> PathBuf {
        self.third_party.join("components.toml")
    }

    /// The list of packages of a Debian root.
    #[must_use]
    pub fn package_list(&self, root: &str) -> PathBuf {
        self.third_party.join("debian").join(format!("{root}-packages.txt"))
    }

    /// The folder itself.
    #[must_use]
    pub fn folder(&self) -> &Path {
        &self.third_party
    }
}
