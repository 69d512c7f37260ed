//! HostedClusters: a control plane made, reported, and taken away to the last object.

use k8s_openapi::api::core::v1::Secret;
use kube::api::{DeleteParams, DynamicObject};
use kube::{Api, Client, ResourceExt};
use remora_testkit::eventually;
use remora_testkit::manifest::{HOSTED_CLUSTER, NODE_POOL};
use serde_json::{Value, json};

use crate::cluster::{control_plane, pull_secret};
use crate::stand_ins::report_ready;
use crate::world::{
    DEADLINE, World, api, apply, apply_patched, apply_status, wait_for_condition, wait_until_gone,
};

const HYPERSHIFT: &str = "hypershift.openshift.io/v1beta1";

/// A HostedCluster `reef` in a namespace of its own, made by the operator.
pub(crate) struct Made {
    pub(crate) client: Client,
    pub(crate) namespace: &'static str,
    pub(crate) clusters: Api<DynamicObject>,
}

impl Made {
    pub(crate) async fn make(namespace: &'static str, patch: Value) -> anyhow::Result<Self> {
        let world = World::shared().await?;
        let client = world.client().await?;
        world.namespace(namespace).await?;
        pull_secret(&client, namespace).await?;
        let release = world.registry.push_release("1.35.4").await?;
        let base = json!({
            "metadata": { "namespace": namespace },
            "spec": { "release": { "image": release }, "controllerAvailabilityPolicy": "SingleReplica" },
        });
        let patch = remora_testkit::manifest::patched(base, &patch);
        apply_patched(&client, HOSTED_CLUSTER, &patch).await?;
        let clusters = api(&client, HYPERSHIFT, "HostedCluster", namespace);
        Ok(Self { client, namespace, clusters })
    }

    pub(crate) fn inside(&self, api_version: &str, kind: &str) -> Api<DynamicObject> {
        api(&self.client, api_version, kind, &control_plane(self.namespace))
    }

    /// Waits until the workloads exist, and says in their stead that their pods are ready.
    pub(crate) async fn stand_in_for_pods(&self) -> anyhow::Result<()> {
        let all = ["etcd", "kube-apiserver", "kube-controller-manager", "kube-scheduler"];
        self.stand_in_for(&all).await
    }

    /// The same for some of them.
    pub(crate) async fn stand_in_for(&self, names: &[&str]) -> anyhow::Result<()> {
        for name in names {
            let kind = if *name == "etcd" { "StatefulSet" } else { "Deployment" };
            let workloads = self.inside("apps/v1", kind);
            let object = eventually(&format!("{kind} {name}"), DEADLINE, async || {
                Ok(workloads.get(name).await?)
            })
            .await?;
            report_ready(&self.client, &object).await?;
        }
        Ok(())
    }
}

#[tokio::test]
async fn a_cluster_is_made_reported_and_leaves_nothing() -> anyhow::Result<()> {
    let made = Made::make("whole", json!({})).await?;
    made.stand_in_for_pods().await?;
    wait_for_condition(&made.clusters, "reef", ("Available", "True", "AsExpected")).await?;
    wait_for_condition(&made.clusters, "reef", ("Progressing", "False", "AsExpected")).await?;

    let cluster = made.clusters.get("reef").await?;
    let infra_id =
        cluster.data.pointer("/spec/infraID").and_then(Value::as_str).unwrap_or_default();
    assert!(infra_id.starts_with("reef-") && infra_id.len() == 10, "{infra_id}");
    let services = made.inside("v1", "Service");
    let node_port =
        services.get("kube-apiserver").await?.data.pointer("/spec/ports/0/nodePort").cloned();
    let endpoint =
        cluster.data.pointer("/status/controlPlaneEndpoint").cloned().unwrap_or_default();
    assert_eq!(endpoint, json!({ "host": "192.0.2.101", "port": node_port }));
    assert_eq!(
        cluster.data.pointer("/status/version/history/0/state"),
        Some(&json!("Completed")),
        "{}",
        cluster.data
    );
    let secrets: Api<Secret> = Api::namespaced(made.client.clone(), "whole");
    let kubeconfig = secrets.get("reef-admin-kubeconfig").await?.data.unwrap_or_default();
    let kubeconfig =
        String::from_utf8(kubeconfig.get("kubeconfig").cloned().unwrap_or_default().0)?;
    let server = format!("https://192.0.2.101:{}", node_port.unwrap_or_default());
    assert!(kubeconfig.contains(&server), "the kubeconfig does not name {server}");

    made.clusters.delete("reef", &DeleteParams::default()).await?;
    wait_until_gone(&made.clusters, "reef").await?;
    let namespaces = api(&made.client, "v1", "Namespace", "");
    assert!(namespaces.get_opt(&control_plane("whole")).await?.is_none());
    wait_until_gone(&api(&made.client, "v1", "Secret", "whole"), "reef-admin-kubeconfig").await
}

