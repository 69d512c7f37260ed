//! A real registry: Debian's docker-registry, on loopback, plain HTTP.

use std::collections::BTreeMap;
use std::io::Write as _;
use std::path::Path;
use std::time::Duration;

use anyhow::Context as _;
use flate2::Compression;
use flate2::write::GzEncoder;
use oci_client::client::{ClientConfig, ClientProtocol, Config, ImageLayer};
use oci_client::manifest::OciImageManifest;
use oci_client::secrets::RegistryAuth;
use oci_client::{Client, Reference};
use serde_json::json;
use tokio::sync::OnceCell;

use crate::api_server::{free_ports, write};
use crate::children::Children;
use crate::eventually;

const PROGRAM: &str = "/usr/bin/docker-registry";
/// Ten times what a start takes on a busy machine of two cores.
const START_DEADLINE: Duration = Duration::from_secs(30);
/// Components that a release of Remora names.
const COMPONENTS: [&str; 10] = [
    "apiserver-network-proxy",
    "coredns",
    "etcd",
    "flannel",
    "kube-apiserver",
    "kube-controller-manager",
    "kube-proxy",
    "kube-scheduler",
    "node-disk",
    "pod",
];

/// A running registry. Everything about it ends with the value, or with the process.
#[derive(Debug)]
pub struct Registry {
    children: Children,
    host: String,
}

static SHARED: OnceCell<Registry> = OnceCell::const_new();

impl Registry {
    /// The registry of this test binary; the first call starts it.
    ///
    /// # Errors
    /// When it could not be started.
    pub async fn shared() -> anyhow::Result<&'static Self> {
        SHARED.get_or_try_init(Self::start).await
    }

    /// Starts one and waits until it answers.
    ///
    /// # Errors
    /// When it does not; with its last words.
    pub async fn start() -> anyhow::Result<Self> {
        let children = Children::new("registry")?;
        let [port] = free_ports()?;
        let host = format!("127.0.0.1:{port}");
        let configuration = json!({
            "version": 0.1,
            "log": { "level": "warn", "accesslog": { "disabled": true } },
            "storage": { "filesystem": { "rootdirectory": children.folder().join("images") } },
            "http": { "addr": host },
        });
        // JSON is YAML.
        write(&children.folder().join("config.yml"), &configuration.to_string())?;
        children.start("registry", Path::new(PROGRAM), ["serve", "config.yml"])?;
        let registry = Self { children, host };
        eventually("the registry", START_DEADLINE, async || {
            if let Err(ended) = registry.children.all_run() {
                return Ok(Err(ended));
            }
            tokio::net::TcpStream::connect(&registry.host).await?;
            Ok(Ok(()))
        })
        .await??;
        Ok(registry)
    }

    /// Host and port, as image references begin.
    #[must_use]
    pub fn host(&self) -> &str {
        &self.host
    }

    /// Pushes an image of one layer with these files, and gives the reference of its tag.
    ///
    /// # Errors
    /// When the registry refuses it.
    pub async fn push(
        &self,
        repository: &str,
        tag: &str,
        files: &BTreeMap<String, String>,
    ) -> anyhow::Result<String> {
        // Whoever comes first sets it; all set the same.
        let _ = rustls::crypto::ring::default_provider().install_default();
        let image = format!("{}/{repository}:{tag}", self.host);
        let reference: Reference = image.parse().context("not an image reference")?;
        let client = Client::try_from(ClientConfig {
            protocol: ClientProtocol::HttpsExcept(vec![self.host.clone()]),
            ..ClientConfig::default()
        })
        .context("cannot make a registry client")?;
        let layers = [ImageLayer::oci_v1_gzip(layer(files)?, None)];
        let config = json!({
            "architecture": "amd64",
            "os": "linux",
            "config": {},
            "rootfs": { "type": "layers", "diff_ids": [] },
        });
        let config = Config::oci_v1(config.to_string().into_bytes(), None);
        let manifest = OciImageManifest::build(&layers, &config, None);
        client
            .push(&reference, &layers, config, &RegistryAuth::Anonymous, Some(manifest))
            .await
            .with_context(|| format!("cannot push {image}"))?;
        Ok(image)
    }

    /// Pushes a release whose component images nobody ever pulls, and gives its reference.
    ///
    /// # Errors
    /// When the registry refuses it.
    pub async fn push_release(&self, version: &str) -> anyhow::Result<String> {
        self.push("remora/release", version, &release_files(&self.host, version)).await
    }
}

/// The files of a release payload.
#[must_use]
pub fn release_files(host: &str, version: &str) -> BTreeMap<String, String> {
    let tags: Vec<_> = COMPONENTS
        .iter()
        .enumerate()
        .map(|(number, name)| {
            let digest = format!("{number:064x}");
            let image = format!("{host}/remora/{name}@sha256:{digest}");
            json!({ "name": name, "from": { "kind": "DockerImage", "name": image } })
        })
        .collect();
    let references = json!({
        "kind": "ImageStream",
        "apiVersion": "image.openshift.io/v1",
        "metadata": { "name": version },
        "spec": { "lookupPolicy": { "local": false }, "tags": tags },
    });
    let metadata = json!({ "kind": "cincinnati-metadata-v0", "version": version, "previous": [] });
    BTreeMap::from([
        ("release-manifests/image-references".to_owned(), references.to_string()),
        ("release-manifests/release-metadata".to_owned(), metadata.to_string()),
    ])
}

fn layer(files: &BTreeMap<String, String>) -> anyhow::Result<Vec<u8>> {
    let mut tar = tar::Builder::new(Vec::new());
    for (path, content) in files {
        let mut header = tar::Header::new_gnu();
        header.set_size(content.len().try_into()?);
        header.set_mode(0o644);
        tar.append_data(&mut header, path, content.as_bytes())?;
    }
    let mut gzip = GzEncoder::new(Vec::new(), Compression::fast());
    gzip.write_all(&tar.into_inner()?)?;
    Ok(gzip.finish()?)
}
