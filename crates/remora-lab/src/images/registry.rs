//! Pushes images to a registry; what is there already is not sent again.

use std::path::PathBuf;

use futures::stream;
use http::HeaderValue;
use oci_client::client::{Client, ClientConfig, ClientProtocol};
use oci_client::errors::OciDistributionError;
use oci_client::secrets::RegistryAuth;
use oci_client::{Reference, RegistryOperation};
use tokio::io::AsyncReadExt;

use super::image::{Image, MANIFEST};
use super::store::{Store, StoreError};

/// How much of a blob is in memory at once.
const CHUNK: usize = 1 << 20;

/// Why an image could not be pushed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum PushError {
    /// The registry's name is none.
    #[error("{reference} is no image reference: a registry is given as HOST:PORT")]
    Reference {
        /// What was made of it.
        reference: String,
        /// Why it is none.
        source: oci_client::ParseError,
    },
    /// The registry did not do as asked.
    #[error("cannot {action} {reference}")]
    Registry {
        /// What was attempted.
        action: &'static str,
        /// On what.
        reference: String,
        /// The registry's answer.
        source: Box<OciDistributionError>,
    },
    /// A blob of the cache could not be read.
    #[error("cannot read {}", path.display())]
    Blob {
        /// Where it is.
        path: PathBuf,
        /// The system's answer.
        source: std::io::Error,
    },
    /// The store could not be used.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The registry keeps the image under another digest.
    #[error("the registry keeps {reference} as {kept}")]
    Digest {
        /// What was pushed.
        reference: String,
        /// What it became.
        kept: String,
    },
}

/// A registry that speaks plain HTTP, as the lab's does.
pub(crate) struct Registry {
    client: Client,
    host: String,
}

impl Registry {
    /// Names a registry; nothing is sent yet.
    pub(crate) fn new(host: &str) -> Self {
        let config = ClientConfig {
            protocol: ClientProtocol::HttpsExcept(vec![host.to_owned()]),
            // One request a blob: a local registry gains nothing from chunks.
            use_monolithic_push: true,
            ..ClientConfig::default()
        };
        Self { client: Client::new(config), host: host.to_owned() }
    }

    /// The repository of an image.
    pub(crate) fn repository(&self, image: &Image) -> String {
        repository(&self.host, &image.name)
    }

    /// Pushes an image; returns its reference by digest and whether anything was sent.
    pub(crate) async fn push(
        &self,
        store: &Store,
        image: &Image,
    ) -> Result<(String, bool), PushError> {
        let by_digest = format!("{}@{}", self.repository(image), image.digest);
        let text = format!("{}:{}", self.repository(image), image.version);
        let tag: Reference = text
            .parse()
            .map_err(|source| PushError::Reference { reference: text.clone(), source })?;
        let failed = |action| {
            let reference = text.clone();
            move |source| PushError::Registry { action, reference, source: Box::new(source) }
        };
        let auth = RegistryAuth::Anonymous;
        self.client
            .auth(&tag, &auth, RegistryOperation::Push)
            .await
            .map_err(failed("log in to push"))?;
        if let Ok(kept) = self.client.fetch_manifest_digest(&tag, &auth).await
            && kept == image.digest
        {
            return Ok((by_digest, false));
        }
        for (digest, size) in &image.blobs {
            let is_there =
                self.client.blob_exists(&tag, digest).await.map_err(failed("ask for a blob of"))?;
            if !is_there {
                self.push_blob(store, &tag, digest, *size).await?;
            }
        }
        let manifest = store.read_blob(&image.digest)?;
        self.client
            .push_manifest_raw(&tag, manifest, HeaderValue::from_static(MANIFEST))
            .await
            .map_err(failed("push the manifest of"))?;
        let kept = self
            .client
            .fetch_manifest_digest(&tag, &auth)
            .await
            .map_err(failed("ask for the digest of"))?;
        if kept == image.digest {
            Ok((by_digest, true))
        } else {
            Err(PushError::Digest { reference: text, kept })
        }
    }

    async fn push_blob(
        &self,
        store: &Store,
        tag: &Reference,
        digest: &str,
        size: u64,
    ) -> Result<(), PushError> {
        let path = store.blob(digest);
        let file = tokio::fs::File::open(&path)
            .await
            .map_err(|source| PushError::Blob { path, source })?;
        let stream = stream::try_unfold(file, |mut file| async move {
            let mut chunk = vec![0; CHUNK];
            let length = file.read(&mut chunk).await.map_err(OciDistributionError::IoError)?;
            chunk.truncate(length);
            Ok((length > 0).then(|| (chunk.into(), file)))
        });
        self.client.push_blob_stream(tag, stream, digest, Some(size)).await.map_err(|source| {
            PushError::Registry {
                action: "push a layer of",
                reference: tag.to_string(),
                source: Box::new(source),
            }
        })?;
        Ok(())
    }
}

/// The repository of an image of ours in a registry.
pub(crate) fn repository(host: &str, name: &str) -> String {
    format!("{host}/remora/{name}")
}
