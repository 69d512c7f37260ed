//! Wrong input: refused by the API server, or told by a condition that names object, field and remedy; nothing
//! half-made is left and other objects go on.

use anyhow::ensure;

use crate::support::probe;
use crate::support::wait::{SOON, seen, until};
use crate::support::{Hosted, Lab, story};

/// Namespace of this story.
const NAMESPACE: &str = "e2e-refusals";

#[tokio::test(flavor = "multi_thread")]
async fn what_the_schema_can_tell_is_refused_at_once() -> anyhow::Result<()> {
    story(|lab| async move {
        let hosted = Hosted::named(&lab, NAMESPACE, "refused");
        lab.apply(&hosted.namespace_manifest()).await?;
        let good = hosted.manifest();
        let cases = [
            (
                "an unknown field",
                good.replace("spec:\n  release", "spec:\n  relaese: x\n  release"),
                "relaese",
            ),
            (
                "an image with a space",
                good.replace("release:1.35.4", "release 1.35.4"),
                "spec.release.image",
            ),
            (
                "a NodePort strategy without its nodePort",
                good.replacen(", nodePort: {address: 192.168.123.104}", "", 1),
                "nodePort",
            ),
            (
                "an unknown platform",
                good.replace("type: KubeVirt", "type: Bare"),
                "spec.platform.type",
            ),
        ];
        for (what, manifest, named) in cases {
            ensure!(manifest != good, "{what}: the manifest was not changed");
            let refused = lab.apply(&manifest).await;
            let said = refused.unwrap_or_else(|error| format!("{error:#}"));
            ensure!(said.contains(named) && !said.contains("created"), "{what}: {said}");
        }
        ensure!(hosted.hosted_cluster().await?.is_none(), "a refused HostedCluster exists");
        Ok(())
    })
    .await
}

#[tokio::test(flavor = "multi_thread")]
async fn what_only_the_operator_can_tell_is_a_condition_and_makes_nothing() -> anyhow::Result<()> {
    story(|lab| async move {
        let release = "release:1.35.4";
        told(&lab, "overlap", "ValidConfiguration", "networking", |good| {
            format!(
                "{good}  networking: {{clusterNetwork: [{{cidr: 10.140.0.0/16}}], serviceNetwork: [{{cidr: 10.140.128.0/20}}]}}\n"
            )
        })
        .await?;
        told(&lab, "no-secret", "ValidReleaseImage", "pull-secret-that-is-not", |good| {
            good.replace("no-secret-pull-secret", "pull-secret-that-is-not")
        })
        .await?;
        told(&lab, "no-image", "ValidReleaseImage", "release:0.0.1", |good| {
            good.replace(release, "release:0.0.1")
        })
        .await?;
        // An image that is there, and is none.
        let image = probe::image().await?;
        told(&lab, "no-release", "ValidReleaseImage", "is no release", |good| {
            good.replace("192.168.123.1:5000/remora/release:1.35.4", &image)
        })
        .await?;
        told(&lab, "no-registry", "ValidReleaseImage", "192.168.123.1:5999", |good| {
            good.replace("192.168.123.1:5000", "192.168.123.1:5999")
        })
        .await?;
        lab.kubectl(&["delete", "namespace", NAMESPACE]).await.map(drop)
    })
    .await
}

/// Applies a HostedCluster changed for the worse; the condition is False and names the culprit; no control plane
/// was begun; deleting the object leaves nothing.
async fn told(
    lab: &Lab,
    name: &str,
    condition: &str,
    names: &str,
    change: impl Fn(&str) -> String,
) -> anyhow::Result<()> {
    let hosted = Hosted::named(lab, NAMESPACE, name);
    let good = hosted.manifest();
    let bad = change(&good);
    ensure!(bad != good, "{name}: the manifest was not changed");
    lab.apply(&format!("{}---\n{bad}", hosted.namespace_manifest())).await?;
    let message = hosted.condition(condition, "False", None, SOON).await?;
    ensure!(message.contains(names), "{name}: {condition} says {message:?} and not {names:?}");
    let namespace = hosted.control_plane_namespace();
    let workloads = lab
        .kubectl(&["get", "deployments,statefulsets,pods", "-n", &namespace, "-o", "name"])
        .await?;
    ensure!(workloads.is_empty(), "{name}: something half-made runs: {workloads}");
    hosted.destroy().await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_pool_without_its_cluster_says_so_and_waits() -> anyhow::Result<()> {
    story(|lab| async move {
        let hosted = Hosted::named(&lab, NAMESPACE, "orphan");
        lab.apply(&hosted.namespace_manifest()).await?;
        hosted.apply_pool(1).await?;
        let pools = lab.objects("hypershift.openshift.io/v1beta1", "NodePool", NAMESPACE);
        until("the NodePool names the missing HostedCluster", SOON, || async {
            let pool = pools.get("orphan").await?;
            let said = pool.data.pointer("/status/conditions").cloned().unwrap_or_default();
            Ok(seen(said.to_string().contains("no HostedCluster orphan"), || said.to_string()))
        })
        .await?;
        lab.kubectl(&["delete", "nodepool", "orphan", "-n", NAMESPACE]).await.map(drop)
    })
    .await
}
