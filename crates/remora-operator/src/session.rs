//! Sessions: one for each hosted cluster whose API server answers, with the tasks that work inside it.
//!
//! ```text
//!  HostedCluster reconciled, API server ready ── Sessions::ensure ──> tasks run
//!  kubeconfig renewed ─────────────────────────── Sessions::ensure ──> tasks end, new ones run
//!  HostedCluster deleted ──────────────────────── Sessions::end ─────> tasks end
//! ```

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use kube::Client;
use kube::core::DynamicObject;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::context::Context;

/// Which HostedCluster a session belongs to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HostedClusterId {
    /// Namespace of the HostedCluster.
    pub namespace: String,
    /// Name of the HostedCluster.
    pub name: String,
    /// UID of the HostedCluster: one made anew under the same name is another.
    pub uid: String,
    /// Its infraID, the value of the label cluster.x-k8s.io/cluster-name.
    pub infra_id: String,
}

/// A hosted cluster whose API server answers.
#[derive(Clone)]
pub struct HostedSession {
    /// What every controller shares.
    pub context: Arc<Context>,
    /// The HostedCluster.
    pub hosted_cluster: HostedClusterId,
    /// Where its control plane and its VMs are.
    pub control_plane_namespace: String,
    /// Client to the hosted API server.
    pub client: Client,
    /// Cancelled when the cluster goes or its client is replaced.
    pub cancel: CancellationToken,
    /// What Remora wants to exist inside the hosted cluster; the newest value counts.
    pub addons: watch::Receiver<Arc<Vec<DynamicObject>>>,
}

/// Starts and ends the sessions.
#[derive(Clone)]
pub struct Sessions {
    shutdown: CancellationToken,
    tracker: TaskTracker,
    alive: Arc<Mutex<HashMap<String, Alive>>>,
}

struct Alive {
    hosted_cluster: HostedClusterId,
    kubeconfig_hash: String,
    client: Client,
    cancel: CancellationToken,
    addons: watch::Sender<Arc<Vec<DynamicObject>>>,
}

impl Sessions {
    /// Makes an empty registry whose tasks are counted by `tracker` and end with `shutdown`.
    pub fn new(shutdown: CancellationToken, tracker: TaskTracker) -> Self {
        Self { shutdown, tracker, alive: Arc::default() }
    }

    /// Makes sure that a session of this cluster runs with the current kubeconfig, and tells it what it shall apply; none
    /// for what it was told before, nothing if it is a new one.
    pub fn ensure(
        &self,
        context: &Arc<Context>,
        hosted_cluster: &HostedClusterId,
        control_plane_namespace: &str,
        (client, kubeconfig_hash): (Client, String),
        addons: Option<Vec<DynamicObject>>,
    ) {
        let mut alive = self.lock();
        if let Some(current) = alive.get(control_plane_namespace) {
            if current.hosted_cluster == *hosted_cluster
                && current.kubeconfig_hash == kubeconfig_hash
            {
                current.addons.send_if_modified(|known| {
                    let other = addons.filter(|addons| **known != *addons);
                    let is_other = other.is_some();
                    if let Some(addons) = other {
                        *known = Arc::new(addons);
                    }
                    is_other
                });
                return;
            }
            current.cancel.cancel();
        }
        let (sender, receiver) = watch::channel(Arc::new(addons.unwrap_or_default()));
        let cancel = self.shutdown.child_token();
        let session = HostedSession {
            context: context.clone(),
            hosted_cluster: hosted_cluster.clone(),
            control_plane_namespace: control_plane_namespace.to_owned(),
            client: client.clone(),
            cancel: cancel.clone(),
            addons: receiver,
        };
        let entry = Alive {
            hosted_cluster: hosted_cluster.clone(),
            kubeconfig_hash,
            client,
            cancel,
            addons: sender,
        };
        alive.insert(control_plane_namespace.to_owned(), entry);
        self.spawn_tasks(session);
    }

    /// Ends the session of a control plane namespace.
    pub fn end(&self, control_plane_namespace: &str) {
        if let Some(entry) = self.lock().remove(control_plane_namespace) {
            entry.cancel.cancel();
        }
    }

    /// Tells whether the session of a control plane namespace is that of this HostedCluster. Two may claim one namespace:
    /// whoever is refused must not work in the other's.
    pub fn is_of(&self, control_plane_namespace: &str, namespace: &str, name: &str) -> bool {
        self.client_of(control_plane_namespace, namespace, name).is_some()
    }

    /// The client of the session of a control plane namespace, if that is the one of this HostedCluster.
    pub fn client_of(
        &self,
        control_plane_namespace: &str,
        namespace: &str,
        name: &str,
    ) -> Option<Client> {
        let alive = self.lock();
        let alive = alive.get(control_plane_namespace)?;
        let id = &alive.hosted_cluster;
        Some(alive.client.clone()).filter(|_| id.namespace == namespace && id.name == name)
    }

    /// Starts everything that works inside one hosted cluster; each task ends with `session.cancel`.
    fn spawn_tasks(&self, session: HostedSession) {
        self.tracker.spawn(crate::exposure::inside::run(session.clone()));
        self.tracker.spawn(crate::load_balancer::run(session.clone()));
        self.tracker.spawn(crate::node_pool::csr::run(session.clone()));
        self.tracker.spawn(crate::node_pool::nodes::run(session.clone()));
        self.tracker.spawn(crate::hosted_cluster::addons::run(session));
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, HashMap<String, Alive>> {
        // Single inserts and removals: never half-done.
        self.alive.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
