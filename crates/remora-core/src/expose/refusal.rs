//! Why an exposure cannot be served: object, field and remedy in one sentence each.

use remora_api::conditions::Reason;
use remora_api::service_exposure::PortRange;

/// Why an exposure cannot be served.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Refusal {
    /// There is no such HostedCluster.
    #[error(
        "spec.clusterName: HostedCluster {namespace}/{name} does not exist; create it, or name another one in \
         namespace {namespace}"
    )]
    HostedClusterNotFound {
        /// Namespace of the exposure.
        namespace: String,
        /// Name that the exposure gives.
        name: String,
    },
    /// The HostedCluster goes away.
    #[error(
        "spec.clusterName: HostedCluster {namespace}/{name} is being deleted; delete the exposure too"
    )]
    HostedClusterDeleting {
        /// Namespace of the HostedCluster.
        namespace: String,
        /// Name of the HostedCluster.
        name: String,
    },
    /// A NodePool does not exist or is another cluster's.
    #[error(
        "spec.nodePools: HostedCluster {cluster} has no NodePool {node_pool}; create it, or remove it from the list"
    )]
    NodePoolNotFound {
        /// Name of the NodePool.
        node_pool: String,
        /// Name of the HostedCluster.
        cluster: String,
    },
    /// The hosted Service does not exist.
    #[error(
        "spec.service: Service {service} does not exist in HostedCluster {cluster}; create it there, or correct \
         namespace and name"
    )]
    ServiceNotFound {
        /// Namespace and name of the hosted Service.
        service: String,
        /// Name of the HostedCluster.
        cluster: String,
    },
    /// The hosted Service has no node ports.
    #[error(
        "spec.service: Service {service} in HostedCluster {cluster} is of type {type_}, which has no node ports; set \
         its spec.type to NodePort"
    )]
    ServiceNotNodePort {
        /// Namespace and name of the hosted Service.
        service: String,
        /// Name of the HostedCluster.
        cluster: String,
        /// Its type.
        type_: String,
    },
    /// A port is asked for that the hosted Service does not list.
    #[error(
        "spec.ports[{index}].port: Service {service} lists no port {port}; it lists {listed}; correct the port here \
         or add it to the Service"
    )]
    PortNotFound {
        /// Index in spec.ports.
        index: usize,
        /// Name or number that was asked for.
        port: String,
        /// Namespace and name of the hosted Service.
        service: String,
        /// The ports that there are.
        listed: String,
    },
    /// A port has no node port in the hosted cluster.
    #[error(
        "spec.service: port {port} of Service {service} has no node port in the hosted cluster; set \
         allocateLoadBalancerNodePorts to true, or its spec.type to NodePort"
    )]
    PortWithoutNodePort {
        /// Number of the port.
        port: u16,
        /// Namespace and name of the hosted Service.
        service: String,
    },
    /// One port is listed twice with different node ports, or two ports with the same one.
    #[error("spec.ports[{index}].nodePort: {what}; keep one of the two entries")]
    Contradiction {
        /// Index in spec.ports.
        index: usize,
        /// What contradicts what.
        what: String,
    },
    /// A hosting node port that was asked for is in use.
    #[error(
        "spec.ports[{index}].nodePort: node port {port} of the hosting cluster is in use by {holder}; ask for another one, \
         or leave nodePort out to have a free one chosen"
    )]
    NodePortTaken {
        /// Index in spec.ports.
        index: usize,
        /// The port.
        port: u16,
        /// Who has it.
        holder: String,
    },
    /// The exposure may take node ports of a range in which none is free.
    #[error(
        "spec.nodePortRange: no node port of {range} is free on the hosting cluster; widen the range, or delete what \
         takes its ports"
    )]
    NodePortRangeFull {
        /// The range.
        range: PortRange,
    },
    /// The hosting API server does not give out such a port.
    #[error(
        "spec.ports[].nodePort: the hosting cluster does not give out that node port ({detail}); ask for one in its \
         range, or leave nodePort out"
    )]
    NodePortOutOfRange {
        /// What the hosting API server says.
        detail: String,
    },
}

impl Refusal {
    /// The word for conditions and events.
    pub fn reason(&self) -> Reason {
        match self {
            Self::HostedClusterNotFound { .. } => Reason::HostedClusterNotFound,
            Self::HostedClusterDeleting { .. } => Reason::HostedClusterDeleting,
            Self::NodePoolNotFound { .. } => Reason::NodePoolNotFound,
            Self::ServiceNotFound { .. } => Reason::ServiceNotFound,
            Self::ServiceNotNodePort { .. } | Self::PortWithoutNodePort { .. } => {
                Reason::ServiceNotNodePort
            }
            Self::PortNotFound { .. } => Reason::PortNotFound,
            Self::Contradiction { .. } => Reason::InvalidConfiguration,
            Self::NodePortTaken { .. } | Self::NodePortRangeFull { .. } => Reason::NodePortTaken,
            Self::NodePortOutOfRange { .. } => Reason::NodePortOutOfRange,
        }
    }
}
