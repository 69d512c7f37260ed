//! Everything that a decision about an exposure rests on.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use futures::FutureExt;
use futures::future::join_all;
use k8s_openapi::api::core::v1::Service;
use kube::runtime::reflector::{ObjectRef, Store};
use kube::{Resource, ResourceExt};
use remora_api::conditions::{ExposureConditionType, Reason};
use remora_api::{HostedCluster, NodePool, ServiceExposure, labels, names};
use remora_core::expose::{
    Candidate, ClusterView, Decision, HostedService, HostedView, SeenSlice, ServiceNodes, VmPod,
    backends, decide, rank, service_name,
};
use remora_core::exposure_status::HostingNode;

use super::hosted::{Change, HostedServices, HostedSlices, Lookup};
use super::program::is_made_for;
use super::view::View;
use crate::session::Sessions;

/// What matters of a HostedCluster.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Cluster {
    pub(super) namespace: String,
    pub(super) name: String,
    pub(super) uid: String,
    infra_id: String,
    pub(super) is_deleting: bool,
}

impl Cluster {
    pub(super) fn of(cluster: &HostedCluster) -> Option<Self> {
        Some(Self {
            namespace: cluster.namespace()?,
            name: cluster.name_any(),
            uid: cluster.uid()?,
            infra_id: cluster.spec.infra_id.clone().unwrap_or_default(),
            is_deleting: cluster.meta().deletion_timestamp.is_some(),
        })
    }
}

/// What matters of a NodePool.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Pool {
    namespace: String,
    name: String,
    cluster: String,
}

impl Pool {
    pub(super) fn of(pool: &NodePool) -> Option<Self> {
        Some(Self {
            namespace: pool.namespace()?,
            name: pool.name_any(),
            cluster: pool.spec.cluster_name.clone(),
        })
    }
}

/// Keeps a Service that has node ports, without what only other programs read.
pub(super) fn with_node_ports(service: &Service) -> Option<Service> {
    let spec = service.spec.as_ref()?;
    let has_node_port = spec.ports.iter().flatten().any(|port| port.node_port.is_some())
        || spec.health_check_node_port.is_some();
    if !has_node_port {
        return None;
    }
    let mut kept = service.clone();
    kept.metadata.managed_fields = None;
    kept.status = None;
    Some(kept)
}

/// Everything that a decision rests on; cheap to clone.
#[derive(Clone)]
pub(super) struct Observed {
    pub(super) exposures: Store<ServiceExposure>,
    pub(super) clusters: View<Cluster>,
    pub(super) node_pools: View<Pool>,
    pub(super) services: View<Service>,
    pub(super) nodes: View<HostingNode>,
    pub(super) pods: View<VmPod>,
    pub(super) slices: View<SeenSlice>,
    pub(super) hosted: HostedServices,
    pub(super) hosted_slices: HostedSlices,
    pub(super) sessions: Sessions,
}

/// What is known about one exposure, and what is to be done about it.
pub(super) struct Verdict {
    pub(super) decision: Decision,
    /// Its HostedCluster.
    pub(super) cluster: Option<Cluster>,
    /// The Service that serves it now, as last seen.
    pub(super) own: Option<Service>,
    /// The VMs that are meant to serve.
    pub(super) machines: Vec<VmPod>,
    /// The EndpointSlices of the Service that serves it now, whoever wrote them.
    pub(super) slices: Vec<SeenSlice>,
    /// What the hosted Service's EndpointSlices say, once they are known.
    pub(super) hosted: Option<ServiceNodes>,
}

impl Observed {
    /// Ends when everything was listed once.
    pub(super) fn ready(&self) -> impl Future<Output = ()> + Send + use<> {
        let views = [
            self.clusters.ready().boxed(),
            self.node_pools.ready().boxed(),
            self.services.ready().boxed(),
            self.nodes.ready().boxed(),
            self.pods.ready().boxed(),
            self.slices.ready().boxed(),
        ];
        let exposures = self.exposures.clone();
        async move {
            join_all(views).await;
            // The writer is gone only when the operator ends.
            let _ = exposures.wait_until_ready().await;
        }
    }

