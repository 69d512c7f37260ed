//! Deletes what belongs to a HostedCluster, in order. Each step looks at what is left, so that it can begin anywhere.
//!
//! ```text
//!  NodePools deleted, awaited ──> session ended ──> workloads, pods and volumes deleted, awaited
//!    ──> namespace deleted, or emptied where it shall stay, awaited ──> admin kubeconfigs deleted ──> finalizer dropped
//! ```

use std::time::Duration;

use k8s_openapi::api::apps::v1::{Deployment, StatefulSet};
use k8s_openapi::api::core::v1::{
    ConfigMap, Namespace, PersistentVolumeClaim, Pod, Secret, Service,
};
use k8s_openapi::api::networking::v1::NetworkPolicy;
use k8s_openapi::api::policy::v1::PodDisruptionBudget;
use kube::api::{Api, DeleteParams, ListParams, PartialObjectMeta};
use kube::runtime::controller::Action;
use kube::{Resource, ResourceExt};
use remora_api::{HostedCluster, NodePool, labels, names};
use remora_core::hosted_cluster_status::Report;
use remora_core::pause::Pause;

use super::error::ReconcileError;
use super::observe::{self, Ownership};
use super::serving::look_at_own;
use super::{identity, kubeconfigs, report};
use crate::apply::{delete_if_exists, failed, reference};
use crate::context::Context;
use crate::error::{chain, is_not_found};

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
    let mut report = Report::new(Pause::Active);
    let result = go_on(context, hosted_cluster, &control_plane_namespace).await;
    report.deleting = match &result {
        Ok(None) => {
            tracing::info!(%namespace, %name, "HostedCluster deleted");
            return Ok(Action::await_change());
        }
        Ok(Some(waits_for)) => Some(waits_for.clone()),
        Err(error) => {
            report.failures.push(chain(error));
            Some("The deletion has met a failure and is tried again".to_owned())
        }
    };
    // Not to know how the rest is doing must not keep the failure from being told.
    let looked = look_at_own(context, hosted_cluster, &control_plane_namespace, &mut report).await;
    if let Err(error) = looked {
        report.failures.push(chain(&error));
    }
    report::write(context, hosted_cluster, &report).await?;
    result.map(|_| Action::requeue(SAFETY_NET))
}

/// Takes the next steps. Returns what is awaited; none when everything is gone, the finalizer last.
async fn go_on(
    context: &Context,
    hosted_cluster: &HostedCluster,
    control_plane_namespace: &str,
) -> Result<Option<String>, ReconcileError> {
    let namespace = hosted_cluster.namespace().unwrap_or_default();
    let name = hosted_cluster.name_any();
    if let Some(pools) = delete_node_pools(context, &namespace, &name).await? {
        return Ok(Some(pools));
    }
    if context.sessions.is_of(control_plane_namespace, &namespace, &name) {
        context.sessions.end(control_plane_namespace);
        context.hosted.forget(control_plane_namespace);
    }
    let rest = delete_control_plane(context, hosted_cluster, control_plane_namespace).await?;
    if rest.is_some() {
        return Ok(rest);
    }
    context.applied.forget_namespace(control_plane_namespace);
    for secret in
        [names::admin_kubeconfig_secret(&name), names::custom_admin_kubeconfig_secret(&name)]
    {
        kubeconfigs::delete(context, &namespace, &name, &secret).await?;
    }
    identity::release(&context.client, hosted_cluster).await?;
    Ok(None)
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
    // One that cannot be deleted does not keep the others.
    let mut outcome = Ok(false);
    for pool in pools.iter().filter(|pool| pool.metadata.deletion_timestamp.is_none()) {
        let mut object = reference::<NodePool>(Some(namespace), &pool.name_any());
        // One that was made anew under the same name is another pool, and is seen in the next pass.
        object.metadata.uid = pool.uid();
        outcome = outcome.and(delete_if_exists(&context.client, &object).await);
    }
    outcome?;
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
        Ownership::Own => {
            // These first: the namespace's own deletion would give each pod its full time to end, and look again only
            // seconds later.
            if delete_workloads(context, control_plane_namespace).await? {
                return Ok(Some(
                    "Waiting for the control plane's pods and volumes to go".to_owned(),
                ));
            }
            if keeps {
                let is_left = delete_the_rest(context, control_plane_namespace).await?;
                return Ok(is_left.then(|| {
                    "Waiting for the control plane's Services, Secrets and rules to go".to_owned()
                }));
            }
            let namespace = reference::<Namespace>(None, control_plane_namespace);
            delete_if_exists(&context.client, &namespace).await?;
            Ok(awaited)
        }
    }
}

