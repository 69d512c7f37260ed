//! What lies in a control plane's namespace, and what keeps one from being made.

use k8s_openapi::ByteString;
use k8s_openapi::api::core::v1::Pod;
use kube::api::{DeleteParams, DynamicObject, ListParams, Patch, PatchParams, PostParams};
use kube::{Api, Client, ResourceExt};
use remora_testkit::eventually;
use remora_testkit::manifest::{HOSTED_CLUSTER, patched};
use serde_json::{Value, json};

use crate::cluster::pull_secret;
use crate::stand_ins::report_ready;
use crate::world::{DEADLINE, World, api, apply_patched, wait_for_condition, wait_until_gone};

const HYPERSHIFT: &str = "hypershift.openshift.io/v1beta1";
const WORKLOADS: [(&str, &str); 4] = [
    ("StatefulSet", "etcd"),
    ("Deployment", "kube-apiserver"),
    ("Deployment", "kube-controller-manager"),
    ("Deployment", "kube-scheduler"),
];

/// Applies a HostedCluster of a release that exists.
async fn cluster(
    client: &Client,
    (namespace, name): (&str, &str),
    patch: Value,
) -> anyhow::Result<Api<DynamicObject>> {
    let release = World::shared().await?.registry.push_release("1.35.4").await?;
    let base = json!({
        "metadata": { "namespace": namespace, "name": name },
        "spec": { "release": { "image": release }, "controllerAvailabilityPolicy": "SingleReplica" },
    });
    apply_patched(client, HOSTED_CLUSTER, &patched(base, &patch)).await?;
    Ok(api(client, HYPERSHIFT, "HostedCluster", namespace))
}

/// Waits for a workload of a control plane and lets it be ready, so that the next one is made.
async fn workload(
    client: &Client,
    namespace: &str,
    (kind, name): (&str, &str),
) -> anyhow::Result<DynamicObject> {
    let workloads = api(client, "apps/v1", kind, namespace);
    let found = eventually(&format!("{kind} {namespace}/{name}"), DEADLINE, async || {
        Ok(workloads.get(name).await?)
    })
    .await?;
    report_ready(client, &found).await?;
    Ok(found)
}

#[tokio::test]
async fn its_namespace_and_its_objects_say_whose_they_are() -> anyhow::Result<()> {
    let world = World::shared().await?;
    let client = world.client().await?;
    world.namespace("labelled").await?;
    pull_secret(&client, "labelled").await?;
    cluster(&client, ("labelled", "reef"), json!({ "spec": { "infraID": "reef-12345" } })).await?;
    for found in WORKLOADS {
        let object = workload(&client, "labelled-reef", found).await?;
        let component = object.labels().get("hypershift.openshift.io/control-plane-component");
        assert_eq!(component.map(String::as_str), Some(found.1));
        let template = object.data.pointer("/spec/template/metadata/labels");
        let key = "hypershift.openshift.io/control-plane-component";
        assert_eq!(template.and_then(|labels| labels.get(key)), Some(&json!(found.1)));
    }
    let namespace = api(&client, "v1", "Namespace", "").get("labelled-reef").await?;
    let label = |key: &str| namespace.labels().get(key).map(String::as_str);
    assert_eq!(label("hypershift.openshift.io/hosted-control-plane"), Some("true"));
    assert!(label("pod-security.kubernetes.io/enforce").is_some());
    let owner = namespace.annotations().get("hypershift.openshift.io/cluster").map(String::as_str);
    assert_eq!(owner, Some("labelled/reef"));
    let policies = api(&client, "networking.k8s.io/v1", "NetworkPolicy", "labelled-reef");
    assert!(!policies.list(&ListParams::default()).await?.items.is_empty());
    Ok(())
}

