//! Exposing a hosted Service on the hosting cluster's nodes.
//!
//! ```text
//!  client ── <hosting node>:<node port> ── hosting Service ── VM pod : hosted node port ── hosted Service ── pod
//! ```
//! The hosting Service lies in the control plane namespace and selects the VMs' pods by label, so that traffic flows
//! whether the operator runs or not. A selector has no "or", and no label tells where ready pods are: an exposure that
//! names several NodePools, or whose Service has `externalTrafficPolicy: Local`, gets a Service without selector, whose
//! EndpointSlices the operator writes (one Service per pool would need one node port each).
//!
//! All exposures of the hosting cluster are decided together, see [`allocate`].

pub mod allocate;
mod correction;
mod hosted;
mod ports;
mod range;
mod refusal;
pub(crate) mod service;
pub(crate) mod slices;

use std::collections::{BTreeMap, BTreeSet};

use k8s_openapi::api::core::v1::{Pod, Service};
use k8s_openapi::api::discovery::v1::EndpointSlice;
use remora_api::conditions::Reason;
use remora_api::service_exposure::ExposedPort;
use remora_api::{ServiceExposure, labels};

pub use self::allocate::{Cause, Choice, Rank};
use self::allocate::{Claim, PortClaim, Unavailable, allocate};
pub use self::correction::correction;
pub(crate) use self::hosted::protocol;
pub use self::hosted::{HostedPort, HostedService};
pub use self::ports::Selected;
pub use self::range::valid_range;
pub use self::refusal::Refusal;
use self::service::Backends;
pub use self::service::service_name;
pub(crate) use self::service::{label_value, shortened};
pub use self::slices::{SeenSlice, ServiceNodes, stale_slices};

/// What an exposure needs to know of its HostedCluster.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClusterView {
    /// Its infraID, once it has one.
    pub infra_id: String,
    /// Namespace of its control plane and VMs.
    pub control_plane_namespace: String,
    /// It is being deleted.
    pub is_deleting: bool,
    /// Names of its NodePools.
    pub node_pools: BTreeSet<String>,
}

/// What is known of the hosted Service.
#[derive(Clone, Copy, Debug)]
pub enum HostedView<'a> {
    /// The hosted API server does not answer (yet).
    Unknown,
    /// There is no such Service.
    Absent,
    /// There it is.
    Present(&'a HostedService),
}

/// One exposure and everything seen for it.
#[derive(Clone, Copy, Debug)]
pub struct Candidate<'a> {
    /// The exposure.
    pub exposure: &'a ServiceExposure,
    /// Its HostedCluster.
    pub cluster: Option<&'a ClusterView>,
    /// The hosted Service.
    pub hosted: HostedView<'a>,
    /// The hosted nodes that run its ready pods, once they are known.
    pub nodes: Option<&'a BTreeSet<String>>,
    /// The Service that serves the exposure now.
    pub own: Option<&'a Service>,
}

/// What is to be done about one exposure.
#[derive(Clone, Debug, PartialEq)]
pub enum Decision {
    /// It cannot be served: nothing may be left of it on the hosting cluster.
    Refused(Refusal),
    /// Nothing can be said yet: what is there stays.
    Waiting {
        /// Why, in one word.
        reason: Reason,
        /// Why, in one sentence.
        message: String,
    },
    /// It is served.
    Served(Box<Served>),
}

/// How an exposure is served.
#[derive(Clone, Debug, PartialEq)]
pub struct Served {
    /// The Service to apply.
    pub service: Service,
    /// Its ports and where their node ports come from.
    pub ports: Vec<(Selected, Choice)>,
}

/// A virt-launcher pod, reduced to what makes it a backend.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct VmPod {
    /// Control plane namespace.
    pub namespace: String,
    /// Name.
    pub name: String,
    /// UID.
    pub uid: String,
    /// Name of the VM, and of its node in the hosted cluster.
    pub machine: String,
    /// Hosting node.
    pub node: Option<String>,
    /// infraID of its cluster.
    pub infra_id: String,
    /// NodePool.
    pub node_pool: String,
    /// IP addresses: those of the VM.
    pub addresses: Vec<String>,
    /// The VM serves.
    pub is_ready: bool,
    /// The pod is going.
    pub is_terminating: bool,
}

impl VmPod {
    /// It gets traffic.
    pub fn is_serving(&self) -> bool {
        self.is_ready && !self.is_terminating
    }

