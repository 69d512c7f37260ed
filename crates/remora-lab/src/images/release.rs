//! The release image: which component images, by digest, make up one version.

use serde_json::{Value, json};

use super::image::Recipe;
use super::layer::Compression;
use super::recipes::version;
use super::tree::Tree;
use super::{ImagesError, Published};
use crate::build::Artifacts;

/// The component whose version is the release's.
const KUBERNETES: &str = "kubernetes";

/// The image of a release.
pub(crate) fn recipe(artifacts: &Artifacts, published: &Published) -> Result<Recipe, ImagesError> {
    let kubernetes = version(artifacts, KUBERNETES)?;
    let version = kubernetes.trim_start_matches('v').to_owned();
    let mut tree = Tree::new();
    tree.text(
        "/release-manifests/image-references",
        0o644,
        pretty(&image_references(&version, published)),
    );
    tree.text("/release-manifests/release-metadata", 0o644, pretty(&metadata(&version)));
    Ok(Recipe {
        name: "release".to_owned(),
        version,
        user: "65532:65532",
        command: Vec::new(),
        // gzip, since every reader of OpenShift's payloads knows it.
        layers: vec![(tree, Compression::Gzip)],
    })
}

/// The ImageStream of OpenShift's payload layout.
fn image_references(version: &str, published: &Published) -> Value {
    let tags: Vec<Value> = published
        .iter()
        .map(|(name, image)| {
            json!({
                "name": name,
                "from": {"kind": "DockerImage", "name": image.by_digest},
                "annotations": {
                    "io.openshift.build.versions": format!("kubernetes={version}"),
                },
            })
        })
        .collect();
    json!({
        "kind": "ImageStream",
        "apiVersion": "image.openshift.io/v1",
        "metadata": {"name": version},
        "spec": {"lookupPolicy": {"local": false}, "tags": tags},
    })
}

/// What the updater of OpenShift asks of a payload.
fn metadata(version: &str) -> Value {
    json!({"kind": "cincinnati-metadata-v0", "version": version, "previous": [], "metadata": {}})
}

/// JSON as people read it, with a line's end.
fn pretty(document: &Value) -> String {
    format!("{document:#}\n")
}

#[cfg(test)]
mod tests {
    use super::super::PublishedImage;
    use super::*;

    #[test]
    fn when_images_are_published_the_release_names_each_by_digest() {
        let mut published = Published::default();
        for (name, digit) in [("kube-proxy", "2"), ("etcd", "1")] {
            let repository = format!("registry.test:5000/remora/{name}");
            published.references.insert(
                name.to_owned(),
                PublishedImage {
                    by_digest: format!("{repository}@sha256:{}", digit.repeat(64)),
                    by_tag: format!("{repository}:v1.35.4"),
                },
            );
        }
        insta::assert_snapshot!(pretty(&image_references("1.35.4", &published)));
    }

    #[test]
    fn when_metadata_is_written_it_carries_kind_and_version() {
        assert_eq!(
            metadata("1.35.4"),
            json!({
                "kind": "cincinnati-metadata-v0", "version": "1.35.4", "previous": [],
                "metadata": {},
            })
        );
    }
}