#[tokio::test]
async fn an_object_that_somebody_changes_is_put_right() -> anyhow::Result<()> {
    let made = Made::make("drift", json!({})).await?;
    made.stand_in_for_pods().await?;
    wait_for_condition(&made.clusters, "reef", ("Available", "True", "AsExpected")).await?;
    let deployments = made.inside("apps/v1", "Deployment");
    apply(
        &made.client,
        &json!({
            "apiVersion": "apps/v1", "kind": "Deployment",
            "metadata": { "name": "kube-scheduler", "namespace": control_plane("drift") },
            "spec": { "replicas": 0 },
        }),
    )
    .await?;
    eventually("one replica again", DEADLINE, async || {
        let found = deployments.get("kube-scheduler").await?;
        let replicas = found.data.pointer("/spec/replicas").cloned();
        anyhow::ensure!(replicas == Some(json!(1)), "there are {replicas:?}");
        Ok(())
    })
    .await
}

#[tokio::test]
async fn an_object_that_somebody_deletes_is_made_again() -> anyhow::Result<()> {
    let made = Made::make("deleted", json!({})).await?;
    made.stand_in_for_pods().await?;
    wait_for_condition(&made.clusters, "reef", ("Available", "True", "AsExpected")).await?;
    let deployments = made.inside("apps/v1", "Deployment");
    let before = deployments.get("kube-scheduler").await?;
    deployments.delete("kube-scheduler", &DeleteParams::background()).await?;
    eventually("another kube-scheduler", DEADLINE, async || {
        let now = deployments.get("kube-scheduler").await?;
        anyhow::ensure!(now.uid() != before.uid(), "it is the one that was deleted");
        Ok(())
    })
    .await
}

#[tokio::test]
async fn overlapping_networks_are_refused_and_nothing_is_made() -> anyhow::Result<()> {
    let overlap = json!({ "spec": { "networking": {
        "clusterNetwork": [{ "cidr": "10.132.0.0/14" }], "serviceNetwork": [{ "cidr": "10.133.0.0/16" }],
    } } });
    let made = Made::make("overlap", overlap).await?;
    let message = wait_for_condition(
        &made.clusters,
        "reef",
        ("ValidConfiguration", "False", "InvalidConfiguration"),
    )
    .await?;
    assert!(message.contains("overlaps") && message.contains("serviceNetwork"), "{message}");
    wait_for_condition(&made.clusters, "reef", ("Progressing", "False", "Blocked")).await?;
    let namespaces = api(&made.client, "v1", "Namespace", "");
    assert!(namespaces.get_opt(&control_plane("overlap")).await?.is_none());
    made.clusters.delete("reef", &DeleteParams::default()).await?;
    wait_until_gone(&made.clusters, "reef").await
}

#[tokio::test]
async fn a_release_that_cannot_be_had_is_named_with_a_reason() -> anyhow::Result<()> {
    let world = World::shared().await?;
    let absent = format!("{}/remora/release:0.0.0", world.registry.host());
    let image = |image: &str| json!({ "spec": { "release": { "image": image } } });
    let made = Made::make("unreleased", image(&absent)).await?;
    let wrong = ("ValidReleaseImage", "False", "InvalidImage");
    let message = wait_for_condition(&made.clusters, "reef", wrong).await?;
    assert!(message.contains(&absent), "{message}");
    let made = Made::make("unreachable", image("127.0.0.1:9/remora/release:1.35.4")).await?;
    let unreachable = ("ValidReleaseImage", "False", "RegistryUnreachable");
    wait_for_condition(&made.clusters, "reef", unreachable).await?;
    Ok(())
}

