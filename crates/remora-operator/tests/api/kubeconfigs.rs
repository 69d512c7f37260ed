//! The kubeconfigs beside a HostedCluster: written where nobody else's Secret lies, and taken away again.

use k8s_openapi::ByteString;
use kube::api::{DeleteParams, Patch, PatchParams};
use remora_testkit::eventually;
use serde_json::json;

use crate::hosted_clusters::Made;
use crate::world::{DEADLINE, api, apply, wait_for_condition, wait_until_gone};

#[tokio::test]
async fn a_secret_of_someone_else_is_named_and_never_overwritten() -> anyhow::Result<()> {
    let made = Made::make("squatted", json!({ "spec": { "pausedUntil": "true" } })).await?;
    let secret = json!({
        "apiVersion": "v1", "kind": "Secret",
        "metadata": { "name": "reef-admin-kubeconfig", "namespace": "squatted" },
        "data": { "kubeconfig": ByteString(b"mine".to_vec()) },
    });
    let theirs = apply(&made.client, &secret).await?;
    let go = Patch::Merge(json!({ "spec": { "pausedUntil": null } }));
    made.clusters.patch("reef", &PatchParams::default(), &go).await?;
    let refused = ("ValidConfiguration", "False", "InvalidConfiguration");
    let message = wait_for_condition(&made.clusters, "reef", refused).await?;
    assert!(message.contains("Secret squatted/reef-admin-kubeconfig"), "{message}");
    // The control plane comes up all the same.
    made.stand_in_for_pods().await?;
    wait_for_condition(&made.clusters, "reef", ("Available", "True", "AsExpected")).await?;
    let cluster = made.clusters.get("reef").await?;
    assert_eq!(cluster.data.pointer("/status/kubeconfig"), None);
    let secrets = api(&made.client, "v1", "Secret", "squatted");
    let found = secrets.get("reef-admin-kubeconfig").await?;
    assert_eq!(found.metadata.resource_version, theirs.metadata.resource_version);
    made.clusters.delete("reef", &DeleteParams::default()).await?;
    wait_until_gone(&made.clusters, "reef").await?;
    let left = secrets.get("reef-admin-kubeconfig").await?;
    assert_eq!(left.metadata.uid, theirs.metadata.uid);
    Ok(())
}

#[tokio::test]
async fn a_kubeconfig_that_is_no_longer_asked_for_goes_with_its_status() -> anyhow::Result<()> {
    let named = json!({ "spec": { "kubeAPIServerDNSName": "api.reef.example" } });
    let made = Made::make("renamed", named).await?;
    made.stand_in_for_pods().await?;
    wait_for_condition(&made.clusters, "reef", ("Progressing", "False", "AsExpected")).await?;
    let custom = async || {
        let cluster = made.clusters.get("reef").await?;
        anyhow::Ok(cluster.data.pointer("/status/customKubeconfig/name").cloned())
    };
    assert_eq!(custom().await?, Some(json!("reef-custom-admin-kubeconfig")));
    let secrets = api(&made.client, "v1", "Secret", "renamed");
    assert!(secrets.get_opt("reef-custom-admin-kubeconfig").await?.is_some());
    let unnamed = Patch::Merge(json!({ "spec": { "kubeAPIServerDNSName": null } }));
    made.clusters.patch("reef", &PatchParams::default(), &unnamed).await?;
    wait_until_gone(&secrets, "reef-custom-admin-kubeconfig").await?;
    eventually("the end of status.customKubeconfig", DEADLINE, async || {
        anyhow::ensure!(custom().await?.is_none(), "it is still there");
        Ok(())
    })
    .await?;
    assert!(secrets.get_opt("reef-admin-kubeconfig").await?.is_some());
    Ok(())
}
