//! Load balancers of the hosting cluster for hosted Services.
//!
//! ```text
//!  client ── <address> ── hosting Service (LoadBalancer) ── VM pod : hosted node port ── hosted Service ── pod
//!                 └──────────── flows back into the hosted Service's status ──────────────┘
//! ```
//! A hosted Service of type LoadBalancer gets a hosting Service of that type in the control plane namespace, with the
//! name and the labels that the KubeVirt cloud provider gives it. With `externalTrafficPolicy: Cluster` it selects the
//! VMs' pods by label, so that traffic flows whether the operator runs or not. With `Local` only those VMs may get
//! traffic whose node runs a ready pod: no label says which, so that the operator writes the EndpointSlices.
//!
//! Every Service is decided alone: a name made of its UID meets no other, and the load balancer gives out addresses.

mod backends;
mod report;
mod service;

use k8s_openapi::api::core::v1::{Service, ServicePort};
use remora_api::labels;

pub use self::backends::slices;
pub use self::report::{CONDITION, News, Report, release, report};
pub use self::service::{COPIED_ANNOTATIONS, service_name};
pub use crate::expose::is_local;
use crate::expose::service::label_value;

/// Field manager of what Remora applies to a hosted Service: its finalizer. Apart from the usual one, so that taking the
/// finalizer back takes nothing else, and not the same finalizer of somebody else.
pub const HOSTED_FIELD_MANAGER: &str = "remora-load-balancer";

/// What a load balancer needs to know of its HostedCluster.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cluster {
    /// Namespace of its control plane and VMs.
    pub control_plane_namespace: String,
    /// Its infraID.
    pub infra_id: String,
    /// Its Services get no load balancers ([`labels::LOAD_BALANCERS`]).
    pub is_disabled: bool,
}

/// What is to be done about one hosted Service.
#[derive(Clone, Debug, PartialEq)]
pub enum Decision {
    /// Nothing: it is none of Remora's business, and nothing was made for it.
    Leave,
    /// It has this hosting Service.
    Serve {
        /// The Service to apply.
        service: Box<Service>,
        /// What of the hosted Service cannot be served.
        problem: Option<Problem>,
    },
    /// Nothing may be left of it on the hosting cluster; once nothing is, the hosted Service is let go.
    Withdraw(Option<Problem>),
}

/// What keeps a hosted Service from having a load balancer, or a part of one.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Problem {
    /// Ports that the VMs do not answer on.
    #[error(
        "spec.ports: there is no nodePort, by which a load balancer reaches a port, for {ports}; set \
         spec.allocateLoadBalancerNodePorts to true, or give each a nodePort"
    )]
    NodePortMissing {
        /// The ports, as a user may write them.
        ports: String,
    },
    /// The hosting API server did not take the Service.
    #[error(
        "the hosting cluster refuses Service {service}: {message}; change what it names, it is tried again"
    )]
    Refused {
        /// Name of the hosting Service.
        service: String,
        /// What it said.
        message: String,
    },
}

impl Problem {
    /// A word from a closed set, for the condition.
    pub fn reason(&self) -> &'static str {
        match self {
            Self::NodePortMissing { .. } => "NodePortMissing",
            Self::Refused { .. } => "Refused",
        }
    }
}

/// Decides one hosted Service; `own` is its hosting Service as it is now.
pub fn decide(cluster: &Cluster, hosted: &Service, own: Option<&Service>) -> Decision {
    if !is_asked_for(cluster, hosted) {
        let is_clean = own.is_none() && !is_marked(hosted) && !report::has_condition(hosted);
        return if is_clean { Decision::Leave } else { Decision::Withdraw(None) };
    }
    let ports = hosted.spec.as_ref().and_then(|spec| spec.ports.as_deref()).unwrap_or_default();
    let (served, unserved): (Vec<&ServicePort>, Vec<&ServicePort>) =
        ports.iter().partition(|port| node_port(port).is_some());
    let problem = (!unserved.is_empty()).then(|| Problem::NodePortMissing {
        ports: unserved.into_iter().map(told).collect::<Vec<_>>().join(", "),
    });
    if served.is_empty() {
        return Decision::Withdraw(problem);
    }
    let service = Box::new(service::desired_service(cluster, hosted, &served));
    Decision::Serve { service, problem }
}

/// Tells whether a hosted Service has to be looked at: it asks for a load balancer of ours, or something of one is left.
pub fn is_concerned(hosted: &Service) -> bool {
    asks_for_ours(hosted) || is_marked(hosted) || report::has_condition(hosted)
}

/// Tells whether Remora has put its finalizer on a hosted Service.
pub fn is_marked(hosted: &Service) -> bool {
    let entries = hosted.metadata.managed_fields.iter().flatten();
    entries.into_iter().any(|entry| {
        entry.manager.as_deref() == Some(HOSTED_FIELD_MANAGER)
            && entry.operation.as_deref() == Some("Apply")
    })
}

/// Tells whether a Service of the control plane namespace was made for a hosted one.
pub fn is_made_here(cluster: &Cluster, service: &Service) -> bool {
    let found = service.metadata.labels.as_ref();
    let has = |key: &str, value: &str| {
        found.and_then(|found| found.get(key)).is_some_and(|known| known == value)
    };
    service.metadata.namespace.as_ref() == Some(&cluster.control_plane_namespace)
        && has(labels::CAPI_CLUSTER_NAME, &cluster.infra_id)
        && has(labels::MANAGED_BY, labels::FIELD_MANAGER)
        && found.is_some_and(|found| found.contains_key(labels::TENANT_SERVICE_NAME))
}

fn is_asked_for(cluster: &Cluster, hosted: &Service) -> bool {
    !cluster.is_disabled && hosted.metadata.deletion_timestamp.is_none() && asks_for_ours(hosted)
}

fn asks_for_ours(hosted: &Service) -> bool {
    let Some(spec) = &hosted.spec else { return false };
    spec.type_.as_deref() == Some("LoadBalancer")
        && spec
            .load_balancer_class
            .as_deref()
            .is_none_or(|class| class == labels::LOAD_BALANCER_CLASS)
}

/// The node port of a hosted port; none where 0 or nothing stands.
fn node_port(port: &ServicePort) -> Option<i32> {
    port.node_port.filter(|number| *number > 0)
}

fn told(port: &ServicePort) -> String {
    let number = format!("{}/{}", port.port, port.protocol.as_deref().unwrap_or("TCP"));
    match port.name.as_deref().filter(|name| !name.is_empty()) {
        Some(name) => format!("{name} ({number})"),
        None => number,
    }
}

#[cfg(test)]
mod tests;
