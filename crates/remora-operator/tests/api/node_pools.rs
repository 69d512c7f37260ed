//! NodePools: machines by number, nodes that belong to them, nothing left behind.

use k8s_openapi::api::core::v1::Node;
use k8s_openapi::jiff::{SignedDuration, Timestamp};
use kube::api::{DeleteParams, DynamicObject, ListParams, Patch, PatchParams};
use kube::{Api, ResourceExt};
use remora_api::labels;
use remora_testkit::manifest::{HOSTED_CLUSTER, NODE_POOL};
use remora_testkit::{ApiServer, eventually};
use serde_json::{Value, json};

use crate::cluster::{INFRA_ID, Reef, pull_secret};
use crate::stand_ins::{join, run};
use crate::world::{
    DEADLINE, World, api, apply, apply_patched, condition, hosted, wait_for_condition,
    wait_for_count, wait_until_gone,
};

const HYPERSHIFT: &str = "hypershift.openshift.io/v1beta1";

/// The selector of a pool's machines, user data and instances.
pub(crate) fn of_pool(name: &str) -> String {
    format!("hypershift.openshift.io/nodepool-name={name}")
}

impl Reef {
    pub(crate) async fn pool(&self, name: &str, spec: Value) -> anyhow::Result<Api<DynamicObject>> {
        let base = json!({
            "metadata": { "name": name, "namespace": self.namespace },
            "spec": { "release": { "image": self.release } },
        });
        let patch = remora_testkit::manifest::patched(base, &json!({ "spec": spec }));
        apply_patched(&self.hosting, NODE_POOL, &patch).await?;
        Ok(self.beside(HYPERSHIFT, "NodePool"))
    }

    pub(crate) fn machines(&self) -> Api<DynamicObject> {
        self.inside("kubevirt.io/v1", "VirtualMachine")
    }

    fn nodes(&self) -> Api<Node> {
        Api::all(self.hosted.clone())
    }

    /// Lets all machines of a pool run and join.
    pub(crate) async fn start_all(&self, pool: &str, count: usize) -> anyhow::Result<Vec<String>> {
        let machines = wait_for_count(&self.machines(), &of_pool(pool), count).await?;
        for (number, machine) in machines.iter().enumerate() {
            let address = format!("10.128.9.{}", number + 1);
            run(&self.hosting, machine, &address).await?;
            join(&self.hosted, &machine.name_any(), &address).await?;
        }
        Ok(machines.iter().map(ResourceExt::name_any).collect())
    }
}

#[tokio::test]
async fn a_pool_of_a_missing_cluster_says_so_and_makes_nothing() -> anyhow::Result<()> {
    let world = World::shared().await?;
    let client = world.client().await?;
    world.namespace("lonely").await?;
    let pool = json!({ "metadata": { "namespace": "lonely" }, "spec": { "replicas": 2 } });
    apply_patched(&client, NODE_POOL, &pool).await?;
    let pools = api(&client, HYPERSHIFT, "NodePool", "lonely");
    let message =
        wait_for_condition(&pools, "shallows", ("Ready", "False", "HostedClusterNotFound")).await?;
    assert!(message.contains("lonely/reef") || message.contains("reef"), "{message}");
    // It has nothing to take down, so nothing holds it.
    pools.delete("shallows", &DeleteParams::default()).await?;
    wait_until_gone(&pools, "shallows").await
}

#[tokio::test]
async fn a_pool_waits_for_the_api_server_of_its_cluster() -> anyhow::Result<()> {
    let world = World::shared().await?;
    let release = world.registry.push_release("1.35.4").await?;
    let reef = Reef::without_session("unborn", hosted()?, &release).await?;
    let pools = reef.pool("unborn", json!({ "replicas": 2 })).await?;
    let expected = ("Ready", "False", "HostedClusterNotAvailable");
    wait_for_condition(&pools, "unborn", expected).await?;
    wait_for_condition(&pools, "unborn", ("ValidReleaseImage", "True", "AsExpected")).await?;
    assert!(reef.machines().list(&ListParams::default()).await?.items.is_empty());
    Ok(())
}

