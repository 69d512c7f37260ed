//! The store of images: an OCI layout in the cache, so that equal layers are there once.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use serde_json::{Value, json};
use sha2::{Digest, Sha256};
use tempfile::NamedTempFile;

use super::layer::Layer;
use crate::build::{Cache, Key, hex};

/// Why the store could not be used.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StoreError {
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
    /// A layer could not be written.
    #[error("cannot write a layer")]
    Layer {
        /// The system's answer.
        source: io::Error,
    },
    /// A document could not be written as JSON.
    #[error("cannot write JSON")]
    Json {
        /// Why.
        source: serde_json::Error,
    },
}

fn failed(action: &'static str, path: &Path) -> impl FnOnce(io::Error) -> StoreError {
    let path = path.to_owned();
    move |source| StoreError::Io { action, path, source }
}

/// Blobs by digest, and which tree became which layer.
#[derive(Debug, Clone)]
pub(crate) struct Store {
    root: PathBuf,
}

impl Store {
    /// Opens the store of a cache.
    pub(crate) fn open(cache: &Cache) -> Result<Self, StoreError> {
        let root = cache.root().join("images");
        for folder in [root.join("blobs/sha256"), root.join("layers")] {
            fs::create_dir_all(&folder).map_err(failed("make", &folder))?;
        }
        let store = Self { root };
        store.replace(&store.root.join("oci-layout"), b"{\"imageLayoutVersion\":\"1.0.0\"}")?;
        Ok(store)
    }

    /// Where the blob of a digest (`sha256:...`) is.
    pub(crate) fn blob(&self, digest: &str) -> PathBuf {
        let digest = digest.strip_prefix("sha256:").unwrap_or(digest);
        self.root.join("blobs/sha256").join(digest)
    }

    /// Reads a blob.
    pub(crate) fn read_blob(&self, digest: &str) -> Result<Vec<u8>, StoreError> {
        let path = self.blob(digest);
        fs::read(&path).map_err(failed("read", &path))
    }

    /// Starts a blob whose digest is not known yet.
    pub(crate) fn new_blob(&self) -> Result<NewBlob<'_>, StoreError> {
        let folder = self.root.join("blobs");
        let file = NamedTempFile::new_in(&folder).map_err(failed("write to", &folder))?;
        Ok(NewBlob { store: self, file })
    }

    /// Stores a document; returns its digest and size.
    pub(crate) fn put_json(&self, document: &Value) -> Result<(String, u64), StoreError> {
        let bytes = serde_json::to_vec(document).map_err(|source| StoreError::Json { source })?;
        let digest = hex(&Sha256::digest(&bytes));
        let mut blob = self.new_blob()?;
        blob.file.write_all(&bytes).map_err(|source| StoreError::Layer { source })?;
        blob.keep(&digest)?;
        Ok((format!("sha256:{digest}"), bytes.len() as u64))
    }

    /// The layer that an equal tree became, if its blob is still there.
    pub(crate) fn known_layer(&self, key: &Key) -> Result<Option<Layer>, StoreError> {
        let path = self.layer_record(key);
        let bytes = match fs::read(&path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            read => read.map_err(failed("read", &path))?,
        };
        // A record that cannot be read was half-written by a machine that died: made anew.
        let layer = serde_json::from_slice::<Layer>(&bytes).ok();
        Ok(layer.filter(|layer| {
            fs::metadata(self.blob(&layer.digest)).is_ok_and(|blob| blob.len() == layer.size)
        }))
    }

    /// Notes which layer a tree became.
    pub(crate) fn remember_layer(&self, key: &Key, layer: &Layer) -> Result<(), StoreError> {
        let bytes = serde_json::to_vec(layer).map_err(|source| StoreError::Json { source })?;
        self.replace(&self.layer_record(key), &bytes)
    }

    /// Enters images into the layout's index, in place of earlier ones of the same name and tag.
    pub(crate) fn enter(&self, images: &[super::Image]) -> Result<(), StoreError> {
        let path = self.root.join("index.json");
        let known: Option<Value> =
            fs::read(&path).ok().and_then(|bytes| serde_json::from_slice(&bytes).ok());
        let bytes = serde_json::to_vec(&index(known.as_ref(), images))
            .map_err(|source| StoreError::Json { source })?;
        self.replace(&path, &bytes)
    }

    fn layer_record(&self, key: &Key) -> PathBuf {
        self.root.join("layers").join(format!("{key}.json"))
    }

    /// Writes a whole file by one rename.
    fn replace(&self, path: &Path, bytes: &[u8]) -> Result<(), StoreError> {
        let mut file = NamedTempFile::new_in(&self.root).map_err(failed("write to", &self.root))?;
        file.write_all(bytes).map_err(failed("write", path))?;
        file.persist(path).map_err(|error| failed("write", path)(error.error))?;
        Ok(())
    }
}

const REFERENCE: &str = "org.opencontainers.image.ref.name";

/// The index of a layout that holds what `known` lists, and `images`.
fn index(known: Option<&Value>, images: &[super::Image]) -> Value {
    let listed = known.and_then(|index| index["manifests"].as_array()).into_iter().flatten();
    let mut manifests: BTreeMap<String, Value> = listed
        .filter_map(|entry| Some((entry["annotations"][REFERENCE].as_str()?.to_owned(), entry)))
        .map(|(reference, entry)| (reference, entry.clone()))
        .collect();
    for image in images {
        let reference = format!("{}:{}", image.name, image.version);
        let entry = json!({
            "mediaType": super::image::MANIFEST,
            "digest": image.digest,
            "size": image.size,
            "annotations": {REFERENCE: reference},
        });
        manifests.insert(reference, entry);
    }
    json!({
        "schemaVersion": 2,
        "mediaType": super::image::INDEX,
        "manifests": manifests.into_values().collect::<Vec<_>>(),
    })
}

/// A blob in the making; gone unless kept.
pub(crate) struct NewBlob<'a> {
    store: &'a Store,
    file: NamedTempFile,
}

impl NewBlob<'_> {
    /// The file to write to.
    pub(crate) fn file(&mut self) -> &File {
        self.file.as_file()
    }

    /// Keeps the blob under its digest (without the algorithm).
    pub(crate) fn keep(self, digest: &str) -> Result<(), StoreError> {
        let path = self.store.blob(digest);
        self.file.persist(&path).map_err(|error| failed("write", &path)(error.error))?;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::super::Image;
    use super::*;

    #[test]
    fn when_an_image_is_made_anew_it_takes_its_old_place_in_the_index() {
        let image = |name: &str, digest: &str| Image {
            name: name.to_owned(),
            version: "v1".to_owned(),
            digest: digest.to_owned(),
            size: 7,
            blobs: Vec::new(),
        };
        let first = index(None, &[image("pod", "sha256:1"), image("etcd", "sha256:2")]);
        let second = index(Some(&first), &[image("pod", "sha256:3")]);
        let digests: Vec<_> = second["manifests"]
            .as_array()
            .unwrap()
            .iter()
            .map(|entry| entry["digest"].as_str().unwrap())
            .collect();
        assert_eq!(digests, ["sha256:2", "sha256:3"]);
    }
}
