//! The HostedCluster controller: what wakes it, and what it does about failures.

use std::collections::HashMap;
use std::fmt::Debug;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use futures::StreamExt;
use futures::future::ready;
use k8s_openapi::api::apps::v1::{Deployment, StatefulSet};
use k8s_openapi::api::core::v1::{
    ConfigMap, Namespace, PersistentVolumeClaim, Pod, Secret, Service,
};
use k8s_openapi::api::networking::v1::NetworkPolicy;
use k8s_openapi::api::policy::v1::PodDisruptionBudget;
use kube::api::PartialObjectMeta;
use kube::runtime::controller::{Action, Config, Controller};
use kube::runtime::reflector::{self, ObjectRef, Store};
use kube::runtime::watcher::{self, watcher};
use kube::runtime::{Predicate, PredicateConfig, WatchStreamExt, predicates};
use kube::{Api, Resource, ResourceExt};
use remora_api::{HostedCluster, NodePool, labels, names};
use tokio_util::sync::CancellationToken;
use tracing::Instrument;

use super::error::ReconcileError;
use super::{identity, reconcile};
use crate::context::Context;
use crate::error::chain;

/// Events that come together make one pass.
const DEBOUNCE: Duration = Duration::from_millis(50);

/// How many HostedClusters are worked on at once.
const CONCURRENCY: u16 = 8;

/// The wait after a first failure; it doubles with each that follows.
const FIRST_RETRY: Duration = Duration::from_millis(500);

/// The longest wait after a failure.
const LAST_RETRY: Duration = Duration::from_secs(60);

/// What the controller's functions share.
struct Shared {
    context: Arc<Context>,
    /// Failures in a row, by HostedCluster.
    failures: Mutex<HashMap<ObjectRef<HostedCluster>, u32>>,
}

/// Reconciles HostedClusters until `shutdown`.
pub async fn run(context: Arc<Context>, shutdown: CancellationToken) {
    let client = context.client.clone();
    let (reader, writer) = reflector::store();
    // The status is Remora's own: what it writes there shall not wake it.
    let clusters = watcher(Api::<HostedCluster>::all(client.clone()), watcher::Config::default())
        .default_backoff()
        .reflect(writer)
        .applied_objects()
        .predicate_filter(
            predicates::generation.combine(predicates::annotations),
            PredicateConfig::default(),
        );
    let mut controller = Controller::for_stream(clusters, reader.clone())
        .with_config(Config::default().debounce(DEBOUNCE).concurrency(CONCURRENCY));
    controller = watch_owned::<StatefulSet>(controller, &context);
    controller = watch_owned::<Deployment>(controller, &context);
    controller = watch_owned::<Service>(controller, &context);
    controller = watch_owned::<Secret>(controller, &context);
    controller = watch_owned::<ConfigMap>(controller, &context);
    controller = watch_owned::<NetworkPolicy>(controller, &context);
    controller = watch_owned::<PodDisruptionBudget>(controller, &context);
    controller = watch::<Namespace>(controller, &context, labels::HOSTED_CONTROL_PLANE);
    controller = watch_pull_secrets(controller, &context, &reader);
    controller = watch_for_deletion(controller, &context, &reader);
    let shared = Arc::new(Shared { context, failures: Mutex::default() });
    controller
        .graceful_shutdown_on(shutdown.cancelled_owned())
        .run(pass, retry, shared)
        .for_each(|result| async move {
            if let Err(error) = result {
                tracing::debug!(error = %chain(&error), "pass ended");
            }
        })
        .await;
}

/// Wakes a HostedCluster when an object of its control plane changes.
fn watch_owned<K>(
    controller: Controller<HostedCluster>,
    context: &Arc<Context>,
) -> Controller<HostedCluster>
where
    K: Resource<DynamicType = ()> + Clone + Debug + Send + Sync + 'static,
{
    watch::<K>(controller, context, labels::CONTROL_PLANE_COMPONENT)
}

/// Watches the metadata of labelled objects; the ledger learns of every change, its own included.
fn watch<K>(
    controller: Controller<HostedCluster>,
    context: &Arc<Context>,
    label: &str,
) -> Controller<HostedCluster>
where
    K: Resource<DynamicType = ()> + Clone + Debug + Send + Sync + 'static,
{
    let api: Api<PartialObjectMeta<K>> = Api::all(context.client.clone());
    let selector = watcher::Config::default().labels(label);
    let context = context.clone();
    let objects = watcher(api, selector).default_backoff().filter_map(move |event| {
        let heard = event.map(|event| context.applied.hear(&K::kind(&()), event));
        ready(heard.map(|heard| heard.map(|(object, _)| object)).transpose())
    });
    controller.watches_stream(objects, move |object: PartialObjectMeta<K>| {
        let owner = object.metadata.annotations.as_ref()?.get(labels::HOSTED_CLUSTER)?;
        let (namespace, name) = owner.split_once('/')?;
        Some(ObjectRef::new(name).within(namespace))
    })
}

/// Wakes the HostedClusters of a pull secret when it changes. One without the type of pull secrets is looked at when
/// something else wakes its HostedCluster: not every Secret of all namespaces shall be followed.
fn watch_pull_secrets(
    controller: Controller<HostedCluster>,
    context: &Arc<Context>,
    reader: &Store<HostedCluster>,
) -> Controller<HostedCluster> {
    let of_type = watcher::Config::default().fields("type=kubernetes.io/dockerconfigjson");
    let secrets = watcher(Api::<PartialObjectMeta<Secret>>::all(context.client.clone()), of_type)
        .default_backoff()
        .touched_objects();
    let reader = reader.clone();
    controller.watches_stream(secrets, move |secret: PartialObjectMeta<Secret>| {
        let name = secret.name_any();
        let is_of = |cluster: &HostedCluster| {
            cluster.metadata.namespace == secret.metadata.namespace
                && cluster.spec.pull_secret.name == name
        };
        selected(&reader, is_of)
    })
}