#[tokio::test]
async fn a_node_port_that_is_taken_is_named() -> anyhow::Result<()> {
    let taken = json!({
        "apiVersion": "v1", "kind": "Service",
        "metadata": { "name": "taker", "namespace": "default" },
        "spec": { "type": "NodePort", "ports": [{ "port": 80, "nodePort": 32123 }] },
    });
    let world = World::shared().await?;
    apply(&world.client().await?, &taken).await?;
    let by_port = json!({ "spec": { "services": [
        { "service": "APIServer", "servicePublishingStrategy":
            { "type": "NodePort", "nodePort": { "address": "192.0.2.101", "port": 32123 } } },
        { "service": "Konnectivity", "servicePublishingStrategy":
            { "type": "NodePort", "nodePort": { "address": "192.0.2.101" } } },
        { "service": "OAuthServer", "servicePublishingStrategy": { "type": "Route" } },
        { "service": "Ignition", "servicePublishingStrategy": { "type": "Route" } },
    ] } });
    let made = Made::make("taken", by_port).await?;
    let refused = ("InfrastructureReady", "False", "InfraStatusFailure");
    let message = wait_for_condition(&made.clusters, "reef", refused).await?;
    assert!(message.contains("32123") && message.contains("kube-apiserver"), "{message}");
    Ok(())
}

#[tokio::test]
async fn a_namespace_of_someone_else_is_left_alone() -> anyhow::Result<()> {
    let world = World::shared().await?;
    world.namespace(&control_plane("foreign")).await?;
    let made = Made::make("foreign", json!({})).await?;
    let refused = ("ValidConfiguration", "False", "InvalidConfiguration");
    let message = wait_for_condition(&made.clusters, "reef", refused).await?;
    assert!(message.contains("foreign-reef"), "{message}");
    made.clusters.delete("reef", &DeleteParams::default()).await?;
    wait_until_gone(&made.clusters, "reef").await?;
    let namespaces = api(&made.client, "v1", "Namespace", "");
    assert!(namespaces.get_opt(&control_plane("foreign")).await?.is_some());
    Ok(())
}

#[tokio::test]
async fn a_load_balancer_without_an_address_is_named() -> anyhow::Result<()> {
    let by_balancer = json!({ "spec": { "services": [
        { "service": "APIServer", "servicePublishingStrategy": { "type": "LoadBalancer" } },
        { "service": "Konnectivity", "servicePublishingStrategy": { "type": "LoadBalancer" } },
        { "service": "OAuthServer", "servicePublishingStrategy": { "type": "Route" } },
        { "service": "Ignition", "servicePublishingStrategy": { "type": "Route" } },
    ] } });
    let made = Made::make("balanced", by_balancer).await?;
    wait_for_condition(
        &made.clusters,
        "reef",
        ("InfrastructureReady", "False", "LoadBalancerPending"),
    )
    .await?;
    for service in ["kube-apiserver", "konnectivity-server"] {
        apply_status(
            &made.client,
            &json!({
                "apiVersion": "v1", "kind": "Service",
                "metadata": { "name": service, "namespace": control_plane("balanced") },
                "status": { "loadBalancer": { "ingress": [{ "ip": "198.51.100.4" }] } },
            }),
        )
        .await?;
    }
    wait_for_condition(&made.clusters, "reef", ("InfrastructureReady", "True", "AsExpected"))
        .await?;
    let cluster = made.clusters.get("reef").await?;
    assert_eq!(
        cluster.data.pointer("/status/controlPlaneEndpoint"),
        Some(&json!({ "host": "198.51.100.4", "port": 6443 }))
    );
    Ok(())
}

#[tokio::test]
async fn node_pools_go_before_their_cluster() -> anyhow::Result<()> {
    let made = Made::make("populated", json!({})).await?;
    let pool = json!({ "metadata": {
        "namespace": "populated", "finalizers": ["example.com/hold"],
    } });
    apply_patched(&made.client, NODE_POOL, &pool).await?;
    made.stand_in_for_pods().await?;
    wait_for_condition(&made.clusters, "reef", ("Available", "True", "AsExpected")).await?;
    made.clusters.delete("reef", &DeleteParams::default()).await?;
    let message =
        wait_for_condition(&made.clusters, "reef", ("Progressing", "True", "Deleting")).await?;
    assert!(message.contains("shallows"), "{message}");
    let namespaces = api(&made.client, "v1", "Namespace", "");
    assert!(namespaces.get_opt(&control_plane("populated")).await?.is_some());
    let pools = api(&made.client, HYPERSHIFT, "NodePool", "populated");
    pools
        .patch(
            "shallows",
            &kube::api::PatchParams::default(),
            &kube::api::Patch::Merge(json!({ "metadata": { "finalizers": [] } })),
        )
        .await?;
    wait_until_gone(&made.clusters, "reef").await?;
    assert!(pools.get_opt("shallows").await?.is_none());
    Ok(())
}
