//! What nodes are given, and when they are drained.

use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::core::v1::Pod;
use serde_json::{Value, json};

use super::*;

fn taint(key: &str, value: &str, effect: &str) -> Taint {
    Taint {
        key: key.to_owned(),
        value: Some(value.to_owned()),
        effect: effect.to_owned(),
        time_added: None,
    }
}

fn settings() -> NodeSettings {
    NodeSettings {
        namespace: "clusters".to_owned(),
        node_pool: "pool-b".to_owned(),
        labels: [("tier".to_owned(), "front".to_owned())].into(),
        taints: vec![taint("dedicated", "db", "NoSchedule")],
    }
}

fn node(value: Value) -> Node {
    serde_json::from_value(value).unwrap()
}

#[test]
fn when_a_node_joins_it_is_given_identity_labels_and_the_memory_of_its_taints() {
    insta::assert_yaml_snapshot!(desired_node("pool-b-x7k2p", &settings()));
}

#[test]
fn when_a_node_carries_everything_it_is_left_alone() {
    let desired = desired_node("pool-b-x7k2p", &settings());
    let mut value = serde_json::to_value(&desired).unwrap();
    value["metadata"]["labels"]["other"] = "x".into();
    assert!(carries(&node(value.clone()), &desired));
    value["metadata"]["labels"]["tier"] = "back".into();
    assert!(!carries(&node(value), &desired));
}

#[test]
fn when_taints_differ_only_the_pools_own_change() {
    let given = serde_json::to_string(&[
        taint("old", "1", "NoSchedule"),
        taint("dedicated", "web", "NoSchedule"),
    ])
    .unwrap();
    let tainted = node(json!({
        "metadata": {"annotations": {labels::POOL_TAINTS: given}},
        "spec": {"taints": [
            {"key": "node.kubernetes.io/not-ready", "effect": "NoSchedule"},
            {"key": "old", "value": "1", "effect": "NoSchedule"},
            {"key": "dedicated", "value": "web", "effect": "NoSchedule"},
        ]},
    }));
    let taints = desired_taints(&tainted, &settings().taints).unwrap();
    let keys: Vec<_> =
        taints.iter().map(|taint| (taint.key.as_str(), taint.value.as_deref())).collect();
    assert_eq!(keys, [("node.kubernetes.io/not-ready", None), ("dedicated", Some("db"))]);
}

#[test]
fn when_a_node_has_its_taints_nothing_is_written() {
    let tainted = node(json!({
        "spec": {"taints": [{"key": "dedicated", "value": "db", "effect": "NoSchedule"}]},
    }));
    assert_eq!(desired_taints(&tainted, &settings().taints), None);
}

#[test]
fn when_a_kubelet_is_silent_its_node_is_unreachable() {
    let silent = node(json!({
        "status": {"conditions": [{"type": "Ready", "status": "Unknown"}]},
    }));
    assert_eq!(observed_node(Some(&silent)), machine::Node::Unreachable);
    let tainted = node(json!({
        "spec": {"taints": [{"key": "node.kubernetes.io/unreachable", "effect": "NoExecute"}]},
        "status": {"conditions": [{"type": "Ready", "status": "True"}]},
    }));
    assert_eq!(observed_node(Some(&tainted)), machine::Node::Unreachable);
    assert_eq!(observed_node(None), machine::Node::Absent);
}

#[test]
fn when_a_node_is_drained_its_own_pods_and_ended_ones_stay() {
    let pod = |value: Value| -> Pod { serde_json::from_value(value).unwrap() };
    let owner = |kind: &str| json!([{"apiVersion": "apps/v1", "kind": kind, "name": "x", "uid": "u", "controller": true}]);
    let cases = [
        (json!({"metadata": {"ownerReferences": owner("DaemonSet")}}), PodVerdict::Leave),
        (json!({"metadata": {"ownerReferences": owner("ReplicaSet")}}), PodVerdict::Evict),
        (json!({"metadata": {"annotations": {MIRROR: "x"}}}), PodVerdict::Leave),
        (json!({"metadata": {}, "status": {"phase": "Succeeded"}}), PodVerdict::Leave),
        (json!({"metadata": {"deletionTimestamp": "2026-11-30T10:00:00Z"}}), PodVerdict::Await),
        (json!({"metadata": {}}), PodVerdict::Evict),
    ];
    for (value, verdict) in cases {
        assert_eq!(pod_verdict(&pod(value.clone())), verdict, "{value}");
    }
}

const MIRROR: &str = "kubernetes.io/config.mirror";

#[test]
fn when_a_drain_has_a_limit_the_machine_goes_once_it_is_over() {
    let ready = machine::Node::Ready;
    let start = Timestamp::UNIX_EPOCH;
    let after = |seconds| start + SignedDuration::from_secs(seconds);
    let limit = SignedDuration::from_secs(30);
    assert_eq!(drain_step(&ready, start, limit, after(29)), DrainStep::Drain);
    assert_eq!(drain_step(&ready, start, limit, after(30)), DrainStep::Delete);
    assert_eq!(drain_step(&ready, start, SignedDuration::ZERO, after(9999)), DrainStep::Drain);
    assert_eq!(drain_step(&machine::Node::Absent, start, limit, after(0)), DrainStep::Delete);
    assert_eq!(drain_step(&machine::Node::Unreachable, start, limit, start), DrainStep::Delete);
}