/// Deletes the workloads of the control plane, their pods and volumes. Returns whether some of them are left.
async fn delete_workloads(context: &Context, namespace: &str) -> Result<bool, ReconcileError> {
    let outcomes = [
        // What makes pods goes first, and is not waited for.
        delete_all::<Deployment>(context, namespace, None).await.map(|_| false),
        delete_all::<StatefulSet>(context, namespace, None).await.map(|_| false),
        delete_all::<Pod>(context, namespace, Some(GRACE_SECONDS)).await,
        delete_all::<PersistentVolumeClaim>(context, namespace, None).await,
    ];
    any(outcomes)
}

/// Deletes what is left of the control plane in a namespace that stays. Returns whether some of it is left.
async fn delete_the_rest(context: &Context, namespace: &str) -> Result<bool, ReconcileError> {
    let outcomes = [
        delete_all::<Service>(context, namespace, None).await,
        delete_labelled::<Service>(context, namespace, labels::TENANT_SERVICE_NAME, None).await,
        delete_all::<Secret>(context, namespace, None).await,
        delete_all::<ConfigMap>(context, namespace, None).await,
        delete_all::<PodDisruptionBudget>(context, namespace, None).await,
        delete_all::<NetworkPolicy>(context, namespace, None).await,
    ];
    any(outcomes)
}

/// Whether one of several is so, or the first failure.
fn any<E>(outcomes: impl IntoIterator<Item = Result<bool, E>>) -> Result<bool, E> {
    outcomes.into_iter().try_fold(false, |before, outcome| Ok(before | outcome?))
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
    let label = labels::CONTROL_PLANE_COMPONENT;
    delete_labelled::<K>(context, namespace, label, grace_period_seconds).await
}

/// Deletes the objects of one kind that have a label. Returns whether there were any.
async fn delete_labelled<K>(
    context: &Context,
    namespace: &str,
    label: &str,
    grace_period_seconds: Option<u32>,
) -> Result<bool, ReconcileError>
where
    K: Resource<DynamicType = (), Scope = k8s_openapi::NamespaceResourceScope>
        + Clone
        + std::fmt::Debug
        + serde::de::DeserializeOwned,
{
    let api: Api<K> = Api::namespaced(context.client.clone(), namespace);
    let labelled = ListParams::default().labels(label);
    let kind = K::kind(&());
    let listed = api
        .list_metadata(&labelled)
        .await
        .map_err(ReconcileError::reading(format!("{kind}s of namespace {namespace}")))?;
    let params = DeleteParams { grace_period_seconds, ..DeleteParams::background() };
    // One that cannot be deleted does not keep the others.
    let mut outcome = Ok(());
    for object in listed.items.iter().filter(|object| !is_ending(object, grace_period_seconds)) {
        let name = object.name_any();
        let deleted = match api.delete(&name, &params).await {
            Err(error) if !is_not_found(&error) => {
                Err(failed("delete", &reference::<K>(Some(namespace), &name), error))
            }
            Ok(_) | Err(_) => Ok(()),
        };
        outcome = outcome.and(deleted);
    }
    outcome?;
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
