//! `remora create kubeconfig`.

use clap::Args;
use k8s_openapi::api::core::v1::Secret;
use kube::api::ListParams;
use kube::config::Kubeconfig;
use kube::{Api, Client, ResourceExt};
use remora_api::{HostedCluster, names};

use crate::connect::Connection;
use crate::failure::Failure;
use crate::output;

/// Prints the administrator's kubeconfig of a cluster; without a name, one for all clusters of the namespace.
#[derive(Clone, Debug, Args)]
#[command(after_help = "Examples:
  remora create kubeconfig --name=cluster1 > cluster1.kubeconfig
  KUBECONFIG=cluster1.kubeconfig kubectl get nodes
  remora create kubeconfig > all.kubeconfig")]
pub(crate) struct KubeconfigCommand {
    /// Name of the cluster.
    #[arg(long)]
    name: Option<String>,
    /// Namespace of the cluster's objects.
    #[arg(long, default_value = "clusters")]
    namespace: String,
}

impl KubeconfigCommand {
    pub(super) async fn run(self, connection: &Connection) -> Result<(), Failure> {
        let client = connection.client().await?;
        if let Some(name) = &self.name {
            return output::text(&kubeconfig_of(&client, &self.namespace, name).await?);
        }
        let api: Api<HostedCluster> = Api::namespaced(client.clone(), &self.namespace);
        let clusters = api.list(&ListParams::default()).await;
        let clusters = clusters.map_err(Failure::request("list", "HostedClusters"))?;
        let mut merged = Kubeconfig::default();
        for cluster in clusters {
            let name = cluster.name_any();
            match kubeconfig_of(&client, &self.namespace, &name).await {
                Ok(text) => merged = add(merged, &self.namespace, &name, &text)?,
                Err(Failure::Missing { object, .. }) => {
                    output::note(&format!("{name} is left out: {object} does not exist yet."));
                }
                Err(failure) => return Err(failure),
            }
        }
        let text = serde_saphyr::to_string(&merged).map_err(|source| unreadable("all", source))?;
        output::text(&text)
    }
}

/// The administrator's kubeconfig of a cluster, as its Secret has it.
pub(crate) async fn kubeconfig_of(
    client: &Client,
    namespace: &str,
    name: &str,
) -> Result<String, Failure> {
    let api: Api<Secret> = Api::namespaced(client.clone(), namespace);
    let secret = names::admin_kubeconfig_secret(name);
    let object = format!("Secret {namespace}/{secret}");
    let found = api.get_opt(&secret).await;
    let found = found.map_err(Failure::request("read", object.clone()))?;
    let content = found
        .and_then(|secret| secret.data)
        .and_then(|mut data| data.remove(names::KUBECONFIG_KEY))
        .ok_or_else(|| Failure::Missing {
            object: object.clone(),
            remedy: "it is made when the API server is up: see `remora get clusters`.".to_owned(),
        })?;
    String::from_utf8(content.0).map_err(|source| unreadable(&object, source))
}

/// Adds a kubeconfig to others; every entry is named after its cluster, so that none hides another.
fn add(merged: Kubeconfig, namespace: &str, name: &str, text: &str) -> Result<Kubeconfig, Failure> {
    let mut own = Kubeconfig::from_yaml(text).map_err(|source| unreadable(name, source))?;
    let entry = format!("{namespace}-{name}");
    own.clusters.iter_mut().for_each(|cluster| cluster.name.clone_from(&entry));
    own.auth_infos.iter_mut().for_each(|user| user.name.clone_from(&entry));
    for named in &mut own.contexts {
        named.name.clone_from(&entry);
        if let Some(context) = &mut named.context {
            context.cluster.clone_from(&entry);
            context.user = Some(entry.clone());
        }
    }
    own.current_context = Some(entry);
    merged.merge(own).map_err(|source| unreadable(name, source))
}

fn unreadable(object: &str, source: impl std::error::Error + Send + Sync + 'static) -> Failure {
    Failure::Unreadable { object: format!("the kubeconfig of {object}"), source: Box::new(source) }
}
