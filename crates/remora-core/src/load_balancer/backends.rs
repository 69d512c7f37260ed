//! Which VMs serve with `externalTrafficPolicy: Local`.

use std::collections::BTreeSet;

use k8s_openapi::api::core::v1::Service;
use k8s_openapi::api::discovery::v1::EndpointSlice;

use super::{Cluster, is_local};
use crate::expose::VmPod;
use crate::expose::slices::desired_slices;

/// The EndpointSlices of a hosting Service: none where its selector says which VMs serve.
///
/// `service` is the desired one, with the UID of the one that is there; `nodes` are what the hosted slices of the hosted
/// Service name.
pub fn slices(
    cluster: &Cluster,
    service: &Service,
    nodes: &BTreeSet<String>,
    machines: &[VmPod],
) -> Vec<EndpointSlice> {
    if !is_local(service) {
        return Vec::new();
    }
    let serving: Vec<&VmPod> = machines
        .iter()
        .filter(|pod| nodes.contains(&pod.machine))
        .filter(|pod| pod.infra_id == cluster.infra_id)
        .filter(|pod| pod.namespace == cluster.control_plane_namespace)
        .collect();
    desired_slices(service, &serving)
}
