//! Everything that a decision about a hosted Service rests on.

use std::collections::BTreeSet;

use futures::FutureExt;
use futures::future::join_all;
use k8s_openapi::api::core::v1::Service;
use kube::ResourceExt;
use kube::core::ObjectMeta;
use kube::runtime::reflector::Store;
use remora_api::labels;
use remora_core::expose::{SeenSlice, ServiceNodes, VmPod};
use remora_core::load_balancer::{Cluster, is_made_here, service_name};
use tokio::sync::watch;

use crate::exposure::view::View;
use crate::session::HostedSession;

/// What matters of the HostedCluster.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Switch {
    is_disabled: bool,
    is_deleting: bool,
}

impl Switch {
    pub(super) fn of(cluster: &ObjectMeta) -> Self {
        let asked =
            cluster.annotations.as_ref().and_then(|found| found.get(labels::LOAD_BALANCERS));
        Self {
            is_disabled: asked.is_some_and(|asked| asked == labels::LOAD_BALANCERS_DISABLED),
            is_deleting: cluster.deletion_timestamp.is_some(),
        }
    }
}

/// Keeps a hosting Service, without what only the API server reads.
pub(super) fn without_managed_fields(service: &Service) -> Option<Service> {
    let mut kept = service.clone();
    kept.metadata.managed_fields = None;
    Some(kept)
}

/// Name of the hosting Service of a hosted one.
pub(super) fn hosting_name(hosted: &Service) -> String {
    service_name(hosted.metadata.uid.as_deref().unwrap_or_default())
}

/// Everything that a decision rests on.
pub(super) struct Observed {
    pub(super) hosted: Store<Service>,
    pub(super) services: View<Service>,
    pub(super) made_slices: View<SeenSlice>,
    pub(super) switch: View<Switch>,
    pub(super) hosted_slices: View<ServiceNodes>,
    pub(super) machines: View<VmPod>,
    pub(super) needs_local: watch::Sender<bool>,
}

impl Observed {
    /// Ends when everything that all Services need was listed once.
    pub(super) fn ready(&self) -> impl Future<Output = ()> + Send + use<> {
        let views = [
            self.services.ready().boxed(),
            self.made_slices.ready().boxed(),
            self.switch.ready().boxed(),
        ];
        async move {
            join_all(views).await;
        }
    }

    /// Ends when everything that the policy `Local` needs was listed once.
    pub(super) fn local_ready(&self) -> impl Future<Output = ()> + Send + use<> {
        let views = [self.hosted_slices.ready().boxed(), self.machines.ready().boxed()];
        async move {
            join_all(views).await;
        }
    }

    /// The HostedCluster; none when it goes, and everything of it.
    pub(super) fn cluster(&self, session: &HostedSession) -> Option<Cluster> {
        let id = &session.hosted_cluster;
        let switch = self.switch.get(&id.namespace, &id.name)?;
        (!switch.is_deleting).then(|| Cluster {
            control_plane_namespace: session.control_plane_namespace.clone(),
            infra_id: id.infra_id.clone(),
            is_disabled: switch.is_disabled,
        })
    }

    /// The hosting Service of a hosted one.
    pub(super) fn own(&self, cluster: &Cluster, hosted: &Service) -> Option<Service> {
        let found = self.services.get(&cluster.control_plane_namespace, &hosting_name(hosted));
        found.filter(|service| is_made_here(cluster, service))
    }

    /// The slices of a hosting Service, whoever wrote them.
    pub(super) fn slices_of(&self, service: &str) -> Vec<SeenSlice> {
        self.made_slices.select(|slice| slice.service == service)
    }

    /// Nodes that run ready pods of a hosted Service, and the machines; none before they are known.
    pub(super) fn local(&self, hosted: &Service) -> Option<(BTreeSet<String>, Vec<VmPod>)> {
        self.needs_local.send_replace(true);
        self.local_ready().now_or_never()?;
        let (namespace, name) = (hosted.namespace().unwrap_or_default(), hosted.name_any());
        let slices = self
            .hosted_slices
            .select(|slice| slice.namespace == namespace && slice.service == name);
        let nodes = slices.into_iter().flat_map(|slice| slice.nodes).collect();
        Some((nodes, self.machines.all()))
    }

    /// Hosting Services whose hosted Service is gone.
    pub(super) fn orphans(&self, cluster: &Cluster) -> Vec<Service> {
        let wanted: BTreeSet<String> =
            self.hosted.state().iter().map(|hosted| hosting_name(hosted)).collect();
        self.services.select(|service| {
            is_made_here(cluster, service)
                && service.metadata.deletion_timestamp.is_none()
                && !wanted.contains(&service.name_any())
        })
    }
}