/// The namespace lets privileged pods in, for the VMs' sake; the control plane's need no such thing.
#[tokio::test]
async fn its_pods_meet_the_restricted_standard() -> anyhow::Result<()> {
    let world = World::shared().await?;
    let client = world.client().await?;
    world.namespace("strict").await?;
    pull_secret(&client, "strict").await?;
    cluster(&client, ("strict", "reef"), json!({})).await?;
    world.namespace("restricted").await?;
    let enforce =
        json!({ "metadata": { "labels": { "pod-security.kubernetes.io/enforce": "restricted" } } });
    api(&client, "v1", "Namespace", "")
        .patch("restricted", &PatchParams::default(), &Patch::Merge(enforce))
        .await?;
    let pods: Api<Pod> = Api::namespaced(client.clone(), "restricted");
    let dry_run = PostParams { dry_run: true, ..PostParams::default() };
    for found in WORKLOADS {
        let object = workload(&client, "strict-reef", found).await?;
        let mut pod = object.data.pointer("/spec/template").cloned().unwrap_or_default();
        pod["metadata"]["name"] = found.1.into();
        let claims = object.data.pointer("/spec/volumeClaimTemplates").and_then(Value::as_array);
        for claim in claims.into_iter().flatten() {
            let volume = json!({ "name": claim.pointer("/metadata/name"), "emptyDir": {} });
            if let Some(volumes) = pod.pointer_mut("/spec/volumes").and_then(Value::as_array_mut) {
                volumes.push(volume);
            }
        }
        let pod: Pod = serde_json::from_value(pod)?;
        pods.create(&dry_run, &pod)
            .await
            .map_err(|error| anyhow::anyhow!("{}: {error}", found.1))?;
    }
    Ok(())
}

#[tokio::test]
async fn a_missing_pull_secret_is_named_until_it_comes() -> anyhow::Result<()> {
    let world = World::shared().await?;
    let client = world.client().await?;
    world.namespace("unpulled").await?;
    let clusters = cluster(&client, ("unpulled", "reef"), json!({})).await?;
    let missing = ("ValidReleaseImage", "False", "SecretNotFound");
    let message = wait_for_condition(&clusters, "reef", missing).await?;
    assert!(message.contains("unpulled/reef-pull-secret"), "{message}");
    wait_for_condition(&clusters, "reef", ("Progressing", "False", "Blocked")).await?;
    pull_secret(&client, "unpulled").await?;
    wait_for_condition(&clusters, "reef", ("ValidReleaseImage", "True", "AsExpected")).await?;
    Ok(())
}

