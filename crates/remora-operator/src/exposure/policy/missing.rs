//! Policies whose HostedCluster does not exist: nobody else looks at them.

use std::sync::Arc;
use std::time::Duration;

use futures::StreamExt;
use kube::runtime::controller::{Action, Config, Controller};
use kube::runtime::{WatchStreamExt, reflector, watcher};
use kube::{Api, ResourceExt};
use remora_api::{ExposurePolicy, HostedCluster};
use remora_core::exposure_policy::InForce;
use tokio_util::sync::CancellationToken;

use super::reconcile::report;
use crate::apply::{ApplyError, failed, reference};
use crate::context::Context;
use crate::error::chain;

/// Policies looked at at once.
const CONCURRENCY: u16 = 4;
/// Pause after a pass that failed.
const RETRY: Duration = Duration::from_secs(5);

/// Tells policies without a HostedCluster so, until `shutdown`.
pub(super) async fn run(context: Arc<Context>, shutdown: CancellationToken) {
    let client = context.client.clone();
    let (reader, writer) = reflector::store();
    let policies = watcher(Api::<ExposurePolicy>::all(client), watcher::Config::default())
        .default_backoff()
        .reflect(writer)
        .applied_objects();
    Controller::for_stream(policies, reader)
        .with_config(Config::default().concurrency(CONCURRENCY))
        .graceful_shutdown_on(shutdown.cancelled_owned())
        .run(reconcile, retry, context)
        .for_each(|_| std::future::ready(()))
        .await;
}

async fn reconcile(
    policy: Arc<ExposurePolicy>,
    context: Arc<Context>,
) -> Result<Action, ApplyError> {
    let (namespace, cluster) = (policy.namespace().unwrap_or_default(), &policy.spec.cluster_name);
    let clusters: Api<HostedCluster> = Api::namespaced(context.client.clone(), &namespace);
    let found = clusters.get_metadata_opt(cluster).await.map_err(|error| {
        failed("read", &reference::<HostedCluster>(Some(&namespace), cluster), error)
    })?;
    if found.is_none() && policy.metadata.deletion_timestamp.is_none() {
        report(&context, &policy, &InForce::WithoutCluster).await?;
    }
    Ok(Action::await_change())
}

#[expect(clippy::needless_pass_by_value, reason = "kube's signature")]
fn retry(policy: Arc<ExposurePolicy>, error: &ApplyError, _: Arc<Context>) -> Action {
    tracing::warn!(
        namespace = policy.namespace().unwrap_or_default(),
        name = policy.name_any(),
        reason = error.reason(),
        error = %chain(error),
        "cannot look at exposure policy"
    );
    Action::requeue(RETRY)
}
