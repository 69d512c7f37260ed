//! Reads what exists of a control plane.

use k8s_openapi::api::apps::v1::{Deployment, StatefulSet};
use k8s_openapi::api::core::v1::{Namespace, Service};
use kube::Client;
use kube::api::{Api, ListParams};
use remora_api::hosted_cluster::HostedClusterSpec;
use remora_api::{labels, names};
use remora_core::control_plane::ControlPlane;
use remora_core::endpoint::{Pending, Published, endpoint};
use remora_core::hosted_cluster_status::Workloads;

use super::error::ReconcileError;

/// Whose a control plane namespace is.
pub(super) enum Ownership {
    /// It does not exist.
    Absent,
    /// It belongs to this HostedCluster.
    Own,
    /// It belongs to this HostedCluster and is being deleted.
    Terminating,
    /// It belongs to something else: to another HostedCluster, or to nobody that we know.
    Foreign {
        /// The other HostedCluster, if the namespace names one.
        owner: Option<String>,
    },
}

/// Finds out whose a namespace is.
pub(super) async fn ownership(
    client: &Client,
    namespace: &str,
    hosted_cluster: &str,
) -> Result<Ownership, ReconcileError> {
    let api: Api<Namespace> = Api::all(client.clone());
    let found = api
        .get_opt(namespace)
        .await
        .map_err(ReconcileError::reading(format!("namespace {namespace}")))?;
    let Some(found) = found else { return Ok(Ownership::Absent) };
    let owner = found
        .metadata
        .annotations
        .as_ref()
        .and_then(|known| known.get(labels::HOSTED_CLUSTER))
        .cloned();
    if owner.as_deref() != Some(hosted_cluster) {
        return Ok(Ownership::Foreign { owner });
    }
    let is_terminating = found.metadata.deletion_timestamp.is_some();
    Ok(if is_terminating { Ownership::Terminating } else { Ownership::Own })
}

/// Reads the workloads of a control plane.
pub(super) async fn workloads(
    client: &Client,
    namespace: &str,
) -> Result<Workloads, ReconcileError> {
    let of_components = ListParams::default().labels(labels::CONTROL_PLANE_COMPONENT);
    let stateful_sets: Api<StatefulSet> = Api::namespaced(client.clone(), namespace);
    let deployments: Api<Deployment> = Api::namespaced(client.clone(), namespace);
    let (stateful_sets, deployments) =
        futures::join!(stateful_sets.list(&of_components), deployments.list(&of_components));
    let reading = |what: &str| ReconcileError::reading(format!("{what} of namespace {namespace}"));
    let stateful_sets = stateful_sets.map_err(reading("StatefulSets"))?;
    let deployments = deployments.map_err(reading("Deployments"))?;
    Ok(Workloads::read(&stateful_sets.items, &deployments.items))
}

/// Reads where the control plane is published.
pub(super) async fn published(
    client: &Client,
    control_plane: &ControlPlane,
) -> Result<Result<Published, Pending>, ReconcileError> {
    let namespace = &control_plane.namespace;
    let api: Api<Service> = Api::namespaced(client.clone(), namespace);
    let get = |name: &'static str| {
        let api = api.clone();
        async move {
            api.get(name)
                .await
                .map_err(ReconcileError::reading(format!("Service {namespace}/{name}")))
        }
    };
    let (api_service, konnectivity_service) =
        futures::try_join!(get(names::KUBE_APISERVER), get(names::KONNECTIVITY_SERVER))?;
    Ok(endpoint(&control_plane.api_publishing, &api_service).and_then(|api| {
        let konnectivity = endpoint(&control_plane.konnectivity_publishing, &konnectivity_service)?;
        Ok(Published { api, konnectivity })
    }))
}

/// The release images of a spec: of the cluster, and of its control plane.
pub(super) fn release_images(spec: &HostedClusterSpec) -> (&str, &str) {
    let cluster = spec.release.image.as_str();
    let control_plane =
        spec.control_plane_release.as_ref().map_or(cluster, |release| release.image.as_str());
    (cluster, control_plane)
}
