//! What of a HostedCluster runs, and the session with its API server.

use std::io::ErrorKind;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use kube::ResourceExt;
use kube::core::DynamicObject;
use remora_api::conditions::HostedClusterConditionType;
use remora_api::hosted_cluster::AvailabilityPolicy;
use remora_api::{HostedCluster, names};
use remora_core::control_plane::{Availability, ControlPlane};
use remora_core::endpoint::{Endpoint, Published};
use remora_core::hosted::Addons;
use remora_core::hosted_cluster_status::{Report, Workloads};
use remora_core::release::Release;
use tokio::net::TcpStream;

use super::credentials::{self, Credentials};
use super::error::ReconcileError;
use super::observe::{self, Ownership};
use crate::context::Context;
use crate::session::HostedClusterId;

/// How long a published host name may take to be resolved.
const RESOLVE_TIMEOUT: Duration = Duration::from_secs(5);

/// How long a published endpoint may refuse connections before its cluster is called available all the same.
const PUBLISHED_TIME: Duration = Duration::from_secs(3);
const PUBLISHED_PAUSE: Duration = Duration::from_millis(100);

/// Looks at the workloads of a control plane.
pub(super) async fn look(
    context: &Context,
    namespace: &str,
    report: &mut Report,
) -> Result<Workloads, ReconcileError> {
    let workloads = observe::workloads(&context.client, namespace).await?;
    report.workloads = Some(workloads.clone());
    Ok(workloads)
}

/// Looks at the workloads if the namespace is this HostedCluster's: it has none in any other. Returns whether it is.
pub(super) async fn look_at_own(
    context: &Context,
    live: &HostedCluster,
    namespace: &str,
    report: &mut Report,
) -> Result<bool, ReconcileError> {
    let owner = format!("{}/{}", live.namespace().unwrap_or_default(), live.name_any());
    match observe::ownership(&context.client, namespace, &owner).await? {
        Ownership::Own | Ownership::Terminating => {
            look(context, namespace, report).await?;
            Ok(true)
        }
        Ownership::Absent | Ownership::Foreign { .. } => {
            report.workloads = Some(Workloads::default());
            Ok(false)
        }
    }
}

/// Looks at what runs, changes none of it, and keeps the session, after a restart of the operator as before: the exposures
/// of a cluster that is paused or blocked go on, the NodePools of one that is blocked too, and those of one that is paused
/// tell of their nodes. `addons` are for the session.
pub(super) async fn stand_by(
    context: &Arc<Context>,
    live: &HostedCluster,
    namespace: &str,
    addons: Option<Vec<DynamicObject>>,
    report: &mut Report,
) -> Result<(), ReconcileError> {
    if !look_at_own(context, live, namespace, report).await? {
        return Ok(());
    }
    let is_up = report.workloads.as_ref().is_some_and(Workloads::is_api_available);
    let (true, Some(infra_id)) = (is_up, live.spec.infra_id.as_deref()) else { return Ok(()) };
    let id = session_of(live, infra_id);
    let Some(hash) = credentials::own_kubeconfig_hash(context, namespace).await? else {
        return Ok(());
    };
    context.hosted.observe(namespace, &hash);
    let client = context.hosted.client(namespace).await?;
    context.sessions.ensure(context, &id, namespace, (client, hash), addons);
    Ok(())
}

fn session_of(live: &HostedCluster, infra_id: &str) -> HostedClusterId {
    HostedClusterId {
        namespace: live.namespace().unwrap_or_default(),
        name: live.name_any(),
        uid: live.uid().unwrap_or_default(),
        infra_id: infra_id.to_owned(),
    }
}

/// Keeps a session with the hosted API server, and tells it what to apply there.
pub(super) async fn serve(
    context: &Arc<Context>,
    live: &HostedCluster,
    control_plane: &ControlPlane,
    cluster_release: &Release,
    published: Published,
    credentials: Credentials,
) -> Result<(), ReconcileError> {
    let namespace = &control_plane.namespace;
    let Ok(images) = cluster_release.images() else { return Ok(()) };
    let kubeconfig = names::SERVICE_NETWORK_ADMIN_KUBECONFIG;
    let kubeconfig_hash = credentials.hashes.get(kubeconfig).cloned().unwrap_or_default();
    context.hosted.observe(namespace, &kubeconfig_hash);
    let client = context.hosted.client(namespace).await?;
    let api_addresses = addresses(&published.api).await;
    let addons = remora_core::hosted::objects(&Addons {
        images,
        networks: control_plane.networks.clone(),
        published,
        api_addresses,
        availability: match live.spec.infrastructure_availability_policy {
            AvailabilityPolicy::SingleReplica => Availability::SingleReplica,
            AvailabilityPolicy::HighlyAvailable => Availability::HighlyAvailable,
        },
        authority: credentials.authority,
        konnectivity_agent: credentials.konnectivity_agent,
    });
    let id = session_of(live, &control_plane.infra_id);
    context.sessions.ensure(context, &id, namespace, (client, kubeconfig_hash), Some(addons));
    Ok(())
}

/// Tells whether users have been told that the cluster is available.
pub(super) fn is_available(live: &HostedCluster) -> bool {
    let conditions = live.status.iter().flat_map(|status| &status.conditions);
    let type_ = HostedClusterConditionType::Available.as_str();
    conditions.into_iter().any(|condition| condition.type_ == type_ && condition.status == "True")
}

/// Gives the published endpoint a moment to take connections: the hosting nodes open a Service's port shortly after its
/// pod is ready, and whoever waits for the cluster to be available connects at once. An answer other than a refusal
/// says nothing about where users are.
pub(super) async fn await_published(endpoint: &Endpoint) {
    let refused = |error: &std::io::Error| error.kind() == ErrorKind::ConnectionRefused;
    let connected = async {
        let mut pause = tokio::time::interval(PUBLISHED_PAUSE);
        loop {
            pause.tick().await;
            let attempt = TcpStream::connect((endpoint.host.as_str(), endpoint.port)).await;
            if !attempt.is_err_and(|error| refused(&error)) {
                return;
            }
        }
    };
    let _ = tokio::time::timeout(PUBLISHED_TIME, connected).await;
}

/// The addresses of an endpoint: its own, or what its name resolves to.
async fn addresses(endpoint: &Endpoint) -> Vec<IpAddr> {
    if let Ok(address) = endpoint.host.parse() {
        return vec![address];
    }
    let lookup = tokio::net::lookup_host((endpoint.host.as_str(), endpoint.port));
    let found = match tokio::time::timeout(RESOLVE_TIMEOUT, lookup).await {
        Ok(Ok(found)) => found.map(|address| address.ip()).collect::<Vec<_>>(),
        Ok(Err(error)) => {
            tracing::warn!(host = %endpoint.host, %error, "cannot resolve the published API host");
            Vec::new()
        }
        Err(_) => {
            tracing::warn!(host = %endpoint.host, "cannot resolve the published API host in time");
            Vec::new()
        }
    };
    let mut addresses = found;
    addresses.sort_unstable();
    addresses.dedup();
    addresses
}
