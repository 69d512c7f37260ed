//! How a node is emptied before its machine goes.
//!
//! ```text
//!  cordon ─► evict every pod that can live elsewhere ─► none left, or time is up ─► machine deleted
//!               ▲            │ a disruption budget refuses, or a pod takes its time
//!               └────────────┘
//! ```

use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::core::v1::Pod;
use kube::ResourceExt;

use crate::pool::machine;

/// Annotation of the mirror object of a static pod, which lives and dies with its node.
const MIRROR_POD: &str = "kubernetes.io/config.mirror";

/// What a drain does with a pod.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PodVerdict {
    /// It is evicted.
    Evict,
    /// It is going already and is waited for.
    Await,
    /// It stays: it belongs to the node, or has ended.
    Leave,
}

/// Decides what a drain does with a pod.
pub fn pod_verdict(pod: &Pod) -> PodVerdict {
    let belongs_to_node = pod.annotations().contains_key(MIRROR_POD)
        || pod
            .owner_references()
            .iter()
            .any(|owner| owner.controller == Some(true) && owner.kind == "DaemonSet");
    let phase = pod.status.as_ref().and_then(|status| status.phase.as_deref());
    if belongs_to_node || matches!(phase, Some("Succeeded" | "Failed")) {
        PodVerdict::Leave
    } else if pod.metadata.deletion_timestamp.is_some() {
        PodVerdict::Await
    } else {
        PodVerdict::Evict
    }
}

/// What comes next for a machine that leaves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DrainStep {
    /// Its pods are moved away.
    Drain,
    /// Its VirtualMachine is deleted.
    Delete,
}

/// Decides whether a machine that leaves is drained (further) or deleted.
///
/// A node that is not there, or whose kubelet is silent, is not drained: nobody would end its pods. A timeout of zero
/// means no limit.
pub fn drain_step(
    node: &machine::Node,
    started: Timestamp,
    timeout: SignedDuration,
    now: Timestamp,
) -> DrainStep {
    let has_limit = timeout > SignedDuration::ZERO;
    match node {
        machine::Node::Absent | machine::Node::Unreachable => DrainStep::Delete,
        machine::Node::Unknown | machine::Node::NotReady { .. } | machine::Node::Ready => {
            if has_limit && now.duration_since(started) >= timeout {
                DrainStep::Delete
            } else {
                DrainStep::Drain
            }
        }
    }
}
