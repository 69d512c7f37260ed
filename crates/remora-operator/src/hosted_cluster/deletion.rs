//! Deletes what belongs to a HostedCluster, in order. Each step looks at what is left, so that it can begin anywhere.
//!
//! ```text
//!  NodePools deleted, awaited ──> session ended ──> workloads, pods and volumes deleted, awaited
//!    ──> namespace deleted, awaited ──> admin kubeconfigs deleted ──> finalizer dropped
//! ```

use std::time::Duration;

use k8s_openapi::api::apps::v1::{Deployment, StatefulSet};
use k8s_openapi::api::core::v1::{Namespace, PersistentVolumeClaim, Pod, Secret};
use kube::api::{Api, DeleteParams, ListParams, PartialObjectMeta};
use kube::runtime::controller::Action;
use kube::{Resource, ResourceExt};
use remora_api::{HostedCluster, NodePool, labels, names};
use remora_core::hosted_cluster_status::Report;
use remora_core::pause::Pause;

use super::error::ReconcileError;
use super::observe::{self, Ownership};
use super::{identity, report};
use crate::apply::{ApplyError, delete_if_exists, reference};
use crate::context::Context;

/// How long a program of the control plane may take to end: its data goes with it, so nothing is lost.
const GRACE_SECONDS: u32 = 1;

/// A look at what is left, should a watch have missed something.
const SAFETY_NET: Duration = Duration::from_secs(10);

/// Takes the next steps of a deletion.
pub(super) async fn delete(
    context: &Context,
    hosted_cluster: &HostedCluster,
) -> Result<Action, ReconcileError> {
    if !hosted_cluster.finalizers().iter().any(|name| name == labels::FINALIZER) {
        return Ok(Action::await_change());
    }
    let namespace = hosted_cluster.namespace().unwrap_or_default();
    let name = hosted_cluster.name_any();
    let control_plane_namespace = names::control_plane_namespace(&namespace, &name);
    let mut waits_for = delete_node_pools(context, &namespace, &name).await?;
    if waits_for.is_none() {
        if context.sessions.is_of(&control_plane_namespace, &namespace, &name) {
            context.sessions.end(&control_plane_namespace);
            context.hosted.forget(&control_plane_namespace);
        }
        waits_for = delete_control_plane(context, hosted_cluster, &control_plane_namespace).await?;
    }
    if let Some(waits_for) = waits_for {
        let mut report = Report::new(Pause::Active);
        report.workloads = observe::workloads(&context.client, &control_plane_namespace).await?;
        report.deleting = Some(waits_for);
        report::write(context, hosted_cluster, &report).await?;
        return Ok(Action::requeue(SAFETY_NET));
    }
    context.applied.forget_namespace(&control_plane_namespace);
    for secret in
        [names::admin_kubeconfig_secret(&name), names::custom_admin_kubeconfig_secret(&name)]
    {
        delete_own_secret(context, &namespace, &secret, &name).await?;
    }
    identity::release(&context.client, hosted_cluster).await?;
    tracing::info!(%namespace, %name, "HostedCluster deleted");
    Ok(Action::await_change())
}

/// Asks for the deletion of the cluster's NodePools. Returns what is awaited.
async fn delete_node_pools(
    context: &Context,
    namespace: &str,
    cluster: &str,
) -> Result<Option<String>, ReconcileError> {
    let api: Api<NodePool> = Api::namespaced(context.client.clone(), namespace);
    let listed = api
        .list(&ListParams::default())
        .await
        .map_err(ReconcileError::reading(format!("NodePools of namespace {namespace}")))?;
    let pools: Vec<NodePool> =
        listed.items.into_iter().filter(|pool| pool.spec.cluster_name == cluster).collect();
    for pool in pools.iter().filter(|pool| pool.metadata.deletion_timestamp.is_none()) {
        let mut object = reference::<NodePool>(Some(namespace), &pool.name_any());
        // One that was made anew under the same name is another pool, and is seen in the next pass.
        object.metadata.uid = pool.uid();
        delete_if_exists(&context.client, &object).await?;
    }
    let names: Vec<String> = pools.iter().map(ResourceExt::name_any).collect();
    Ok((!names.is_empty())
        .then(|| format!("Waiting for NodePools to be deleted: {}", names.join(", "))))
}

