//! What is known of the objects of one kind inside the hosted clusters.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use remora_core::expose::{HostedService, ServiceNodes};
use tokio::sync::{broadcast, watch};

/// Changes that may wait for the controller; one that falls behind looks at everything.
const WAITING_CHANGES: usize = 1024;

/// Namespace and name.
type Key = (String, String);

/// What exposures need to know of one object inside a hosted cluster.
pub trait Hosted: Clone + PartialEq {
    /// Namespace and name of the Service that it is, or is about.
    fn service(&self) -> Key;
}

impl Hosted for HostedService {
    fn service(&self) -> Key {
        (self.namespace.clone(), self.name.clone())
    }
}

impl Hosted for ServiceNodes {
    fn service(&self) -> Key {
        (self.namespace.clone(), self.service.clone())
    }
}

/// The Services of all hosted clusters.
pub type HostedServices = Registry<HostedService>;

/// The EndpointSlices of the hosted clusters in which a Service is exposed.
pub type HostedSlices = Registry<ServiceNodes>;

/// The objects of all hosted clusters whose API server answers; cheap to clone.
pub struct Registry<V> {
    inner: Arc<Inner<V>>,
}

impl<V> Clone for Registry<V> {
    fn clone(&self) -> Self {
        Self { inner: self.inner.clone() }
    }
}

struct Inner<V> {
    next_session: AtomicU64,
    clusters: Mutex<HashMap<String, Known<V>>>,
    /// Clusters whose objects somebody has asked for.
    needed: Mutex<HashMap<String, watch::Sender<bool>>>,
    changes: broadcast::Sender<Change>,
}

struct Known<V> {
    session: u64,
    /// Everything was listed once.
    is_complete: bool,
    objects: HashMap<Key, Arc<V>>,
}

/// Something is other than before.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Change {
    /// Where the control plane is.
    pub(super) control_plane_namespace: String,
    /// The Service; none: all of the cluster.
    pub(super) service: Option<Key>,
}

/// What is known of one object.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Lookup<V> {
    /// The hosted API server has not answered yet.
    Unknown,
    /// There is no such object.
    Absent,
    /// There it is.
    Present(Arc<V>),
}

impl<V> Default for Registry<V> {
    fn default() -> Self {
        let (changes, _) = broadcast::channel(WAITING_CHANGES);
        let inner = Inner {
            next_session: AtomicU64::new(1),
            clusters: Mutex::default(),
            needed: Mutex::default(),
            changes,
        };
        Self { inner: Arc::new(inner) }
    }
}

impl<V: Hosted> Registry<V> {
    /// Starts a cluster anew: nothing is known until it is complete. Gives the number under which to report.
    pub(super) fn open(&self, control_plane_namespace: &str) -> u64 {
        let session = self.inner.next_session.fetch_add(1, Ordering::Relaxed);
        let known = Known { session, is_complete: false, objects: HashMap::new() };
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
        objects: HashMap<Key, V>,
    ) {
        let objects: HashMap<Key, Arc<V>> =
            objects.into_iter().map(|(key, object)| (key, Arc::new(object))).collect();
        let mut clusters = self.lock();
        let Some(known) = clusters.get_mut(control_plane_namespace) else { return };
        if known.session != session || (known.is_complete && known.objects == objects) {
            return;
        }
        known.is_complete = true;
        known.objects = objects;
        drop(clusters);
        self.tell(control_plane_namespace, None);
    }

    /// Takes note of one object; `None`: it is gone, or counts no more.
    pub(super) fn set(
        &self,
        control_plane_namespace: &str,
        session: u64,
        key: Key,
        object: Option<V>,
    ) {
        let mut clusters = self.lock();
        let Some(known) = clusters.get_mut(control_plane_namespace) else { return };
        if known.session != session {
            return;
        }
        let object = object.map(Arc::new);
        let before = match &object {
            Some(object) => known.objects.insert(key, object.clone()),
            None => known.objects.remove(&key),
        };
        drop(clusters);
        if before == object {
            return;
        }
        // A slice may be handed to another Service.
        let mut concerned: Vec<Key> =
            before.iter().chain(&object).map(|object| object.service()).collect();
        concerned.dedup();
        for service in concerned {
            self.tell(control_plane_namespace, Some(service));
        }
    }

    /// Looks an object up.
    pub(super) fn look_up(
        &self,
        control_plane_namespace: &str,
        namespace: &str,
        name: &str,
    ) -> Lookup<V> {
        let clusters = self.lock();
        match clusters.get(control_plane_namespace).filter(|known| known.is_complete) {
            None => Lookup::Unknown,
            Some(known) => known
                .objects
                .get(&(namespace.to_owned(), name.to_owned()))
                .map_or(Lookup::Absent, |object| Lookup::Present(object.clone())),
        }
    }

