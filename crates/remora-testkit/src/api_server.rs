//! A real API server: etcd and kube-apiserver of the lab's own build, on loopback.

use std::net::{Ipv4Addr, TcpListener};
use std::path::{Path, PathBuf};
use std::sync::{LazyLock, Mutex, PoisonError};
use std::time::Duration;

use anyhow::Context as _;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::api::{Patch, PatchParams};
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::{Api, Client, Config};
use remora_lab::build::{Artifacts, Cache, Sources};
use remora_lab::progress::Silent;
use serde_json::json;

use crate::audit::{self, Write};
use crate::certificates::Certificates;
use crate::children::Children;
use crate::eventually;

/// Ten times what a start takes on a busy machine of two cores.
const START_DEADLINE: Duration = Duration::from_secs(120);
/// A port is free when it is chosen and may be taken when it is used.
const ATTEMPTS: usize = 3;
/// Who applies what tests need.
const FIELD_MANAGER: &str = "remora-testkit";

/// A running API server. Everything about it ends with the value, or with the process.
#[derive(Debug)]
pub struct ApiServer {
    children: Children,
    hyperkube: PathBuf,
    kubeconfig: String,
    controllers_run: Mutex<bool>,
}

static SHARED: LazyLock<Result<ApiServer, String>> =
    LazyLock::new(|| ApiServer::start().map_err(|error| format!("{error:#}")));

