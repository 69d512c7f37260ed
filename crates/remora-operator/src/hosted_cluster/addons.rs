//! Keeps Remora's own objects inside a hosted cluster as they are wanted.

use std::sync::Arc;
use std::time::Duration;

use futures::StreamExt;
use k8s_openapi::api::apps::v1::{DaemonSet, Deployment};
use k8s_openapi::api::core::v1::{ConfigMap, Secret, Service, ServiceAccount};
use k8s_openapi::api::discovery::v1::EndpointSlice;
use k8s_openapi::api::rbac::v1::{ClusterRole, ClusterRoleBinding};
use kube::api::PartialObjectMeta;
use kube::core::DynamicObject;
use kube::runtime::WatchStreamExt;
use kube::runtime::watcher::{self, watcher};
use kube::{Api, Client, Resource};
use remora_api::labels;
use tokio::sync::Notify;

use crate::apply::Ledger;
use crate::error::chain;
use crate::session::HostedSession;

/// Events that come together make one round.
const SETTLE: Duration = Duration::from_millis(100);

/// The wait after a first failure; it doubles with each that follows.
const FIRST_RETRY: Duration = Duration::from_millis(500);

/// The longest wait after a failure.
const LAST_RETRY: Duration = Duration::from_secs(30);

/// Applies the addons whenever they, or what is wanted of them, change, until the session ends.
pub async fn run(session: HostedSession) {
    let cancel = session.cancel.clone();
    tokio::select! {
        () = cancel.cancelled() => {}
        () = keep(session) => {}
    }
}

async fn keep(mut session: HostedSession) {
    let ledger = Arc::new(Ledger::default());
    let changed = Arc::new(Notify::new());
    let watches = watch_all(&session.client, &ledger, &changed);
    let rounds = async {
        let mut failures = 0_u32;
        loop {
            let wanted = session.addons.borrow_and_update().clone();
            match ledger.apply_all(&session.client, &wanted).await {
                Ok(sent) => {
                    if sent > 0 {
                        tracing::info!(
                            namespace = %session.hosted_cluster.namespace,
                            name = %session.hosted_cluster.name,
                            objects = sent,
                            "addons applied"
                        );
                    }
                    failures = 0;
                    if wait(&mut session.addons, &changed).await.is_err() {
                        return;
                    }
                }
                Err(error) => {
                    tracing::warn!(
                        namespace = %session.hosted_cluster.namespace,
                        name = %session.hosted_cluster.name,
                        reason = error.reason(),
                        error = %chain(&error),
                        "cannot apply addons"
                    );
                    let pause = FIRST_RETRY.saturating_mul(1 << failures.min(6)).min(LAST_RETRY);
                    failures = failures.saturating_add(1);
                    tokio::time::sleep(pause).await;
                }
            }
        }
    };
    tokio::select! {
        () = watches => {}
        () = rounds => {}
    }
}

/// Waits until something else is wanted or someone has changed an addon.
async fn wait(
    wanted: &mut tokio::sync::watch::Receiver<Arc<Vec<DynamicObject>>>,
    changed: &Notify,
) -> Result<(), tokio::sync::watch::error::RecvError> {
    tokio::select! {
        result = wanted.changed() => result?,
        () = changed.notified() => {}
    }
    tokio::time::sleep(SETTLE).await;
    Ok(())
}

async fn watch_all(client: &Client, ledger: &Arc<Ledger>, changed: &Arc<Notify>) {
    futures::join!(
        watch::<DaemonSet>(client, ledger, changed),
        watch::<Deployment>(client, ledger, changed),
        watch::<ConfigMap>(client, ledger, changed),
        watch::<Secret>(client, ledger, changed),
        watch::<Service>(client, ledger, changed),
        watch::<ServiceAccount>(client, ledger, changed),
        watch::<ClusterRole>(client, ledger, changed),
        watch::<ClusterRoleBinding>(client, ledger, changed),
        watch::<EndpointSlice>(client, ledger, changed),
    );
}

/// Watches the metadata of Remora's objects of one kind, endlessly.
async fn watch<K>(client: &Client, ledger: &Ledger, changed: &Notify)
where
    K: Resource<DynamicType = ()> + Clone + std::fmt::Debug + Send + Sync + 'static,
{
    let api: Api<PartialObjectMeta<K>> = Api::all(client.clone());
    let own = watcher::Config::default().labels(&format!(
        "{}={}",
        labels::MANAGED_BY,
        labels::FIELD_MANAGER
    ));
    watcher(api, own)
        .default_backoff()
        .for_each(|event| async move {
            match event {
                Ok(event) => {
                    if ledger.hear(&K::kind(&()), event).is_some_and(|(_, is_changed)| is_changed) {
                        changed.notify_one();
                    }
                }
                Err(error) => {
                    tracing::debug!(kind = %K::kind(&()), error = %chain(&error), "watch broken");
                }
            }
        })
        .await;
}