    /// The objects of a cluster that are meant; none while its API server has not answered yet.
    pub(super) fn select(
        &self,
        control_plane_namespace: &str,
        is_meant: impl Fn(&V) -> bool,
    ) -> Option<Vec<Arc<V>>> {
        let clusters = self.lock();
        let known = clusters.get(control_plane_namespace).filter(|known| known.is_complete)?;
        Some(known.objects.values().filter(|object| is_meant(object)).cloned().collect())
    }

    /// All objects of a cluster; none while its API server has not answered yet.
    pub(super) fn all(&self, control_plane_namespace: &str) -> Option<Vec<Arc<V>>> {
        self.select(control_plane_namespace, |_| true)
    }

    /// Asks for the objects of a cluster, where they are watched only when they are needed.
    pub(super) fn need(&self, control_plane_namespace: &str) {
        self.switch(control_plane_namespace, |switch| {
            switch.send_if_modified(|is_needed| !std::mem::replace(is_needed, true));
        });
    }

    /// Ends when somebody has asked for the objects of a cluster.
    pub(super) async fn needed(&self, control_plane_namespace: &str) {
        let mut switch = self.switch(control_plane_namespace, watch::Sender::subscribe);
        // The sender is kept for good.
        let _ = switch.wait_for(|is_needed| *is_needed).await;
    }

    fn switch<T>(
        &self,
        control_plane_namespace: &str,
        then: impl FnOnce(&watch::Sender<bool>) -> T,
    ) -> T {
        // Single inserts: never half-done.
        let mut needed = self.inner.needed.lock().unwrap_or_else(PoisonError::into_inner);
        then(
            needed
                .entry(control_plane_namespace.to_owned())
                .or_insert_with(|| watch::Sender::new(false)),
        )
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

    fn lock(&self) -> MutexGuard<'_, HashMap<String, Known<V>>> {
        // Single inserts and removals: never half-done.
        self.inner.clusters.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl HostedSlices {
    /// What the EndpointSlices of a Service say together; none while they have not been listed yet.
    ///
    /// The first to ask makes that they are watched.
    pub(super) fn of(
        &self,
        control_plane_namespace: &str,
        namespace: &str,
        name: &str,
    ) -> Option<ServiceNodes> {
        self.need(control_plane_namespace);
        let is_of = |slice: &ServiceNodes| slice.namespace == namespace && slice.service == name;
        let slices = self.select(control_plane_namespace, is_of)?;
        Some(ServiceNodes {
            namespace: namespace.to_owned(),
            service: name.to_owned(),
            nodes: slices.iter().flat_map(|slice| slice.nodes.clone()).collect(),
            is_ready: slices.iter().any(|slice| slice.is_ready),
        })
    }
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
        hosted.replace("clusters-a", session, HashMap::new());
        assert_eq!(hosted.look_up("clusters-a", "petclinic", "web"), Lookup::Absent);
        hosted.close("clusters-a", session);
        assert_eq!(hosted.look_up("clusters-a", "petclinic", "web"), Lookup::Unknown);
    }

    #[test]
    fn only_what_changes_is_told() {
        let hosted = HostedServices::default();
        let session = hosted.open("clusters-a");
        hosted.replace("clusters-a", session, [(web(), service("web", "NodePort"))].into());
        let mut changes = hosted.changes();
        hosted.set("clusters-a", session, web(), Some(service("web", "NodePort")));
        hosted.replace("clusters-a", session, [(web(), service("web", "NodePort"))].into());
        assert!(changes.try_recv().is_err());
        hosted.set("clusters-a", session, web(), Some(service("web", "ClusterIP")));
        assert_eq!(changes.try_recv().unwrap().service, Some(web()));
        hosted.set("clusters-a", session, web(), None);
        assert_eq!(changes.try_recv().unwrap().service, Some(web()));
    }

    #[test]
    fn an_old_session_does_not_speak_for_a_new_one() {
        let hosted = HostedServices::default();
        let old = hosted.open("clusters-a");
        let new = hosted.open("clusters-a");
        hosted.replace("clusters-a", new, [(web(), service("web", "NodePort"))].into());
        hosted.replace("clusters-a", old, HashMap::new());
        hosted.set("clusters-a", old, web(), None);
        hosted.close("clusters-a", old);
        assert!(matches!(hosted.look_up("clusters-a", "petclinic", "web"), Lookup::Present(_)));
    }
}
