//! Networks and DNS of a HostedCluster.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::schema::{
    CIDR, CIDR_MESSAGE, DOMAIN_OR_EMPTY, cidr_blocks, immutable, immutable_once_filled, rule,
};
use crate::word::words;

words! {
    /// The network plugin of the hosted cluster.
    pub enum NetworkType {
        /// OpenShift SDN.
        OpenShiftSdn => "OpenShiftSDN",
        /// Calico.
        Calico => "Calico",
        /// The default plugin.
        OvnKubernetes => "OVNKubernetes",
        /// One that the user installs: Remora installs none.
        Other => "Other",
    }
}

words! {
    /// Whether the controller manager gives each Node a part of the cluster network.
    pub enum AllocateNodeCidrs {
        /// It does.
        Enabled => "Enabled",
        /// It does not.
        Disabled => "Disabled",
    }
}

/// Networks of the hosted cluster.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("x-kubernetes-validations" = [
    rule(
        "(!has(self.machineNetwork) && self.clusterNetwork.all(c, self.serviceNetwork.all(s, c.cidr != s.cidr)) || (has(self.machineNetwork) && (self.machineNetwork.all(m, self.clusterNetwork.all(c, m.cidr != c.cidr)) && self.machineNetwork.all(m, self.serviceNetwork.all(s, m.cidr != s.cidr)) && self.clusterNetwork.all(c, self.serviceNetwork.all(s, c.cidr != s.cidr)))))",
        "CIDR ranges in machineNetwork, clusterNetwork, and serviceNetwork must be unique and non-overlapping",
    ),
    rule(
        "has(self.allocateNodeCIDRs) && self.allocateNodeCIDRs == 'Enabled' ? self.networkType == 'Other' : true",
        "allocateNodeCIDRs can only be set to Enabled when networkType is 'Other'",
    ),
]))]
pub struct ClusterNetworking {
    /// The network plugin.
    #[serde(default = "default_network_type")]
    pub network_type: NetworkType,
    /// Networks of the pods.
    #[serde(default = "default_cluster_network")]
    #[schemars(length(min = 1, max = 2))]
    #[schemars(extend("x-kubernetes-validations" = [immutable_network("clusterNetwork")]))]
    pub cluster_network: Vec<ClusterNetworkEntry>,
    /// Networks of the Services.
    #[serde(default = "default_service_network")]
    #[schemars(length(min = 1, max = 2))]
    #[schemars(extend("x-kubernetes-validations" = [immutable_network("serviceNetwork")]))]
    pub service_network: Vec<ServiceNetworkEntry>,
    /// Networks of the nodes.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(min = 1, max = 2))]
    #[schemars(extend("x-kubernetes-validations" = [immutable_network("machineNetwork")]))]
    pub machine_network: Vec<MachineNetworkEntry>,
    /// The API server as the nodes see it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub api_server: Option<ApiServerNetworking>,
    /// Whether each Node gets a part of the cluster network; only for a user's own network plugin.
    #[serde(rename = "allocateNodeCIDRs", skip_serializing_if = "Option::is_none")]
    #[schemars(extend("x-kubernetes-validations" = [immutable_network("allocateNodeCIDRs")]))]
    pub allocate_node_cidrs: Option<AllocateNodeCidrs>,
}

impl Default for ClusterNetworking {
    fn default() -> Self {
        Self {
            network_type: default_network_type(),
            cluster_network: default_cluster_network(),
            service_network: default_service_network(),
            machine_network: Vec::new(),
            api_server: None,
            allocate_node_cidrs: None,
        }
    }
}

/// A network of pods.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ClusterNetworkEntry {
    /// The network in CIDR notation.
    #[schemars(length(max = 43))]
    #[schemars(extend("x-kubernetes-validations" = [rule(CIDR, CIDR_MESSAGE)]))]
    pub cidr: String,
    /// Prefix length of the part that each Node gets; 24 (IPv4) or 64 (IPv6) when unset.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub host_prefix: Option<i32>,
}

/// A network of Services.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ServiceNetworkEntry {
    /// The network in CIDR notation.
    #[schemars(length(max = 43))]
    #[schemars(extend("x-kubernetes-validations" = [rule(CIDR, CIDR_MESSAGE)]))]
    pub cidr: String,
}

/// A network of nodes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct MachineNetworkEntry {
    /// The network in CIDR notation.
    #[schemars(length(max = 43))]
    #[schemars(extend("x-kubernetes-validations" = [rule(CIDR, CIDR_MESSAGE)]))]
    pub cidr: String,
}

/// The API server as the nodes see it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ApiServerNetworking {
    /// Address that the API server advertises inside.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 255))]
    #[schemars(extend("x-kubernetes-validations" = [immutable("advertiseAddress")]))]
    pub advertise_address: Option<String>,
    /// Port on which the API server listens.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(extend("x-kubernetes-validations" = [immutable("port")]))]
    pub port: Option<i32>,
    /// Networks from which the API server may be reached; all when empty.
    #[serde(rename = "allowedCIDRBlocks", default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(schema_with = "cidr_blocks")]
    pub allowed_cidr_blocks: Vec<String>,
}

/// DNS of the cluster.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct DnsSpec {
    /// Domain under which the cluster's names are; empty for the platform's own.
    #[schemars(length(max = 253))]
    #[schemars(extend("x-kubernetes-validations" = [
        rule(DOMAIN_OR_EMPTY, "baseDomain must be a valid domain name (e.g., example, example.com, sub.example.com)"),
        immutable_once_filled("baseDomain"),
    ]))]
    pub base_domain: String,
    /// Label before the base domain; the HostedCluster's name when unset, none when empty.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 253))]
    #[schemars(extend("x-kubernetes-validations" = [
        rule(DOMAIN_OR_EMPTY, "baseDomainPrefix must be a valid domain name (e.g., example, example.com, sub.example.com)"),
        immutable("baseDomainPrefix"),
    ]))]
    pub base_domain_prefix: Option<String>,
    /// DNS zone of public names.
    #[serde(rename = "publicZoneID", skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 258))]
    #[schemars(extend("x-kubernetes-validations" = [immutable_once_filled("publicZoneID")]))]
    pub public_zone_id: Option<String>,
    /// DNS zone of private names.
    #[serde(rename = "privateZoneID", skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 265))]
    #[schemars(extend("x-kubernetes-validations" = [immutable_once_filled("privateZoneID")]))]
    pub private_zone_id: Option<String>,
}

fn immutable_network(field: &str) -> serde_json::Value {
    rule("self == oldSelf", &format!("{field} is immutable and cannot be modified once set."))
}

fn default_network_type() -> NetworkType {
    NetworkType::OvnKubernetes
}

fn default_cluster_network() -> Vec<ClusterNetworkEntry> {
    vec![ClusterNetworkEntry { cidr: "10.132.0.0/14".to_owned(), host_prefix: None }]
}

fn default_service_network() -> Vec<ServiceNetworkEntry> {
    vec![ServiceNetworkEntry { cidr: "172.31.0.0/16".to_owned() }]
}
