//! `remora render`.

mod directory;
mod export;
mod secrets;

use std::path::PathBuf;

use clap::{Args, Subcommand};
use kube::core::DynamicObject;

use crate::cli::object_name;
use crate::cluster_objects::ClusterObjects;
use crate::connect::Connection;
use crate::create::ClusterOptions;
use crate::failure::Failure;
use crate::output;

/// Writes a cluster's manifests and a kustomization.yaml into a directory, for GitOps.
///
/// Either those of a cluster that is there (--name), or those of a new one (the options of `remora create cluster`). The
/// content of a Secret is never written; for each one that the cluster names there is a template.
#[derive(Clone, Debug, Args)]
#[command(after_help = "Examples:
  remora render gitops/cluster1 --name=cluster1
  remora render gitops/cluster2 cluster kubevirt --name=cluster2 --node-pool-replicas=2 --release-image=...
  remora render gitops/cluster1 --name=cluster1 --force && git -C gitops diff
  kubectl apply -k gitops/cluster1")]
pub(crate) struct RenderCommand {
    /// The directory; made when it is missing.
    dir: PathBuf,
    /// Takes the live objects of this cluster.
    #[arg(long, value_parser = object_name)]
    name: Option<String>,
    /// Namespace of the live objects.
    #[arg(short, long, default_value = "clusters", value_parser = object_name)]
    namespace: String,
    /// Overwrites files.
    #[arg(long, global = true)]
    force: bool,
    #[command(subcommand)]
    new: Option<New>,
}

#[derive(Clone, Debug, Subcommand)]
enum New {
    /// Takes a new cluster, as `remora create cluster` would make it.
    #[command(
        subcommand,
        after_help = "Example:
  remora render gitops/cluster2 cluster kubevirt --name=cluster2 --node-pool-replicas=2 --release-image=..."
    )]
    Cluster(Platform),
}

#[derive(Clone, Debug, Subcommand)]
enum Platform {
    /// With virtual machines of the hosting cluster as nodes.
    #[command(after_help = "Example:
  remora render gitops/cluster2 cluster kubevirt --name=cluster2 --service-publishing-strategy=NodePort \\
      --api-server-address=192.168.123.101 --node-pool-replicas=2 --release-image=...")]
    Kubevirt(Box<ClusterOptions>),
}

impl RenderCommand {
    /// Runs the command.
    pub(crate) async fn run(self, connection: &Connection) -> Result<(), Failure> {
        let objects = match (&self.name, &self.new) {
            (Some(name), None) => self.live(connection, name).await?,
            (None, Some(New::Cluster(Platform::Kubevirt(options)))) => {
                export::publishable(options.manifests(connection).await?)
            }
            (None, None) | (Some(_), Some(_)) => {
                return Err(Failure::Flag {
                    flag: "--name",
                    problem: "the manifests are either a live cluster's or a new one's".to_owned(),
                    remedy:
                        "give --name for a live cluster, or `cluster kubevirt` and its options \
                             after the directory for a new one; not both."
                            .to_owned(),
                });
            }
        };
        let files = directory::files(&objects)?;
        let overwriting =
            if self.force { directory::Overwriting::Yes } else { directory::Overwriting::No };
        directory::write(&self.dir, &files, overwriting)?;
        for name in files.keys() {
            output::note(&self.dir.join(name).display().to_string());
        }
        Ok(())
    }

    async fn live(
        &self,
        connection: &Connection,
        name: &str,
    ) -> Result<Vec<DynamicObject>, Failure> {
        let client = connection.client().await?;
        let objects = ClusterObjects::read(&client, &self.namespace, name).await?;
        let exported = export::of_cluster(objects)?;
        for left_out in &exported.left_out {
            output::note(left_out);
        }
        Ok(exported.objects)
    }
}

#[cfg(test)]
mod tests;
