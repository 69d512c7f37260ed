//! Reads release images over the registry API, with the HostedCluster's pull secret.

use std::collections::HashMap;
use std::io::Read;
use std::pin::Pin;
use std::sync::{Mutex, PoisonError};
use std::task::{Context as Poller, Poll};
use std::time::Duration;

use flate2::read::GzDecoder;
use k8s_openapi::api::core::v1::Secret;
use kube::{Api, Client};
use oci_client::Reference;
use oci_client::client::{ClientConfig, ClientProtocol};
use oci_client::errors::OciDistributionError;
use oci_client::manifest::OciDescriptor;
use oci_client::secrets::RegistryAuth;
use remora_api::conditions::Reason;
use remora_api::names;
use remora_core::release::docker_config::{self, Credentials, DockerConfigError};
use remora_core::release::{IMAGE_REFERENCES, RELEASE_METADATA, Release, ReleaseError};
use tokio::io::AsyncWrite;

/// How long a release image may take to be read.
const TIMEOUT: Duration = Duration::from_secs(30);

/// How long a registry may take to accept a connection.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);

/// Largest layer, packed or unpacked, that is looked into: a release's own layer has some kilobytes.
const MAX_LAYER_BYTES: u64 = 32 * 1024 * 1024;
/// Largest of the two files that make a release: OpenShift's have some hundred kilobytes.
const MAX_FILE_BYTES: u64 = 4 * 1024 * 1024;
/// Most layers that are looked into, the last ones first.
const MAX_LAYERS: usize = 16;
/// Most memory that a Zstandard layer may ask for to be unpacked, as a power of two (RFC 8878, window size).
const ZSTD_WINDOW_LOG: u32 = 24;

/// How a gzip file begins (RFC 1952), and a Zstandard one (RFC 8878).
const GZIP_MAGIC: [u8; 2] = [0x1f, 0x8b];
const ZSTD_MAGIC: [u8; 4] = [0x28, 0xb5, 0x2f, 0xfd];

/// Where distributions keep the certificate authorities.
const AUTHORITIES: [&str; 4] = [
    "/etc/ssl/certs/ca-certificates.crt",
    "/etc/pki/tls/certs/ca-bundle.crt",
    "/etc/ssl/ca-bundle.pem",
    "/etc/ssl/cert.pem",
];

/// A release image cannot be resolved.
#[derive(Debug, thiserror::Error)]
pub enum ResolveError {
    /// The pull secret cannot be read.
    #[error("cannot read pull secret {namespace}/{name}")]
    PullSecret {
        /// Namespace of the Secret.
        namespace: String,
        /// Name of the Secret.
        name: String,
        /// Why.
        #[source]
        source: Box<kube::Error>,
    },
    /// The pull secret lacks its key.
    #[error("cannot use pull secret {namespace}/{name}: key .dockerconfigjson is missing")]
    PullSecretKey {
        /// Namespace of the Secret.
        namespace: String,
        /// Name of the Secret.
        name: String,
    },
    /// The pull secret's content is something else.
    #[error("cannot use key .dockerconfigjson of pull secret {namespace}/{name}")]
    PullSecretContent {
        /// Namespace of the Secret.
        namespace: String,
        /// Name of the Secret.
        name: String,
        /// Why.
        #[source]
        source: DockerConfigError,
    },
    /// The operator's image lacks the certificate authorities.
    #[error(
        "cannot speak to any registry: the operator's image has no certificate authorities; it needs the file \
         /etc/ssl/certs/ca-certificates.crt"
    )]
    NoAuthorities,
    /// The text is no image reference.
    #[error("{image:?} is no image reference")]
    Reference {
        /// The text.
        image: String,
    },
    /// The registry does not answer.
    #[error("cannot reach the registry of release image {image}")]
    Unreachable {
        /// The image.
        image: String,
        /// Why.
        #[source]
        source: Box<dyn std::error::Error + Send + Sync>,
    },
    /// The registry took too long.
    #[error("the registry of release image {image} did not answer within {} s", TIMEOUT.as_secs())]
    Slow {
        /// The image.
        image: String,
    },
    /// The registry wants other credentials.
    #[error("the registry refuses to give release image {image}: check the pull secret")]
    Denied {
        /// The image.
        image: String,
    },
    /// The registry does not have the image.
    #[error("release image {image} does not exist in its registry")]
    NotFound {
        /// The image.
        image: String,
    },
    /// The registry answers something else.
    #[error("cannot read release image {image}")]
    Registry {
        /// The image.
        image: String,
        /// Why.
        #[source]
        source: Box<OciDistributionError>,
    },
    /// The image holds no release.
    #[error("image {image} is no release: it has no file {path}")]
    NoRelease {
        /// The image.
        image: String,
        /// The file.
        path: &'static str,
    },
    /// The image's files say something else.
    #[error("image {image} is no usable release")]
    Release {
        /// The image.
        image: String,
        /// Why.
        #[source]
        source: ReleaseError,
    },
}

