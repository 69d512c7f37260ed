//! What is watched for the load balancers of one hosted cluster, and which hosted Service each change concerns.

use std::sync::Arc;
use std::time::Duration;

use futures::{FutureExt, Stream, StreamExt, TryStreamExt, stream};
use k8s_openapi::api::core::v1::{Pod, Service};
use k8s_openapi::api::discovery::v1::EndpointSlice;
use kube::api::PartialObjectMeta;
use kube::runtime::controller::{Action, Config};
use kube::runtime::reflector::{self, ObjectRef, Store};
use kube::runtime::watcher::{self, Event};
use kube::runtime::{Controller, WatchStreamExt};
use kube::{Api, ResourceExt};
use remora_api::{HostedCluster, labels};
use remora_core::expose::{SeenSlice, ServiceNodes, VmPod};
use remora_core::load_balancer::is_concerned;
use tokio::sync::{Notify, watch};

use super::memory::Memories;
use super::observed::{Observed, Switch, without_managed_fields};
use super::reconcile::{Balancers, reconcile};
use super::sweep::sweep;
use crate::apply::ApplyError;
use crate::error::chain;
use crate::exposure::view;
use crate::session::HostedSession;

/// Hosted Services looked at at once.
const CONCURRENCY: u16 = 8;
/// Changes that come together make one pass.
const DEBOUNCE: Duration = Duration::from_millis(20);

/// Gives hosted Services their load balancers until the session ends.
pub async fn run(session: HostedSession) {
    let cancel = session.cancel.clone();
    // Every step can be repeated, so that it may be cut off anywhere.
    tokio::select! {
        () = cancel.cancelled() => {}
        () = balance(session) => {}
    }
}

async fn balance(session: HostedSession) {
    let (reader, writer) = reflector::store();
    let left_over = Arc::new(Notify::new());
    let own = hosted_services(&session, writer, &left_over);

    let hosting = session.context.client.clone();
    let namespace = &session.control_plane_namespace;
    let cluster = &session.hosted_cluster;
    let made = format!(
        "{},{}={}",
        labels::TENANT_SERVICE_NAME,
        labels::CAPI_CLUSTER_NAME,
        cluster.infra_id
    );
    let (services, service_changes) = view::watch(
        Api::<Service>::namespaced(hosting.clone(), namespace),
        watcher::Config::default().labels(&made),
        without_managed_fields,
    );
    let (made_slices, made_slice_changes) = view::watch(
        Api::<PartialObjectMeta<EndpointSlice>>::namespaced(hosting.clone(), namespace),
        watcher::Config::default().labels(&made),
        |slice| SeenSlice::of(&slice.metadata),
    );
    let (switch, switch_changes) = view::watch(
        Api::<PartialObjectMeta<HostedCluster>>::namespaced(hosting.clone(), &cluster.namespace),
        watcher::Config::default().fields(&format!("metadata.name={}", cluster.name)),
        |cluster| Some(Switch::of(&cluster.metadata)),
    );
    // These two change often, and only `externalTrafficPolicy: Local` needs them.
    let (hosted_slices, hosted_slice_changes) = view::watch(
        Api::<EndpointSlice>::all(session.client.clone()),
        watcher::Config::default(),
        ServiceNodes::of,
    );
    let (machines, machine_changes) = view::watch(
        Api::<Pod>::namespaced(hosting, namespace),
        watcher::Config::default().labels(&workers(&cluster.infra_id)),
        VmPod::of,
    );
    let (needs_local, is_local_needed) = watch::channel(false);
    let observed = Observed {
        hosted: reader.clone(),
        services,
        made_slices,
        switch,
        hosted_slices,
        machines,
        needs_local,
    };
    let concerned = Concerned { hosted: reader.clone(), left_over: left_over.clone() };
    let listed = local_listed(&observed, concerned.clone());
    let balancers =
        Arc::new(Balancers { session: session.clone(), observed, memories: Memories::default() });
    let sweeper = sweep(balancers.clone(), left_over);
    let work = Controller::for_stream(own, reader)
        .with_config(Config::default().debounce(DEBOUNCE).concurrency(CONCURRENCY))
        .reconcile_on(of(service_changes, concerned.clone(), Concerned::by_hosting_service))
        .reconcile_on(of(made_slice_changes, concerned.clone(), Concerned::by_made_slice))
        .reconcile_on(of(switch_changes, concerned.clone(), |concerned, _| concerned.all()))
        .reconcile_on(of(
            once_needed(is_local_needed.clone(), hosted_slice_changes),
            concerned.clone(),
            Concerned::by_hosted_slice,
        ))
        .reconcile_on(of(
            once_needed(is_local_needed, machine_changes),
            concerned,
            |concerned, _| concerned.local(),
        ))
        .reconcile_on(listed)
        .run(reconcile, after_failure, balancers)
        .for_each(|_| std::future::ready(()));
    tokio::join!(work, sweeper);
}

