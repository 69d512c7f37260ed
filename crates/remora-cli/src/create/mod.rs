//! `remora create`.

mod cluster;
mod cluster_options;
mod kubeconfig;
mod node_pool;

use clap::{Args, Subcommand, ValueEnum};

pub(crate) use self::cluster::{ClusterOptions, EMPTY_PULL_SECRET, GOES_WITH_CLUSTER};
pub(crate) use self::kubeconfig::kubeconfig_of;

use crate::connect::Connection;
use crate::failure::Failure;

/// Creates clusters, node pools and kubeconfigs.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  remora create cluster kubevirt --name=cluster1 --node-pool-replicas=2 --release-image=...
  remora create nodepool kubevirt --cluster-name=cluster1 --name=big --replicas=3 --cores=4
  remora create kubeconfig --name=cluster1")]
pub(crate) struct CreateCommand {
    #[command(subcommand)]
    what: What,
}

#[derive(Debug, Subcommand)]
enum What {
    /// Creates a cluster.
    #[command(
        subcommand,
        after_help = "Example:
  remora create cluster kubevirt --name=cluster1 --node-pool-replicas=2 --release-image=..."
    )]
    Cluster(ClusterPlatform),
    /// Creates a node pool of a cluster.
    #[command(
        name = "nodepool",
        subcommand,
        after_help = "Example:
  remora create nodepool kubevirt --cluster-name=cluster1 --name=big --replicas=3"
    )]
    NodePool(NodePoolPlatform),
    /// Prints the administrator's kubeconfig of a cluster, or of all of them.
    Kubeconfig(kubeconfig::KubeconfigCommand),
}

#[derive(Debug, Subcommand)]
enum ClusterPlatform {
    /// With virtual machines of the hosting cluster as nodes.
    Kubevirt(Box<cluster::ClusterCommand>),
}

#[derive(Debug, Subcommand)]
enum NodePoolPlatform {
    /// With virtual machines of the hosting cluster as nodes.
    Kubevirt(Box<node_pool::NodePoolCommand>),
}

impl CreateCommand {
    /// Runs the command.
    pub(crate) async fn run(self, connection: &Connection) -> Result<(), Failure> {
        match self.what {
            What::Cluster(ClusterPlatform::Kubevirt(command)) => command.run(connection).await,
            What::NodePool(NodePoolPlatform::Kubevirt(command)) => command.run(connection).await,
            What::Kubeconfig(command) => command.run(connection).await,
        }
    }
}

/// How nodes get another version.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
#[value(rename_all = "verbatim")]
enum UpgradeType {
    /// New machines take the place of old ones.
    Replace,
    /// Machines are changed where they are.
    InPlace,
}

impl UpgradeType {
    fn word(self) -> &'static str {
        match self {
            Self::Replace => "Replace",
            Self::InPlace => "InPlace",
        }
    }
}