impl ResolveError {
    /// The reason for conditions and events.
    pub fn reason(&self) -> Reason {
        match self {
            Self::PullSecret { .. }
            | Self::PullSecretKey { .. }
            | Self::PullSecretContent { .. } => Reason::SecretNotFound,
            Self::Unreachable { .. } | Self::Slow { .. } | Self::NoAuthorities => {
                Reason::RegistryUnreachable
            }
            Self::Denied { .. } => Reason::RegistryDenied,
            Self::Reference { .. }
            | Self::NotFound { .. }
            | Self::Registry { .. }
            | Self::NoRelease { .. }
            | Self::Release { .. } => Reason::InvalidImage,
        }
    }
}

/// Resolved release images, and how to resolve more.
pub struct Releases {
    protocol: ClientProtocol,
    known: Mutex<HashMap<Key, Release>>,
}

/// What a release was resolved from. The credentials belong to it: who may not pull an image does not get it from here.
#[derive(Clone, PartialEq, Eq, Hash)]
struct Key {
    image: String,
    credentials: Option<(String, String)>,
}

impl Releases {
    /// Makes an empty cache; `insecure_registries` are spoken to over plain HTTP.
    pub fn new(insecure_registries: &[String]) -> Self {
        Self {
            protocol: ClientProtocol::HttpsExcept(insecure_registries.to_vec()),
            known: Mutex::default(),
        }
    }

    /// Resolves a release image with a pull secret of a namespace.
    ///
    /// A release that was resolved once is not asked for again: a tag that is moved counts from the next start on.
    pub async fn resolve(
        &self,
        client: &Client,
        namespace: &str,
        image: &str,
        pull_secret: Option<&str>,
    ) -> Result<Release, ResolveError> {
        let reference: Reference =
            image.parse().map_err(|_| ResolveError::Reference { image: image.to_owned() })?;
        let credentials = match pull_secret.filter(|name| !name.is_empty()) {
            Some(name) => {
                credentials(client, namespace, name, reference.resolve_registry()).await?
            }
            None => None,
        };
        let key = Key {
            image: image.to_owned(),
            credentials: credentials.clone().map(|known| (known.user, known.password)),
        };
        if let Some(release) = self.lock().get(&key) {
            return Ok(release.clone());
        }
        let release = tokio::time::timeout(TIMEOUT, self.fetch(&reference, image, credentials))
            .await
            .map_err(|_| ResolveError::Slow { image: image.to_owned() })??;
        tracing::info!(%image, version = release.version(), "release resolved");
        self.lock().insert(key, release.clone());
        Ok(release)
    }