#[tokio::test]
async fn its_pods_pull_with_a_copy_of_the_pull_secret_which_follows_the_original()
-> anyhow::Result<()> {
    let world = World::shared().await?;
    let client = world.client().await?;
    world.namespace("pulls").await?;
    pull_secret(&client, "pulls").await?;
    cluster(&client, ("pulls", "reef"), json!({})).await?;
    for found in WORKLOADS {
        let object = workload(&client, "pulls-reef", found).await?;
        let named = object.data.pointer("/spec/template/spec/imagePullSecrets");
        assert_eq!(named, Some(&json!([{ "name": "pull-secret" }])), "{}", found.1);
    }
    let (originals, copies) =
        (api(&client, "v1", "Secret", "pulls"), api(&client, "v1", "Secret", "pulls-reef"));
    let original = originals.get("reef-pull-secret").await?;
    let copy = copies.get("pull-secret").await?;
    for part in ["/type", "/data"] {
        assert_eq!(copy.data.pointer(part), original.data.pointer(part), "{part}");
    }
    let content = ByteString(br#"{"auths":{"registry.test":{"auth":"dTpw"}}}"#.to_vec());
    let changed = Patch::Merge(json!({ "data": { ".dockerconfigjson": content } }));
    let original = originals.patch("reef-pull-secret", &PatchParams::default(), &changed).await?;
    eventually("the copy", DEADLINE, async || {
        let copy = copies.get("pull-secret").await?;
        // The content is not shown, as everywhere.
        anyhow::ensure!(copy.data.pointer("/data") == original.data.pointer("/data"), "it is old");
        Ok(())
    })
    .await
}

#[tokio::test]
async fn an_image_that_is_no_release_is_named() -> anyhow::Result<()> {
    let world = World::shared().await?;
    let client = world.client().await?;
    world.namespace("no-payload").await?;
    pull_secret(&client, "no-payload").await?;
    let files = [("hello".to_owned(), "world".to_owned())].into();
    let image = world.registry.push("remora/no-payload", "1", &files).await?;
    let patch = json!({ "spec": { "release": { "image": image } } });
    let clusters = cluster(&client, ("no-payload", "reef"), patch).await?;
    let wrong = ("ValidReleaseImage", "False", "InvalidImage");
    let message = wait_for_condition(&clusters, "reef", wrong).await?;
    assert!(message.contains(&image) && message.contains("is no release"), "{message}");
    Ok(())
}

#[tokio::test]
async fn another_platform_is_refused_with_a_reason() -> anyhow::Result<()> {
    let world = World::shared().await?;
    let client = world.client().await?;
    world.namespace("clouds").await?;
    pull_secret(&client, "clouds").await?;
    let patch = json!({ "spec": { "platform": { "type": "AWS", "kubevirt": null } } });
    let clusters = cluster(&client, ("clouds", "reef"), patch).await?;
    let refused = ("SupportedHostedCluster", "False", "UnsupportedHostedCluster");
    let message = wait_for_condition(&clusters, "reef", refused).await?;
    assert!(message.contains("spec.platform.type"), "{message}");
    wait_for_condition(&clusters, "reef", ("Progressing", "False", "Blocked")).await?;
    Ok(())
}

/// `a-b` + `c` and `a` + `b-c` ask for one namespace: the second must not get into the first's.
#[tokio::test]
async fn two_clusters_never_share_a_namespace() -> anyhow::Result<()> {
    let world = World::shared().await?;
    let client = world.client().await?;
    for namespace in ["north", "north-sea"] {
        world.namespace(namespace).await?;
        pull_secret(&client, namespace).await?;
    }
    cluster(&client, ("north-sea", "reef"), json!({})).await?;
    let first = workload(&client, "north-sea-reef", ("StatefulSet", "etcd")).await?;
    let clusters = cluster(&client, ("north", "sea-reef"), json!({})).await?;
    let refused = ("ValidConfiguration", "False", "InvalidConfiguration");
    let message = wait_for_condition(&clusters, "sea-reef", refused).await?;
    assert!(message.contains("north-sea-reef"), "{message}");
    clusters.delete("sea-reef", &DeleteParams::default()).await?;
    wait_until_gone(&clusters, "sea-reef").await?;
    let still = workload(&client, "north-sea-reef", ("StatefulSet", "etcd")).await?;
    assert_eq!(still.uid(), first.uid());
    Ok(())
}

#[tokio::test]
async fn a_name_that_makes_no_namespace_is_refused() -> anyhow::Result<()> {
    let world = World::shared().await?;
    let client = world.client().await?;
    world.namespace("long").await?;
    pull_secret(&client, "long").await?;
    let name = "n".repeat(60);
    let clusters = cluster(&client, ("long", &name), json!({})).await?;
    let refused = ("ValidConfiguration", "False", "InvalidConfiguration");
    let message = wait_for_condition(&clusters, &name, refused).await?;
    assert!(message.contains("63"), "{message}");
    Ok(())
}

#[tokio::test]
async fn a_paused_cluster_makes_nothing_and_can_still_be_deleted() -> anyhow::Result<()> {
    let world = World::shared().await?;
    let client = world.client().await?;
    world.namespace("asleep").await?;
    pull_secret(&client, "asleep").await?;
    let patch = json!({ "spec": { "pausedUntil": "true" } });
    let clusters = cluster(&client, ("asleep", "reef"), patch).await?;
    let paused = ("ReconciliationActive", "False", "ReconciliationPaused");
    wait_for_condition(&clusters, "reef", paused).await?;
    let namespaces = api(&client, "v1", "Namespace", "");
    assert!(namespaces.get_opt("asleep-reef").await?.is_none());
    clusters.delete("reef", &DeleteParams::default()).await?;
    wait_until_gone(&clusters, "reef").await
}

#[tokio::test]
async fn a_cluster_that_is_deleted_half_made_leaves_nothing() -> anyhow::Result<()> {
    let world = World::shared().await?;
    let client = world.client().await?;
    world.namespace("hasty").await?;
    pull_secret(&client, "hasty").await?;
    let clusters = cluster(&client, ("hasty", "reef"), json!({})).await?;
    let namespaces = api(&client, "v1", "Namespace", "");
    eventually("the namespace", DEADLINE, async || {
        namespaces.get("hasty-reef").await?;
        Ok(())
    })
    .await?;
    clusters.delete("reef", &DeleteParams::default()).await?;
    wait_until_gone(&clusters, "reef").await?;
    assert!(namespaces.get_opt("hasty-reef").await?.is_none());
    wait_until_gone(&api(&client, "v1", "Secret", "hasty"), "reef-admin-kubeconfig").await
}