#[tokio::test]
async fn a_pool_makes_machines_and_adopts_their_nodes() -> anyhow::Result<()> {
    let reef = Reef::make("grows").await?;
    let spec = json!({
        "replicas": 2,
        "nodeLabels": { "water": "salt" },
        "taints": [{ "key": "depth", "value": "low", "effect": "PreferNoSchedule" }],
    });
    let pools = reef.pool("grows", spec).await?;
    let names = reef.start_all("grows", 2).await?;
    wait_for_condition(&pools, "grows", ("Ready", "True", "AsExpected")).await?;
    wait_for_condition(&pools, "grows", ("AllNodesHealthy", "True", "AsExpected")).await?;

    let pool = pools.get("grows").await?;
    assert_eq!(pool.data.pointer("/status/replicas"), Some(&json!(2)));
    assert_eq!(pool.data.pointer("/status/version"), Some(&json!("1.35.4")));
    assert_eq!(pool.finalizers(), ["hypershift.openshift.io/finalizer"]);
    let owners: Vec<_> =
        pool.owner_references().iter().map(|owner| (&owner.kind, &owner.name)).collect();
    assert_eq!(json!(owners), json!([["HostedCluster", "reef"]]));

    for name in &names {
        assert!(name.starts_with("grows-"), "{name}");
        let machine = reef.machines().get(name).await?;
        let disk = machine.data.pointer("/spec/template/spec/volumes/0/containerDisk");
        let pull_secret = disk.and_then(|disk| disk.get("imagePullSecret"));
        assert_eq!(pull_secret, Some(&json!("pull-secret")));
        for (key, value) in [
            ("cluster.x-k8s.io/cluster-name", INFRA_ID),
            ("cluster.x-k8s.io/role", "worker"),
            ("hypershift.openshift.io/infra-id", INFRA_ID),
            ("hypershift.openshift.io/nodepool-name", "grows"),
            ("kubevirt.io/vm", name),
            ("name", name),
            ("capk.cluster.x-k8s.io/kubevirt-machine-name", name),
            ("capk.cluster.x-k8s.io/kubevirt-machine-namespace", &reef.control_plane()),
        ] {
            let pod_labels = machine.data.pointer("/spec/template/metadata/labels");
            assert_eq!(machine.labels().get(key).map(String::as_str), Some(value), "{key}");
            assert_eq!(pod_labels.and_then(|labels| labels.get(key)), Some(&json!(value)), "{key}");
        }
        eventually("the node's settings", DEADLINE, async || {
            let node = reef.nodes().get(name).await?;
            let spec = node.spec.clone().unwrap_or_default();
            anyhow::ensure!(
                spec.provider_id == Some(format!("kubevirt://{name}")),
                "providerID {:?}",
                spec.provider_id
            );
            anyhow::ensure!(node.labels().get("water").map(String::as_str) == Some("salt"));
            let key = "hypershift.openshift.io/nodePool";
            anyhow::ensure!(node.labels().get(key).map(String::as_str) == Some("grows"));
            let taints = spec.taints.unwrap_or_default();
            anyhow::ensure!(taints.iter().any(|taint| taint.key == "depth"), "{taints:?}");
            Ok(())
        })
        .await?;
    }
    Ok(())
}

#[tokio::test]
async fn a_machine_starts_with_a_token_that_its_cluster_knows() -> anyhow::Result<()> {
    let reef = Reef::make("token").await?;
    reef.pool("token", json!({ "replicas": 1 })).await?;
    let machines = wait_for_count(&reef.machines(), &of_pool("token"), 1).await?;
    let user_data = wait_for_count(&reef.inside("v1", "Secret"), &of_pool("token"), 1).await?;
    let secret = user_data.first().ok_or_else(|| anyhow::anyhow!("no user data"))?;
    assert!(secret.name_any().starts_with("user-data-token-"), "{}", secret.name_any());
    let volumes =
        machines.iter().find_map(|machine| machine.data.pointer("/spec/template/spec/volumes"));
    assert!(json!(volumes).to_string().contains(&secret.name_any()), "{volumes:?}");

    let content: k8s_openapi::ByteString =
        serde_json::from_value(secret.data.pointer("/data/userdata").cloned().unwrap_or_default())?;
    let content = String::from_utf8(content.0)?;
    assert!(content.starts_with("#cloud-config"), "{content}");
    assert!(content.contains("https://192.0.2.101:30443"), "the published address is missing");
    let tokens = api(&reef.hosted, "v1", "Secret", "kube-system");
    let selector = "hypershift.openshift.io/nodePool=token";
    let tokens = wait_for_count(&tokens, selector, 1).await?;
    let token: k8s_openapi::ByteString = serde_json::from_value(
        tokens
            .iter()
            .find_map(|token| token.data.pointer("/data/token-secret"))
            .cloned()
            .unwrap_or_default(),
    )?;
    assert!(content.contains(&String::from_utf8(token.0)?), "another token than the cluster's");
    Ok(())
}

