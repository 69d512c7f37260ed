//! What is known of the Services inside the hosted clusters.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use remora_core::expose::HostedService;
use tokio::sync::broadcast;

/// Changes that may wait for the controller; one that falls behind looks at everything.
const WAITING_CHANGES: usize = 1024;

/// Namespace and name of a Service.
type Key = (String, String);

/// The Services of all hosted clusters whose API server answers; cheap to clone.
#[derive(Clone)]
pub struct HostedServices {
    inner: Arc<Inner>,
}

struct Inner {
    next_session: AtomicU64,
    clusters: Mutex<HashMap<String, Known>>,
    changes: broadcast::Sender<Change>,
}

struct Known {
    session: u64,
    /// Everything was listed once.
    is_complete: bool,
    services: HashMap<Key, Arc<HostedService>>,
}

/// Something is other than before.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Change {
    /// Where the control plane is.
    pub(super) control_plane_namespace: String,
    /// The Service; none: all of the cluster.
    pub(super) service: Option<Key>,
}

/// What is known of one Service.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Lookup {
    /// The hosted API server has not answered yet.
    Unknown,
    /// There is no such Service.
    Absent,
    /// There it is.
    Present(Arc<HostedService>),
}

impl Default for HostedServices {
    fn default() -> Self {
        let (changes, _) = broadcast::channel(WAITING_CHANGES);
        let inner = Inner { next_session: AtomicU64::new(1), clusters: Mutex::default(), changes };
        Self { inner: Arc::new(inner) }
    }
}

impl HostedServices {
    /// Starts a cluster anew: nothing is known until it is complete. Gives the number under which to report.
    pub(super) fn open(&self, control_plane_namespace: &str) -> u64 {
        let session = self.inner.next_session.fetch_add(1, Ordering::Relaxed);
        let known = Known { session, is_complete: false, services: HashMap::new() };
        self.lock().insert(control_plane_namespace.to_owned(), known);
        session
    }

    /// Forgets a cluster, unless a later session has taken it over.
    pub(super) fn close(&self, control_plane_namespace: &str, session: u64) {
        let mut clusters = self.lock();
        if clusters.get(control_plane_namespace).is_some_and(|known| known.session == session) {
            clusters.remove(control_plane_namespace);
            drop(clusters);
            self.tell(control_plane_namespace, None);
        }
    }

    /// Replaces everything that is known of a cluster.
    pub(super) fn replace(
        &self,
        control_plane_namespace: &str,
        session: u64,
        services: Vec<HostedService>,
    ) {
        let services: HashMap<Key, Arc<HostedService>> =
            services.into_iter().map(|service| (key(&service), Arc::new(service))).collect();
        let mut clusters = self.lock();
        let Some(known) = clusters.get_mut(control_plane_namespace) else { return };
        if known.session != session || (known.is_complete && known.services == services) {
            return;
        }
        known.is_complete = true;
        known.services = services;
        drop(clusters);
        self.tell(control_plane_namespace, None);
    }

    /// Takes note of one Service; `None`: it is gone.
    pub(super) fn set(
        &self,
        control_plane_namespace: &str,
        session: u64,
        service_key: Key,
        service: Option<&HostedService>,
    ) {
        let mut clusters = self.lock();
        let Some(known) = clusters.get_mut(control_plane_namespace) else { return };
        if known.session != session {
            return;
        }
        let before = match service {
            Some(service) => known.services.insert(service_key.clone(), Arc::new(service.clone())),
            None => known.services.remove(&service_key),
        };
        drop(clusters);
        if before.as_deref() != service {
            self.tell(control_plane_namespace, Some(service_key));
        }
    }

    /// Looks a Service up.
    pub(super) fn look_up(
        &self,
        control_plane_namespace: &str,
        namespace: &str,
        name: &str,
    ) -> Lookup {
        let clusters = self.lock();
        match clusters.get(control_plane_namespace).filter(|known| known.is_complete) {
            None => Lookup::Unknown,
            Some(known) => known
                .services
                .get(&(namespace.to_owned(), name.to_owned()))
                .map_or(Lookup::Absent, |service| Lookup::Present(service.clone())),
        }
    }

    /// All Services of a cluster; none while its API server has not answered yet.
    pub(super) fn all(&self, control_plane_namespace: &str) -> Option<Vec<Arc<HostedService>>> {
        let clusters = self.lock();
        let known = clusters.get(control_plane_namespace).filter(|known| known.is_complete)?;
        Some(known.services.values().cloned().collect())
    }

    /// All changes from now on.
    pub(super) fn changes(&self) -> broadcast::Receiver<Change> {
        self.inner.changes.subscribe()
    }

    fn tell(&self, control_plane_namespace: &str, service: Option<Key>) {
        let control_plane_namespace = control_plane_namespace.to_owned();
        // Without a listener nobody has to be told.
        let _ = self.inner.changes.send(Change { control_plane_namespace, service });
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<String, Known>> {
        // Single inserts and removals: never half-done.
        self.inner.clusters.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn key(service: &HostedService) -> Key {
    (service.namespace.clone(), service.name.clone())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn service(name: &str, type_: &str) -> HostedService {
        HostedService {
            namespace: "petclinic".to_owned(),
            name: name.to_owned(),
            uid: format!("uid-of-{name}"),
            labels: Default::default(),
            annotations: Default::default(),
            type_: type_.to_owned(),
            is_local: false,
            ports: Vec::new(),
            session_affinity: None,
            session_affinity_config: None,
        }
    }

    fn web() -> Key {
        ("petclinic".to_owned(), "web".to_owned())
    }

    #[test]
    fn before_the_first_list_is_complete_a_service_is_unknown_and_afterwards_absent() {
        let hosted = HostedServices::default();
        let session = hosted.open("clusters-a");
        assert_eq!(hosted.look_up("clusters-a", "petclinic", "web"), Lookup::Unknown);
        hosted.replace("clusters-a", session, Vec::new());
        assert_eq!(hosted.look_up("clusters-a", "petclinic", "web"), Lookup::Absent);
        hosted.close("clusters-a", session);
        assert_eq!(hosted.look_up("clusters-a", "petclinic", "web"), Lookup::Unknown);
    }

    #[test]
    fn only_what_changes_is_told() {
        let hosted = HostedServices::default();
        let session = hosted.open("clusters-a");
        hosted.replace("clusters-a", session, vec![service("web", "NodePort")]);
        let mut changes = hosted.changes();
        hosted.set("clusters-a", session, web(), Some(&service("web", "NodePort")));
        hosted.replace("clusters-a", session, vec![service("web", "NodePort")]);
        assert!(changes.try_recv().is_err());
        hosted.set("clusters-a", session, web(), Some(&service("web", "ClusterIP")));
        assert_eq!(changes.try_recv().unwrap().service, Some(web()));
        hosted.set("clusters-a", session, web(), None);
        assert_eq!(changes.try_recv().unwrap().service, Some(web()));
    }

    #[test]
    fn an_old_session_does_not_speak_for_a_new_one() {
        let hosted = HostedServices::default();
        let old = hosted.open("clusters-a");
        let new = hosted.open("clusters-a");
        hosted.replace("clusters-a", new, vec![service("web", "NodePort")]);
        hosted.replace("clusters-a", old, Vec::new());
        hosted.set("clusters-a", old, web(), None);
        hosted.close("clusters-a", old);
        assert!(matches!(hosted.look_up("clusters-a", "petclinic", "web"), Lookup::Present(_)));
    }
}