    /// Reads a pod; one that is no worker's VM, or has ended, is none.
    pub fn of(pod: &Pod) -> Option<Self> {
        let pod_labels = pod.metadata.labels.as_ref()?;
        if pod_labels.get(labels::CAPI_ROLE).map(String::as_str) != Some(labels::CAPI_ROLE_WORKER) {
            return None;
        }
        let status = pod.status.as_ref()?;
        if matches!(status.phase.as_deref(), Some("Succeeded" | "Failed")) {
            return None;
        }
        let conditions = status.conditions.iter().flatten();
        let is_ready =
            conditions.into_iter().any(|found| found.type_ == "Ready" && found.status == "True");
        Some(Self {
            namespace: pod.metadata.namespace.clone()?,
            name: pod.metadata.name.clone()?,
            uid: pod.metadata.uid.clone().unwrap_or_default(),
            machine: pod_labels.get(labels::CAPK_MACHINE_NAME).cloned().unwrap_or_default(),
            node: pod.spec.as_ref().and_then(|spec| spec.node_name.clone()),
            infra_id: pod_labels.get(labels::CAPI_CLUSTER_NAME)?.clone(),
            node_pool: pod_labels.get(labels::NODE_POOL_NAME).cloned().unwrap_or_default(),
            addresses: status.pod_ips.iter().flatten().map(|found| found.ip.clone()).collect(),
            is_ready,
            is_terminating: pod.metadata.deletion_timestamp.is_some(),
        })
    }
}

/// An exposure's place in line.
pub fn rank(exposure: &ServiceExposure) -> Rank {
    let metadata = &exposure.metadata;
    Rank {
        created: metadata.creation_timestamp.as_ref().map_or(i64::MAX, |time| time.0.as_second()),
        namespace: metadata.namespace.clone().unwrap_or_default(),
        name: metadata.name.clone().unwrap_or_default(),
    }
}

/// Decides all exposures; `services` are those of the whole hosting cluster.
pub fn decide<'a>(
    candidates: &[Candidate<'a>],
    services: impl IntoIterator<Item = &'a Service>,
) -> BTreeMap<Rank, Decision> {
    let mut decisions = BTreeMap::new();
    let mut selections = BTreeMap::new();
    for candidate in candidates {
        let rank = rank(candidate.exposure);
        match select(candidate) {
            Ok(selection) => {
                selections.insert(rank, (candidate, selection));
            }
            Err(decision) => {
                decisions.insert(rank, decision);
            }
        }
    }
    let claims: Vec<Claim> = selections
        .iter()
        .map(|(rank, (candidate, selection))| claim(rank, candidate, selection))
        .collect();
    let claimed = selections.values().filter_map(|(candidate, _)| candidate.own).filter_map(key);
    let holders = holders(services, &claimed.collect());
    let verdicts = allocate(&claims, &holders);
    for (rank, (candidate, selection)) in selections {
        let decision = match verdicts.get(&rank) {
            Some(Ok(choices)) => serve(candidate, selection, choices),
            Some(Err(unavailable)) => {
                Decision::Refused(no_node_port(candidate.exposure, unavailable))
            }
            None => continue,
        };
        decisions.insert(rank, decision);
    }
    decisions
}

/// What an exposure means, before it is asked whether its node ports can be had.
struct Selection<'a> {
    cluster: &'a ClusterView,
    hosted: &'a HostedService,
    ports: Vec<Selected>,
}

fn select<'a>(candidate: &Candidate<'a>) -> Result<Selection<'a>, Decision> {
    let spec = &candidate.exposure.spec;
    let namespace = candidate.exposure.metadata.namespace.clone().unwrap_or_default();
    let name = spec.cluster_name.clone();
    let Some(cluster) = candidate.cluster else {
        return Err(Decision::Refused(Refusal::HostedClusterNotFound { namespace, name }));
    };
    if cluster.is_deleting {
        return Err(Decision::Refused(Refusal::HostedClusterDeleting { namespace, name }));
    }
    let node_pools = &spec.node_pools;
    if let Some(missing) = node_pools.iter().find(|pool| !cluster.node_pools.contains(*pool)) {
        let (node_pool, cluster) = (missing.clone(), name);
        return Err(Decision::Refused(Refusal::NodePoolNotFound { node_pool, cluster }));
    }
    let service = format!("{}/{}", spec.service.namespace, spec.service.name);
    let hosted = match candidate.hosted {
        HostedView::Present(hosted) if !cluster.infra_id.is_empty() => hosted,
        HostedView::Present(_) | HostedView::Unknown => {
            let message = format!(
                "the API server of HostedCluster {namespace}/{name} does not answer yet: Service {service} cannot be \
                 looked up; nothing is changed until it does"
            );
            return Err(Decision::Waiting { reason: Reason::HostedClusterNotAvailable, message });
        }
        HostedView::Absent => {
            return Err(Decision::Refused(Refusal::ServiceNotFound { service, cluster: name }));
        }
    };
    if !matches!(hosted.type_.as_str(), "NodePort" | "LoadBalancer") {
        let (cluster, type_) = (name, hosted.type_.clone());
        return Err(Decision::Refused(Refusal::ServiceNotNodePort { service, cluster, type_ }));
    }
    if hosted.is_local && candidate.nodes.is_none() {
        let message = format!(
            "the EndpointSlices of Service {service} in HostedCluster {namespace}/{name} are not listed yet: with \
             externalTrafficPolicy Local they say which machines serve; nothing is changed until they are"
        );
        return Err(Decision::Waiting { reason: Reason::HostedClusterNotAvailable, message });
    }
    let ports = ports::select(&spec.ports, hosted).map_err(Decision::Refused)?;
    Ok(Selection { cluster, hosted, ports })
}