/// `tide-low` + `reef` and `tide` + `low-reef` ask for one namespace: pools of the one that is refused, even of the same
/// name, have no say in the other's machines.
#[tokio::test]
async fn a_pool_of_a_refused_cluster_leaves_the_others_machines_alone() -> anyhow::Result<()> {
    let reef = Reef::make("tide-low").await?;
    reef.pool("shared", json!({ "replicas": 1 })).await?;
    let names = reef.start_all("shared", 1).await?;
    let machine = reef.machines().get(&names[0]).await?;

    let world = World::shared().await?;
    world.namespace("tide").await?;
    pull_secret(&reef.hosting, "tide").await?;
    let cluster = json!({ "metadata": { "namespace": "tide", "name": "low-reef" } });
    apply_patched(&reef.hosting, HOSTED_CLUSTER, &cluster).await?;
    let pool = json!({
        "metadata": { "name": "shared", "namespace": "tide" },
        "spec": {
            "clusterName": "low-reef",
            "replicas": 0,
            "nodeLabels": { "water": "foul" },
            "release": { "image": reef.release },
        },
    });
    apply_patched(&reef.hosting, NODE_POOL, &pool).await?;
    let pools = api(&reef.hosting, HYPERSHIFT, "NodePool", "tide");
    let expected = ("Ready", "False", "HostedClusterNotAvailable");
    wait_for_condition(&pools, "shared", expected).await?;
    let clusters = api(&reef.hosting, HYPERSHIFT, "HostedCluster", "tide");
    clusters.delete("low-reef", &DeleteParams::default()).await?;
    wait_until_gone(&pools, "shared").await?;
    wait_until_gone(&clusters, "low-reef").await?;

    let still = reef.machines().get(&names[0]).await?;
    assert_eq!(still.uid(), machine.uid());
    assert!(still.metadata.deletion_timestamp.is_none());
    let node = reef.nodes().get(&names[0]).await?;
    assert!(!node.labels().contains_key("water"));
    Ok(())
}

#[tokio::test]
async fn a_pool_that_shrinks_takes_machine_and_node_away() -> anyhow::Result<()> {
    let reef = Reef::make("shrinks").await?;
    let pools = reef.pool("shrinks", json!({ "replicas": 2 })).await?;
    let names = reef.start_all("shrinks", 2).await?;
    wait_for_condition(&pools, "shrinks", ("Ready", "True", "AsExpected")).await?;
    reef.pool("shrinks", json!({ "replicas": 1 })).await?;
    let left = wait_for_count(&reef.machines(), &of_pool("shrinks"), 1).await?;
    eventually("one node", DEADLINE, async || {
        let mut nodes = Vec::new();
        for name in &names {
            nodes.extend(reef.nodes().get_opt(name).await?.map(|node| node.name_any()));
        }
        let machines: Vec<_> = left.iter().map(ResourceExt::name_any).collect();
        anyhow::ensure!(nodes == machines, "{nodes:?} for {machines:?}");
        Ok(())
    })
    .await?;
    eventually("the status", DEADLINE, async || {
        let pool = pools.get("shrinks").await?;
        anyhow::ensure!(pool.data.pointer("/status/replicas") == Some(&json!(1)), "{}", pool.data);
        Ok(())
    })
    .await
}

#[tokio::test]
async fn a_machine_that_somebody_deletes_is_replaced() -> anyhow::Result<()> {
    let reef = Reef::make("replaced").await?;
    let pools = reef.pool("replaced", json!({ "replicas": 1 })).await?;
    let first = reef.start_all("replaced", 1).await?;
    wait_for_condition(&pools, "replaced", ("Ready", "True", "AsExpected")).await?;
    let name = first.first().cloned().unwrap_or_default();
    reef.machines().delete(&name, &DeleteParams::default()).await?;
    eventually("another machine", DEADLINE, async || {
        let machines = wait_for_count(&reef.machines(), &of_pool("replaced"), 1).await?;
        anyhow::ensure!(machines.iter().all(|machine| machine.name_any() != name));
        anyhow::ensure!(reef.nodes().get_opt(&name).await?.is_none(), "the node is still there");
        Ok(())
    })
    .await
}

