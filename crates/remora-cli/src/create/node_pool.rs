//! `remora create nodepool kubevirt`.

use clap::Args;
use kube::core::DynamicObject;
use kube::{Api, Client};
use remora_api::HostedCluster;
use remora_api::conditions::NodePoolConditionType;
use serde_json::{Value, json};

use super::UpgradeType;
use crate::cli::object_name;
use crate::connect::Connection;
use crate::failure::Failure;
use crate::pool_options::PoolOptions;
use crate::wait::{WaitOptions, aloud, until_condition};
use crate::{manifest, output};

/// Creates a node pool whose nodes are virtual machines of the hosting cluster.
#[derive(Clone, Debug, Args)]
#[command(after_help = "Examples:
  remora create nodepool kubevirt --cluster-name=cluster1 --name=big --replicas=3 --memory=8Gi --cores=4
  remora create nodepool kubevirt --cluster-name=cluster1 --name=gpu --host-device-name=nvidia.com/A100
  remora create nodepool kubevirt --cluster-name=cluster1 --name=big --release-image=... --render")]
pub(crate) struct NodePoolCommand {
    /// Name of the node pool.
    #[arg(long, value_parser = object_name)]
    name: String,
    /// Namespace of the HostedCluster.
    #[arg(long, default_value = "clusters", value_parser = object_name)]
    namespace: String,
    /// HostedCluster that the pool belongs to.
    #[arg(long, default_value = "example", value_parser = object_name)]
    cluster_name: String,
    /// How many nodes.
    #[arg(long, alias = "node-count", default_value_t = 0, value_parser = clap::value_parser!(i32).range(0..))]
    replicas: i32,
    /// Release image of the nodes [default: the cluster's].
    #[arg(long, value_name = "IMAGE")]
    release_image: Option<String>,
    /// How nodes get another version.
    #[arg(long, value_enum, default_value = "Replace")]
    node_upgrade_type: UpgradeType,
    /// Processor architecture of the nodes.
    #[arg(long, default_value = "amd64")]
    arch: String,
    /// Replaces nodes that are not healthy.
    #[arg(long)]
    auto_repair: bool,
    #[command(flatten)]
    machines: PoolOptions,
    /// Prints the manifest instead of applying it.
    #[arg(long)]
    render: bool,
    #[command(flatten)]
    waiting: WaitOptions,
}

impl NodePoolCommand {
    pub(super) async fn run(self, connection: &Connection) -> Result<(), Failure> {
        // Wrong options are told before anything is asked of a cluster.
        self.machines.platform()?;
        if self.render && self.release_image.is_some() {
            let image = self.release_image.clone().unwrap_or_default();
            return output::manifests(&[self.pool(&image)?]);
        }
        let client = connection.client().await?;
        let image = match &self.release_image {
            Some(image) => image.clone(),
            None => self.image_of_cluster(&client).await?,
        };
        let pool = self.pool(&image)?;
        if self.render {
            return output::manifests(&[pool]);
        }
        manifest::refuse_existing(&client, &pool).await?;
        manifest::apply(&client, std::slice::from_ref(&pool)).await?;
        output::note(&format!("{} created.", manifest::told(&pool)));
        if self.waiting.wait {
            let ready = NodePoolConditionType::Ready.as_str();
            until_condition(&client, &pool, ready, self.waiting.timeout.0, &aloud).await?;
            output::note(&format!("{}: {}.", manifest::told(&pool), ready));
        }
        Ok(())
    }

    async fn image_of_cluster(&self, client: &Client) -> Result<String, Failure> {
        let api: Api<HostedCluster> = Api::namespaced(client.clone(), &self.namespace);
        let object = format!("HostedCluster {}/{}", self.namespace, self.cluster_name);
        let found = api.get_opt(&self.cluster_name).await;
        let found = found.map_err(Failure::request("read", object.clone()))?;
        let found = found.ok_or_else(|| Failure::Missing {
            object,
            remedy: "correct --cluster-name and --namespace; `remora get clusters -A` lists what there is."
                .to_owned(),
        })?;
        Ok(found.spec.release.image)
    }

    fn pool(&self, image: &str) -> Result<DynamicObject, Failure> {
        manifest::from_json(node_pool(&PoolRequest {
            namespace: &self.namespace,
            name: &self.name,
            cluster_name: &self.cluster_name,
            replicas: self.replicas,
            image,
            upgrade_type: self.node_upgrade_type,
            auto_repair: self.auto_repair,
            arch: &self.arch,
            platform: self.machines.platform()?,
        }))
    }
}

/// What a NodePool is made of.
pub(super) struct PoolRequest<'a> {
    pub(super) namespace: &'a str,
    pub(super) name: &'a str,
    pub(super) cluster_name: &'a str,
    pub(super) replicas: i32,
    pub(super) image: &'a str,
    pub(super) upgrade_type: UpgradeType,
    pub(super) auto_repair: bool,
    pub(super) arch: &'a str,
    pub(super) platform: Value,
}

/// The NodePool's manifest.
pub(super) fn node_pool(request: &PoolRequest<'_>) -> Value {
    json!({
        "apiVersion": "hypershift.openshift.io/v1beta1",
        "kind": "NodePool",
        "metadata": {"namespace": request.namespace, "name": request.name},
        "spec": {
            "clusterName": request.cluster_name,
            "replicas": request.replicas,
            "release": {"image": request.image},
            "arch": request.arch,
            "management": {
                "upgradeType": request.upgrade_type.word(),
                "autoRepair": request.auto_repair,
            },
            "platform": request.platform,
        },
    })
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Parser)]
    struct Command {
        #[command(flatten)]
        command: NodePoolCommand,
    }

    #[test]
    fn the_defaults_make_this_pool() {
        let words = ["test", "--name=pool1", "--cluster-name=cluster1", "--replicas=2"];
        let pool = Command::try_parse_from(words)
            .unwrap()
            .command
            .pool("registry.example/release:1")
            .unwrap();
        let parsed: remora_api::NodePool = pool.clone().try_parse().unwrap();
        assert_eq!(parsed.spec.replicas, Some(2));
        insta::assert_snapshot!(output::rendered(&[pool]).unwrap());
    }

    #[test]
    fn the_old_name_of_replicas_is_understood() {
        let words = ["test", "--name=pool1", "--node-count=5"];
        assert_eq!(Command::try_parse_from(words).unwrap().command.replicas, 5);
    }
}
