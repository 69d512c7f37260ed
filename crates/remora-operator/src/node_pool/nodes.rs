//! Follows the nodes of one hosted cluster, and keeps them as their NodePools want them.

use std::collections::{BTreeMap, HashMap};
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use futures::StreamExt;
use k8s_openapi::api::core::v1::{Node, Taint};
use kube::api::{Patch, PatchParams};
use kube::runtime::WatchStreamExt;
use kube::runtime::reflector::{self, ObjectRef};
use kube::runtime::watcher::{self, Event, watcher};
use kube::{Api, Client, ResourceExt};
use remora_core::node::{self, NodeSettings};
use remora_core::pool::machine;
use serde_json::json;
use tokio::time::Instant;

use super::csr::until;
use super::error::{PoolError, failed};
use super::sweep::{Swept, sweep};
use crate::apply;
use crate::error::{chain, is_conflict, is_not_found};
use crate::session::HostedSession;

/// Wait before nodes that pools have left behind are looked for again after something failed.
const SWEEP_RETRY: Duration = Duration::from_secs(10);

/// Numbers the runs, so that one which ends takes nothing from the one that follows it.
static RUNS: AtomicU64 = AtomicU64::new(0);

/// What of a node matters to its NodePool.
#[derive(PartialEq)]
struct Facts {
    state: machine::Node,
    kubelet_version: Option<String>,
    labels: BTreeMap<String, String>,
    provider_id: Option<String>,
    taints: Vec<Taint>,
}

impl Facts {
    fn of(node: &Node) -> Self {
        let spec = node.spec.clone().unwrap_or_default();
        Self {
            state: node::observed_node(Some(node)),
            kubelet_version: node::kubelet_version(node),
            labels: node.labels().clone(),
            provider_id: spec.provider_id,
            taints: spec.taints.unwrap_or_default(),
        }
    }
}

/// Follows the nodes of a hosted cluster until its session ends, and wakes the NodePool controller. Once all are known,
/// those that pools have left behind are deleted.
pub async fn run(session: HostedSession) {
    let run = RUNS.fetch_add(1, Ordering::Relaxed);
    let events = session.context.node_pools.clone();
    let namespace = session.control_plane_namespace.as_str();
    let hosted_cluster =
        ObjectRef::new(&session.hosted_cluster.name).within(&session.hosted_cluster.namespace);
    let (reader, writer) = reflector::store();
    let api: Api<Node> = Api::all(session.client.clone());
    let stream = watcher(api, watcher::Config::default())
        .default_backoff()
        .modify(|node: &mut Node| {
            // Not needed, and the larger half of what a node says.
            node.metadata.managed_fields = None;
            if let Some(status) = &mut node.status {
                status.images = None;
            }
        })
        .reflect(writer);
    let mut stream = pin!(stream);
    let mut known: HashMap<String, Facts> = HashMap::new();
    let mut sweep_at = None;
    loop {
        let event = tokio::select! {
            () = session.cancel.cancelled() => break,
            () = until(sweep_at) => {
                let is_swept = sweep_session(&session, &reader.state()).await;
                sweep_at = (!is_swept).then(|| Instant::now() + SWEEP_RETRY);
                continue;
            }
            event = stream.next() => event,
        };
        let is_news = match event {
            None => break,
            Some(Err(error)) => {
                tracing::debug!(%namespace, error = %chain(&error), "cannot follow hosted nodes");
                false
            }
            Some(Ok(Event::Init)) => {
                known.clear();
                false
            }
            Some(Ok(Event::InitApply(node))) => {
                known.insert(node.name_any(), Facts::of(&node));
                false
            }
            Some(Ok(Event::InitDone)) => {
                events.register(namespace, run, reader.clone());
                sweep_at = Some(Instant::now());
                true
            }
            Some(Ok(Event::Apply(node))) => {
                let facts = Facts::of(&node);
                let is_same = known.get(&node.name_any()) == Some(&facts);
                known.insert(node.name_any(), facts);
                !is_same
            }
            Some(Ok(Event::Delete(node))) => {
                known.remove(&node.name_any());
                true
            }
        };
        if is_news {
            events.wake(hosted_cluster.clone()).await;
        }
    }
    events.unregister(namespace, run);
}

/// Deletes the nodes that pools have left behind; tells whether that went through.
async fn sweep_session(session: &HostedSession, known: &[Arc<Node>]) -> bool {
    let swept = Swept {
        namespace: &session.hosted_cluster.namespace,
        cluster_name: &session.hosted_cluster.name,
        control_plane_namespace: &session.control_plane_namespace,
    };
    match sweep(&session.context.client, &session.client, &swept, known).await {
        Ok(()) => true,
        Err(error) => {
            tracing::warn!(
                namespace = %session.control_plane_namespace,
                error = %chain(&error),
                "cannot look for nodes whose NodePool is gone"
            );
            false
        }
    }
}

/// Gives a node the labels, taints and providerID that its pool wants.
pub(super) async fn settle(
    client: &Client,
    present: &Node,
    settings: &NodeSettings,
) -> Result<(), PoolError> {
    let name = present.name_any();
    let api: Api<Node> = Api::all(client.clone());
    // Taints first: which ones the pool gave before stands in the annotation that the second step renews.
    if let Some(taints) = node::desired_taints(present, &settings.taints) {
        let patch = json!({
            "metadata": {"resourceVersion": present.metadata.resource_version},
            "spec": {"taints": taints},
        });
        match api.patch(&name, &PatchParams::default(), &Patch::Merge(&patch)).await {
            Ok(_) => {}
            // Someone else wrote first: the event about it brings the next pass.
            Err(error) if is_conflict(&error) || is_not_found(&error) => return Ok(()),
            Err(error) => return Err(failed("taint", format!("hosted Node {name}"))(error)),
        }
    }
    let mut desired = node::desired_node(&name, settings);
    if !node::carries(present, &desired) {
        // Only this very node: an apply would otherwise create one that has just been deleted.
        desired.metadata.uid.clone_from(&present.metadata.uid);
        match apply::apply(client, &desired).await {
            Ok(_) => {
                tracing::info!(node = %name, node_pool = %settings.node_pool, "node has joined its pool");
            }
            Err(error) if error.reason() == "Conflict" => {}
            Err(error) => return Err(error.into()),
        }
    }
    Ok(())
}

/// Deletes a node.
pub(super) async fn delete(client: &Client, present: &Node) -> Result<(), PoolError> {
    let mut reference = apply::reference::<Node>(None, &present.name_any());
    reference.metadata.uid.clone_from(&present.metadata.uid);
    if apply::delete_if_exists(client, &reference).await? {
        tracing::info!(node = %present.name_any(), "node deleted: its machine is gone");
    }
    Ok(())
}