#[tokio::test]
async fn a_paused_pool_is_left_alone_until_it_is_resumed() -> anyhow::Result<()> {
    let reef = Reef::make("paused").await?;
    let pools = reef.pool("paused", json!({ "replicas": 1, "pausedUntil": "true" })).await?;
    let expected = ("ReconciliationActive", "False", "ReconciliationPaused");
    wait_for_condition(&pools, "paused", expected).await?;
    assert!(reef.machines().list(&ListParams::default()).await?.items.is_empty());
    reef.pool("paused", json!({ "replicas": 1 })).await?;
    wait_for_count(&reef.machines(), &of_pool("paused"), 1).await?;
    wait_for_condition(&pools, "paused", ("ReconciliationActive", "True", "AsExpected")).await?;
    Ok(())
}

#[tokio::test]
async fn a_pool_of_a_paused_cluster_is_left_alone_and_told_of_until_the_cluster_is_resumed()
-> anyhow::Result<()> {
    let reef = Reef::make("stilled").await?;
    let pools = reef.pool("stilled", json!({ "replicas": 1 })).await?;
    let names = reef.start_all("stilled", 1).await?;
    wait_for_condition(&pools, "stilled", ("Ready", "True", "AsExpected")).await?;
    reef.pause(json!("true")).await?;
    let paused = ("ReconciliationActive", "False", "ReconciliationPaused");
    let message = wait_for_condition(&pools, "stilled", paused).await?;
    assert!(
        message.contains("HostedCluster stilled/reef is paused")
            && message.contains("remove its spec.pausedUntil"),
        "{message}"
    );

    let changed = json!({ "replicas": 2, "nodeLabels": { "water": "foul" } });
    reef.pool("stilled", changed.clone()).await?;
    // The status is written last: when it is about the change, nothing more is done about it.
    wait_for_condition(&pools, "stilled", ("Ready", "False", "ScalingUp")).await?;
    let machines = reef.machines().list(&ListParams::default()).await?;
    let present: Vec<String> = machines.iter().map(ResourceExt::name_any).collect();
    assert_eq!(present, names);
    assert!(!reef.nodes().get(&names[0]).await?.labels().contains_key("water"));

    reef.pause(Value::Null).await?;
    wait_for_count(&reef.machines(), &of_pool("stilled"), 2).await?;
    wait_for_condition(&pools, "stilled", ("ReconciliationActive", "True", "AsExpected")).await?;
    Ok(())
}

#[tokio::test]
async fn a_pool_goes_on_when_the_pause_of_its_cluster_ends_by_itself() -> anyhow::Result<()> {
    let reef = Reef::make("dozes").await?;
    let soon = Timestamp::now() + SignedDuration::from_secs(5);
    reef.pause(json!(soon.to_string())).await?;
    let pools = reef.pool("dozes", json!({ "replicas": 1 })).await?;
    wait_for_count(&reef.machines(), &of_pool("dozes"), 1).await?;
    wait_for_condition(&pools, "dozes", ("ReconciliationActive", "True", "AsExpected")).await?;
    let machines = reef.machines().list(&ListParams::default()).await?;
    let made: Vec<_> = machines.iter().filter_map(ResourceExt::creation_timestamp).collect();
    // The API server keeps whole seconds.
    assert!(made.iter().all(|made| made.0.as_second() >= soon.as_second()), "{made:?}");
    Ok(())
}

#[tokio::test]
async fn a_pool_of_a_paused_cluster_can_be_deleted() -> anyhow::Result<()> {
    let reef = Reef::make("sinks").await?;
    let pools = reef.pool("sinks", json!({ "replicas": 1 })).await?;
    let names = reef.start_all("sinks", 1).await?;
    wait_for_condition(&pools, "sinks", ("Ready", "True", "AsExpected")).await?;
    reef.pause(json!("true")).await?;
    let paused = ("ReconciliationActive", "False", "ReconciliationPaused");
    wait_for_condition(&pools, "sinks", paused).await?;
    pools.delete("sinks", &DeleteParams::default()).await?;
    wait_until_gone(&pools, "sinks").await?;
    wait_for_count(&reef.machines(), &of_pool("sinks"), 0).await?;
    assert!(reef.nodes().get_opt(&names[0]).await?.is_none());
    Ok(())
}

