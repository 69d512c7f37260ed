//! `remora lab demo`: from nothing to the application's page on every hosting worker.
//!
//! Each step looks first whether its outcome is there, so that a demo that was cut off goes on where it was.

mod cluster;
mod page;
mod report;

use std::process::ExitCode;
use std::sync::Arc;
use std::time::{Duration, Instant};

use clap::Args;
use kube::Client;
use remora_lab::UpOptions;
use remora_lab::images::{App, SharedProgress};
use remora_lab::paths::Paths;
use remora_lab::progress::{Outcome, Step};

use crate::connect::Connection;
use crate::create::kubeconfig_of;
use crate::failure::Failure;
use crate::install::{self, InstallCommand};
use crate::progress::Console;
use crate::{hosted, output};

/// Namespace of the example's objects.
const NAMESPACE: &str = "clusters";
/// Name of the example's cluster and pool.
const CLUSTER: &str = "cluster1";
/// The example's exposure.
const EXPOSURE: &str = "petclinic";
/// The manifests, as they lie in `deploy/examples`.
const CLUSTER_MANIFESTS: [&str; 2] = [
    include_str!("../../../../deploy/examples/cluster1/hostedcluster.yaml"),
    include_str!("../../../../deploy/examples/cluster1/nodepool.yaml"),
];
const APPLICATION_MANIFESTS: [&str; 2] = [
    include_str!("../../../../deploy/examples/petclinic/deployment.yaml"),
    include_str!("../../../../deploy/examples/petclinic/service.yaml"),
];
const EXPOSURE_MANIFEST: &str =
    include_str!("../../../../deploy/examples/cluster1/exposure/petclinic.yaml");

/// Shows everything once: lab, operator, a hosted cluster with two nodes, an application in it, and its page on every
/// worker of the hosting cluster. What is there already is kept; everything is left running.
#[derive(Clone, Debug, Args)]
#[command(after_help = "Example:
  remora lab demo
  remora lab down      removes everything again")]
pub(crate) struct DemoCommand {}

/// What the steps work with.
pub(super) struct Stage {
    /// Where the lab's files are.
    paths: Paths,
    /// The hosting cluster.
    hosting: Client,
    progress: SharedProgress,
}

impl Stage {
    fn begin(&self, name: &str) -> Step<'_> {
        Step::start(self.progress.as_ref(), name)
    }

    /// Ends a step: shows its result, or what everything says when it has failed.
    async fn end(
        &self,
        name: &str,
        step: Step<'_>,
        result: Result<String, Failure>,
    ) -> Result<(), Failure> {
        match result {
            Ok(shown) => {
                step.finish(Outcome::Done);
                output::text(&shown)
            }
            Err(failure) => {
                drop(step);
                output::note(&report::everything(&self.hosting, NAMESPACE, CLUSTER).await);
                Err(Failure::Demo { step: name.to_owned(), source: Box::new(failure) })
            }
        }
    }
}

impl DemoCommand {
    /// Runs the demo.
    pub(crate) async fn run(self, paths: Paths) -> Result<ExitCode, Failure> {
        let start = Instant::now();
        let progress: SharedProgress = Arc::new(Console::new());
        output::note("1. A hosting cluster with KubeVirt on this machine");
        let lab = remora_lab::up(&paths, &UpOptions::default(), &progress).await?;
        let connection = Connection::to_lab(&paths);
        let hosting = connection.client().await?;
        let workers: Vec<String> =
            lab.topology.workers().map(|host| host.address.to_string()).collect();
        let stage = Stage { paths, hosting, progress };
        stage.hosting_cluster().await?;
        stage.operator(&connection).await?;

        output::note("2. A hosted cluster");
        let hosted = stage.hosted_cluster().await?;

        output::note("3. An application in it");
        stage.application(&hosted).await?;

        output::note("4. Its page from outside, on every worker of the hosting cluster");
        stage.page_outside(&workers).await?;
        output::text(&stage.farewell(start.elapsed()))?;
        Ok(ExitCode::SUCCESS)
    }
}

impl Stage {
    async fn hosting_cluster(&self) -> Result<(), Failure> {
        let name = "hosting nodes";
        let step = self.begin(name);
        let done = cluster::hosting_nodes(self, &|text| step.note(text)).await;
        self.end(name, step, done).await
    }

    async fn operator(&self, connection: &Connection) -> Result<(), Failure> {
        let name = "operator";
        let step = self.begin(name);
        let done = async {
            install::publish(App::Petclinic, &self.progress).await?;
            InstallCommand::for_demo(wait_for(cluster::OPERATOR)).run(connection).await?;
            Ok(String::new())
        };
        let done = done.await;
        self.end(name, step, done).await
    }

