//! `remora destroy`.

use clap::{Args, Subcommand, ValueEnum};
use k8s_openapi::api::core::v1::Secret;
use kube::api::DeleteParams;
use kube::core::DynamicObject;
use kube::{Api, Client, ResourceExt};
use remora_api::names;
use serde_json::json;

use crate::connect::Connection;
use crate::create::GOES_WITH_CLUSTER;
use crate::failure::Failure;
use crate::wait::{Limit, until_gone};
use crate::{manifest, output};

/// Destroys clusters, node pools and exposures.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  remora destroy cluster --name=cluster1
  remora destroy nodepool --name=big
  remora destroy exposure --name=petclinic")]
pub(crate) struct DestroyCommand {
    #[command(subcommand)]
    what: What,
}

#[derive(Debug, Subcommand)]
enum What {
    /// Destroys a cluster with its nodes, volumes and exposures.
    #[command(after_help = "Examples:
  remora destroy cluster --name=cluster1
  remora destroy cluster kubevirt --name=cluster1 --cluster-grace-period=20m")]
    Cluster {
        /// Platform of the cluster; may be left out.
        #[arg(value_enum)]
        platform: Option<Platform>,
        #[command(flatten)]
        named: Named,
        /// How long the destruction may take.
        #[arg(long, default_value = "10m", value_name = "DURATION")]
        cluster_grace_period: Limit,
    },
    /// Destroys a node pool with its nodes.
    #[command(name = "nodepool", after_help = "Example:\n  remora destroy nodepool --name=big")]
    NodePool {
        #[command(flatten)]
        named: Named,
        /// How long the destruction may take.
        #[arg(long, default_value = "10m", value_name = "DURATION")]
        timeout: Limit,
    },
    /// Ends an exposure; the Service itself stays.
    #[command(after_help = "Example:\n  remora destroy exposure --name=petclinic")]
    Exposure {
        #[command(flatten)]
        named: Named,
        /// How long the destruction may take.
        #[arg(long, default_value = "1m", value_name = "DURATION")]
        timeout: Limit,
    },
}

#[derive(Clone, Debug, Args)]
struct Named {
    /// Name of the object.
    #[arg(long)]
    name: String,
    /// Namespace of the object.
    #[arg(long, default_value = "clusters")]
    namespace: String,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Platform {
    /// Virtual machines of the hosting cluster.
    Kubevirt,
}

impl DestroyCommand {
    /// Runs the command.
    pub(crate) async fn run(self, connection: &Connection) -> Result<(), Failure> {
        let client = connection.client().await?;
        let hypershift = "hypershift.openshift.io/v1beta1";
        let (named, api_version, kind, limit) = match self.what {
            What::Cluster { platform: _, named, cluster_grace_period } => {
                let cluster = object(hypershift, "HostedCluster", &named)?;
                delete(&client, &cluster, cluster_grace_period).await?;
                return delete_secrets(&client, &named).await;
            }
            What::NodePool { named, timeout } => (named, hypershift, "NodePool", timeout),
            What::Exposure { named, timeout } => {
                (named, "remora.dev/v1alpha1", "ServiceExposure", timeout)
            }
        };
        delete(&client, &object(api_version, kind, &named)?, limit).await
    }
}

fn object(api_version: &str, kind: &str, named: &Named) -> Result<DynamicObject, Failure> {
    manifest::from_json(json!({
        "apiVersion": api_version,
        "kind": kind,
        "metadata": {"namespace": named.namespace, "name": named.name},
    }))
}

async fn delete(client: &Client, object: &DynamicObject, limit: Limit) -> Result<(), Failure> {
    let told = manifest::told(object);
    let api = manifest::api(client, object);
    api.delete(&object.name_any(), &DeleteParams::default())
        .await
        .map_err(Failure::request("delete", told.clone()))?;
    output::note(&format!("{told} is being destroyed."));
    until_gone(client, object, limit.0).await?;
    output::note(&format!("{told} is gone."));
    Ok(())
}

/// Removes the Secrets that were created together with the cluster.
async fn delete_secrets(client: &Client, named: &Named) -> Result<(), Failure> {
    let api: Api<Secret> = Api::namespaced(client.clone(), &named.namespace);
    for name in [names::pull_secret(&named.name), names::ssh_key_secret(&named.name)] {
        let told = format!("Secret {}/{name}", named.namespace);
        let found = api.get_opt(&name).await.map_err(Failure::request("read", told.clone()))?;
        let is_ours = found.is_some_and(|secret| secret.labels().contains_key(GOES_WITH_CLUSTER));
        if is_ours {
            let deleted = api.delete(&name, &DeleteParams::default()).await;
            deleted.map_err(Failure::request("delete", told))?;
        }
    }
    Ok(())
}