/// A label's value has at most 63 characters, a host name too: no API server could be asked for this pool's machines.
#[tokio::test]
async fn a_name_of_which_no_machine_can_be_named_is_refused_and_the_pool_can_be_deleted()
-> anyhow::Result<()> {
    let reef = Reef::make("long-pool").await?;
    for name in ["p".repeat(58), "p".repeat(64), "p".repeat(253)] {
        let pools = reef.pool(&name, json!({ "replicas": 1 })).await?;
        let refused = ("Ready", "False", "InvalidKubevirtMachineTemplate");
        let message = wait_for_condition(&pools, &name, refused).await?;
        assert!(
            message.contains("metadata.name") && message.contains("at most 57 characters"),
            "{message}"
        );
        let refused = ("ValidMachineTemplate", "False", "InvalidKubevirtMachineTemplate");
        assert_eq!(wait_for_condition(&pools, &name, refused).await?, message);
        assert!(pools.get(&name).await?.finalizers().is_empty());
        // One of an earlier version, or of a backup, has the finalizer.
        let held = Patch::Merge(json!({ "metadata": { "finalizers": [labels::FINALIZER] } }));
        pools.patch(&name, &PatchParams::default(), &held).await?;
        pools.delete(&name, &DeleteParams::default()).await?;
        wait_until_gone(&pools, &name).await?;
    }
    assert!(reef.machines().list(&ListParams::default()).await?.items.is_empty());
    Ok(())
}

#[tokio::test]
async fn a_deleted_pool_leaves_no_machine_no_node_and_no_secret() -> anyhow::Result<()> {
    let reef = Reef::make("leaves").await?;
    let pools = reef.pool("leaves", json!({ "replicas": 2 })).await?;
    let names = reef.start_all("leaves", 2).await?;
    wait_for_condition(&pools, "leaves", ("Ready", "True", "AsExpected")).await?;
    pools.delete("leaves", &DeleteParams::default()).await?;
    wait_until_gone(&pools, "leaves").await?;
    wait_for_count(&reef.machines(), &of_pool("leaves"), 0).await?;
    wait_for_count(&reef.inside("v1", "Secret"), &of_pool("leaves"), 0).await?;
    let tokens = api(&reef.hosted, "v1", "Secret", "kube-system");
    wait_for_count(&tokens, "hypershift.openshift.io/nodePool=leaves", 0).await?;
    for name in names {
        assert!(reef.nodes().get_opt(&name).await?.is_none(), "node {name} is left");
    }
    Ok(())
}

/// A pool that goes while the hosted API server is away cannot take its nodes along.
#[tokio::test]
async fn when_the_api_server_is_back_nodes_whose_pool_and_machine_are_gone_are_deleted()
-> anyhow::Result<()> {
    let server: &'static ApiServer = Box::leak(Box::new(ApiServer::start()?));
    let reef = Reef::with_api_server("ebbs", server).await?;
    let world = World::shared().await?;
    let pools = reef.pool("ebbs", json!({ "replicas": 2 })).await?;
    let names = reef.start_all("ebbs", 2).await?;
    wait_for_condition(&pools, "ebbs", ("Ready", "True", "AsExpected")).await?;
    world.close_session(("ebbs", "reef"));
    // Of the pool, not yet adopted; two that somebody joined by hand; one whose machine is there.
    for (name, provider_id, label) in [
        ("ebbs-bcdfg", Some("kubevirt://ebbs-bcdfg"), None),
        ("ebbs-hjklm", None, Some("ebbs")),
        ("by-hand", Some("metal://by-hand"), None),
        ("ebbs-npqrs", Some("kubevirt://ebbs-npqrs"), Some("ebbs")),
    ] {
        let node = json!({
            "apiVersion": "v1", "kind": "Node",
            "metadata": { "name": name, "labels": { labels::NODE_NODE_POOL: label } },
            "spec": { "providerID": provider_id },
        });
        apply(&reef.hosted, &remora_testkit::manifest::patched(json!({}), &node)).await?;
    }
    let machine = json!({
        "apiVersion": "kubevirt.io/v1", "kind": "VirtualMachine",
        "metadata": { "name": "ebbs-npqrs", "namespace": reef.control_plane() },
        "spec": {},
    });
    apply(&reef.hosting, &machine).await?;
    pools.delete("ebbs", &DeleteParams::default()).await?;
    wait_until_gone(&pools, "ebbs").await?;
    wait_for_count(&reef.machines(), &of_pool("ebbs"), 0).await?;
    for name in &names {
        assert!(reef.nodes().get_opt(name).await?.is_some(), "node {name} was reached");
    }

    world.open_session(("ebbs", "reef"), INFRA_ID, server).await?;
    let nodes = api(&reef.hosted, "v1", "Node", "");
    for name in names.iter().map(String::as_str).chain(["ebbs-bcdfg"]) {
        wait_until_gone(&nodes, name).await?;
    }
    // A machine that is made after the session has begun: whatever it has deleted is deleted by now.
    reef.pool("floods", json!({ "replicas": 1 })).await?;
    wait_for_count(&reef.machines(), &of_pool("floods"), 1).await?;
    for name in ["ebbs-hjklm", "by-hand", "ebbs-npqrs"] {
        assert!(reef.nodes().get_opt(name).await?.is_some(), "node {name} was deleted");
    }
    Ok(())
}

