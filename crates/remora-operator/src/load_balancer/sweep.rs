//! Removes the hosting Services whose hosted Service went without waiting for it.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::api::core::v1::Service;
use kube::ResourceExt;
use tokio::sync::Notify;

use super::reconcile::Balancers;
use crate::apply::{delete_if_exists, reference};
use crate::error::chain;

/// Changes that come together make one round.
const SETTLE: Duration = Duration::from_millis(200);
/// Pause after a round that failed.
const RETRY: Duration = Duration::from_secs(5);

/// Clears up at the start, and whenever something may be left over.
pub(super) async fn sweep(balancers: Arc<Balancers>, left_over: Arc<Notify>) {
    balancers.observed.ready().await;
    // The writer is gone only when the session ends.
    let _ = balancers.observed.hosted.wait_until_ready().await;
    loop {
        let is_clean = clear_up(&balancers).await;
        if is_clean {
            left_over.notified().await;
        }
        tokio::time::sleep(if is_clean { SETTLE } else { RETRY }).await;
    }
}

async fn clear_up(balancers: &Balancers) -> bool {
    let known = balancers.observed.hosted.state();
    let uids: BTreeSet<String> = known.iter().filter_map(|hosted| hosted.uid()).collect();
    balancers.memories.retain(&uids);
    let Some(cluster) = balancers.observed.cluster(&balancers.session) else { return true };
    let mut is_clean = true;
    for orphan in balancers.observed.orphans(&cluster) {
        let (namespace, name) = (orphan.namespace().unwrap_or_default(), orphan.name_any());
        let mut object = reference::<Service>(Some(&namespace), &name);
        object.metadata.uid = orphan.uid();
        match delete_if_exists(&balancers.session.context.client, &object).await {
            Ok(_) => tracing::info!(%namespace, %name, "service without hosted service removed"),
            Err(error) => {
                is_clean = false;
                tracing::warn!(%namespace, %name, error = %chain(&error), "cannot remove service");
            }
        }
    }
    is_clean
}
