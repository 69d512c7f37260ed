//! Whose a node is: machines of NodePools are told from nodes that somebody joined by hand.

use std::collections::BTreeSet;

use k8s_openapi::api::core::v1::Node;
use kube::ResourceExt;
use remora_api::{labels, names};

use crate::pool::node_pool_of;

/// The NodePool whose machine a node is or was.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Owner<'a> {
    /// Namespace of the pool, once the pool has written it on the node.
    namespace: Option<&'a str>,
    /// Name of the pool.
    name: &'a str,
}

/// Tells whose machine a node is or was, as far as it can be proved.
///
/// The proof is the providerID: machines have it from their first moment, and nobody can change it later. Labels alone
/// prove nothing, since whoever joins a node by hand may give it any.
fn owner(node: &Node) -> Option<Owner<'_>> {
    let node_name = node.metadata.name.as_deref()?;
    let provider_id = node.spec.as_ref()?.provider_id.as_deref()?;
    if provider_id != names::provider_id(node_name) {
        return None;
    }
    let written = node.annotations().get(labels::NODE_POOL);
    if let Some((namespace, name)) = written.and_then(|pool| pool.split_once('/')) {
        return Some(Owner { namespace: Some(namespace), name });
    }
    let label = node.labels().get(labels::NODE_NODE_POOL).map(String::as_str);
    let name = label.or_else(|| node_pool_of(node_name))?;
    Some(Owner { namespace: None, name })
}

/// Tells whether a node is or was a machine of a NodePool.
pub fn belongs_to(node: &Node, namespace: &str, node_pool: &str) -> bool {
    owner(node).is_some_and(|owner| {
        owner.name == node_pool && owner.namespace.is_none_or(|owned| owned == namespace)
    })
}

/// The nodes that NodePools of a namespace have left behind: their machine is gone, and so is the pool that would have
/// taken them away. Nodes of a pool that is there are its own affair.
pub fn left_behind<'a>(
    nodes: impl IntoIterator<Item = &'a Node>,
    namespace: &str,
    node_pools: &BTreeSet<String>,
    machines: &BTreeSet<String>,
) -> Vec<&'a Node> {
    let is_left = |node: &&Node| {
        owner(node).is_some_and(|owner| {
            owner.namespace.is_none_or(|owned| owned == namespace)
                && !node_pools.contains(owner.name)
        }) && !machines.contains(&node.name_any())
    };
    nodes.into_iter().filter(is_left).collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    /// A node with a providerID, a label and an annotation, where there is a text.
    fn node(name: &str, provider_id: &str, label: &str, annotation: &str) -> Node {
        let filled = |key: &str, text: &str| {
            if text.is_empty() { json!({}) } else { json!({ key: text }) }
        };
        serde_json::from_value(json!({
            "metadata": {
                "name": name,
                "labels": filled("hypershift.openshift.io/nodePool", label),
                "annotations": filled("hypershift.openshift.io/nodePool", annotation),
            },
            "spec": filled("providerID", provider_id),
        }))
        .unwrap()
    }

    fn names(words: &[&str]) -> BTreeSet<String> {
        words.iter().map(|word| (*word).to_owned()).collect()
    }

    #[test]
    fn when_a_node_has_not_been_labelled_yet_its_name_tells_the_pool() {
        let joined = node("a-b-x7k2p", "kubevirt://a-b-x7k2p", "", "");
        assert!(belongs_to(&joined, "clusters", "a-b"));
        assert!(!belongs_to(&joined, "clusters", "a"));
        let other = node("a-long-e1e1e", "kubevirt://a-long-e1e1e", "", "");
        assert!(!belongs_to(&other, "clusters", "a-long"));
    }

    #[test]
    fn when_a_node_is_labelled_that_tells_the_pool_and_its_annotation_the_namespace() {
        let labelled = node("a-x7k2p", "kubevirt://a-x7k2p", "b", "");
        assert!(belongs_to(&labelled, "clusters", "b"));
        assert!(!belongs_to(&labelled, "clusters", "a"));
        let annotated = node("a-x7k2p", "kubevirt://a-x7k2p", "a", "clusters/a");
        assert!(belongs_to(&annotated, "clusters", "a"));
        assert!(!belongs_to(&annotated, "other", "a"));
    }

    #[test]
    fn when_a_node_was_joined_by_hand_no_label_and_no_name_makes_it_a_machine() {
        for provider_id in ["", "metal://a-x7k2p", "kubevirt://another"] {
            let by_hand = node("a-x7k2p", provider_id, "a", "clusters/a");
            assert!(!belongs_to(&by_hand, "clusters", "a"), "{provider_id}");
            assert!(left_behind([&by_hand], "clusters", &names(&[]), &names(&[])).is_empty());
        }
    }

    #[test]
    fn when_pools_have_gone_the_nodes_of_their_machines_that_are_gone_too_are_left_behind() {
        let nodes = [
            node("gone-bbbbb", "kubevirt://gone-bbbbb", "gone", "clusters/gone"),
            node("gone-ccccc", "kubevirt://gone-ccccc", "gone", ""),
            node("gone-ddddd", "kubevirt://gone-ddddd", "", ""),
            // Its machine is there.
            node("gone-fffff", "kubevirt://gone-fffff", "gone", "clusters/gone"),
            // Its pool is there.
            node("kept-bbbbb", "kubevirt://kept-bbbbb", "kept", "clusters/kept"),
            node("kept-ccccc", "kubevirt://kept-ccccc", "", ""),
            // A pool of another namespace.
            node("gone-ggggg", "kubevirt://gone-ggggg", "gone", "other/gone"),
            // Joined by hand, one of them on a VirtualMachine that is no pool's.
            node("gone-hhhhh", "", "gone", "clusters/gone"),
            node("bastion", "kubevirt://bastion", "", ""),
        ];
        let left = left_behind(&nodes, "clusters", &names(&["kept"]), &names(&["gone-fffff"]));
        let left: Vec<String> = left.into_iter().map(ResourceExt::name_any).collect();
        assert_eq!(left, ["gone-bbbbb", "gone-ccccc", "gone-ddddd"]);
    }
}
