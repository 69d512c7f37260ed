//! EndpointSlices: what hosted ones say, and those that the operator writes where labels cannot say which VMs serve.

use std::collections::BTreeSet;

use k8s_openapi::api::core::v1::{ObjectReference, Service};
use k8s_openapi::api::discovery::v1::{Endpoint, EndpointConditions, EndpointPort, EndpointSlice};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, OwnerReference};
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;

use super::VmPod;

/// Most endpoints in one slice, as Kubernetes' own controller has it.
const SLICE_LIMIT: usize = 100;

/// Label of an EndpointSlice: who writes it.
pub(super) const SLICE_MANAGED_BY: &str = "endpointslice.kubernetes.io/managed-by";
/// Value of [`SLICE_MANAGED_BY`] in Remora's slices.
pub(super) const SLICE_MANAGER: &str = "remora.dev";
/// Label of an EndpointSlice: its Service.
pub(super) const SLICE_SERVICE: &str = "kubernetes.io/service-name";

/// Label by which Endpoints are not mirrored into EndpointSlices (KEP-1713). The Endpoints controller copies labels of
/// the Service; without this one, the Endpoints that it has made would be mirrored for ever once the selector is gone.
pub(crate) const SKIP_MIRROR: &str = "endpointslice.kubernetes.io/skip-mirror";

/// What a hosted EndpointSlice says of its Service.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ServiceNodes {
    /// Namespace inside the hosted cluster.
    pub namespace: String,
    /// Name of the Service.
    pub service: String,
    /// Names of the nodes that run ready pods.
    pub nodes: BTreeSet<String>,
    /// Something is ready, be it on a node or elsewhere.
    pub is_ready: bool,
}

impl ServiceNodes {
    /// Reads a slice; one that belongs to no Service says nothing. An endpoint without a node is no pod, and `Local` keeps
    /// to pods.
    pub fn of(slice: &EndpointSlice) -> Option<Self> {
        let service = slice.metadata.labels.as_ref()?.get(SLICE_SERVICE)?;
        let ready: Vec<_> = slice.endpoints.iter().filter(|found| is_ready(found)).collect();
        Some(Self {
            namespace: slice.metadata.namespace.clone()?,
            service: service.clone(),
            nodes: ready.iter().filter_map(|endpoint| endpoint.node_name.clone()).collect(),
            is_ready: !ready.is_empty(),
        })
    }
}

/// Nothing said means ready (EndpointConditions of discovery.k8s.io/v1).
fn is_ready(endpoint: &Endpoint) -> bool {
    endpoint.conditions.as_ref().and_then(|conditions| conditions.ready).unwrap_or(true)
}

/// The EndpointSlices of a Service whose selector cannot say which VMs serve; one per hundred VMs.
pub(crate) fn desired_slices(service: &Service, pods: &[&VmPod]) -> Vec<EndpointSlice> {
    let ports: Vec<EndpointPort> = service
        .spec
        .iter()
        .flat_map(|spec| spec.ports.iter().flatten())
        .map(|port| EndpointPort {
            name: port.name.clone(),
            port: match port.target_port {
                Some(IntOrString::Int(number)) => Some(number),
                _ => None,
            },
            protocol: port.protocol.clone(),
            app_protocol: port.app_protocol.clone(),
        })
        .collect();
    let mut pods = pods.to_vec();
    pods.sort_by(|a, b| a.name.cmp(&b.name));
    let mut slices = Vec::new();
    for (family, is_of) in [("IPv4", is_v4 as fn(&str) -> bool), ("IPv6", is_v6)] {
        let endpoints: Vec<Endpoint> = pods.iter().filter_map(|pod| endpoint(pod, is_of)).collect();
        for (index, chunk) in endpoints.chunks(SLICE_LIMIT).enumerate() {
            slices.push(slice(service, family, index, chunk.to_vec(), ports.clone()));
        }
    }
    slices
}

/// The Service that a slice goes with.
fn owner_of_slice(service: &Service) -> Option<OwnerReference> {
    Some(OwnerReference {
        api_version: "v1".to_owned(),
        kind: "Service".to_owned(),
        name: service.metadata.name.clone()?,
        uid: service.metadata.uid.clone()?,
        controller: Some(true),
        block_owner_deletion: None,
    })
}

