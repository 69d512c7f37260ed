//! ExposurePolicy: which Services of a hosted cluster are exposed without one object each, and what hosted users may ask for.
//!
//! Whoever administers the hosting cluster writes it, beside the HostedCluster. Every Service that it means gets a
//! [`crate::ServiceExposure`] of its own, so that there is one way to be exposed and one place to look.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, LabelSelector};
use kube::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::schema::{DNS_LABEL, conditions, immutable, label_selector, rule};
use crate::service_exposure::{ExposureVia, PortRange};

/// What is exposed, and what may be.
#[derive(CustomResource, Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[kube(
    group = "remora.dev",
    version = "v1alpha1",
    kind = "ExposurePolicy",
    plural = "exposurepolicies",
    shortname = "svxp",
    category = "remora",
    namespaced,
    status = "ExposurePolicyStatus",
    derive = "PartialEq",
    doc = "ExposurePolicy says which Services of a hosted cluster are exposed, and which its users may expose themselves.",
    printcolumn(
        name = "Cluster",
        type_ = "string",
        json_path = ".spec.clusterName",
        description = "HostedCluster"
    ),
    printcolumn(
        name = "Accepted",
        type_ = "string",
        json_path = r#".status.conditions[?(@.type=="Accepted")].status"#,
        description = "Whether it is in force"
    ),
    printcolumn(
        name = "Exposures",
        type_ = "integer",
        json_path = ".status.exposures",
        description = "Services exposed by it"
    ),
    printcolumn(
        name = "Message",
        type_ = "string",
        json_path = r#".status.conditions[?(@.type=="Accepted")].message"#,
        description = "Message",
        priority = 1
    ),
    printcolumn(
        name = "Age",
        type_ = "date",
        json_path = ".metadata.creationTimestamp",
        description = "Age"
    )
)]
#[serde(rename_all = "camelCase")]
pub struct ExposurePolicySpec {
    /// HostedCluster in the same namespace; cannot be changed.
    #[schemars(length(min = 1, max = 253))]
    #[schemars(extend("x-kubernetes-validations" = [
        immutable("clusterName"),
        rule(DNS_LABEL, "clusterName must consist of lowercase alphanumeric characters or '-', and start and end with an alphanumeric character"),
    ]))]
    pub cluster_name: String,
    /// Services that are exposed without being asked for; the first entry that means a Service counts.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 50))]
    #[schemars(extend("x-kubernetes-list-type" = "atomic"))]
    pub expose: Vec<ExposureRule>,
    /// What users of the hosted cluster may ask for by annotating a Service with `remora.dev/expose`; nothing when empty.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 50))]
    #[schemars(extend("x-kubernetes-list-type" = "atomic"))]
    pub allow: Vec<ExposureAllowance>,
}

/// Services that are exposed without being asked for: all that have node ports, less what a field leaves out.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ExposureRule {
    /// Namespaces of the hosted cluster; all when empty.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 100), inner(length(min = 1, max = 63)))]
    #[schemars(extend("x-kubernetes-list-type" = "set"))]
    pub namespaces: Vec<String>,
    /// Names of Services; all when empty.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 100), inner(length(min = 1, max = 63)))]
    #[schemars(extend("x-kubernetes-list-type" = "set"))]
    pub names: Vec<String>,
    /// Labels of the Services; any when unset.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "label_selector")]
    pub selector: Option<LabelSelector>,
    /// How they are reached.
    #[serde(default = "node_port")]
    pub via: ExposureVia,
    /// NodePools whose nodes take the traffic; all when empty.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 20), inner(length(min = 1, max = 253)))]
    #[schemars(extend("x-kubernetes-list-type" = "set"))]
    pub node_pools: Vec<String>,
    /// Node ports of the hosting cluster that they may take; any when unset.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub node_port_range: Option<PortRange>,
}

/// What users of the hosted cluster may ask for.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ExposureAllowance {
    /// Namespaces of the hosted cluster whose Services may be exposed; all when empty.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 100), inner(length(min = 1, max = 63)))]
    #[schemars(extend("x-kubernetes-list-type" = "set"))]
    pub namespaces: Vec<String>,
    /// Ways that may be asked for.
    #[serde(default = "ways")]
    #[schemars(length(min = 1, max = 4))]
    #[schemars(extend("x-kubernetes-list-type" = "set"))]
    pub via: Vec<ExposureVia>,
    /// NodePools whose nodes take the traffic; all when empty.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 20), inner(length(min = 1, max = 253)))]
    #[schemars(extend("x-kubernetes-list-type" = "set"))]
    pub node_pools: Vec<String>,
    /// Node ports of the hosting cluster that may be taken; any when unset.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub node_port_range: Option<PortRange>,
}

/// What came of a policy.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ExposurePolicyStatus {
    /// Generation of the spec that this is about.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,
    /// How many Services are exposed by this policy.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub exposures: Option<i32>,
    /// Verdicts: `Accepted`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(schema_with = "conditions")]
    pub conditions: Vec<Condition>,
}

fn node_port() -> ExposureVia {
    ExposureVia::NodePort
}

fn ways() -> Vec<ExposureVia> {
    vec![node_port()]
}
