//! Bounds and manners of the cluster autoscaler.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::schema::rule;
use crate::word::words;

words! {
    /// Directions in which the autoscaler works.
    pub enum ScalingType {
        /// It only adds nodes.
        ScaleUpOnly => "ScaleUpOnly",
        /// It adds and removes nodes.
        ScaleUpAndScaleDown => "ScaleUpAndScaleDown",
    }
}

words! {
    /// How the autoscaler chooses a pool to grow.
    pub enum Expander {
        /// The one that leaves the least unused.
        LeastWaste => "LeastWaste",
        /// The one of the highest priority.
        Priority => "Priority",
        /// Any.
        Random => "Random",
    }
}

/// Bounds and manners of the cluster autoscaler.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("x-kubernetes-validations" = [rule(
    "self.scaling == 'ScaleUpAndScaleDown' ? true : !has(self.scaleDown)",
    "scaleDown can only be set when scaling is ScaleUpAndScaleDown",
)]))]
pub struct ClusterAutoscaling {
    /// Directions in which it works.
    #[serde(default = "default_scaling")]
    pub scaling: ScalingType,
    /// When nodes are removed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub scale_down: Option<ScaleDownConfig>,
    /// Most nodes of all pools together.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0))]
    pub max_nodes_total: Option<i32>,
    /// Longest grace period of a pod's eviction, in seconds.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0))]
    pub max_pod_grace_period: Option<i32>,
    /// Longest time for a machine to become a node.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 100), regex(pattern = r"^([0-9]+(\.[0-9]+)?(ns|us|µs|ms|s|m|h))+$"))]
    pub max_node_provision_time: Option<String>,
    /// Pods of a lower priority neither add nor keep nodes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pod_priority_threshold: Option<i32>,
    /// How a pool is chosen, the first that decides.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(min = 1, max = 3))]
    pub expanders: Vec<Expander>,
    /// Labels that do not make pools different.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 64), inner(length(max = 317)))]
    #[schemars(extend("x-kubernetes-validations" = [rule(
        r"self.all(l, l.matches('^([a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*/)?[a-zA-Z0-9]([a-zA-Z0-9_.-]{0,61}[a-zA-Z0-9])?$'))",
        "Each balancingIgnoredLabels item must be a valid label key",
    )]))]
    pub balancing_ignored_labels: Vec<String>,
    /// How much free resources of pools may differ that count as alike.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0, max = 100))]
    pub max_free_difference_ratio_percent: Option<i32>,
}

/// When nodes are removed.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ScaleDownConfig {
    /// Time after a node was added.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0, max = 86400))]
    pub delay_after_add_seconds: Option<i32>,
    /// Time after a node was removed.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0, max = 86400))]
    pub delay_after_delete_seconds: Option<i32>,
    /// Time after a removal failed.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0, max = 86400))]
    pub delay_after_failure_seconds: Option<i32>,
    /// How long a node must have been unneeded.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0, max = 86400))]
    pub unneeded_duration_seconds: Option<i32>,
    /// Utilization below which a node is unneeded.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0, max = 100))]
    pub utilization_threshold_percent: Option<i32>,
}

fn default_scaling() -> ScalingType {
    ScalingType::ScaleUpAndScaleDown
}