/// Wakes a HostedCluster that is being deleted when something that it waits for changes.
fn watch_for_deletion(
    controller: Controller<HostedCluster>,
    context: &Arc<Context>,
    reader: &Store<HostedCluster>,
) -> Controller<HostedCluster> {
    let pools: Api<PartialObjectMeta<NodePool>> = Api::all(context.client.clone());
    let pools = watcher(pools, watcher::Config::default()).default_backoff().touched_objects();
    let of_pool = {
        let reader = reader.clone();
        move |pool: PartialObjectMeta<NodePool>| {
            let namespace = pool.namespace();
            being_deleted(&reader, |cluster| cluster.namespace() == namespace)
        }
    };
    let controller = controller.watches_stream(pools, of_pool);
    let controller = watch_remains::<Pod>(controller, context, reader);
    watch_remains::<PersistentVolumeClaim>(controller, context, reader)
}

/// Wakes a HostedCluster that is being deleted when something in its control plane namespace goes.
fn watch_remains<K>(
    controller: Controller<HostedCluster>,
    context: &Arc<Context>,
    reader: &Store<HostedCluster>,
) -> Controller<HostedCluster>
where
    K: Resource<DynamicType = ()> + Clone + Debug + Send + Sync + 'static,
{
    let api: Api<PartialObjectMeta<K>> = Api::all(context.client.clone());
    let components = watcher::Config::default().labels(labels::CONTROL_PLANE_COMPONENT);
    let objects = watcher(api, components).default_backoff().touched_objects();
    let reader = reader.clone();
    controller.watches_stream(objects, move |object: PartialObjectMeta<K>| {
        let namespace = object.namespace().unwrap_or_default();
        being_deleted(&reader, |cluster| {
            let own = cluster.namespace().unwrap_or_default();
            names::control_plane_namespace(&own, &cluster.name_any()) == namespace
        })
    })
}

fn being_deleted(
    reader: &Store<HostedCluster>,
    is_concerned: impl Fn(&HostedCluster) -> bool,
) -> Vec<ObjectRef<HostedCluster>> {
    selected(reader, |cluster| {
        cluster.metadata.deletion_timestamp.is_some() && is_concerned(cluster)
    })
}

fn selected(
    reader: &Store<HostedCluster>,
    is_concerned: impl Fn(&HostedCluster) -> bool,
) -> Vec<ObjectRef<HostedCluster>> {
    reader
        .state_filter(is_concerned)
        .iter()
        .map(|cluster| ObjectRef::from_obj(cluster.as_ref()))
        .collect()
}

async fn pass(
    hosted_cluster: Arc<HostedCluster>,
    shared: Arc<Shared>,
) -> Result<Action, ReconcileError> {
    let reference = ObjectRef::from_obj(hosted_cluster.as_ref());
    let span = tracing::debug_span!(
        "hosted_cluster",
        namespace = %hosted_cluster.namespace().unwrap_or_default(),
        name = %hosted_cluster.name_any(),
    );
    let work = Box::pin(reconcile::reconcile(hosted_cluster, shared.context.clone()));
    let action = work.instrument(span).await?;
    shared.failures.lock().unwrap_or_else(PoisonError::into_inner).remove(&reference);
    Ok(action)
}

#[expect(clippy::needless_pass_by_value, reason = "kube's signature")]
fn retry(
    hosted_cluster: Arc<HostedCluster>,
    error: &ReconcileError,
    shared: Arc<Shared>,
) -> Action {
    let reference = ObjectRef::from_obj(hosted_cluster.as_ref());
    let count = {
        let mut failures = shared.failures.lock().unwrap_or_else(PoisonError::into_inner);
        let count = failures.entry(reference).or_default();
        *count = count.saturating_add(1);
        *count
    };
    let jitter = identity::random_bytes::<1>().map_or(0, |[byte]| byte);
    let wait = retry_after(count, jitter);
    tracing::warn!(
        namespace = %hosted_cluster.namespace().unwrap_or_default(),
        name = %hosted_cluster.name_any(),
        reason = error.reason(),
        error = %chain(error),
        retry_seconds = wait.as_secs_f64(),
        "cannot reconcile HostedCluster"
    );
    Action::requeue(wait)
}

/// The wait after a number of failures in a row, with up to a quarter on top, so that retries spread.
fn retry_after(failures: u32, jitter: u8) -> Duration {
    let doubled = FIRST_RETRY.saturating_mul(1 << failures.saturating_sub(1).min(8));
    doubled.min(LAST_RETRY).mul_f64(1.0 + f64::from(jitter) / f64::from(u8::MAX) / 4.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn when_a_cluster_fails_again_and_again_the_wait_doubles_up_to_a_limit() {
        let waits: Vec<u128> = (1..10).map(|count| retry_after(count, 0).as_millis()).collect();
        assert_eq!(waits, [500, 1000, 2000, 4000, 8000, 16000, 32000, 60000, 60000]);
        assert_eq!(retry_after(1, u8::MAX), Duration::from_millis(625));
    }
}
