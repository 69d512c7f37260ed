//! The operator killed half-way: what it had begun, the next one finishes.

use anyhow::Context as _;
use kube::api::{DeleteParams, DynamicObject, PostParams};
use kube::{Api, Client, ResourceExt};
use remora_testkit::manifest::HOSTED_CLUSTER;
use remora_testkit::{ApiServer, Registry, eventually};
use serde_json::{Value, json};

use crate::cluster::pull_secret;
use crate::operator::{self, Operator};
use crate::stand_ins::report_ready;
use crate::world::{DEADLINE, api, apply_patched, wait_until_gone};

const CONTROL_PLANE: &str = "killed-reef";

/// A hosting cluster of its own, since two operators at once are not what is tested.
struct Hosting {
    server: &'static ApiServer,
    registry: &'static Registry,
    client: Client,
    clusters: Api<DynamicObject>,
}

impl Hosting {
    async fn make() -> anyhow::Result<Self> {
        let server: &'static ApiServer = Box::leak(Box::new(ApiServer::start()?));
        operator::install(server).await?;
        let registry = Registry::shared().await?;
        let client = server.client().await?;
        let namespace = serde_json::from_value(json!({
            "apiVersion": "v1", "kind": "Namespace", "metadata": { "name": "killed" },
        }))?;
        api(&client, "v1", "Namespace", "").create(&PostParams::default(), &namespace).await?;
        pull_secret(&client, "killed").await?;
        let clusters = api(&client, "hypershift.openshift.io/v1beta1", "HostedCluster", "killed");
        Ok(Self { server, registry, client, clusters })
    }

    /// Runs an operator until an object of the control plane exists, then kills it.
    async fn run_until(&self, kind: (&str, &str), name: &str) -> anyhow::Result<DynamicObject> {
        let operator = Operator::start(self.server, self.registry).await?;
        let found = self.wait_for(kind, name).await?;
        operator.kill();
        Ok(found)
    }

    async fn wait_for(
        &self,
        (api_version, kind): (&str, &str),
        name: &str,
    ) -> anyhow::Result<DynamicObject> {
        let objects = self.inside(api_version, kind);
        eventually(&format!("{kind} {name}"), DEADLINE, async || Ok(objects.get(name).await?)).await
    }

    fn inside(&self, api_version: &str, kind: &str) -> Api<DynamicObject> {
        api(&self.client, api_version, kind, CONTROL_PLANE)
    }

    async fn identity(&self) -> anyhow::Result<Value> {
        let cluster = self.clusters.get("reef").await?;
        let field = |path: &str| cluster.data.pointer(path).cloned();
        Ok(json!([field("/spec/infraID"), field("/spec/clusterID")]))
    }
}

#[tokio::test]
async fn a_cluster_is_finished_and_removed_by_whoever_comes_next() -> anyhow::Result<()> {
    let hosting = Hosting::make().await?;
    let release = hosting.registry.push_release("1.35.4").await?;
    let cluster = json!({
        "metadata": { "namespace": "killed" },
        "spec": { "release": { "image": release }, "controllerAvailabilityPolicy": "SingleReplica" },
    });
    apply_patched(&hosting.client, HOSTED_CLUSTER, &cluster).await?;

    let authority = hosting.run_until(("v1", "Secret"), "root-ca").await?;
    let identity = hosting.identity().await?;
    for found in [("StatefulSet", "etcd"), ("Deployment", "kube-apiserver")] {
        let workload = hosting.run_until(("apps/v1", found.0), found.1).await?;
        report_ready(&hosting.client, &workload).await?;
    }
    let last = Operator::start(hosting.server, hosting.registry).await?;
    hosting.wait_for(("apps/v1", "Deployment"), "kube-controller-manager").await?;
    hosting.wait_for(("apps/v1", "Deployment"), "kube-scheduler").await?;
    last.kill();
    assert_eq!(hosting.identity().await?, identity, "the cluster has become another one");
    let kept = hosting.wait_for(("v1", "Secret"), "root-ca").await?;
    assert_eq!(kept.uid(), authority.uid());
    assert_eq!(kept.data.get("data"), authority.data.get("data"), "the authority was made anew");

    hosting.clusters.delete("reef", &DeleteParams::default()).await?;
    let operator = Operator::start(hosting.server, hosting.registry).await?;
    let namespaces = api(&hosting.client, "v1", "Namespace", "");
    eventually("the end of the namespace to begin", DEADLINE, async || {
        let namespace = namespaces.get_opt(CONTROL_PLANE).await?;
        let is_going = namespace.is_none_or(|found| found.metadata.deletion_timestamp.is_some());
        anyhow::ensure!(is_going, "it stays");
        Ok(())
    })
    .await?;
    operator.kill();
    let last = Operator::start(hosting.server, hosting.registry).await?;
    wait_until_gone(&hosting.clusters, "reef").await.context("deletion")?;
    assert!(namespaces.get_opt(CONTROL_PLANE).await?.is_none());
    last.kill();
    Ok(())
}