/// The hosted Services that have to be looked at; one that turns into another counts as deleted.
fn hosted_services(
    session: &HostedSession,
    writer: reflector::store::Writer<Service>,
    left_over: &Arc<Notify>,
) -> impl Stream<Item = Result<Service, watcher::Error>> + Send + use<> {
    let left_over = left_over.clone();
    watcher::watcher(Api::<Service>::all(session.client.clone()), watcher::Config::default())
        .default_backoff()
        .try_filter_map(|event| std::future::ready(Ok(narrowed(event))))
        .reflect(writer)
        .inspect_ok(move |event| {
            if matches!(event, Event::Delete(_) | Event::InitDone) {
                left_over.notify_one();
            }
        })
        .applied_objects()
}

fn narrowed(event: Event<Service>) -> Option<Event<Service>> {
    match event {
        Event::Apply(service) if !is_concerned(&service) => Some(Event::Delete(service)),
        Event::InitApply(service) if !is_concerned(&service) => None,
        Event::Apply(_)
        | Event::InitApply(_)
        | Event::Delete(_)
        | Event::Init
        | Event::InitDone => Some(event),
    }
}

fn workers(infra_id: &str) -> String {
    format!(
        "{}={},{}={infra_id}",
        labels::CAPI_ROLE,
        labels::CAPI_ROLE_WORKER,
        labels::CAPI_CLUSTER_NAME
    )
}

/// The hosted Services that changes concern.
fn of<V: Send + 'static>(
    changes: impl Stream<Item = Vec<V>> + Send + 'static,
    concerned: Concerned,
    select: impl Fn(&Concerned, &V) -> Vec<ObjectRef<Service>> + Send + 'static,
) -> impl Stream<Item = ObjectRef<Service>> + Send + 'static {
    changes.flat_map(move |changed| {
        stream::iter(changed.iter().flat_map(|value| select(&concerned, value)).collect::<Vec<_>>())
    })
}

/// Changes that nobody watches for before they are needed.
fn once_needed<V: Send + 'static>(
    mut is_needed: watch::Receiver<bool>,
    changes: impl Stream<Item = Vec<V>> + Send + 'static,
) -> impl Stream<Item = Vec<V>> + Send + 'static {
    async move {
        // The sender lives as long as the controller.
        let _ = is_needed.wait_for(|is_needed| *is_needed).await;
        changes
    }
    .flatten_stream()
}

/// Wakes those with the policy `Local` when everything that they need was listed once, be it nothing.
fn local_listed(
    observed: &Observed,
    concerned: Concerned,
) -> impl Stream<Item = ObjectRef<Service>> + Send + use<> {
    let listed = observed.local_ready();
    async move {
        listed.await;
        stream::iter(concerned.local())
    }
    .flatten_stream()
}

/// Which hosted Services something concerns.
#[derive(Clone)]
struct Concerned {
    hosted: Store<Service>,
    left_over: Arc<Notify>,
}

impl Concerned {
    fn by_hosting_service(&self, service: &Service) -> Vec<ObjectRef<Service>> {
        self.by_name(&service.name_any())
    }

    fn by_made_slice(&self, slice: &SeenSlice) -> Vec<ObjectRef<Service>> {
        self.by_name(&slice.service)
    }

    /// By the hosting Service's name. What belongs to none is looked at by whoever clears up.
    fn by_name(&self, name: &str) -> Vec<ObjectRef<Service>> {
        let found = self.select(|hosted| super::observed::hosting_name(hosted) == name);
        if found.is_empty() {
            self.left_over.notify_one();
        }
        found
    }

    fn by_hosted_slice(&self, nodes: &ServiceNodes) -> Vec<ObjectRef<Service>> {
        let key = ObjectRef::new(&nodes.service).within(&nodes.namespace);
        self.hosted.get(&key).map(|_| key).into_iter().collect()
    }

    fn local(&self) -> Vec<ObjectRef<Service>> {
        self.select(remora_core::load_balancer::is_local)
    }

    fn all(&self) -> Vec<ObjectRef<Service>> {
        self.select(|_| true)
    }

    fn select(&self, is_meant: impl Fn(&Service) -> bool) -> Vec<ObjectRef<Service>> {
        let found = self.hosted.state_filter(|hosted: &Service| is_meant(hosted));
        found.iter().map(|hosted| ObjectRef::from_obj(&**hosted)).collect()
    }
}

#[expect(clippy::needless_pass_by_value, reason = "kube's signature")]
fn after_failure(hosted: Arc<Service>, error: &ApplyError, balancers: Arc<Balancers>) -> Action {
    tracing::warn!(
        namespace = %balancers.session.control_plane_namespace,
        service = %format!("{}/{}", hosted.namespace().unwrap_or_default(), hosted.name_any()),
        reason = error.reason(),
        error = %chain(error),
        "cannot reconcile load balancer"
    );
    Action::requeue(balancers.memories.pause_after_failure(&hosted))
}