    /// Decides one exposure; as a port given to one is not to be had by another, all are looked at.
    pub(super) fn decide(&self, exposure: &ServiceExposure) -> Option<Verdict> {
        let services = self.services.all();
        let seen: Vec<Seen> = self
            .exposures
            .state()
            .into_iter()
            // A store may lag behind; the object at hand is the newer one.
            .filter(|other| rank(other) != rank(exposure))
            .chain([Arc::new(exposure.clone())])
            .filter(|other| other.meta().deletion_timestamp.is_none())
            .map(|other| self.look_at(other))
            .collect();
        let candidates: Vec<Candidate<'_>> = seen.iter().map(Seen::candidate).collect();
        let mut decisions = decide(&candidates, &services);
        let decision = decisions.remove(&rank(exposure))?;
        let mine = seen.into_iter().find(|seen| rank(&seen.exposure) == rank(exposure))?;
        let pods = self.pods.all();
        let local = mine.local.as_ref().map(|local| &local.nodes);
        let meant = |view| backends(exposure, view, local, &pods);
        let machines = mine.view.iter().flat_map(meant).cloned().collect();
        let (namespace, name) =
            (control_plane_namespace(exposure), service_name(&exposure.name_any()));
        let is_of = |slice: &SeenSlice| slice.namespace == namespace && slice.service == name;
        let slices = self.slices.select(is_of);
        let hosted = match &mine.lookup {
            Lookup::Present(service) => self.endpoints(&namespace, service),
            Lookup::Unknown | Lookup::Absent => None,
        };
        let Seen { cluster, own, .. } = mine;
        Some(Verdict { decision, cluster, own, machines, slices, hosted })
    }

    fn look_at(&self, exposure: Arc<ServiceExposure>) -> Seen {
        let namespace = exposure.namespace().unwrap_or_default();
        let spec = &exposure.spec;
        let control_plane_namespace = control_plane_namespace(&exposure);
        let cluster = self.clusters.get(&namespace, &spec.cluster_name);
        let view = cluster.as_ref().map(|cluster| ClusterView {
            infra_id: cluster.infra_id.clone(),
            control_plane_namespace: control_plane_namespace.clone(),
            is_deleting: cluster.is_deleting,
            node_pools: self.pools_of(cluster),
        });
        let hosted = &spec.service;
        let is_served =
            self.sessions.is_of(&control_plane_namespace, &namespace, &spec.cluster_name);
        let lookup = if is_served {
            self.hosted.look_up(&control_plane_namespace, &hosted.namespace, &hosted.name)
        } else {
            Lookup::Unknown
        };
        let own = self
            .services
            .get(&control_plane_namespace, &service_name(&exposure.name_any()))
            .filter(|service| is_made_for(&exposure, service));
        let local = match &lookup {
            Lookup::Present(service) if service.is_local => {
                self.endpoints(&control_plane_namespace, service)
            }
            Lookup::Present(_) | Lookup::Unknown | Lookup::Absent => None,
        };
        Seen { exposure, cluster, view, lookup, local, own }
    }

    fn endpoints(
        &self,
        control_plane_namespace: &str,
        service: &HostedService,
    ) -> Option<ServiceNodes> {
        self.hosted_slices.of(control_plane_namespace, &service.namespace, &service.name)
    }

    fn pools_of(&self, cluster: &Cluster) -> BTreeSet<String> {
        let pools = self.node_pools.all().into_iter();
        pools
            .filter(|pool| pool.namespace == cluster.namespace && pool.cluster == cluster.name)
            .map(|pool| pool.name)
            .collect()
    }

    /// Services that were made for exposures which exist no more.
    pub(super) fn orphans(&self) -> Vec<Service> {
        let exposures = self.exposures.state();
        let wanted: BTreeSet<(String, String)> = exposures
            .iter()
            .map(|exposure| (control_plane_namespace(exposure), service_name(&exposure.name_any())))
            .collect();
        let is_ours = |service: &Service| {
            let found = service.labels();
            found.contains_key(labels::EXPOSURE_NAME)
                && found.get(labels::MANAGED_BY).map(String::as_str) == Some(labels::FIELD_MANAGER)
        };
        let key = |service: &Service| (service.namespace().unwrap_or_default(), service.name_any());
        let services = self.services.all().into_iter();
        services.filter(|service| is_ours(service) && !wanted.contains(&key(service))).collect()
    }

    /// The hosting cluster's nodes.
    pub(super) fn hosting_nodes(&self) -> Vec<HostingNode> {
        self.nodes.all()
    }
}

