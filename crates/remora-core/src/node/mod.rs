//! What a NodePool's nodes carry inside the hosted cluster, and how they are emptied.

mod drain;
mod ownership;

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::{Node, Taint};
use kube::ResourceExt;
use kube::core::DynamicObject;
use remora_api::{labels, names};
use serde_json::json;

use crate::pool::machine;
pub use drain::{DrainStep, PodVerdict, drain_step, pod_verdict};
pub use ownership::{belongs_to, left_behind};

/// Taint that Kubernetes puts on a node whose kubelet is silent.
const UNREACHABLE_TAINT: &str = "node.kubernetes.io/unreachable";

/// What a NodePool wants of its nodes.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct NodeSettings {
    /// The NodePool's namespace.
    pub namespace: String,
    /// The NodePool's name.
    pub node_pool: String,
    /// Labels.
    pub labels: BTreeMap<String, String>,
    /// Taints.
    pub taints: Vec<Taint>,
}

/// The fields of a node that its NodePool owns, for a server-side apply: a label that the pool drops goes from the
/// node too.
pub fn desired_node(name: &str, settings: &NodeSettings) -> DynamicObject {
    let mut node_labels = settings.labels.clone();
    node_labels.insert(labels::NODE_NODE_POOL.to_owned(), settings.node_pool.clone());
    let taints = serde_json::to_string(&settings.taints).expect("taints are plain data");
    let node_pool = format!("{}/{}", settings.namespace, settings.node_pool);
    let annotations =
        BTreeMap::from([(labels::POOL_TAINTS, taints), (labels::NODE_POOL, node_pool)]);
    serde_json::from_value(json!({
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": name, "labels": node_labels, "annotations": annotations},
        "spec": {"providerID": names::provider_id(name)},
    }))
    .expect("the literal is an object")
}

/// Tells whether a node already carries what [`desired_node`] wants.
pub fn carries(node: &Node, desired: &DynamicObject) -> bool {
    let is_subset = |wanted: &BTreeMap<String, String>, found: &BTreeMap<String, String>| {
        wanted.iter().all(|(key, value)| found.get(key) == Some(value))
    };
    let provider_id = node.spec.as_ref().and_then(|spec| spec.provider_id.as_deref());
    is_subset(desired.labels(), node.labels())
        && is_subset(desired.annotations(), node.annotations())
        && provider_id == desired.data.pointer("/spec/providerID").and_then(|id| id.as_str())
}

/// The taints a node has to have, or nothing when it has them.
///
/// A node's list of taints has many writers. The pool adds its own, takes back those that it gave before and no longer
/// wants (the node's annotation tells which), and leaves all others.
pub fn desired_taints(node: &Node, wanted: &[Taint]) -> Option<Vec<Taint>> {
    let given: Vec<Taint> = node
        .annotations()
        .get(labels::POOL_TAINTS)
        .and_then(|text| serde_json::from_str(text).ok())
        .unwrap_or_default();
    let present = node.spec.as_ref().and_then(|spec| spec.taints.clone()).unwrap_or_default();
    let is_same = |one: &Taint, other: &Taint| one.key == other.key && one.effect == other.effect;
    let mut taints: Vec<Taint> = present
        .iter()
        .filter(|taint| {
            let is_given = given.iter().any(|given| is_same(given, taint));
            let is_wanted = wanted.iter().any(|wanted| is_same(wanted, taint));
            !is_given || is_wanted
        })
        .cloned()
        .collect();
    for taint in wanted {
        match taints.iter_mut().find(|present| is_same(present, taint)) {
            Some(present) if present.value == taint.value => {}
            Some(present) => present.value.clone_from(&taint.value),
            None => taints.push(taint.clone()),
        }
    }
    (taints != present).then_some(taints)
}

/// Reads how a node is.
pub fn observed_node(node: Option<&Node>) -> machine::Node {
    let Some(status) = node.and_then(|node| node.status.as_ref()) else {
        return machine::Node::Absent;
    };
    if node.is_some_and(is_unreachable) {
        return machine::Node::Unreachable;
    }
    let ready = status.conditions.iter().flatten().find(|condition| condition.type_ == "Ready");
    match ready {
        Some(condition) if condition.status == "True" => machine::Node::Ready,
        Some(condition) if condition.status == "Unknown" => machine::Node::Unreachable,
        Some(condition) => {
            machine::Node::NotReady { message: condition.message.clone().unwrap_or_default() }
        }
        None => machine::Node::NotReady { message: "the kubelet has not reported yet".to_owned() },
    }
}

/// Reads the version of a node's kubelet.
pub fn kubelet_version(node: &Node) -> Option<String> {
    Some(node.status.as_ref()?.node_info.as_ref()?.kubelet_version.clone())
}

fn is_unreachable(node: &Node) -> bool {
    let taints = node.spec.as_ref().and_then(|spec| spec.taints.as_deref()).unwrap_or_default();
    taints.iter().any(|taint| taint.key == UNREACHABLE_TAINT)
}

#[cfg(test)]
mod tests;
