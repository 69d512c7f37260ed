//! Clients to the hosted API servers.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use k8s_openapi::api::core::v1::{Secret, Service};
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::{Api, Client, Config};
use remora_api::names::{KUBE_APISERVER, KUBECONFIG_KEY, SERVICE_NETWORK_ADMIN_KUBECONFIG};
use remora_core::control_plane::secrets;

/// How long the hosted API server may take to accept a connection.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);

/// How long a hosted API server may stay silent before a request, or a watch, counts as broken.
const READ_TIMEOUT: Duration = Duration::from_secs(330);

/// No client to a hosted API server can be made.
#[derive(Debug, thiserror::Error)]
pub enum HostedError {
    /// The hosting API server did not give the object.
    #[error("cannot read {kind} {namespace}/{name}")]
    Read {
        /// Kind of the object.
        kind: &'static str,
        /// Control plane namespace.
        namespace: String,
        /// Name of the object.
        name: &'static str,
        /// Why.
        #[source]
        source: Box<kube::Error>,
    },
    /// The Secret lacks the kubeconfig, or it is not text.
    #[error(
        "cannot use Secret {namespace}/{SERVICE_NETWORK_ADMIN_KUBECONFIG}: key {KUBECONFIG_KEY} is missing or not text"
    )]
    Missing {
        /// Control plane namespace.
        namespace: String,
    },
    /// The kubeconfig does not make a client.
    #[error("cannot use the kubeconfig of Secret {namespace}/{SERVICE_NETWORK_ADMIN_KUBECONFIG}")]
    Unusable {
        /// Control plane namespace.
        namespace: String,
        /// Why.
        #[source]
        source: Box<dyn std::error::Error + Send + Sync>,
    },
}

/// Clients to the hosted API servers, one per control plane namespace.
pub struct HostedClients {
    hosting: Client,
    clients: Mutex<HashMap<String, Cached>>,
}

struct Cached {
    kubeconfig_hash: String,
    client: Client,
}

impl HostedClients {
    /// Makes an empty set of clients.
    pub fn new(hosting: Client) -> Self {
        Self { hosting, clients: Mutex::default() }
    }

    /// Gives a client to the API server that runs in a control plane namespace.
    pub async fn client(&self, control_plane_namespace: &str) -> Result<Client, HostedError> {
        if let Some(cached) = self.lock().get(control_plane_namespace) {
            return Ok(cached.client.clone());
        }
        let api: Api<Secret> = Api::namespaced(self.hosting.clone(), control_plane_namespace);
        let secret = api.get(SERVICE_NETWORK_ADMIN_KUBECONFIG).await.map_err(|source| {
            HostedError::Read {
                kind: "Secret",
                namespace: control_plane_namespace.to_owned(),
                name: SERVICE_NETWORK_ADMIN_KUBECONFIG,
                source: Box::new(source),
            }
        })?;
        let client = self.connect(control_plane_namespace, &secret).await?;
        let kubeconfig_hash = secret.data.as_ref().map(secrets::hash).unwrap_or_default();
        let cached = Cached { kubeconfig_hash, client: client.clone() };
        self.lock().insert(control_plane_namespace.to_owned(), cached);
        Ok(client)
    }

    /// Forgets the client of a namespace unless it was made from this kubeconfig.
    pub fn observe(&self, control_plane_namespace: &str, kubeconfig_hash: &str) {
        let mut clients = self.lock();
        let is_stale = clients
            .get(control_plane_namespace)
            .is_some_and(|cached| cached.kubeconfig_hash != kubeconfig_hash);
        if is_stale {
            clients.remove(control_plane_namespace);
        }
    }

    /// Forgets the client of a namespace.
    pub fn forget(&self, control_plane_namespace: &str) {
        self.lock().remove(control_plane_namespace);
    }

    async fn connect(&self, namespace: &str, secret: &Secret) -> Result<Client, HostedError> {
        let missing = || HostedError::Missing { namespace: namespace.to_owned() };
        let unusable = |source: Box<dyn std::error::Error + Send + Sync>| HostedError::Unusable {
            namespace: namespace.to_owned(),
            source,
        };
        let bytes =
            secret.data.as_ref().and_then(|data| data.get(KUBECONFIG_KEY)).ok_or_else(missing)?;
        let text = std::str::from_utf8(&bytes.0).map_err(|_| missing())?;
        let kubeconfig = Kubeconfig::from_yaml(text).map_err(|error| unusable(Box::new(error)))?;
        let mut config = Config::from_custom_kubeconfig(kubeconfig, &KubeConfigOptions::default())
            .await
            .map_err(|error| unusable(Box::new(error)))?;
        config.connect_timeout = Some(CONNECT_TIMEOUT);
        config.read_timeout = Some(READ_TIMEOUT);
        self.go_by_cluster_ip(namespace, &mut config).await?;
        Client::try_from(config).map_err(|error| unusable(Box::new(error)))
    }

    /// Talks to the Service's address directly: the operator then needs no cluster DNS, and a name that was asked
    /// for too early is not remembered as absent.
    async fn go_by_cluster_ip(
        &self,
        namespace: &str,
        config: &mut Config,
    ) -> Result<(), HostedError> {
        let Some(host) = config.cluster_url.host().map(str::to_owned) else { return Ok(()) };
        if !host.ends_with(".svc") {
            return Ok(());
        }
        let services: Api<Service> = Api::namespaced(self.hosting.clone(), namespace);
        let service = services.get(KUBE_APISERVER).await.map_err(|source| HostedError::Read {
            kind: "Service",
            namespace: namespace.to_owned(),
            name: KUBE_APISERVER,
            source: Box::new(source),
        })?;
        let Some(address) = service.spec.and_then(|spec| spec.cluster_ip) else { return Ok(()) };
        let Ok(ip) = address.parse::<std::net::IpAddr>() else { return Ok(()) };
        let port = config.cluster_url.port_u16().unwrap_or(443);
        let authority = std::net::SocketAddr::new(ip, port);
        if let Ok(url) = format!("https://{authority}").parse() {
            config.cluster_url = url;
            config.tls_server_name = Some(host);
        }
        Ok(())
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, HashMap<String, Cached>> {
        // Single inserts and removals: never half-done.
        self.clients.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
