//! ServiceExposure: a Service of a hosted cluster, reachable on the hosting cluster's hosts.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;
use kube::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::schema::{DNS_LABEL, conditions, immutable, int_or_string, rule};
use crate::word::words;

words! {
    /// Ways to make a hosted Service reachable.
    pub enum ExposureVia {
        /// A port of every host of the hosting cluster.
        NodePort => "NodePort",
    }
}

words! {
    /// Transport protocols.
    pub enum Protocol {
        /// TCP.
        Tcp => "TCP",
        /// UDP.
        Udp => "UDP",
        /// SCTP.
        Sctp => "SCTP",
    }
}

/// What should be reachable, and how.
#[derive(CustomResource, Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[kube(
    group = "remora.dev",
    version = "v1alpha1",
    kind = "ServiceExposure",
    plural = "serviceexposures",
    shortname = "svx",
    category = "remora",
    namespaced,
    status = "ServiceExposureStatus",
    derive = "PartialEq",
    doc = "ServiceExposure makes a Service of a hosted cluster reachable on the hosts of the hosting cluster.",
    printcolumn(
        name = "Cluster",
        type_ = "string",
        json_path = ".spec.clusterName",
        description = "HostedCluster"
    ),
    printcolumn(
        name = "Namespace",
        type_ = "string",
        json_path = ".spec.service.namespace",
        description = "Namespace of the hosted Service"
    ),
    printcolumn(
        name = "Service",
        type_ = "string",
        json_path = ".spec.service.name",
        description = "Hosted Service"
    ),
    printcolumn(
        name = "Via",
        type_ = "string",
        json_path = ".spec.via",
        description = "How it is reached"
    ),
    printcolumn(
        name = "Reachable",
        type_ = "string",
        json_path = r#".status.conditions[?(@.type=="Reachable")].status"#,
        description = "Whether connections come through"
    ),
    printcolumn(
        name = "Endpoint",
        type_ = "string",
        json_path = ".status.endpoints[0].address",
        description = "First address"
    ),
    printcolumn(
        name = "Ports",
        type_ = "string",
        json_path = ".status.nodePorts",
        description = "Ports on the hosts"
    ),
    printcolumn(
        name = "Message",
        type_ = "string",
        json_path = r#".status.conditions[?(@.type=="Reachable")].message"#,
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
#[schemars(extend("x-kubernetes-validations" = [rule(
    "!has(self.nodePortRange) || !has(self.ports) || self.ports.all(p, !has(p.nodePort) || (p.nodePort >= self.nodePortRange.first && p.nodePort <= self.nodePortRange.last))",
    "each nodePort must lie in nodePortRange",
)]))]
#[serde(rename_all = "camelCase")]
pub struct ServiceExposureSpec {
    /// HostedCluster in the same namespace; cannot be changed.
    #[schemars(length(min = 1, max = 253))]
    #[schemars(extend("x-kubernetes-validations" = [
        immutable("clusterName"),
        rule(DNS_LABEL, "clusterName must consist of lowercase alphanumeric characters or '-', and start and end with an alphanumeric character"),
    ]))]
    pub cluster_name: String,
    /// The Service of the hosted cluster.
    pub service: ServiceReference,
    /// How it is reached.
    #[serde(default = "node_port")]
    pub via: ExposureVia,
    /// NodePools whose nodes take the traffic; all when empty.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 20), inner(length(min = 1, max = 253)))]
    #[schemars(extend("x-kubernetes-list-type" = "set"))]
    pub node_pools: Vec<String>,
    /// Node ports of the hosting cluster that may be taken; any when unset.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub node_port_range: Option<PortRange>,
    /// Ports that are exposed; all of the Service when empty.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 100))]
    #[schemars(extend(
        "x-kubernetes-list-type" = "atomic",
        "x-kubernetes-validations" = [
            rule(
                "self.all(a, self.exists_one(b, a.port == b.port))",
                "each port of the Service can be listed once",
            ),
            rule(
                "self.all(a, !has(a.nodePort) || self.exists_one(b, has(b.nodePort) && a.nodePort == b.nodePort))",
                "each nodePort can be asked for once",
            ),
        ],
    ))]
    pub ports: Vec<ExposedPort>,
}

/// Ports from `first` to `last`, both included.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[schemars(extend("x-kubernetes-validations" = [rule("self.first <= self.last", "first must not be above last")]))]
pub struct PortRange {
    /// The lowest port.
    #[schemars(range(min = 1, max = 65535))]
    pub first: u16,
    /// The highest port.
    #[schemars(range(min = 1, max = 65535))]
    pub last: u16,
}

impl PortRange {
    /// Tells whether a port lies in the range.
    pub fn contains(self, port: u16) -> bool {
        (self.first..=self.last).contains(&port)
    }
}

impl std::fmt::Display for PortRange {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(formatter, "{}-{}", self.first, self.last)
    }
}

/// A Service of the hosted cluster.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ServiceReference {
    /// Namespace in the hosted cluster.
    #[schemars(length(min = 1, max = 63))]
    #[schemars(extend("x-kubernetes-validations" = [rule(DNS_LABEL, "namespace must be a DNS label")]))]
    pub namespace: String,
    /// Name in that namespace.
    #[schemars(length(min = 1, max = 63))]
    #[schemars(extend("x-kubernetes-validations" = [rule(DNS_LABEL, "name must be a DNS label")]))]
    pub name: String,
}

/// A port of the Service and the port that it gets on the hosts.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ExposedPort {
    /// Number or name of the Service's port.
    #[schemars(schema_with = "int_or_string")]
    #[schemars(extend("maxLength" = 63, "x-kubernetes-validations" = [rule(
        "type(self) == int ? self >= 1 && self <= 65535 : size(self) >= 1",
        "port must be a number between 1 and 65535 or a port's name",
    )]))]
    pub port: IntOrString,
    /// Port on the hosts; the Service's own node port, or a free one, when unset.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 65535))]
    pub node_port: Option<i32>,
}

/// What is reachable.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ServiceExposureStatus {
    /// Generation of the spec that this is about.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,
    /// Every address and port at which the Service can be reached.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(extend("x-kubernetes-list-type" = "atomic"))]
    pub endpoints: Vec<ExposureEndpoint>,
    /// The ports on the hosts, as one text for tables (`30001,30002`).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub node_ports: Option<String>,
    /// Verdicts; see [`crate::conditions::ExposureConditionType`].
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(schema_with = "conditions")]
    pub conditions: Vec<Condition>,
}

/// An address and port at which the Service can be reached.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ExposureEndpoint {
    /// Address of a host.
    pub address: String,
    /// Port on that address: the hosting node port.
    pub port: i32,
    /// Port of the hosted Service.
    pub service_port: i32,
    /// Port on the virtual machines: the hosted node port.
    pub target_port: i32,
    /// Transport protocol.
    pub protocol: Protocol,
    /// Name of the Service's port.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
}

fn node_port() -> ExposureVia {
    ExposureVia::NodePort
}