    async fn hosted_cluster(&self) -> Result<Client, Failure> {
        let name = "HostedCluster available";
        let step = self.begin(name);
        let done = cluster::available(self, &CLUSTER_MANIFESTS, &|text| step.note(text)).await;
        self.end(name, step, done).await?;

        let hosted = self.hosted_client().await?;
        let name = "hosted nodes ready";
        let step = self.begin(name);
        let done = cluster::nodes_ready(self, &hosted, &|text| step.note(text)).await;
        self.end(name, step, done).await?;
        Ok(hosted)
    }

    async fn application(&self, hosted: &Client) -> Result<(), Failure> {
        let name = "application";
        let step = self.begin(name);
        let tell = |text: &str| step.note(text);
        let done = page::application(hosted, &APPLICATION_MANIFESTS, &tell).await;
        self.end(name, step, done).await
    }

    async fn page_outside(&self, workers: &[String]) -> Result<(), Failure> {
        let name = "exposure reachable";
        let step = self.begin(name);
        let done = page::exposed(&self.hosting, EXPOSURE_MANIFEST, &|text| step.note(text)).await;
        self.end(name, step, done).await?;

        let name = "page on every worker";
        let step = self.begin(name);
        let done = page::seen_on(workers, &|text| step.note(text)).await;
        self.end(name, step, done).await
    }
}

impl Stage {
    /// A client to the hosted cluster, made of its administrator's kubeconfig as it is.
    async fn hosted_client(&self) -> Result<Client, Failure> {
        let text = kubeconfig_of(&self.hosting, NAMESPACE, CLUSTER).await?;
        let file = self.hosted_kubeconfig();
        write_private(&file, &text).map_err(|source| Failure::File { path: file, source })?;
        hosted::client(CLUSTER, &text).await
    }

    fn hosted_kubeconfig(&self) -> std::path::PathBuf {
        self.paths.lab().join(format!("{CLUSTER}.kubeconfig"))
    }

    fn farewell(&self, took: Duration) -> String {
        format!(
            "\nDone in {} s. Everything goes on running. By hand:
  export PATH={bin}:$PATH
  export KUBECONFIG={hosting}
  kubectl get nodes -o wide
  kubectl -n {NAMESPACE}-{CLUSTER} get pods -o wide
  remora get clusters
  remora get nodepools
  remora get exposures -o wide
  remora describe exposure {EXPOSURE}
  kubectl --kubeconfig {hosted} get nodes,pods -A -o wide
and to remove it all: remora lab down\n",
            took.as_secs(),
            bin = self.paths.bin().display(),
            hosting = self.paths.kubeconfig().display(),
            hosted = self.hosted_kubeconfig().display(),
        )
    }
}

/// Writes a file that only its owner can read, from the first byte on.
fn write_private(path: &std::path::Path, text: &str) -> std::io::Result<()> {
    use std::io::Write as _;
    use std::os::unix::fs::OpenOptionsExt as _;
    let mut options = std::fs::OpenOptions::new();
    let mut file = options.write(true).create(true).truncate(true).mode(0o600).open(path)?;
    file.write_all(text.as_bytes())
}

fn wait_for(limit: Duration) -> crate::wait::WaitOptions {
    crate::wait::WaitOptions { wait: true, timeout: crate::wait::Limit(limit) }
}

#[cfg(test)]
mod tests {
    use remora_api::{HostedCluster, NodePool, ServiceExposure};

    use super::*;
    use crate::manifest::from_yaml;

    #[test]
    fn the_examples_are_objects_of_this_version() {
        let read = |text: &str, kind: &str| {
            let is_kind = |object: &kube::core::DynamicObject| {
                object.types.as_ref().is_some_and(|types| types.kind == kind)
            };
            from_yaml(text).unwrap().into_iter().find(is_kind).unwrap()
        };
        let [cluster, pool] = CLUSTER_MANIFESTS;
        let cluster: HostedCluster = read(cluster, "HostedCluster").try_parse().unwrap();
        let pool: NodePool = read(pool, "NodePool").try_parse().unwrap();
        let exposure: ServiceExposure =
            read(EXPOSURE_MANIFEST, "ServiceExposure").try_parse().unwrap();
        assert_eq!(pool.spec.release.image, cluster.spec.release.image);
        assert_eq!(exposure.spec.cluster_name, CLUSTER);
        assert_eq!(pool.spec.replicas, Some(2));
    }

    #[test]
    fn the_application_is_the_one_of_this_version() {
        let [deployment, _] = APPLICATION_MANIFESTS;
        let image = format!("remora/petclinic:{}\n", env!("CARGO_PKG_VERSION"));
        assert!(deployment.contains(&image), "{deployment}");
    }
}
