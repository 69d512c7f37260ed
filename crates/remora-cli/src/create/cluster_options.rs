//! The options of a cluster's control plane and networks.

use clap::{Args, ValueEnum};
use serde_json::{Value, json};

use crate::failure::Failure;
use crate::pool_options::labels;

/// The control plane.
#[derive(Clone, Debug, Args)]
#[command(next_help_heading = "Control plane")]
pub(super) struct ControlPlaneOptions {
    /// Whether the control plane survives the loss of a hosting node.
    #[arg(long, value_enum, default_value = "HighlyAvailable")]
    pub(super) control_plane_availability_policy: Availability,
    /// The same for what runs in the cluster itself.
    #[arg(long, value_enum, default_value = "SingleReplica")]
    pub(super) infra_availability_policy: Availability,
    /// StorageClass of etcd's volumes [default: the hosting cluster's].
    #[arg(long, value_name = "NAME")]
    pub(super) etcd_storage_class: Option<String>,
    /// Size of etcd's volumes.
    #[arg(long, default_value = "8Gi", value_name = "QUANTITY")]
    pub(super) etcd_storage_size: String,
    /// The cluster's infraID [default: its name and random characters].
    #[arg(long, value_name = "ID")]
    pub(super) infra_id: Option<String>,
    /// Labels of the hosting nodes that the control plane may run on, as key=value,...
    #[arg(long, value_delimiter = ',', value_name = "LABELS")]
    pub(super) node_selector: Vec<String>,
    /// Labels of the control plane's pods, as key=value,...
    #[arg(long, value_delimiter = ',', value_name = "LABELS")]
    pub(super) pods_labels: Vec<String>,
    /// How API server and konnectivity server are reached.
    #[arg(long, value_enum, default_value = "Ingress")]
    pub(super) service_publishing_strategy: Publishing,
    /// With NodePort: address of a hosting node [default: the first node's].
    #[arg(long, value_name = "ADDRESS")]
    pub(super) api_server_address: Option<String>,
    /// Host name of the API server in one more kubeconfig.
    #[arg(long, value_name = "NAME")]
    pub(super) kas_dns_name: Option<String>,
}

/// The cluster's networks.
#[derive(Clone, Debug, Args)]
#[command(next_help_heading = "Network")]
pub(super) struct NetworkOptions {
    /// Network of Services; twice for dual stack.
    #[arg(long, default_value = "172.31.0.0/16", value_name = "CIDR")]
    pub(super) service_cidr: Vec<String>,
    /// Network of pods; twice for dual stack.
    #[arg(long, default_value = "10.132.0.0/14", value_name = "CIDR")]
    pub(super) cluster_cidr: Vec<String>,
    /// Network of the machines; repeatable.
    #[arg(long, value_name = "CIDR")]
    pub(super) machine_cidr: Vec<String>,
    /// Network plugin; Other: you bring your own.
    #[arg(long, default_value = "OVNKubernetes", value_name = "TYPE")]
    pub(super) network_type: String,
    /// Domain of the cluster [default: the hosting cluster's applications domain].
    #[arg(long, value_name = "DOMAIN")]
    pub(super) base_domain: Option<String>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
#[value(rename_all = "verbatim")]
pub(super) enum Availability {
    /// Three replicas on three nodes.
    HighlyAvailable,
    /// One replica.
    SingleReplica,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
#[value(rename_all = "verbatim")]
pub(super) enum Publishing {
    /// By load balancers of the hosting cluster.
    Ingress,
    /// By ports of the hosting cluster's nodes.
    NodePort,
}

impl Availability {
    pub(super) fn word(self) -> &'static str {
        match self {
            Self::HighlyAvailable => "HighlyAvailable",
            Self::SingleReplica => "SingleReplica",
        }
    }
}

impl ControlPlaneOptions {
    /// The published services, sorted by name.
    pub(super) fn services(&self, address: Option<&str>) -> Vec<Value> {
        let entry = |service: &str, strategy: Value| json!({"service": service, "servicePublishingStrategy": strategy});
        match self.service_publishing_strategy {
            Publishing::NodePort => {
                ["APIServer", "Ignition", "Konnectivity", "OAuthServer", "OIDC"]
                    .map(|service| {
                        let node_port = json!({"address": address.unwrap_or_default()});
                        entry(service, json!({"type": "NodePort", "nodePort": node_port}))
                    })
                    .into()
            }
            // Routes exist on OpenShift alone: what the nodes need goes by load balancer everywhere.
            Publishing::Ingress => vec![
                entry("APIServer", json!({"type": "LoadBalancer"})),
                entry("Ignition", json!({"type": "Route"})),
                entry("Konnectivity", json!({"type": "LoadBalancer"})),
                entry("OAuthServer", json!({"type": "Route"})),
            ],
        }
    }
}

impl NetworkOptions {
    pub(super) fn networking(&self) -> Value {
        let networks = |list: &[String]| -> Vec<Value> {
            list.iter().map(|cidr| json!({"cidr": cidr})).collect()
        };
        let mut networking = json!({
            "networkType": self.network_type,
            "clusterNetwork": networks(&self.cluster_cidr),
            "serviceNetwork": networks(&self.service_cidr),
        });
        if !self.machine_cidr.is_empty() {
            networking["machineNetwork"] = json!(networks(&self.machine_cidr));
        }
        networking
    }
}

pub(super) fn some_labels(
    flag: &'static str,
    entries: &[String],
) -> Result<Option<Value>, Failure> {
    let parsed = labels(flag, entries)?;
    Ok(Some(json!(parsed)).filter(|_| !parsed.is_empty()))
}