impl ApiServer {
    /// The API server of this test binary; the first call starts it.
    ///
    /// # Errors
    /// When it could not be started: every call tells why.
    pub fn shared() -> anyhow::Result<&'static Self> {
        SHARED.as_ref().map_err(|error| anyhow::anyhow!("{error}"))
    }

    /// Starts one. Blocks until it answers.
    ///
    /// # Errors
    /// When it does not answer; with the last words of the programs.
    pub fn start() -> anyhow::Result<Self> {
        let hyperkube = hyperkube()?;
        let mut attempt = 1;
        loop {
            match Self::start_on_free_ports(&hyperkube) {
                Err(_) if attempt < ATTEMPTS => attempt += 1,
                result => return result,
            }
        }
    }

    fn start_on_free_ports(hyperkube: &Path) -> anyhow::Result<Self> {
        let children = Children::new("api-server")?;
        let folder = children.folder().to_owned();
        let [clients, peers, api] = free_ports()?;
        let certificates = Certificates::issue()?;
        for (name, content) in [
            ("ca.crt", &certificates.authority),
            ("server.crt", &certificates.server.certificate),
            ("server.key", &certificates.server.key),
            ("service-account.key", &certificates.service_account_key),
            ("service-account.pub", &certificates.service_account_public_key),
            (audit::POLICY_FILE, &audit::POLICY.to_owned()),
        ] {
            write(&folder.join(name), content)?;
        }
        let kubeconfig = kubeconfig(api, &certificates);
        write(&folder.join("kubeconfig"), &kubeconfig)?;
        children.start("etcd", hyperkube, etcd_arguments(clients, peers))?;
        children.start("kube-apiserver", hyperkube, api_server_arguments(clients, api))?;
        let server = Self {
            children,
            hyperkube: hyperkube.to_owned(),
            kubeconfig,
            controllers_run: Mutex::new(false),
        };
        server.wait_until_ready()?;
        Ok(server)
    }

    /// Starts the controllers that make deletions complete: namespaces and owned objects.
    ///
    /// Without them an API server keeps a deleted namespace for ever. A second call does nothing.
    ///
    /// # Errors
    /// When the controller manager cannot be started.
    pub fn start_controllers(&self) -> anyhow::Result<()> {
        let mut run = self.controllers_run.lock().unwrap_or_else(PoisonError::into_inner);
        if !*run {
            self.children.start(
                "kube-controller-manager",
                &self.hyperkube,
                [
                    "kube-controller-manager",
                    "--kubeconfig=kubeconfig",
                    "--controllers=namespace-controller,garbage-collector-controller",
                    "--leader-elect=false",
                    "--secure-port=0",
                ],
            )?;
            *run = true;
        }
        Ok(())
    }

    /// The administrator's kubeconfig.
    #[must_use]
    pub fn kubeconfig(&self) -> &str {
        &self.kubeconfig
    }

    /// The file with [`ApiServer::kubeconfig`].
    #[must_use]
    pub fn kubeconfig_path(&self) -> PathBuf {
        self.children.folder().join("kubeconfig")
    }

    /// The program that is kubectl among others: its first argument says which.
    #[must_use]
    pub fn hyperkube(&self) -> &Path {
        &self.hyperkube
    }

    /// A client of the administrator. It belongs to the runtime that calls: one per test.
    ///
    /// # Errors
    /// When the kubeconfig cannot be used.
    pub async fn client(&self) -> anyhow::Result<Client> {
        Client::try_from(self.config().await?).context("cannot make a client")
    }

    /// A client of another user, in whose name the administrator speaks.
    ///
    /// # Errors
    /// When the kubeconfig cannot be used.
    pub async fn client_as(&self, user: &str, groups: &[&str]) -> anyhow::Result<Client> {
        let mut config = self.config().await?;
        config.auth_info.impersonate = Some(user.to_owned());
        let groups = groups.iter().map(|group| (*group).to_owned()).collect();
        config.auth_info.impersonate_groups = Some(groups);
        Client::try_from(config).context("cannot make a client")
    }

    /// What the user of [`ApiServer::client_as`] has asked this API server to write so far.
    ///
    /// # Errors
    /// When the audit log cannot be read.
    pub fn writes_of(&self, user: &str) -> anyhow::Result<Vec<Write>> {
        audit::read(self.children.folder(), user)
    }

    async fn config(&self) -> anyhow::Result<Config> {
        // Whoever comes first sets it; all set the same.
        let _ = rustls::crypto::ring::default_provider().install_default();
        let kubeconfig =
            Kubeconfig::from_yaml(&self.kubeconfig).context("cannot read the kubeconfig")?;
        let mut config = Config::from_custom_kubeconfig(kubeconfig, &KubeConfigOptions::default())
            .await
            .context("cannot use the kubeconfig")?;
        // A proxy of the environment does not lead to loopback.
        config.proxy_url = None;
        Ok(config)
    }

    /// Installs definitions and waits until they are served.
    ///
    /// # Errors
    /// When the API server refuses one or does not serve it in time.
    pub async fn install(&self, definitions: &[CustomResourceDefinition]) -> anyhow::Result<()> {
        let api: Api<CustomResourceDefinition> = Api::all(self.client().await?);
        let params = PatchParams::apply(FIELD_MANAGER).force();
        for definition in definitions {
            let name = definition.metadata.name.clone().unwrap_or_default();
            api.patch(&name, &params, &Patch::Apply(definition))
                .await
                .with_context(|| format!("cannot install {name}"))?;
        }
        for definition in definitions {
            let name = definition.metadata.name.clone().unwrap_or_default();
            eventually(&name, START_DEADLINE, async || {
                let seen = api.get(&name).await?;
                let conditions = seen.status.and_then(|status| status.conditions);
                let is_established = conditions.into_iter().flatten().any(|condition| {
                    condition.type_ == "Established" && condition.status == "True"
                });
                anyhow::ensure!(is_established, "it is not established");
                Ok(())
            })
            .await?;
        }
        Ok(())
    }

    /// Waits on a thread of its own: a runtime cannot be entered from another one, and the caller
    /// may be inside of one.
    fn wait_until_ready(&self) -> anyhow::Result<()> {
        let wait = || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
            runtime.context("cannot make a runtime")?.block_on(self.ready())
        };
        std::thread::scope(|scope| scope.spawn(wait).join())
            .map_err(|_| anyhow::anyhow!("the wait for the API server panicked"))?
            .with_context(|| {
                let words = |name| self.children.last_words(name);
                format!("etcd:\n{}\nkube-apiserver:\n{}", words("etcd"), words("kube-apiserver"))
            })
    }

    async fn ready(&self) -> anyhow::Result<()> {
        let client = self.client().await?;
        eventually("the API server", START_DEADLINE, async || {
            if let Err(ended) = self.children.all_run() {
                return Ok(Err(ended));
            }
            client.request_text(http::Request::get("/readyz").body(Vec::new())?).await?;
            Ok(Ok(()))
        })
        .await?
    }
}