    async fn fetch(
        &self,
        reference: &Reference,
        image: &str,
        credentials: Option<Credentials>,
    ) -> Result<Release, ResolveError> {
        let failed = |source| registry_error(image, source);
        // oci-client panics instead of saying so.
        if !AUTHORITIES.iter().any(|path| std::path::Path::new(path).exists())
            && std::env::var_os("SSL_CERT_FILE").is_none()
        {
            return Err(ResolveError::NoAuthorities);
        }
        let config = ClientConfig {
            protocol: self.protocol.clone(),
            connect_timeout: Some(CONNECT_TIMEOUT),
            read_timeout: Some(TIMEOUT),
            ..ClientConfig::default()
        };
        // A client of its own for each image: clients remember credentials by registry, and these belong to a tenant.
        let registry = oci_client::Client::try_from(config).map_err(failed)?;
        let auth = credentials.map_or(RegistryAuth::Anonymous, |known| {
            RegistryAuth::Basic(known.user, known.password)
        });
        let (manifest, _) = registry.pull_image_manifest(reference, &auth).await.map_err(failed)?;
        let mut files = Files::default();
        // The last layer wins, as in any image.
        let small = manifest.layers.iter().rev().filter(|layer| is_small(layer));
        for layer in small.take(MAX_LAYERS) {
            let mut packed = Bounded::default();
            registry.pull_blob(reference, layer, &mut packed).await.map_err(failed)?;
            files.take_from(&packed.bytes).map_err(|source| failed(source.into()))?;
            if files.is_complete() {
                break;
            }
        }
        files.release(image)
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, HashMap<Key, Release>> {
        // Single inserts: never half-done.
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

async fn credentials(
    client: &Client,
    namespace: &str,
    name: &str,
    registry: &str,
) -> Result<Option<Credentials>, ResolveError> {
    let (namespace, name) = (namespace.to_owned(), name.to_owned());
    let secrets: Api<Secret> = Api::namespaced(client.clone(), &namespace);
    let secret = match secrets.get(&name).await {
        Ok(secret) => secret,
        Err(source) => {
            return Err(ResolveError::PullSecret { namespace, name, source: Box::new(source) });
        }
    };
    let Some(content) = secret.data.as_ref().and_then(|data| data.get(names::PULL_SECRET_KEY))
    else {
        return Err(ResolveError::PullSecretKey { namespace, name });
    };
    docker_config::credentials(&content.0, registry)
        .map_err(|source| ResolveError::PullSecretContent { namespace, name, source })
}

fn is_small(layer: &OciDescriptor) -> bool {
    u64::try_from(layer.size).is_ok_and(|size| size <= MAX_LAYER_BYTES)
}

/// What a registry sends, no more than it may: it may send more than the manifest says.
#[derive(Default)]
struct Bounded {
    bytes: Vec<u8>,
}

impl AsyncWrite for Bounded {
    fn poll_write(
        mut self: Pin<&mut Self>,
        _: &mut Poller<'_>,
        part: &[u8],
    ) -> Poll<std::io::Result<usize>> {
        let size = u64::try_from(self.bytes.len().saturating_add(part.len()));
        if size.is_ok_and(|size| size <= MAX_LAYER_BYTES) {
            self.bytes.extend_from_slice(part);
            return Poll::Ready(Ok(part.len()));
        }
        let error = std::io::Error::other("the registry sends more than the layer's size");
        Poll::Ready(Err(error))
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut Poller<'_>) -> Poll<std::io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, _: &mut Poller<'_>) -> Poll<std::io::Result<()>> {
        Poll::Ready(Ok(()))
    }
}

/// The two files of a release, as far as they were found.
#[derive(Default)]
struct Files {
    image_references: Option<Vec<u8>>,
    release_metadata: Option<Vec<u8>>,
}

impl Files {
    /// Reads a layer, however it is packed: its first bytes say so more reliably than its media type.
    fn take_from(&mut self, packed: &[u8]) -> std::io::Result<()> {
        if packed.starts_with(&GZIP_MAGIC) {
            self.take_from_tar(GzDecoder::new(packed).take(MAX_LAYER_BYTES))
        } else if packed.starts_with(&ZSTD_MAGIC) {
            let mut unpacked = zstd::Decoder::new(packed)?;
            unpacked.window_log_max(ZSTD_WINDOW_LOG)?;
            self.take_from_tar(unpacked.take(MAX_LAYER_BYTES))
        } else {
            self.take_from_tar(packed)
        }
    }

    fn take_from_tar(&mut self, layer: impl Read) -> std::io::Result<()> {
        for entry in tar::Archive::new(layer).entries()? {
            let entry = entry?;
            let path = entry.path()?.to_string_lossy().into_owned();
            let wanted = match path.trim_start_matches("./").trim_start_matches('/') {
                IMAGE_REFERENCES => &mut self.image_references,
                RELEASE_METADATA => &mut self.release_metadata,
                _ => continue,
            };
            if wanted.is_none() {
                let mut content = Vec::new();
                entry.take(MAX_FILE_BYTES).read_to_end(&mut content)?;
                *wanted = Some(content);
            }
        }
        Ok(())
    }

    fn is_complete(&self) -> bool {
        self.image_references.is_some() && self.release_metadata.is_some()
    }

    fn release(self, image: &str) -> Result<Release, ResolveError> {
        let missing = |path| ResolveError::NoRelease { image: image.to_owned(), path };
        let image_references = self.image_references.ok_or_else(|| missing(IMAGE_REFERENCES))?;
        let release_metadata = self.release_metadata.ok_or_else(|| missing(RELEASE_METADATA))?;
        Release::parse(&image_references, &release_metadata)
            .map_err(|source| ResolveError::Release { image: image.to_owned(), source })
    }
}

fn registry_error(image: &str, error: OciDistributionError) -> ResolveError {
    let image = image.to_owned();
    match error {
        OciDistributionError::RequestError(source) => {
            ResolveError::Unreachable { image, source: Box::new(source) }
        }
        OciDistributionError::UnauthorizedError { .. }
        | OciDistributionError::AuthenticationFailure(_) => ResolveError::Denied { image },
        OciDistributionError::ImageManifestNotFoundError(_) => ResolveError::NotFound { image },
        OciDistributionError::ServerError { code: 404, .. } => ResolveError::NotFound { image },
        OciDistributionError::ServerError { code: 401 | 403, .. } => ResolveError::Denied { image },
        OciDistributionError::RegistryError { ref envelope, .. }
            if envelope.errors.iter().any(|error| is_absence(&error.code)) =>
        {
            ResolveError::NotFound { image }
        }
        source => ResolveError::Registry { image, source: Box::new(source) },
    }
}

fn is_absence(code: &oci_client::errors::OciErrorCode) -> bool {
    use oci_client::errors::OciErrorCode;
    matches!(
        code,
        OciErrorCode::ManifestUnknown | OciErrorCode::NameUnknown | OciErrorCode::NotFound
    )
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use super::*;

    fn layer(files: &[(&str, &str)]) -> Vec<u8> {
        let mut builder = tar::Builder::new(Vec::new());
        for (path, content) in files {
            let mut header = tar::Header::new_gnu();
            header.set_size(content.len() as u64);
            header.set_mode(0o644);
            builder.append_data(&mut header, path, content.as_bytes()).unwrap();
        }
        builder.into_inner().unwrap()
    }

    #[test]
    fn when_a_layer_holds_the_manifests_they_make_a_release() {
        let layer = layer(&[
            ("etc/passwd", "root"),
            (IMAGE_REFERENCES, r#"{"kind":"ImageStream","spec":{"tags":[]}}"#),
            (RELEASE_METADATA, r#"{"kind":"cincinnati-metadata-v0","version":"1.35.4"}"#),
        ]);
        let mut files = Files::default();
        files.take_from(&layer).unwrap();
        assert_eq!(files.release("r").unwrap().version(), "1.35.4");
    }

    #[test]
    fn when_a_layer_is_packed_it_is_unpacked() {
        let layer = layer(&[(IMAGE_REFERENCES, "{}")]);
        let mut gzip = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
        gzip.write_all(&layer).unwrap();
        for packed in [gzip.finish().unwrap(), zstd::encode_all(layer.as_slice(), 1).unwrap()] {
            let mut files = Files::default();
            files.take_from(&packed).unwrap();
            assert_eq!(files.image_references.as_deref(), Some(b"{}".as_slice()));
        }
    }

    #[test]
    fn when_an_image_is_something_else_the_missing_file_is_named() {
        let mut files = Files::default();
        files.take_from(&layer(&[("etc/passwd", "root")])).unwrap();
        let error = files.release("registry.example/app:1").unwrap_err();
        assert_eq!(error.reason(), Reason::InvalidImage);
        assert_eq!(
            error.to_string(),
            "image registry.example/app:1 is no release: it has no file release-manifests/image-references"
        );
    }

    #[tokio::test]
    async fn when_a_registry_sends_more_than_a_layer_may_have_it_is_not_kept() {
        use tokio::io::AsyncWriteExt;
        let mut bounded = Bounded::default();
        let part = vec![0; 1024 * 1024];
        for _ in 0..MAX_LAYER_BYTES / (1024 * 1024) {
            bounded.write_all(&part).await.unwrap();
        }
        assert!(bounded.write_all(b"x").await.is_err());
        assert_eq!(bounded.bytes.len() as u64, MAX_LAYER_BYTES);
    }

    #[test]
    fn when_a_layer_unpacks_to_more_than_it_may_it_is_cut_off() {
        let huge = "0".repeat(2 * usize::try_from(MAX_FILE_BYTES).unwrap());
        let packed = zstd::encode_all(layer(&[(IMAGE_REFERENCES, &huge)]).as_slice(), 1).unwrap();
        let mut files = Files::default();
        files.take_from(&packed).unwrap();
        assert_eq!(files.image_references.unwrap().len() as u64, MAX_FILE_BYTES);
    }

    #[tokio::test]
    async fn when_nobody_listens_the_registry_is_unreachable() {
        // Another test of this process may have installed it already.
        let _ = rustls::crypto::ring::default_provider().install_default();
        // The first of the reserved ports: nobody is given it by chance.
        let registry = "127.0.0.1:1".to_owned();
        let releases = Releases::new(std::slice::from_ref(&registry));
        let image = format!("{registry}/remora/release:1");
        let error = releases.fetch(&image.parse().unwrap(), &image, None).await.unwrap_err();
        assert_eq!(error.reason(), Reason::RegistryUnreachable, "{error:?}");
    }
}
