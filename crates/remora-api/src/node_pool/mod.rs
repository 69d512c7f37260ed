//! NodePool: alike nodes of a HostedCluster.

mod management;
mod platform;
mod status;

use std::collections::BTreeMap;

use kube::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

pub use management::*;
pub use platform::*;
pub use status::*;

use crate::hosted_cluster::{LocalObjectReference, Release};
use crate::schema::{DNS_LABEL, PAUSED_UNTIL, PAUSED_UNTIL_MESSAGE, immutable, rule};
use crate::word::words;

words! {
    /// Architectures of nodes.
    pub enum Architecture {
        /// 64-bit ARM.
        Arm64 => "arm64",
        /// 64-bit x86.
        Amd64 => "amd64",
        /// 64-bit Power, little endian.
        Ppc64le => "ppc64le",
        /// IBM Z.
        S390x => "s390x",
    }
}

words! {
    /// What a taint does to pods that do not tolerate it.
    pub enum TaintEffect {
        /// They are not scheduled there.
        NoSchedule => "NoSchedule",
        /// They are scheduled there only when nothing else is left.
        PreferNoSchedule => "PreferNoSchedule",
        /// They are not scheduled there, and those that run are evicted.
        NoExecute => "NoExecute",
    }
}

words! {
    /// Operating system streams of OpenShift's nodes.
    pub enum OsImageStreamName {
        /// RHEL 9.
        Rhel9 => "rhel-9",
        /// RHEL 10.
        Rhel10 => "rhel-10",
    }
}