/// Deletes the control plane namespace. Returns what is awaited.
async fn delete_control_plane(
    context: &Context,
    hosted_cluster: &HostedCluster,
    control_plane_namespace: &str,
) -> Result<Option<String>, ReconcileError> {
    let owner =
        format!("{}/{}", hosted_cluster.namespace().unwrap_or_default(), hosted_cluster.name_any());
    let keeps = hosted_cluster
        .annotations()
        .get(labels::SKIP_CONTROL_PLANE_NAMESPACE_DELETION)
        .is_some_and(|value| value == "true");
    let awaited = Some(format!("Waiting for namespace {control_plane_namespace} to be deleted"));
    match observe::ownership(&context.client, control_plane_namespace, &owner).await? {
        Ownership::Absent | Ownership::Foreign { .. } => Ok(None),
        Ownership::Terminating => Ok(awaited),
        Ownership::Own if keeps => Ok(None),
        Ownership::Own => {
            // These first: the namespace's own deletion would give each pod its full time to end, and look again only
            // seconds later.
            if delete_workloads(context, control_plane_namespace).await? {
                return Ok(Some(
                    "Waiting for the control plane's pods and volumes to go".to_owned(),
                ));
            }
            let namespace = reference::<Namespace>(None, control_plane_namespace);
            delete_if_exists(&context.client, &namespace).await?;
            Ok(awaited)
        }
    }
}

/// Deletes the workloads of the control plane, their pods and volumes. Returns whether some of them are left.
async fn delete_workloads(context: &Context, namespace: &str) -> Result<bool, ReconcileError> {
    delete_all::<Deployment>(context, namespace, None).await?;
    delete_all::<StatefulSet>(context, namespace, None).await?;
    let has_pods = delete_all::<Pod>(context, namespace, Some(GRACE_SECONDS)).await?;
    let has_volumes = delete_all::<PersistentVolumeClaim>(context, namespace, None).await?;
    Ok(has_pods || has_volumes)
}

/// Deletes the components' objects of one kind. Returns whether there were any.
async fn delete_all<K>(
    context: &Context,
    namespace: &str,
    grace_period_seconds: Option<u32>,
) -> Result<bool, ReconcileError>
where
    K: Resource<DynamicType = (), Scope = k8s_openapi::NamespaceResourceScope>
        + Clone
        + std::fmt::Debug
        + serde::de::DeserializeOwned,
{
    let api: Api<K> = Api::namespaced(context.client.clone(), namespace);
    let of_components = ListParams::default().labels(labels::CONTROL_PLANE_COMPONENT);
    let kind = K::kind(&());
    let listed = api
        .list_metadata(&of_components)
        .await
        .map_err(ReconcileError::reading(format!("{kind}s of namespace {namespace}")))?;
    let params = DeleteParams { grace_period_seconds, ..DeleteParams::background() };
    for object in listed.items.iter().filter(|object| !is_ending(object, grace_period_seconds)) {
        let name = object.name_any();
        match api.delete(&name, &params).await {
            Ok(_) => {}
            Err(error) if crate::error::is_not_found(&error) => {}
            Err(source) => {
                return Err(ApplyError::Request {
                    action: "delete",
                    object: crate::apply::ObjectName {
                        kind: kind.into_owned(),
                        namespace: namespace.to_owned(),
                        name,
                    },
                    source: Box::new(source),
                }
                .into());
            }
        }
    }
    Ok(!listed.items.is_empty())
}

/// Whether an object is being deleted, and no slower than asked: the garbage collector may have been there first, and
/// it gives each pod its full time.
fn is_ending<K>(object: &PartialObjectMeta<K>, grace_period_seconds: Option<u32>) -> bool {
    let metadata = &object.metadata;
    let has_less = match (metadata.deletion_grace_period_seconds, grace_period_seconds) {
        (Some(given), Some(asked)) => given <= i64::from(asked),
        (_, _) => true,
    };
    metadata.deletion_timestamp.is_some() && has_less
}

/// Deletes a kubeconfig of this cluster; a Secret of that name that someone else made stays.
async fn delete_own_secret(
    context: &Context,
    namespace: &str,
    secret: &str,
    cluster: &str,
) -> Result<(), ReconcileError> {
    let api: Api<Secret> = Api::namespaced(context.client.clone(), namespace);
    let found = api
        .get_metadata_opt(secret)
        .await
        .map_err(ReconcileError::reading(format!("Secret {namespace}/{secret}")))?;
    let Some(found) = found else { return Ok(()) };
    let is_own = found
        .annotations()
        .get(labels::HOSTED_CLUSTER)
        .is_some_and(|owner| *owner == format!("{namespace}/{cluster}"));
    if is_own {
        delete_if_exists(&context.client, &reference::<Secret>(Some(namespace), secret)).await?;
    }
    Ok(())
}