fn slice(
    service: &Service,
    family: &str,
    index: usize,
    endpoints: Vec<Endpoint>,
    ports: Vec<EndpointPort>,
) -> EndpointSlice {
    let service_name = service.metadata.name.clone().unwrap_or_default();
    let mut slice_labels = service.metadata.labels.clone().unwrap_or_default();
    slice_labels.insert(SLICE_SERVICE.to_owned(), service_name.clone());
    slice_labels.insert(SLICE_MANAGED_BY.to_owned(), SLICE_MANAGER.to_owned());
    EndpointSlice {
        address_type: family.to_owned(),
        endpoints,
        metadata: ObjectMeta {
            namespace: service.metadata.namespace.clone(),
            name: Some(format!("{service_name}-{}-{index}", family.to_ascii_lowercase())),
            labels: Some(slice_labels),
            owner_references: owner_of_slice(service).map(|owner| vec![owner]),
            ..ObjectMeta::default()
        },
        ports: Some(ports),
    }
}

// The API server takes no link-local address: it means another machine on every link.
fn is_v4(address: &str) -> bool {
    address.parse::<std::net::Ipv4Addr>().is_ok_and(|address| !address.is_link_local())
}

fn is_v6(address: &str) -> bool {
    address.parse::<std::net::Ipv6Addr>().is_ok_and(|address| !address.is_unicast_link_local())
}

fn endpoint(pod: &VmPod, is_of: fn(&str) -> bool) -> Option<Endpoint> {
    let address = pod.addresses.iter().find(|address| is_of(address))?;
    Some(Endpoint {
        addresses: vec![address.clone()],
        conditions: Some(EndpointConditions {
            ready: Some(pod.is_ready && !pod.is_terminating),
            serving: Some(pod.is_ready),
            terminating: Some(pod.is_terminating),
        }),
        node_name: pod.node.clone(),
        target_ref: Some(ObjectReference {
            kind: Some("Pod".to_owned()),
            namespace: Some(pod.namespace.clone()),
            name: Some(pod.name.clone()),
            uid: Some(pod.uid.clone()),
            ..ObjectReference::default()
        }),
        ..Endpoint::default()
    })
}

/// An EndpointSlice of a hosting Service, as it is now.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SeenSlice {
    /// Namespace.
    pub namespace: String,
    /// Name.
    pub name: String,
    /// Its Service.
    pub service: String,
    /// Remora writes it.
    pub is_own: bool,
    /// Which version of it was seen.
    pub resource_version: Option<String>,
}

impl SeenSlice {
    /// Reads what a slice's metadata say; one that belongs to no Service is none.
    pub fn of(metadata: &ObjectMeta) -> Option<Self> {
        let found = metadata.labels.as_ref()?;
        Some(Self {
            namespace: metadata.namespace.clone()?,
            name: metadata.name.clone()?,
            service: found.get(SLICE_SERVICE)?.clone(),
            is_own: found.get(SLICE_MANAGED_BY).is_some_and(|manager| manager == SLICE_MANAGER),
            resource_version: metadata.resource_version.clone(),
        })
    }
}

/// Those of the Service's slices that have to go.
///
/// Nobody removes the slices of a selector that is gone, so that they are removed here. Slices that a selector makes
/// superfluous stay until it has slices of its own: in between there would be no backend at all.
pub fn stale_slices<'a>(
    service: &Service,
    wanted: &[EndpointSlice],
    seen: &'a [SeenSlice],
) -> Vec<&'a SeenSlice> {
    let is_wanted = |slice: &SeenSlice| {
        wanted.iter().any(|wanted| wanted.metadata.name.as_ref() == Some(&slice.name))
    };
    let has_selector = service.spec.as_ref().is_some_and(|spec| spec.selector.is_some());
    let is_replaced = seen.iter().any(|slice| !slice.is_own);
    let is_stale = |slice: &&SeenSlice| {
        if has_selector { slice.is_own && is_replaced } else { !is_wanted(slice) }
    };
    seen.iter().filter(is_stale).collect()
}
