//! Releases: what a release image says.
//!
//! A release image holds `release-manifests/image-references`, an ImageStream whose tags name the component images by
//! digest, and `release-manifests/release-metadata` with the version (the layout of OpenShift's release payload).

pub mod docker_config;

use std::collections::BTreeMap;

use serde::Deserialize;

/// Path of the ImageStream inside a release image.
pub const IMAGE_REFERENCES: &str = "release-manifests/image-references";
/// Path of the metadata inside a release image.
pub const RELEASE_METADATA: &str = "release-manifests/release-metadata";

/// Kind of the metadata document.
const METADATA_KIND: &str = "cincinnati-metadata-v0";

/// A release image says something else than expected.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ReleaseError {
    /// A file is not what it should be.
    #[error("file {path} of the release image is no {expected}: {detail}")]
    Malformed {
        /// Path inside the image.
        path: &'static str,
        /// What it should be.
        expected: &'static str,
        /// What the parser says.
        detail: String,
    },
    /// Components that are needed are not named.
    #[error("release {version} names no image for {}", components.join(", "))]
    MissingImages {
        /// Version of the release.
        version: String,
        /// The components.
        components: Vec<&'static str>,
    },
}

/// A release: its version and the images of its components.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Release {
    version: String,
    images: BTreeMap<String, String>,
}

/// The images that the control plane needs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Images {
    /// etcd.
    pub etcd: String,
    /// kube-apiserver.
    pub kube_apiserver: String,
    /// kube-controller-manager.
    pub kube_controller_manager: String,
    /// kube-scheduler.
    pub kube_scheduler: String,
    /// kube-proxy.
    pub kube_proxy: String,
    /// CoreDNS.
    pub coredns: String,
    /// Flannel.
    pub flannel: String,
    /// Konnectivity: server and agent.
    pub konnectivity: String,
}

#[derive(Deserialize)]
struct ImageStream {
    kind: String,
    #[serde(default)]
    spec: ImageStreamSpec,
}

#[derive(Default, Deserialize)]
struct ImageStreamSpec {
    #[serde(default)]
    tags: Vec<ImageTag>,
}

#[derive(Deserialize)]
struct ImageTag {
    name: String,
    from: ImageSource,
}

#[derive(Deserialize)]
struct ImageSource {
    name: String,
}

#[derive(Deserialize)]
struct Metadata {
    kind: String,
    version: String,
}

impl Release {
    /// Reads the two files of a release image.
    pub fn parse(image_references: &[u8], release_metadata: &[u8]) -> Result<Self, ReleaseError> {
        let stream: ImageStream = parse(IMAGE_REFERENCES, "ImageStream", image_references)?;
        expect_kind(IMAGE_REFERENCES, "ImageStream", &stream.kind)?;
        let metadata: Metadata = parse(RELEASE_METADATA, METADATA_KIND, release_metadata)?;
        expect_kind(RELEASE_METADATA, METADATA_KIND, &metadata.kind)?;
        let images = stream.spec.tags.into_iter().map(|tag| (tag.name, tag.from.name)).collect();
        Ok(Self { version: metadata.version, images })
    }

    /// The version.
    pub fn version(&self) -> &str {
        &self.version
    }

    /// The image of a component.
    pub fn image(&self, component: &str) -> Option<&str> {
        self.images.get(component).map(String::as_str)
    }

    /// The images of the control plane, or which of them are missing.
    pub fn images(&self) -> Result<Images, ReleaseError> {
        let mut missing = Vec::new();
        let mut image = |component: &'static str| {
            self.image(component).map_or_else(
                || {
                    missing.push(component);
                    String::new()
                },
                str::to_owned,
            )
        };
        let images = Images {
            etcd: image("etcd"),
            kube_apiserver: image("kube-apiserver"),
            kube_controller_manager: image("kube-controller-manager"),
            kube_scheduler: image("kube-scheduler"),
            kube_proxy: image("kube-proxy"),
            coredns: image("coredns"),
            flannel: image("flannel"),
            konnectivity: image("apiserver-network-proxy"),
        };
        if missing.is_empty() {
            Ok(images)
        } else {
            Err(ReleaseError::MissingImages { version: self.version.clone(), components: missing })
        }
    }
}

fn parse<'a, T: Deserialize<'a>>(
    path: &'static str,
    expected: &'static str,
    content: &'a [u8],
) -> Result<T, ReleaseError> {
    serde_json::from_slice(content).map_err(|error| ReleaseError::Malformed {
        path,
        expected,
        detail: error.to_string(),
    })
}

fn expect_kind(
    path: &'static str,
    expected: &'static str,
    found: &str,
) -> Result<(), ReleaseError> {
    if found == expected {
        return Ok(());
    }
    Err(ReleaseError::Malformed { path, expected, detail: format!("its kind is {found:?}") })
}

#[cfg(test)]
pub(crate) mod testing {
    use super::Release;

    const COMPONENTS: [&str; 9] = [
        "etcd",
        "kube-apiserver",
        "kube-controller-manager",
        "kube-scheduler",
        "kube-proxy",
        "coredns",
        "flannel",
        "apiserver-network-proxy",
        "pod",
    ];

    /// A release in which every component's image is named after it.
    pub(crate) fn release() -> Release {
        let tags: Vec<_> = COMPONENTS
            .iter()
            .map(|name| {
                serde_json::json!({
                    "name": name,
                    "from": { "kind": "DockerImage", "name": format!("registry.example/{name}@sha256:0") },
                })
            })
            .collect();
        let stream = serde_json::json!({
            "kind": "ImageStream", "apiVersion": "image.openshift.io/v1",
            "metadata": { "name": "1.35.4" }, "spec": { "tags": tags },
        });
        let metadata = serde_json::json!({ "kind": "cincinnati-metadata-v0", "version": "1.35.4" });
        Release::parse(stream.to_string().as_bytes(), metadata.to_string().as_bytes()).unwrap()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn when_a_payload_is_parsed_version_and_images_are_known() {
        let release = testing::release();
        assert_eq!(release.version(), "1.35.4");
        assert_eq!(release.image("etcd"), Some("registry.example/etcd@sha256:0"));
        assert_eq!(
            release.images().unwrap().konnectivity,
            "registry.example/apiserver-network-proxy@sha256:0"
        );
    }

    #[test]
    fn when_components_are_missing_they_are_named() {
        let stream =
            br#"{"kind":"ImageStream","spec":{"tags":[{"name":"etcd","from":{"name":"e"}}]}}"#;
        let metadata = br#"{"kind":"cincinnati-metadata-v0","version":"9.9.9"}"#;
        let error = Release::parse(stream, metadata).unwrap().images().unwrap_err();
        assert_eq!(
            error.to_string(),
            "release 9.9.9 names no image for kube-apiserver, kube-controller-manager, kube-scheduler, \
             kube-proxy, coredns, flannel, apiserver-network-proxy"
        );
    }

    #[test]
    fn when_a_file_is_something_else_it_is_named() {
        let error = Release::parse(br#"{"kind":"List"}"#, b"{}").unwrap_err();
        assert_eq!(
            error.to_string(),
            "file release-manifests/image-references of the release image is no ImageStream: \
             its kind is \"List\""
        );
    }
}