fn claim(rank: &Rank, candidate: &Candidate<'_>, selection: &Selection<'_>) -> Claim {
    let port_claim = |port: &Selected| {
        let current = candidate.own.map(|own| service::current_port(own, port));
        let (current, is_substitute) = current.unwrap_or_default();
        PortClaim {
            protocol: port.hosted.protocol,
            hosted: port.target,
            asked: port.asked,
            current,
            is_substitute,
        }
    };
    Claim {
        rank: rank.clone(),
        range: candidate.exposure.spec.node_port_range,
        ports: selection.ports.iter().map(port_claim).collect(),
    }
}

fn serve(candidate: &Candidate<'_>, selection: Selection<'_>, choices: &[Choice]) -> Decision {
    let metadata = &candidate.exposure.metadata;
    let ports: Vec<(Selected, Choice)> =
        selection.ports.into_iter().zip(choices.iter().cloned()).collect();
    let service = service::desired_service(
        (
            metadata.namespace.as_deref().unwrap_or_default(),
            metadata.name.as_deref().unwrap_or_default(),
        ),
        selection.cluster,
        selection.hosted,
        &ports,
        Backends::of(&candidate.exposure.spec.node_pools, selection.hosted),
    );
    Decision::Served(Box::new(Served { service, ports }))
}

fn no_node_port(exposure: &ServiceExposure, unavailable: &Unavailable) -> Refusal {
    let (port, holder) = match unavailable {
        Unavailable::Taken { port, holder } => (*port, holder.clone()),
        Unavailable::Exhausted { range } => return Refusal::NodePortRangeFull { range: *range },
    };
    let is_entry = |entry: &ExposedPort| entry.node_port == Some(i32::from(port));
    let index = exposure.spec.ports.iter().position(is_entry).unwrap_or_default();
    Refusal::NodePortTaken { index, port, holder }
}

/// Node ports of the hosting cluster's Services but `claimed`, and who holds each.
fn holders<'a>(
    services: impl IntoIterator<Item = &'a Service>,
    claimed: &BTreeSet<(&str, &str)>,
) -> BTreeMap<u16, String> {
    let mut holders = BTreeMap::new();
    for service in services {
        let Some((namespace, name)) = key(service) else { continue };
        if claimed.contains(&(namespace, name)) {
            continue;
        }
        let Some(spec) = &service.spec else { continue };
        let node_ports = spec.ports.iter().flatten().filter_map(|port| port.node_port);
        // The port of the health check comes from the same range.
        for number in node_ports.chain(spec.health_check_node_port) {
            if let Some(number) = hosted::port_number(number) {
                holders.insert(number, format!("Service {namespace}/{name}"));
            }
        }
    }
    holders
}

fn key(service: &Service) -> Option<(&str, &str)> {
    Some((service.metadata.namespace.as_deref()?, service.metadata.name.as_deref()?))
}

/// Tells whether traffic may go to those VMs alone that run a ready pod of the Service.
pub fn is_local(service: &Service) -> bool {
    let policy = service.spec.as_ref().and_then(|spec| spec.external_traffic_policy.as_deref());
    policy == Some("Local")
}

/// The VMs that serve an exposure.
///
/// `nodes` are those that run ready pods of the hosted Service; none where all serve (`externalTrafficPolicy: Cluster`).
pub fn backends<'a>(
    exposure: &ServiceExposure,
    cluster: &ClusterView,
    nodes: Option<&BTreeSet<String>>,
    pods: impl IntoIterator<Item = &'a VmPod>,
) -> Vec<&'a VmPod> {
    let pools = &exposure.spec.node_pools;
    pods.into_iter()
        .filter(|pod| pod.infra_id == cluster.infra_id)
        .filter(|pod| pod.namespace == cluster.control_plane_namespace)
        .filter(|pod| pools.is_empty() || pools.contains(&pod.node_pool))
        .filter(|pod| nodes.is_none_or(|nodes| nodes.contains(&pod.machine)))
        .collect()
}

/// The EndpointSlices to apply: none where the Service's selector says which VMs serve.
///
/// `service` is the desired one, with the UID of the one that is there.
pub fn slices(service: &Service, pods: &[&VmPod]) -> Vec<EndpointSlice> {
    let has_selector = service.spec.as_ref().is_some_and(|spec| spec.selector.is_some());
    if has_selector { Vec::new() } else { slices::desired_slices(service, pods) }
}

#[cfg(test)]
mod tests;