#[tokio::test]
async fn a_release_that_is_none_is_named_with_a_reason() -> anyhow::Result<()> {
    let reef = Reef::make("no-release").await?;
    let world = World::shared().await?;
    let files = [("hello".to_owned(), "world".to_owned())].into();
    let image = world.registry.push("remora/other", "1", &files).await?;
    let absent = format!("{}/remora/release:absent", world.registry.host());
    for (pool, image, reason, fragment) in [
        (
            "other",
            image.as_str(),
            "InvalidImage",
            "is no release: it has no file release-manifests/",
        ),
        ("absent", absent.as_str(), "InvalidImage", "does not exist"),
        // Port 9 (discard) of loopback: nobody listens there.
        (
            "unreachable",
            "127.0.0.1:9/remora/release:1",
            "RegistryUnreachable",
            "cannot reach the registry",
        ),
    ] {
        let pools =
            reef.pool(pool, json!({ "replicas": 1, "release": { "image": image } })).await?;
        let message =
            wait_for_condition(&pools, pool, ("ValidReleaseImage", "False", reason)).await?;
        assert!(message.contains(image) && message.contains(fragment), "{message}");
        let seen = pools.get(pool).await?;
        assert_eq!(condition(&seen, "Ready").map(|(status, ..)| status), Some("False".to_owned()));
        wait_for_count(&reef.machines(), &of_pool(pool), 0).await?;
    }
    Ok(())
}

#[tokio::test]
async fn a_missing_pull_secret_is_named() -> anyhow::Result<()> {
    let reef = Reef::make("no-secret").await?;
    let secrets = reef.beside("v1", "Secret");
    secrets.delete("reef-pull-secret", &DeleteParams::default()).await?;
    let pools = reef.pool("no-secret", json!({ "replicas": 1 })).await?;
    let expected = ("ValidReleaseImage", "False", "SecretNotFound");
    let message = wait_for_condition(&pools, "no-secret", expected).await?;
    assert!(message.contains("no-secret/reef-pull-secret"), "{message}");
    // The pool is looked at again when its cluster or itself changes, or by itself after a while.
    pull_secret(&reef.hosting, reef.namespace).await?;
    wait_for_condition(&pools, "no-secret", ("ValidReleaseImage", "True", "AsExpected")).await?;
    Ok(())
}

#[tokio::test]
async fn management_that_lets_nothing_move_is_refused() -> anyhow::Result<()> {
    let reef = Reef::make("stuck").await?;
    let management =
        json!({ "replace": { "rollingUpdate": { "maxSurge": 0, "maxUnavailable": 0 } } });
    let pools = reef.pool("stuck", json!({ "replicas": 1, "management": management })).await?;
    let expected = ("UpdateManagementEnabled", "False", "ValidationFailed");
    let message = wait_for_condition(&pools, "stuck", expected).await?;
    assert!(message.contains("maxSurge") && message.contains("maxUnavailable"), "{message}");
    wait_for_count(&reef.machines(), &of_pool("stuck"), 0).await?;
    Ok(())
}
