//! Which VMs serve with `externalTrafficPolicy: Local`, and the EndpointSlices that say so.

use std::collections::BTreeSet;

use k8s_openapi::api::core::v1::{Pod, Service};
use k8s_openapi::api::discovery::v1::{Endpoint, EndpointSlice};
use remora_api::labels;

use super::{Cluster, is_local};
use crate::expose::service::desired_slices;
use crate::expose::{SLICE_MANAGED_BY, SLICE_MANAGER, SLICE_SERVICE, VmPod};

/// What a hosted EndpointSlice says: the nodes that run ready pods of a Service.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ServiceNodes {
    /// Namespace inside the hosted cluster.
    pub namespace: String,
    /// Name of the Service.
    pub service: String,
    /// Names of the nodes.
    pub nodes: BTreeSet<String>,
}

impl ServiceNodes {
    /// Reads a slice; one that belongs to no Service says nothing. Neither does an endpoint without a node: it is no
    /// pod, and `Local` keeps to pods.
    pub fn of(slice: &EndpointSlice) -> Option<Self> {
        let service = slice.metadata.labels.as_ref()?.get(SLICE_SERVICE)?;
        let ready = slice.endpoints.iter().filter(|endpoint| is_ready(endpoint));
        Some(Self {
            namespace: slice.metadata.namespace.clone()?,
            service: service.clone(),
            nodes: ready.filter_map(|endpoint| endpoint.node_name.clone()).collect(),
        })
    }
}

/// Nothing said means ready (EndpointConditions of discovery.k8s.io/v1).
fn is_ready(endpoint: &Endpoint) -> bool {
    endpoint.conditions.as_ref().and_then(|conditions| conditions.ready).unwrap_or(true)
}

/// A VM's pod with the name of its node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Machine {
    /// Name of the VM and of its node.
    pub name: String,
    /// The pod.
    pub pod: VmPod,
}

impl Machine {
    /// Reads a pod; one that is no worker's VM, or has ended, is none.
    pub fn of(pod: &Pod) -> Option<Self> {
        let name = pod.metadata.labels.as_ref()?.get(labels::CAPK_MACHINE_NAME)?.clone();
        Some(Self { name, pod: VmPod::of(pod)? })
    }
}

/// The EndpointSlices of a hosting Service: none where its selector says which VMs serve.
///
/// `service` is the desired one, with the UID of the one that is there; `nodes` are what the hosted slices of the hosted
/// Service name.
pub fn slices(
    cluster: &Cluster,
    service: &Service,
    nodes: &BTreeSet<String>,
    machines: &[Machine],
) -> Vec<EndpointSlice> {
    if !is_local(service) {
        return Vec::new();
    }
    let serving: Vec<&VmPod> = machines
        .iter()
        .filter(|machine| nodes.contains(&machine.name))
        .map(|machine| &machine.pod)
        .filter(|pod| pod.infra_id == cluster.infra_id)
        .filter(|pod| pod.namespace == cluster.control_plane_namespace)
        .collect();
    desired_slices(service, &serving)
}

/// An EndpointSlice of a hosting Service, as it is now.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SeenSlice {
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
    pub fn of(
        metadata: &k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta,
    ) -> Option<Self> {
        let found = metadata.labels.as_ref()?;
        Some(Self {
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
    let has_selector = !is_local(service);
    let is_replaced = seen.iter().any(|slice| !slice.is_own);
    let is_stale = |slice: &&SeenSlice| {
        if has_selector { slice.is_own && is_replaced } else { !is_wanted(slice) }
    };
    seen.iter().filter(is_stale).collect()
}