/// The program that holds etcd and all of Kubernetes.
fn hyperkube() -> anyhow::Result<PathBuf> {
    if let Some(path) = std::env::var_os("REMORA_HYPERKUBE") {
        return Ok(path.into());
    }
    let sources = Sources::find().context("cannot find the sources of Kubernetes")?;
    let cache = Cache::open().context("cannot open the cache")?;
    let artifacts = Artifacts::build_only(&sources, &cache, &Silent, &|name| name == "kubernetes")
        .context("cannot build Kubernetes")?;
    artifacts.program("kubernetes", "hyperkube").context("cannot find hyperkube")
}

fn etcd_arguments(clients: u16, peers: u16) -> Vec<String> {
    vec![
        "etcd".to_owned(),
        "--data-dir=etcd".to_owned(),
        format!("--listen-client-urls=http://127.0.0.1:{clients}"),
        format!("--advertise-client-urls=http://127.0.0.1:{clients}"),
        format!("--listen-peer-urls=http://127.0.0.1:{peers}"),
        format!("--initial-advertise-peer-urls=http://127.0.0.1:{peers}"),
        format!("--initial-cluster=default=http://127.0.0.1:{peers}"),
        "--unsafe-no-fsync".to_owned(),
        "--log-level=warn".to_owned(),
    ]
}

fn api_server_arguments(etcd: u16, port: u16) -> Vec<String> {
    let port = format!("--secure-port={port}");
    let etcd = format!("--etcd-servers=http://127.0.0.1:{etcd}");
    let policy = format!("--audit-policy-file={}", audit::POLICY_FILE);
    let log = format!("--audit-log-path={}", audit::LOG);
    [
        "kube-apiserver",
        &etcd,
        &port,
        "--bind-address=127.0.0.1",
        // Its own endpoints: loopback is refused as an address to advertise.
        "--endpoint-reconciler-type=none",
        "--advertise-address=192.0.2.1",
        "--service-cluster-ip-range=10.96.0.0/16",
        "--tls-cert-file=server.crt",
        "--tls-private-key-file=server.key",
        "--client-ca-file=ca.crt",
        "--authorization-mode=Node,RBAC",
        "--service-account-issuer=https://kubernetes.default.svc",
        "--service-account-key-file=service-account.pub",
        "--service-account-signing-key-file=service-account.key",
        // No controller makes the ServiceAccounts that it waits for.
        "--disable-admission-plugins=ServiceAccount",
        // Off by default, on in OpenShift.
        "--enable-admission-plugins=OwnerReferencesPermissionEnforcement",
        "--profiling=false",
        &policy,
        &log,
    ]
    .map(str::to_owned)
    .to_vec()
}

fn kubeconfig(port: u16, certificates: &Certificates) -> String {
    use k8s_openapi::ByteString;
    let base64 = |pem: &str| json!(ByteString(pem.as_bytes().to_vec()));
    json!({
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{ "name": "testkit", "cluster": {
            "server": format!("https://127.0.0.1:{port}"),
            "certificate-authority-data": base64(&certificates.authority),
        }}],
        "users": [{ "name": "testkit", "user": {
            "client-certificate-data": base64(&certificates.administrator.certificate),
            "client-key-data": base64(&certificates.administrator.key),
        }}],
        "contexts": [{ "name": "testkit", "context": { "cluster": "testkit", "user": "testkit" } }],
        "current-context": "testkit",
    })
    .to_string()
}

/// Ports that are free now, all different.
pub(crate) fn free_ports<const N: usize>() -> anyhow::Result<[u16; N]> {
    let mut listeners = Vec::new();
    let mut ports = [0; N];
    for port in &mut ports {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).context("no port is free")?;
        *port = listener.local_addr().context("a listener has no address")?.port();
        listeners.push(listener);
    }
    Ok(ports)
}

pub(crate) fn write(path: &Path, content: &str) -> anyhow::Result<()> {
    std::fs::write(path, content).with_context(|| format!("cannot write {}", path.display()))
}