/// What a NodePool should be.
#[derive(CustomResource, Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[kube(
    group = "hypershift.openshift.io",
    version = "v1beta1",
    kind = "NodePool",
    plural = "nodepools",
    shortname = "np",
    shortname = "nps",
    category = "remora",
    namespaced,
    status = "NodePoolStatus",
    derive = "PartialEq",
    doc = "NodePool is a set of alike nodes of a HostedCluster.",
    scale(spec_replicas_path = ".spec.replicas", status_replicas_path = ".status.replicas"),
    printcolumn(
        name = "Cluster",
        type_ = "string",
        json_path = ".spec.clusterName",
        description = "Cluster"
    ),
    printcolumn(
        name = "Desired Nodes",
        type_ = "integer",
        json_path = ".spec.replicas",
        description = "Desired Nodes"
    ),
    printcolumn(
        name = "Current Nodes",
        type_ = "integer",
        json_path = ".status.replicas",
        description = "Available Nodes"
    ),
    printcolumn(
        name = "Autoscaling",
        type_ = "string",
        json_path = r#".status.conditions[?(@.type=="AutoscalingEnabled")].status"#,
        description = "Autoscaling Enabled"
    ),
    printcolumn(
        name = "Autorepair",
        type_ = "string",
        json_path = r#".status.conditions[?(@.type=="AutorepairEnabled")].status"#,
        description = "Node Autorepair Enabled"
    ),
    printcolumn(
        name = "Version",
        type_ = "string",
        json_path = ".status.version",
        description = "Current version"
    ),
    printcolumn(
        name = "UpdatingVersion",
        type_ = "string",
        json_path = r#".status.conditions[?(@.type=="UpdatingVersion")].status"#,
        description = "UpdatingVersion in progress"
    ),
    printcolumn(
        name = "UpdatingConfig",
        type_ = "string",
        json_path = r#".status.conditions[?(@.type=="UpdatingConfig")].status"#,
        description = "UpdatingConfig in progress"
    ),
    printcolumn(
        name = "Message",
        type_ = "string",
        json_path = r#".status.conditions[?(@.type=="Ready")].message"#,
        description = "Message"
    )
)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("x-kubernetes-validations" = [
    rule("!has(oldSelf.arch) || has(self.arch)", "Arch is required once set"),
    rule(
        "self.arch != 'arm64' || self.platform.type in ['AWS', 'Azure', 'Agent', 'None']",
        "Setting Arch to arm64 is only supported for AWS, Azure, Agent, GCP and None",
    ),
    rule(
        "!has(self.replicas) || !has(self.autoScaling)",
        "Both replicas or autoScaling should not be set",
    ),
    rule(
        "self.arch != 's390x' || has(self.platform.kubevirt)",
        "s390x is only supported on KubeVirt platform",
    ),
    rule(
        "!has(self.autoScaling) || self.autoScaling.min > 0 || self.platform.type == 'AWS' || self.platform.type == 'Azure'",
        "Scale-from-zero (autoScaling.min=0) is currently only supported for AWS and Azure platforms",
    ),
]))]
pub struct NodePoolSpec {
    /// HostedCluster in the same namespace whose nodes these are; cannot be changed.
    #[schemars(length(min = 1, max = 253))]
    #[schemars(extend("x-kubernetes-validations" = [
        immutable("ClusterName"),
        rule(
            DNS_LABEL,
            "clusterName must consist of lowercase alphanumeric characters or '-', start and end with an alphanumeric character, and be between 1 and 253 characters",
        ),
    ]))]
    pub cluster_name: String,
    /// The release that the nodes should run.
    pub release: Release,
    /// Where the nodes run.
    pub platform: NodePoolPlatform,
    /// Number of nodes; 0 when neither it nor `autoScaling` is set.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub replicas: Option<i32>,
    /// How nodes are replaced and repaired.
    pub management: NodePoolManagement,
    /// Bounds of the number of nodes, which the load then decides.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub auto_scaling: Option<NodePoolAutoScaling>,
    /// ConfigMaps with configuration of the nodes, key `config`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 10))]
    pub config: Vec<LocalObjectReference>,
    /// ConfigMaps with tuning of the nodes, key `tuning` (OpenShift only).
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 10))]
    pub tuning_config: Vec<LocalObjectReference>,
    /// Longest time to drain a node (a Go duration); no limit when unset or zero.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub node_drain_timeout: Option<String>,
    /// Longest time for volumes to detach (a Go duration); no limit when unset or zero.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub node_volume_detach_timeout: Option<String>,
    /// Labels of the Nodes.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub node_labels: BTreeMap<String, String>,
    /// Taints of the Nodes.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 50))]
    pub taints: Vec<Taint>,
    /// Stops the reconciliation: a time (RFC 3339) or `true`.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 35))]
    #[schemars(extend("x-kubernetes-validations" = [rule(PAUSED_UNTIL, PAUSED_UNTIL_MESSAGE)]))]
    pub paused_until: Option<String>,
    /// Architecture of the nodes; cannot be changed.
    #[serde(default = "default_architecture")]
    #[schemars(extend("x-kubernetes-validations" = [immutable("Arch")]))]
    pub arch: Architecture,
    /// Operating system of the nodes (OpenShift only).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub os_image_stream: Option<OsImageStream>,
}

/// Bounds of a pool's size.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[schemars(extend("x-kubernetes-validations" = [rule(
    "self.max >= self.min",
    "max must be equal or greater than min",
)]))]
pub struct NodePoolAutoScaling {
    /// Fewest nodes.
    #[schemars(range(min = 0))]
    pub min: i32,
    /// Most nodes.
    #[schemars(range(min = 1))]
    pub max: i32,
}

/// A taint of the pool's Nodes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Taint {
    /// Key, with or without a domain before it.
    #[schemars(length(min = 1, max = 253))]
    #[schemars(extend("x-kubernetes-validations" = [rule(
        r"self.matches('^([a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*\\/)?[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?$')",
        "key must be a qualified name with an optional subdomain prefix e.g. example.com/MyName",
    )]))]
    pub key: String,
    /// Value.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    #[schemars(length(max = 253))]
    #[schemars(extend("x-kubernetes-validations" = [rule(
        r"self.matches('^(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?$')",
        "Value must start and end with alphanumeric characters and can only contain '-', '_', '.' in the middle",
    )]))]
    pub value: String,
    /// What it does to pods that do not tolerate it.
    pub effect: TaintEffect,
}

/// Operating system of the nodes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct OsImageStream {
    /// Name of the stream.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub name: Option<OsImageStreamName>,
}

fn default_architecture() -> Architecture {
    Architecture::Amd64
}
