//! The ServiceExposure controller: what it watches, and whom each change concerns.

use std::sync::Arc;
use std::time::Duration;

use futures::{Stream, StreamExt, stream};
use k8s_openapi::api::core::v1::{Node, Pod, Service};
use k8s_openapi::api::discovery::v1::EndpointSlice;
use kube::api::PartialObjectMeta;
use kube::runtime::controller::Config;
use kube::runtime::reflector::{self, ObjectRef};
use kube::runtime::{Controller, Predicate, PredicateConfig, WatchStreamExt, predicates, watcher};
use kube::{Api, ResourceExt};
use remora_api::{HostedCluster, NodePool, ServiceExposure, labels};
use remora_core::expose::{SeenSlice, VmPod};
use remora_core::exposure_status::HostingNode;
use tokio::sync::{broadcast, watch};
use tokio_util::sync::CancellationToken;

use super::observed::{Cluster, Concerned, Observed, Pool, with_node_ports};
use super::progress::Progress;
use super::reconcile::{Exposures, after_failure, reconcile};
use super::view;
use crate::apply::{delete_if_exists, reference};
use crate::context::Context;
use crate::error::chain;

/// Exposures looked at at once.
const CONCURRENCY: u16 = 8;
/// How long the first listing may take before the sweep is left to the next start.
const SWEEP_WAIT: Duration = Duration::from_secs(60);

/// Reconciles ServiceExposures until `shutdown`.
pub async fn run(context: Arc<Context>, shutdown: CancellationToken) {
    let client = context.client.clone();
    let (reader, writer) = reflector::store();
    // A change of the status alone is our own and wakes nobody.
    let own = watcher(Api::<ServiceExposure>::all(client.clone()), watcher::Config::default())
        .default_backoff()
        .reflect(writer)
        .applied_objects()
        .predicate_filter(
            predicates::generation.combine(predicates::finalizers),
            PredicateConfig::default(),
        );

    let everything = watcher::Config::default;
    let (clusters, cluster_changes) =
        view::watch(Api::<HostedCluster>::all(client.clone()), everything(), Cluster::of);
    let (node_pools, pool_changes) =
        view::watch(Api::<NodePool>::all(client.clone()), everything(), Pool::of);
    let (services, service_changes) =
        view::watch(Api::<Service>::all(client.clone()), everything(), with_node_ports);
    let (nodes, node_changes) =
        view::watch(Api::<Node>::all(client.clone()), everything(), HostingNode::of);
    let machines = format!("{}={}", labels::CAPI_ROLE, labels::CAPI_ROLE_WORKER);
    let (pods, pod_changes) =
        view::watch(Api::<Pod>::all(client.clone()), everything().labels(&machines), VmPod::of);
    let (slices, slice_changes) = view::watch(
        Api::<PartialObjectMeta<EndpointSlice>>::all(client.clone()),
        everything().labels(labels::EXPOSURE_NAME),
        |slice| SeenSlice::of(&slice.metadata),
    );

    let concerned = Concerned { exposures: reader.clone() };
    let (freed, was_freed) = watch::channel(0);
    let hosted_services = context.exposures.changes();
    let hosted_slices = context.hosted_slices.changes();
    let observed = Observed {
        exposures: reader.clone(),
        clusters,
        node_pools,
        services,
        nodes,
        pods,
        slices,
        hosted: context.exposures.clone(),
        hosted_slices: context.hosted_slices.clone(),
        sessions: context.sessions.clone(),
    };
    let exposures = Arc::new(Exposures { context, observed, progress: Progress::default(), freed });
    let orphans = sweep(exposures.clone());

    let controller = Controller::for_stream(own, reader)
        .with_config(Config::default().concurrency(CONCURRENCY))
        .graceful_shutdown_on(async move { shutdown.cancelled().await })
        .reconcile_on(of(cluster_changes, concerned.clone(), Concerned::by_cluster))
        .reconcile_on(of(pool_changes, concerned.clone(), Concerned::by_pool))
        .reconcile_on(of(service_changes, concerned.clone(), Concerned::by_service))
        .reconcile_on(of(node_changes, concerned.clone(), |concerned, _| concerned.all()))
        .reconcile_on(of(pod_changes, concerned.clone(), Concerned::by_pod))
        .reconcile_on(of_hosted(hosted_services, concerned.clone()))
        .reconcile_on(of_hosted(hosted_slices, concerned.clone()))
        .reconcile_on(of(slice_changes, concerned.clone(), Concerned::by_slice))
        .reconcile_on(of_freed_ports(was_freed, concerned));
    let work = controller
        .run(
            |exposure, exposures: Arc<Exposures>| async move {
                exposures.observed.ready().await;
                reconcile(exposure, exposures).await
            },
            |exposure, error, exposures| after_failure(&exposure, error, &exposures),
            exposures,
        )
        .for_each(|_| std::future::ready(()));
    tokio::join!(work, orphans);
}

/// Removes, once after the start, the Services of exposures that were torn away while nobody looked.
async fn sweep(exposures: Arc<Exposures>) {
    // The controller's streams may end before everything was listed: then there is nothing to sweep either.
    let Ok(()) = tokio::time::timeout(SWEEP_WAIT, exposures.observed.ready()).await else { return };
    for service in exposures.observed.orphans() {
        let (namespace, name) = (service.namespace().unwrap_or_default(), service.name_any());
        let object = reference::<Service>(Some(&namespace), &name);
        match delete_if_exists(&exposures.context.client, &object).await {
            Ok(_) => tracing::info!(%namespace, %name, "service without exposure removed"),
            Err(error) => tracing::warn!(error = %chain(&error), "cannot remove service"),
        }
    }
}

/// The exposures that changes concern.
fn of<V: Send + 'static>(
    changes: impl Stream<Item = Vec<V>> + Send + 'static,
    concerned: Concerned,
    select: impl Fn(&Concerned, &V) -> Vec<ObjectRef<ServiceExposure>> + Send + 'static,
) -> impl Stream<Item = ObjectRef<ServiceExposure>> + Send + 'static {
    changes.flat_map(move |changed| {
        stream::iter(changed.iter().flat_map(|value| select(&concerned, value)).collect::<Vec<_>>())
    })
}

/// The exposures that changes inside the hosted clusters concern; all of them when too many came at once.
fn of_hosted(
    changes: broadcast::Receiver<super::hosted::Change>,
    concerned: Concerned,
) -> impl Stream<Item = ObjectRef<ServiceExposure>> + Send + 'static {
    stream::unfold((changes, concerned), |(mut changes, concerned)| async move {
        let found = match changes.recv().await {
            Ok(change) => concerned.by_hosted_service(&change),
            Err(broadcast::error::RecvError::Lagged(_)) => concerned.all(),
            Err(broadcast::error::RecvError::Closed) => return None,
        };
        Some((stream::iter(found), (changes, concerned)))
    })
    .flatten()
}

/// The exposures that a node port was refused to, whenever one may have become free.
fn of_freed_ports(
    freed: watch::Receiver<u64>,
    concerned: Concerned,
) -> impl Stream<Item = ObjectRef<ServiceExposure>> + Send + 'static {
    stream::unfold((freed, concerned), |(mut freed, concerned)| async move {
        freed.changed().await.ok()?;
        let found = concerned.refused_a_port();
        Some((stream::iter(found), (freed, concerned)))
    })
    .flatten()
}
