//! Configuration of OpenShift's operators: accepted, and said to have no effect.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::schema::{any_object, immutable, rule};
use crate::word::words;

/// Configuration of OpenShift's operators.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct OperatorConfiguration {
    /// The cluster version operator.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "any_object")]
    pub cluster_version_operator: Option<Value>,
    /// The cluster network operator.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cluster_network_operator: Option<ClusterNetworkOperatorSpec>,
    /// The ingress operator.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "any_object")]
    pub ingress_operator: Option<Value>,
}

/// Configuration of the cluster network operator.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("x-kubernetes-validations" = [rule(
    "!has(oldSelf.ovnKubernetesConfig) || has(self.ovnKubernetesConfig)",
    "ovnKubernetesConfig is immutable once set and cannot be removed",
)]))]
pub struct ClusterNetworkOperatorSpec {
    /// Whether pods have one network only.
    #[serde(default)]
    #[schemars(extend("x-kubernetes-validations" = [immutable("disableMultiNetwork")]))]
    pub disable_multi_network: bool,
    /// OVN-Kubernetes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "any_object", extend("minProperties" = 1))]
    pub ovn_kubernetes_config: Option<Value>,
}

words! {
    /// Optional parts of an OpenShift cluster.
    pub enum OptionalCapability {
        /// The image registry.
        ImageRegistry => "ImageRegistry",
        /// Samples.
        OpenShiftSamples => "openshift-samples",
        /// Insights.
        Insights => "Insights",
        /// Bare metal.
        Baremetal => "baremetal",
        /// The console.
        Console => "Console",
        /// Node tuning.
        NodeTuning => "NodeTuning",
        /// Ingress.
        Ingress => "Ingress",
    }
}

/// Optional parts of the cluster.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[schemars(extend("x-kubernetes-validations" = [
    rule(
        "self == oldSelf",
        "Capabilities is immutable. Changes might result in unpredictable and disruptive behavior.",
    ),
    rule(
        "has(self.enabled) && has(self.disabled) ? self.enabled.all(e, !(e in self.disabled)) : true",
        "Capabilities can not be both enabled and disabled at once.",
    ),
]))]
pub struct Capabilities {
    /// Parts that are wanted.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 25))]
    #[schemars(extend(
        "x-kubernetes-list-type" = "atomic",
        "x-kubernetes-validations" = [rule(
            "self == oldSelf",
            "Enabled is immutable. Changes might result in unpredictable and disruptive behavior.",
        )],
    ))]
    pub enabled: Vec<OptionalCapability>,
    /// Parts that are not wanted.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 25))]
    #[schemars(extend(
        "x-kubernetes-list-type" = "atomic",
        "x-kubernetes-validations" = [
            rule(
                "self == oldSelf",
                "Disabled is immutable. Changes might result in unpredictable and disruptive behavior.",
            ),
            rule(
                "!self.exists(cap, cap == 'Ingress') || self.exists(cap, cap == 'Console')",
                "Ingress capability can only be disabled if Console capability is also disabled",
            ),
        ],
    ))]
    pub disabled: Vec<OptionalCapability>,
}

words! {
    /// How much is measured.
    pub enum MetricsSet {
        /// What telemetry needs.
        Telemetry => "Telemetry",
        /// What a site reliability engineer needs.
        Sre => "SRE",
        /// Everything.
        All => "All",
    }
}

words! {
    /// Whether metrics go into the hosted cluster.
    pub enum MetricsForwardingMode {
        /// They do.
        Forward => "Forward",
        /// They do not.
        None => "None",
    }
}

/// Metrics of the control plane.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("minProperties" = 1))]
pub struct MonitoringSpec {
    /// How much is measured.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub metrics_set: Option<MetricsSet>,
    /// Metrics that the hosted cluster gets.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub metrics_forwarding: Option<MetricsForwarding>,
}

/// Metrics that the hosted cluster gets.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct MetricsForwarding {
    /// Whether they do.
    pub mode: MetricsForwardingMode,
    /// How much of them.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub metrics_set: Option<MetricsSet>,
}
