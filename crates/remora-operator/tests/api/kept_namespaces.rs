//! A control plane namespace that stays when its HostedCluster is deleted.

use kube::api::{DeleteParams, ListParams};
use serde_json::json;

use crate::cluster::control_plane;
use crate::hosted_clusters::Made;
use crate::world::{api, apply, wait_for_condition, wait_until_gone};

const KEPT: &str = "hypershift.openshift.io/skip-delete-hosted-controlplane-namespace";

#[tokio::test]
async fn a_namespace_that_shall_stay_is_emptied_of_the_control_plane() -> anyhow::Result<()> {
    let made =
        Made::make("kept", json!({ "metadata": { "annotations": { KEPT: "true" } } })).await?;
    made.stand_in_for_pods().await?;
    wait_for_condition(&made.clusters, "reef", ("Available", "True", "AsExpected")).await?;
    let own = json!({
        "apiVersion": "v1", "kind": "ConfigMap",
        "metadata": { "name": "own", "namespace": control_plane("kept") },
    });
    apply(&made.client, &own).await?;
    let load_balancer = json!({
        "apiVersion": "v1", "kind": "Service",
        "metadata": {
            "name": "a0123", "namespace": control_plane("kept"),
            "labels": { "cluster.x-k8s.io/tenant-service-name": "web" },
        },
        "spec": { "type": "LoadBalancer", "ports": [{ "port": 80 }] },
    });
    apply(&made.client, &load_balancer).await?;
    made.clusters.delete("reef", &DeleteParams::default()).await?;
    wait_until_gone(&made.clusters, "reef").await?;
    let namespace = api(&made.client, "v1", "Namespace", "").get(&control_plane("kept")).await?;
    assert_eq!(namespace.metadata.deletion_timestamp, None);
    let of_components =
        ListParams::default().labels("hypershift.openshift.io/control-plane-component");
    for (api_version, kind) in [
        ("apps/v1", "StatefulSet"),
        ("apps/v1", "Deployment"),
        ("v1", "Pod"),
        ("v1", "PersistentVolumeClaim"),
        ("v1", "Service"),
        ("v1", "Secret"),
        ("v1", "ConfigMap"),
        ("policy/v1", "PodDisruptionBudget"),
        ("networking.k8s.io/v1", "NetworkPolicy"),
    ] {
        let left = made.inside(api_version, kind).list(&of_components).await?;
        assert!(left.items.is_empty(), "{kind}: {:?}", left.items);
    }
    assert!(made.inside("v1", "Service").get_opt("a0123").await?.is_none());
    assert!(made.inside("v1", "ConfigMap").get_opt("own").await?.is_some());
    Ok(())
}
