//! `remora dump`.

mod folder;
mod gather;
mod redact;

use std::path::PathBuf;

use clap::{Args, Subcommand};
use k8s_openapi::api::core::v1::{Namespace, Node};
use kube::core::ApiResource;
use kube::{Api, Client};
use remora_api::names;
use remora_core::install;

use self::folder::Folder;
use crate::cli::object_name;
use crate::cluster_objects::{ClusterObjects, list_all};
use crate::connect::Connection;
use crate::failure::{Failure, told};
use crate::output;

/// Writes what there is to know about a cluster into a directory, without its secrets.
#[derive(Clone, Debug, Args)]
#[command(after_help = "Example:
  remora dump cluster --name=cluster1 --artifact-dir=/tmp/cluster1")]
pub(crate) struct DumpCommand {
    #[command(subcommand)]
    what: What,
}

#[derive(Clone, Debug, Subcommand)]
enum What {
    /// Writes a cluster's objects, events and logs, and what its nodes say, without its secrets.
    #[command(after_help = "Examples:
  remora dump cluster --name=cluster1 --artifact-dir=/tmp/cluster1
  remora dump cluster --name=cluster1 --artifact-dir=/tmp/cluster1 --dump-guest-cluster=false --archive-dump=false")]
    Cluster(DumpCluster),
}

#[derive(Clone, Debug, Args)]
struct DumpCluster {
    /// Name of the cluster.
    #[arg(long, default_value = "example", value_parser = object_name)]
    name: String,
    /// Namespace of the cluster's objects.
    #[arg(short, long, default_value = "clusters", value_parser = object_name)]
    namespace: String,
    /// Directory that everything is written to; made when it is missing.
    #[arg(long, value_name = "DIR")]
    artifact_dir: PathBuf,
    /// Reads nodes, pods and events of the hosted cluster too.
    #[arg(
        long,
        default_value_t = true,
        action = clap::ArgAction::Set,
        num_args = 0..=1,
        require_equals = true,
        default_missing_value = "true",
        value_name = "BOOL"
    )]
    dump_guest_cluster: bool,
    /// Packs everything into hypershift-dump.tar.gz as well.
    #[arg(
        long,
        default_value_t = true,
        action = clap::ArgAction::Set,
        num_args = 0..=1,
        require_equals = true,
        default_missing_value = "true",
        value_name = "BOOL"
    )]
    archive_dump: bool,
}

impl DumpCommand {
    /// Runs the command.
    pub(crate) async fn run(self, connection: &Connection) -> Result<(), Failure> {
        let What::Cluster(command) = self.what;
        command.run(&connection.client().await?).await
    }
}

impl DumpCluster {
    async fn run(self, client: &Client) -> Result<(), Failure> {
        let control_plane = names::control_plane_namespace(&self.namespace, &self.name);
        let cluster = self.cluster(client, &control_plane).await?;
        let mut folder = Folder::open(&self.artifact_dir)?;
        match cluster {
            Ok(cluster) => self.users_objects(client, cluster, &mut folder).await?,
            Err(why) => folder.problem(&why),
        }
        self.hosting_nodes(client, &mut folder).await?;
        output::note(&format!("Reading namespace {control_plane}."));
        gather::objects(client, &control_plane, &mut folder).await?;
        for namespace in [control_plane.as_str(), install::NAMESPACE] {
            output::note(&format!("Reading events and logs of namespace {namespace}."));
            gather::events(client, namespace, &mut folder).await?;
            gather::logs(client, namespace, &mut folder).await?;
        }
        if self.dump_guest_cluster {
            output::note("Reading the hosted cluster.");
            gather::hosted(client, (&self.namespace, &self.name), &mut folder).await?;
        }
        let done = folder.close(self.archive_dump)?;
        output::note(&done.to_string());
        Ok(())
    }

    /// The cluster's objects; without a HostedCluster there has to be a control plane left of it at least.
    async fn cluster(
        &self,
        client: &Client,
        control_plane: &str,
    ) -> Result<Result<ClusterObjects, String>, Failure> {
        let missing = match ClusterObjects::read(client, &self.namespace, &self.name).await {
            Ok(objects) => return Ok(Ok(objects)),
            Err(missing @ Failure::Missing { .. }) => missing,
            Err(failure) => return Err(failure),
        };
        let left = Api::<Namespace>::all(client.clone()).get_opt(control_plane).await;
        let object = format!("Namespace {control_plane}");
        match left.map_err(Failure::request("read", object))? {
            Some(_) => Ok(Err(told(&missing))),
            None => Err(missing),
        }
    }

    /// HostedCluster, NodePools, exposures and policies, and their events.
    async fn users_objects(
        &self,
        client: &Client,
        cluster: ClusterObjects,
        folder: &mut Folder,
    ) -> Result<(), Failure> {
        let ClusterObjects { hosted_cluster, node_pools, exposures, policies } = cluster;
        let all = [
            ("hypershift.openshift.io/hostedclusters", vec![hosted_cluster]),
            ("hypershift.openshift.io/nodepools", node_pools),
            ("remora.dev/serviceexposures", exposures),
            ("remora.dev/exposurepolicies", policies),
        ];
        let mut told = Vec::new();
        for (kind, objects) in all {
            told.extend(objects.iter().map(gather::subject));
            folder.objects(&format!("namespaces/{}/{kind}.yaml", self.namespace), &objects)?;
        }
        gather::events_about(client, &self.namespace, &told, folder).await
    }

    async fn hosting_nodes(&self, client: &Client, folder: &mut Folder) -> Result<(), Failure> {
        let resource = ApiResource::erase::<Node>(&());
        let nodes = list_all(&Api::all_with(client.clone(), &resource), &resource).await;
        folder.objects_or_problem("cluster-scoped-resources/core/nodes.yaml", nodes)
    }
}

#[cfg(test)]
mod tests;