/// One exposure with what its candidate borrows from.
struct Seen {
    exposure: Arc<ServiceExposure>,
    cluster: Option<Cluster>,
    view: Option<ClusterView>,
    lookup: Lookup<HostedService>,
    /// Where its ready pods are, if that decides.
    local: Option<ServiceNodes>,
    own: Option<Service>,
}

impl Seen {
    fn candidate(&self) -> Candidate<'_> {
        Candidate {
            exposure: &self.exposure,
            cluster: self.view.as_ref(),
            hosted: match &self.lookup {
                Lookup::Unknown => HostedView::Unknown,
                Lookup::Absent => HostedView::Absent,
                Lookup::Present(service) => HostedView::Present(service),
            },
            nodes: self.local.as_ref().map(|local| &local.nodes),
            own: self.own.as_ref(),
        }
    }
}

/// Where the exposure's Service belongs.
pub(super) fn control_plane_namespace(exposure: &ServiceExposure) -> String {
    let namespace = exposure.namespace().unwrap_or_default();
    names::control_plane_namespace(&namespace, &exposure.spec.cluster_name)
}

/// Which exposures something concerns.
#[derive(Clone)]
pub(super) struct Concerned {
    pub(super) exposures: Store<ServiceExposure>,
}

impl Concerned {
    pub(super) fn by_cluster(&self, cluster: &Cluster) -> Vec<ObjectRef<ServiceExposure>> {
        self.select(|exposure| {
            exposure.namespace().as_ref() == Some(&cluster.namespace)
                && exposure.spec.cluster_name == cluster.name
        })
    }

    pub(super) fn by_pool(&self, pool: &Pool) -> Vec<ObjectRef<ServiceExposure>> {
        self.select(|exposure| {
            exposure.namespace().as_ref() == Some(&pool.namespace)
                && exposure.spec.node_pools.contains(&pool.name)
        })
    }

    /// The one that the Service serves, and those that a node port was refused to.
    pub(super) fn by_service(&self, service: &Service) -> Vec<ObjectRef<ServiceExposure>> {
        let (namespace, name) = (service.namespace().unwrap_or_default(), service.name_any());
        self.select(|exposure| {
            is_refused_a_port(exposure)
                || (service_name(&exposure.name_any()) == name
                    && control_plane_namespace(exposure) == namespace)
        })
    }

    pub(super) fn by_slice(&self, slice: &SeenSlice) -> Vec<ObjectRef<ServiceExposure>> {
        self.select(|exposure| {
            service_name(&exposure.name_any()) == slice.service
                && control_plane_namespace(exposure) == slice.namespace
        })
    }

    pub(super) fn by_pod(&self, pod: &VmPod) -> Vec<ObjectRef<ServiceExposure>> {
        self.select(|exposure| control_plane_namespace(exposure) == pod.namespace)
    }

    pub(super) fn by_hosted_service(&self, change: &Change) -> Vec<ObjectRef<ServiceExposure>> {
        self.select(|exposure| {
            let wanted = &exposure.spec.service;
            let is_meant = |(namespace, name): &(String, String)| {
                *namespace == wanted.namespace && *name == wanted.name
            };
            control_plane_namespace(exposure) == change.control_plane_namespace
                && change.service.as_ref().is_none_or(is_meant)
        })
    }

    pub(super) fn refused_a_port(&self) -> Vec<ObjectRef<ServiceExposure>> {
        self.select(is_refused_a_port)
    }

    pub(super) fn all(&self) -> Vec<ObjectRef<ServiceExposure>> {
        self.select(|_| true)
    }

    fn select(
        &self,
        is_meant: impl Fn(&ServiceExposure) -> bool,
    ) -> Vec<ObjectRef<ServiceExposure>> {
        let found = self.exposures.state_filter(|exposure: &ServiceExposure| is_meant(exposure));
        found.iter().map(|exposure| ObjectRef::from_obj(&**exposure)).collect()
    }
}

fn is_refused_a_port(exposure: &ServiceExposure) -> bool {
    let conditions = exposure.status.iter().flat_map(|status| &status.conditions);
    let reasons: BTreeMap<&str, &str> =
        conditions.map(|found| (found.type_.as_str(), found.reason.as_str())).collect();
    let taken = Some(Reason::NodePortTaken.as_str());
    [ExposureConditionType::Accepted, ExposureConditionType::Programmed]
        .iter()
        .any(|type_| reasons.get(type_.as_str()).copied() == taken)
}
