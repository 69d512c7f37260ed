//! What is watched for the policies, and which HostedCluster each change concerns.

use std::sync::Arc;
use std::time::Duration;

use futures::{Stream, StreamExt, stream};
use kube::api::PartialObjectMeta;
use kube::runtime::controller::{Action, Config, Controller};
use kube::runtime::reflector::{self, ObjectRef, Store};
use kube::runtime::{WatchStreamExt, watcher};
use kube::{Api, ResourceExt};
use remora_api::{ExposurePolicy, HostedCluster, ServiceExposure, names};
use tokio::sync::broadcast;
use tokio_util::sync::CancellationToken;

use super::missing;
use super::reconcile::{Made, Policies, reconcile};
use crate::apply::ApplyError;
use crate::context::Context;
use crate::error::chain;
use crate::exposure::hosted::Change;
use crate::exposure::view;

/// HostedClusters looked at at once.
const CONCURRENCY: u16 = 4;
/// Changes that come together make one pass.
const DEBOUNCE: Duration = Duration::from_millis(100);
/// Pause after a pass that failed.
const RETRY: Duration = Duration::from_secs(5);

/// A HostedCluster, of which only the name counts here.
type Cluster = PartialObjectMeta<HostedCluster>;

/// Puts ExposurePolicies into force until `shutdown`.
pub async fn run(context: Arc<Context>, shutdown: CancellationToken) {
    let client = context.client.clone();
    let (reader, writer) = reflector::store();
    let clusters = watcher(Api::<Cluster>::all(client.clone()), watcher::Config::default())
        .default_backoff()
        .reflect(writer)
        .touched_objects();
    let (policies, policy_changes) = view::watch(
        Api::<ExposurePolicy>::all(client.clone()),
        watcher::Config::default(),
        |policy| Some(policy.clone()),
    );
    let (made, made_changes) = view::watch(
        Api::<ServiceExposure>::all(client.clone()),
        watcher::Config::default(),
        Made::of,
    );
    let of_policy = |policy: &ExposurePolicy| {
        ObjectRef::new(&policy.spec.cluster_name).within(&policy.namespace().unwrap_or_default())
    };
    let of_made = |made: &Made| ObjectRef::new(made.cluster()).within(&made.namespace);
    let of_hosted = of_hosted_services(context.exposures.changes(), reader.clone());
    let policies = Arc::new(Policies { context: context.clone(), policies, made });
    let work = Controller::for_stream(clusters, reader)
        .with_config(Config::default().debounce(DEBOUNCE).concurrency(CONCURRENCY))
        .graceful_shutdown_on(shutdown.clone().cancelled_owned())
        .reconcile_on(each(policy_changes, of_policy))
        .reconcile_on(each(made_changes, of_made))
        .reconcile_on(of_hosted)
        .run(
            |cluster, policies: Arc<Policies>| async move {
                policies.ready().await;
                reconcile(&cluster, &policies).await
            },
            retry,
            policies,
        )
        .for_each(|_| std::future::ready(()));
    tokio::join!(work, missing::run(context, shutdown));
}

/// The HostedClusters that changed values belong to.
fn each<V: Send + 'static>(
    changes: impl Stream<Item = Vec<V>> + Send + 'static,
    of: impl Fn(&V) -> ObjectRef<Cluster> + Send + 'static,
) -> impl Stream<Item = ObjectRef<Cluster>> + Send + 'static {
    changes.flat_map(move |changed| stream::iter(changed.iter().map(&of).collect::<Vec<_>>()))
}

/// The HostedClusters in which something changed; all of them when too much came at once.
fn of_hosted_services(
    changes: broadcast::Receiver<Change>,
    clusters: Store<Cluster>,
) -> impl Stream<Item = ObjectRef<Cluster>> + Send + 'static {
    stream::unfold((changes, clusters), |(mut changes, clusters)| async move {
        let namespace = match changes.recv().await {
            Ok(change) => Some(change.control_plane_namespace),
            Err(broadcast::error::RecvError::Lagged(_)) => None,
            Err(broadcast::error::RecvError::Closed) => return None,
        };
        let is_meant = |cluster: &Cluster| {
            let own = names::control_plane_namespace(
                &cluster.namespace().unwrap_or_default(),
                &cluster.name_any(),
            );
            namespace.as_ref().is_none_or(|namespace| *namespace == own)
        };
        let found = clusters.state_filter(is_meant);
        let found: Vec<_> = found.iter().map(|cluster| ObjectRef::from_obj(&**cluster)).collect();
        Some((stream::iter(found), (changes, clusters)))
    })
    .flatten()
}

#[expect(clippy::needless_pass_by_value, reason = "kube's signature")]
fn retry(cluster: Arc<Cluster>, error: &ApplyError, _: Arc<Policies>) -> Action {
    tracing::warn!(
        namespace = cluster.namespace().unwrap_or_default(),
        name = cluster.name_any(),
        reason = error.reason(),
        error = %chain(error),
        "cannot put exposure policies into force"
    );
    Action::requeue(RETRY)
}
