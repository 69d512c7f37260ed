//! Images: a configuration and layers, in the store.

use serde_json::{Value, json};

use super::layer::{Compression, Layer, write};
use super::store::{Store, StoreError};
use super::tree::Tree;

/// The media type of an image's manifest.
pub(crate) const MANIFEST: &str = "application/vnd.oci.image.manifest.v1+json";
/// The media type of a layout's index.
pub(crate) const INDEX: &str = "application/vnd.oci.image.index.v1+json";
const CONFIG: &str = "application/vnd.oci.image.config.v1+json";

/// The time that stands in for the time of build; [`super::tree::EPOCH`] in words.
const CREATED: &str = "2020-01-01T00:00:00Z";

/// What an image is to be.
#[derive(Debug, Clone)]
pub(crate) struct Recipe {
    /// Its name, that of its repository.
    pub(crate) name: String,
    /// Its version, its tag.
    pub(crate) version: String,
    /// Who runs its programs.
    pub(crate) user: &'static str,
    /// What it runs when nothing else is asked for.
    pub(crate) command: Vec<&'static str>,
    /// Its layers, the lowest first.
    pub(crate) layers: Vec<(Tree, Compression)>,
}

/// An image in the store.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Image {
    /// Its name, that of its repository.
    pub name: String,
    /// Its version, its tag.
    pub version: String,
    /// The digest of its manifest, with the algorithm.
    pub digest: String,
    /// The size of its manifest.
    pub size: u64,
    /// The digests and sizes of configuration and layers.
    pub(crate) blobs: Vec<(String, u64)>,
}

impl Recipe {
    /// Puts the image into the store; layers that are there are used again.
    pub(crate) fn build(&self, store: &Store) -> Result<Image, StoreError> {
        let layers = self
            .layers
            .iter()
            .map(|(tree, compression)| write(store, tree, *compression))
            .collect::<Result<Vec<_>, _>>()?;
        let (config, config_size) = store.put_json(&self.config(&layers))?;
        let manifest = json!({
            "schemaVersion": 2,
            "mediaType": MANIFEST,
            "config": {"mediaType": CONFIG, "digest": config, "size": config_size},
            "layers": layers
                .iter()
                .map(|layer| json!({
                    "mediaType": layer.media_type, "digest": layer.digest, "size": layer.size,
                }))
                .collect::<Vec<_>>(),
        });
        let (digest, size) = store.put_json(&manifest)?;
        let mut blobs = vec![(config, config_size)];
        blobs.extend(layers.into_iter().map(|layer| (layer.digest, layer.size)));
        Ok(Image { name: self.name.clone(), version: self.version.clone(), digest, size, blobs })
    }

    fn config(&self, layers: &[Layer]) -> Value {
        json!({
            "created": CREATED,
            "architecture": "amd64",
            "os": "linux",
            "config": {
                "User": self.user,
                "Env": ["PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"],
                "Cmd": self.command,
                "WorkingDir": "/",
                "Labels": {
                    "org.opencontainers.image.title": self.name,
                    "org.opencontainers.image.version": self.version,
                },
            },
            "rootfs": {
                "type": "layers",
                "diff_ids": layers.iter().map(|layer| layer.diff_id.as_str()).collect::<Vec<_>>(),
            },
            "history": layers
                .iter()
                .map(|_| json!({"created": CREATED, "created_by": "remora"}))
                .collect::<Vec<_>>(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::build::Cache;

    fn recipe(name: &'static str) -> Recipe {
        let mut shared = Tree::new();
        shared.text("/usr/local/bin/hyperkube", 0o755, "hyperkube");
        let mut own = Tree::new();
        own.symlink(&format!("/usr/local/bin/{name}"), "hyperkube");
        Recipe {
            name: name.to_owned(),
            version: "v1.35.4".into(),
            user: "65532:65532",
            command: vec![name],
            layers: vec![(shared, Compression::Zstd), (own, Compression::Gzip)],
        }
    }

    #[test]
    fn when_an_image_is_built_twice_the_digest_is_the_same() {
        let (one, other) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let build = |folder: &tempfile::TempDir| {
            let store = Store::open(&Cache::at(folder.path()).unwrap()).unwrap();
            recipe("etcd").build(&store).unwrap()
        };
        assert_eq!(build(&one), build(&other));
        assert_eq!(build(&one), build(&one));
    }

    #[test]
    fn when_two_images_share_a_layer_it_is_stored_once() {
        let folder = tempfile::tempdir().unwrap();
        let store = Store::open(&Cache::at(folder.path()).unwrap()).unwrap();
        let etcd = recipe("etcd").build(&store).unwrap();
        let scheduler = recipe("kube-scheduler").build(&store).unwrap();
        assert_ne!(etcd.digest, scheduler.digest);
        assert_eq!(etcd.blobs[1], scheduler.blobs[1]);
        let blobs = std::fs::read_dir(folder.path().join("images/blobs/sha256")).unwrap().count();
        // The shared layer, and a manifest, a configuration and an own layer each.
        assert_eq!(blobs, 7);
    }

    #[test]
    fn when_an_image_is_built_its_configuration_says_user_command_and_layers() {
        let folder = tempfile::tempdir().unwrap();
        let store = Store::open(&Cache::at(folder.path()).unwrap()).unwrap();
        let image = recipe("etcd").build(&store).unwrap();
        let config: Value =
            serde_json::from_slice(&store.read_blob(&image.blobs[0].0).unwrap()).unwrap();
        assert_eq!(config["config"]["User"], "65532:65532");
        assert_eq!(config["config"]["Cmd"], json!(["etcd"]));
        assert_eq!(config["rootfs"]["diff_ids"].as_array().unwrap().len(), 2);
    }
}
