//! What wakes the NodePool controller from inside hosted clusters, and what it knows of their nodes.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use futures::Stream;
use k8s_openapi::api::core::v1::Node;
use kube::runtime::reflector::{ObjectRef, Store};
use remora_api::{HostedCluster, NodePool};
use tokio::sync::mpsc;

/// How many events may wait; whoever sends more waits itself.
const QUEUE_LENGTH: usize = 256;
/// Wait after the first failure of a pool; it doubles with each further one.
const FIRST_RETRY: Duration = Duration::from_secs(1);
/// Longest wait after a failure.
const LAST_RETRY: Duration = Duration::from_secs(60);

/// Shared between the NodePool controller and the sessions of the hosted clusters.
#[derive(Clone)]
pub struct NodePoolEvents {
    inner: Arc<Inner>,
}

struct Inner {
    sender: mpsc::Sender<ObjectRef<HostedCluster>>,
    receiver: Mutex<Option<mpsc::Receiver<ObjectRef<HostedCluster>>>>,
    nodes: Mutex<HashMap<String, Registered>>,
    failures: Mutex<HashMap<ObjectRef<NodePool>, u32>>,
}

struct Registered {
    session: u64,
    nodes: Store<Node>,
}

impl Default for NodePoolEvents {
    fn default() -> Self {
        let (sender, receiver) = mpsc::channel(QUEUE_LENGTH);
        Self {
            inner: Arc::new(Inner {
                sender,
                receiver: Mutex::new(Some(receiver)),
                nodes: Mutex::default(),
                failures: Mutex::default(),
            }),
        }
    }
}

impl NodePoolEvents {
    /// Wakes the controller for all pools of a hosted cluster.
    pub(super) async fn wake(&self, hosted_cluster: ObjectRef<HostedCluster>) {
        // The receiver lives as long as the controller: without it there is nobody to wake.
        let _ = self.inner.sender.send(hosted_cluster).await;
    }

    /// The events; only the first caller gets them.
    pub(super) fn receive(&self) -> impl Stream<Item = ObjectRef<HostedCluster>> + Send + 'static {
        let mut receiver = lock(&self.inner.receiver).take();
        futures::stream::poll_fn(move |context| match &mut receiver {
            Some(receiver) => receiver.poll_recv(context),
            None => std::task::Poll::Pending,
        })
    }

    /// Makes the nodes of a hosted cluster known, as `session` sees them.
    pub(super) fn register(&self, control_plane_namespace: &str, session: u64, nodes: Store<Node>) {
        lock(&self.inner.nodes)
            .insert(control_plane_namespace.to_owned(), Registered { session, nodes });
    }

    /// Forgets the nodes of a hosted cluster unless another session has registered them since.
    pub(super) fn unregister(&self, control_plane_namespace: &str, session: u64) {
        let mut nodes = lock(&self.inner.nodes);
        if nodes.get(control_plane_namespace).is_some_and(|known| known.session == session) {
            nodes.remove(control_plane_namespace);
        }
    }

    /// The nodes of a hosted cluster, if its API server answers.
    pub(super) fn nodes(&self, control_plane_namespace: &str) -> Option<Vec<Arc<Node>>> {
        lock(&self.inner.nodes).get(control_plane_namespace).map(|known| known.nodes.state())
    }

    /// Notes that a pass went through.
    pub(super) fn succeeded(&self, node_pool: &ObjectRef<NodePool>) {
        lock(&self.inner.failures).remove(node_pool);
    }

    /// Notes that a pass failed and tells how long to wait; `jitter` spreads retries.
    pub(super) fn failed(&self, node_pool: ObjectRef<NodePool>, jitter: u8) -> Duration {
        let mut failures = lock(&self.inner.failures);
        let count = failures.entry(node_pool).or_default();
        let wait = FIRST_RETRY.saturating_mul(1 << (*count).min(6)).min(LAST_RETRY);
        *count += 1;
        wait.mul_f64(1.0 + f64::from(jitter) / f64::from(u8::MAX) / 4.0)
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    // Single inserts, removals and reads: never half-done.
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn when_a_pool_fails_again_and_again_the_wait_doubles_up_to_a_limit() {
        let events = NodePoolEvents::default();
        let pool = ObjectRef::new("a").within("clusters");
        let waits: Vec<u64> = (0..8).map(|_| events.failed(pool.clone(), 0).as_secs()).collect();
        assert_eq!(waits, [1, 2, 4, 8, 16, 32, 60, 60]);
        events.succeeded(&pool);
        assert_eq!(events.failed(pool, u8::MAX), Duration::from_millis(1250));
    }

    #[test]
    fn when_a_newer_session_has_registered_the_older_one_takes_nothing_away() {
        let events = NodePoolEvents::default();
        let (nodes, _writer) = kube::runtime::reflector::store();
        events.register("clusters-a", 1, nodes.clone());
        events.register("clusters-a", 2, nodes);
        events.unregister("clusters-a", 1);
        assert!(events.nodes("clusters-a").is_some());
        events.unregister("clusters-a", 2);
        assert!(events.nodes("clusters-a").is_none());
    }
}
