//! The API server of a hosted cluster, reached as its administrator.

use std::time::Duration;

use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::{Client, Config};

use crate::failure::Failure;

/// How long a hosted API server may take to accept a connection.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);

/// Makes a client of an administrator's kubeconfig, as Remora wrote it.
pub(crate) async fn client(cluster: &str, kubeconfig: &str) -> Result<Client, Failure> {
    let unreadable = |source: Box<dyn std::error::Error + Send + Sync>| Failure::Unreadable {
        object: format!("the kubeconfig of {cluster}"),
        source,
    };
    let kubeconfig = Kubeconfig::from_yaml(kubeconfig).map_err(|e| unreadable(Box::new(e)))?;
    let options = KubeConfigOptions::default();
    let config = Config::from_custom_kubeconfig(kubeconfig, &options).await;
    let mut config = config.map_err(|error| unreadable(Box::new(error)))?;
    // These kubeconfigs name no proxy; one of the environment leads away from the hosting cluster.
    config.proxy_url = None;
    config.connect_timeout = Some(CONNECT_TIMEOUT);
    Client::try_from(config).map_err(|error| unreadable(Box::new(error)))
}
