//! What is known about a NodePool.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::OsImageStream;
use crate::hosted_cluster::KubevirtPlatformCredentials;
use crate::schema::rule;

/// What is known about a NodePool.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct NodePoolStatus {
    /// Nodes that exist.
    #[serde(default)]
    pub replicas: i32,
    /// Version that all nodes run.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 64))]
    pub version: Option<String>,
    /// Versions that nodes run, and how many of them.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub nodes_info: Option<NodesInfo>,
    /// What the platform reports.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub platform: Option<NodePoolPlatformStatus>,
    /// Operating system of the nodes (OpenShift only).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub os_image_stream: Option<OsImageStream>,
    /// Verdicts; see [`crate::conditions::NodePoolConditionType`].
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 100))]
    pub conditions: Vec<NodePoolCondition>,
}

/// A verdict about a NodePool. Not `metav1.Condition`: the reason is free text.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct NodePoolCondition {
    /// What the verdict is about.
    #[serde(rename = "type")]
    #[schemars(length(max = 316))]
    pub type_: String,
    /// `True`, `False` or `Unknown`.
    pub status: String,
    /// How bad it is.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    #[schemars(length(max = 1024))]
    pub severity: String,
    /// When the status last changed.
    pub last_transition_time: Time,
    /// Why, in one word.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    #[schemars(length(max = 1024))]
    pub reason: String,
    /// Why, in a sentence.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    #[schemars(length(max = 32768))]
    pub message: String,
    /// Generation of the spec that this is about.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0))]
    pub observed_generation: Option<i64>,
}

/// Versions that nodes run.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct NodesInfo {
    /// One entry per version.
    #[schemars(length(min = 1, max = 100), extend("x-kubernetes-list-type" = "atomic"))]
    pub node_versions: Vec<NodeVersion>,
}

/// A version and how many nodes run it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct NodeVersion {
    /// Version of the release.
    #[schemars(length(min = 1, max = 64))]
    #[schemars(extend("x-kubernetes-validations" = [rule(
        r"self.matches('^\\d+\\.\\d+\\.\\d+.*$')",
        "ocpVersion must start with semantic version prefix x.y.z",
    )]))]
    pub ocp_version: String,
    /// Version of the kubelet.
    #[schemars(length(min = 1, max = 64))]
    #[schemars(extend("x-kubernetes-validations" = [rule(
        r"self.matches('^v?\\d+\\.\\d+\\.\\d+.*$')",
        "kubeletVersion must start with semantic version prefix x.y.z (optional leading 'v')",
    )]))]
    pub kubelet_version: String,
    /// Nodes that are ready.
    #[schemars(range(min = 0))]
    pub ready_node_count: i32,
    /// Nodes that are not.
    #[schemars(range(min = 0))]
    pub unready_node_count: i32,
}

/// What the platform reports.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct NodePoolPlatformStatus {
    /// KubeVirt's report.
    #[serde(rename = "kubeVirt", skip_serializing_if = "Option::is_none")]
    pub kube_virt: Option<KubeVirtNodePoolStatus>,
}

/// KubeVirt's report about a pool.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct KubeVirtNodePoolStatus {
    /// Volume with the downloaded disk image.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 255))]
    pub cache_name: Option<String>,
    /// The cluster in which the VMs run.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub credentials: Option<KubevirtPlatformCredentials>,
}
