//! The NodePool controller: what wakes it, and what it does about failures.

use std::sync::Arc;
use std::time::Duration;

use futures::StreamExt;
use kube::api::PartialObjectMeta;
use kube::core::{ApiResource, DynamicObject};
use kube::runtime::controller::{Action, Config, Controller};
use kube::runtime::reflector::{self, ObjectRef, Store};
use kube::runtime::watcher::{self, watcher};
use kube::runtime::{Predicate, PredicateConfig, WatchStreamExt, predicates};
use kube::{Api, ResourceExt};
use remora_api::{HostedCluster, NodePool, labels};
use tokio_util::sync::CancellationToken;

use super::error::PoolError;
use super::{kubevirt, random, reconcile};
use crate::context::Context;
use crate::error::chain;

/// Events that come together make one pass.
const DEBOUNCE: Duration = Duration::from_millis(100);
/// How many pools are worked on at once.
const CONCURRENCY: u16 = 8;

/// Reconciles NodePools until `shutdown`.
pub async fn run(context: Arc<Context>, shutdown: CancellationToken) {
    let client = context.client.clone();
    let (reader, writer) = reflector::store();
    // The status is Remora's own: what it writes there shall not wake it.
    let pools = watcher(Api::<NodePool>::all(client.clone()), watcher::Config::default())
        .default_backoff()
        .reflect(writer)
        .applied_objects()
        .predicate_filter(
            predicates::generation.combine(predicates::annotations),
            PredicateConfig::default(),
        );
    let of_cluster = {
        let reader = reader.clone();
        move |cluster: HostedCluster| {
            pools_of(&reader, &cluster.namespace().unwrap_or_default(), &cluster.name_any())
        }
    };
    let woken = {
        let reader = reader.clone();
        context.node_pools.receive().flat_map(move |cluster| {
            let namespace = cluster.namespace.unwrap_or_default();
            futures::stream::iter(pools_of(&reader, &namespace, &cluster.name))
        })
    };
    let mut controller = Controller::for_stream(pools, reader)
        .with_config(Config::default().debounce(DEBOUNCE).concurrency(CONCURRENCY))
        .watches(Api::<HostedCluster>::all(client.clone()), watcher::Config::default(), of_cluster)
        .reconcile_on(woken);
    for resource in [kubevirt::virtual_machines(), kubevirt::instances()] {
        controller = watch_machines(controller, &context, &resource);
    }
    controller
        .graceful_shutdown_on(shutdown.cancelled_owned())
        .run(pass, retry, context)
        .for_each(|result| async move {
            if let Err(error) = result {
                tracing::debug!(error = %chain(&error), "pass ended");
            }
        })
        .await;
}

/// Wakes a pool when one of its machines changes in any way.
fn watch_machines(
    controller: Controller<NodePool>,
    context: &Context,
    resource: &ApiResource,
) -> Controller<NodePool> {
    let api: Api<PartialObjectMeta<DynamicObject>> =
        Api::all_with(context.client.clone(), resource);
    let selector = watcher::Config::default().labels(labels::NODE_POOL_NAME);
    let machines = watcher(api, selector).default_backoff().touched_objects();
    controller.watches_stream_with(
        machines,
        |machine: PartialObjectMeta<DynamicObject>| pool_of(&machine),
        resource.clone(),
    )
}

fn pool_of(machine: &PartialObjectMeta<DynamicObject>) -> Option<ObjectRef<NodePool>> {
    let annotations = machine.metadata.annotations.as_ref()?;
    let (namespace, name) = annotations.get(labels::NODE_POOL)?.split_once('/')?;
    Some(ObjectRef::new(name).within(namespace))
}

fn pools_of(
    reader: &Store<NodePool>,
    namespace: &str,
    cluster_name: &str,
) -> Vec<ObjectRef<NodePool>> {
    reader
        .state_filter(|pool| {
            pool.metadata.namespace.as_deref() == Some(namespace)
                && pool.spec.cluster_name == cluster_name
        })
        .iter()
        .map(|pool| ObjectRef::from_obj(pool.as_ref()))
        .collect()
}

async fn pass(pool: Arc<NodePool>, context: Arc<Context>) -> Result<Action, PoolError> {
    let reference = ObjectRef::from_obj(pool.as_ref());
    let action = Box::pin(reconcile::reconcile(pool, context.clone())).await?;
    context.node_pools.succeeded(&reference);
    Ok(action)
}

#[expect(clippy::needless_pass_by_value, reason = "kube's signature")]
fn retry(pool: Arc<NodePool>, error: &PoolError, context: Arc<Context>) -> Action {
    let jitter = random::bytes::<1>().map_or(0, |[byte]| byte);
    let wait = context.node_pools.failed(ObjectRef::from_obj(pool.as_ref()), jitter);
    tracing::warn!(
        namespace = %pool.namespace().unwrap_or_default(),
        name = %pool.name_any(),
        reason = error.reason(),
        error = %chain(error),
        retry_seconds = wait.as_secs_f64(),
        "cannot reconcile NodePool"
    );
    Action::requeue(wait)
}
