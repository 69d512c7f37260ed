//! One pass over a HostedCluster: observe, validate, plan, apply, report.

use std::io::ErrorKind;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use k8s_openapi::api::core::v1::Namespace;
use kube::api::PostParams;
use kube::runtime::controller::Action;
use kube::{Api, Client, ResourceExt};
use remora_api::HostedCluster;
use remora_api::conditions::{HostedClusterConditionType, Reason};
use remora_api::hosted_cluster::{AvailabilityPolicy, ReleaseStatus};
use remora_api::labels;
use remora_core::control_plane::{self, Availability, ControlPlane, namespace, services};
use remora_core::endpoint::{Endpoint, Pending, Published};
use remora_core::hosted::Addons;
use remora_core::hosted_cluster_status::{Infrastructure, Problem, Releases, Report};
use remora_core::pause::Pause;
use remora_core::release::{Images, Release};
use remora_core::validate::{Fault, Settings, validate};
use tokio::net::TcpStream;

use super::credentials::Credentials;
use super::error::ReconcileError;
use super::observe::{self, Ownership};
use super::release::ResolveError;
use super::{credentials, deletion, identity, report};
use crate::apply::{ApplyError, FIELD_MANAGER, failed, reference};
use crate::context::Context;
use crate::error::{chain, is_conflict};
use crate::session::HostedClusterId;

/// When something outside the watched objects has to change, it is looked at again after this time.
const LOOK_AGAIN: Duration = Duration::from_secs(30);

/// How soon a namespace is looked at that someone else has just made.
const CLAIM_AGAIN: Duration = Duration::from_millis(200);

/// How long a published host name may take to be resolved.
const RESOLVE_TIMEOUT: Duration = Duration::from_secs(5);

/// How long a published endpoint may refuse connections before its cluster is called available all the same.
const PUBLISHED_TIME: Duration = Duration::from_secs(3);
const PUBLISHED_PAUSE: Duration = Duration::from_millis(100);

/// The longest time between two looks at the certificates: a timer does not need to run for months.
const LONGEST_WAIT: Duration = Duration::from_secs(24 * 3600);

/// Level of Pod Security in control plane namespaces: the VMs' pods, which live there too, need it.
const POD_SECURITY: &str = "privileged";

/// Takes a HostedCluster as far as it can be taken now.
pub(super) async fn reconcile(
    seen: Arc<HostedCluster>,
    context: Arc<Context>,
) -> Result<Action, ReconcileError> {
    let namespace = seen.namespace().unwrap_or_default();
    let name = seen.name_any();
    // Read anew: what the watch has delivered may be older than our own last write.
    let api: Api<HostedCluster> = Api::namespaced(context.client.clone(), &namespace);
    let live = api
        .get_opt(&name)
        .await
        .map_err(ReconcileError::reading(format!("HostedCluster {namespace}/{name}")))?;
    let Some(live) = live else { return Ok(Action::await_change()) };
    if live.metadata.deletion_timestamp.is_some() {
        return deletion::delete(&context, &live).await;
    }
    let pause = Pause::read(live.spec.paused_until.as_deref(), Timestamp::now());
    let live =
        if pause.is_paused() { live } else { identity::ensure(&context.client, live).await? };
    let mut report = Report::new(pause);
    let result = pass(&context, &live, &mut report).await;
    if let Err(error) = &result {
        report.failure = Some(chain(error));
    }
    report::write(&context, &live, &report).await?;
    result
}

/// Goes on until something is missing; `report` says how far.
async fn pass(
    context: &Arc<Context>,
    live: &HostedCluster,
    report: &mut Report,
) -> Result<Action, ReconcileError> {
    let settings = validate(live);
    report.settings =
        settings.as_ref().map(|settings| settings.unused.clone()).map_err(Clone::clone);
    let namespace = live.namespace().unwrap_or_default();
    let control_plane_namespace =
        remora_api::names::control_plane_namespace(&namespace, &live.name_any());
    if let Pause::Until(time) = report.pause {
        look(context, &control_plane_namespace, report).await?;
        return Ok(Action::requeue(until(time)));
    }
    let (Ok(settings), false) = (settings, report.pause.is_paused()) else {
        look(context, &control_plane_namespace, report).await?;
        return Ok(Action::await_change());
    };
    let owner = format!("{namespace}/{}", live.name_any());
    let ownership = observe::ownership(&context.client, &control_plane_namespace, &owner).await?;
    match &ownership {
        Ownership::Absent | Ownership::Own => {}
        Ownership::Terminating => {
            // What an earlier HostedCluster of this name left goes first; the namespace's end wakes us.
            let message = format!("Namespace {control_plane_namespace} is still being deleted");
            report.infrastructure = pending(Reason::WaitingOnInfrastructureReady, message);
            return Ok(Action::requeue(LOOK_AGAIN));
        }
        Ownership::Foreign { owner } => {
            let fault = foreign_namespace(&control_plane_namespace, owner.clone());
            report.settings = Err(vec![fault]);
            return Ok(Action::await_change());
        }
    }
    let (cluster_release, images) = match releases(context, live).await {
        Ok((cluster, control_plane, images)) => {
            report.release = Some(Ok(statuses(live, &cluster, &control_plane)));
            (cluster, images)
        }
        Err(error) => {
            report.release = Some(Err(Problem { reason: error.reason(), message: chain(&error) }));
            look(context, &control_plane_namespace, report).await?;
            return Ok(Action::requeue(LOOK_AGAIN));
        }
    };
    if matches!(ownership, Ownership::Absent)
        && !claim_namespace(&context.client, &control_plane_namespace, &owner).await?
    {
        return Ok(Action::requeue(CLAIM_AGAIN));
    }
    apply(context, live, settings, images, &cluster_release, report).await
}

/// Makes the control plane namespace; false when someone else has made it since it was looked for. Only who makes it
/// may work in it: applying it would take it over.
async fn claim_namespace(client: &Client, name: &str, owner: &str) -> Result<bool, ReconcileError> {
    let api: Api<Namespace> = Api::all(client.clone());
    let mut namespace = Namespace::default();
    namespace.metadata.name = Some(name.to_owned());
    namespace.metadata.annotations =
        Some([(labels::HOSTED_CLUSTER.to_owned(), owner.to_owned())].into());
    let parameters =
        PostParams { field_manager: Some(FIELD_MANAGER.to_owned()), ..PostParams::default() };
    match api.create(&parameters, &namespace).await {
        Ok(_) => Ok(true),
        Err(error) if is_conflict(&error) => Ok(false),
        Err(error) => Err(failed("create", &reference::<Namespace>(None, name), error).into()),
    }
}

/// Applies the control plane and what belongs into the hosted cluster.
async fn apply(
    context: &Arc<Context>,
    live: &HostedCluster,
    settings: Settings,
    images: Images,
    cluster_release: &Release,
    report: &mut Report,
) -> Result<Action, ReconcileError> {
    let infra_id = live.spec.infra_id.clone().unwrap_or_default();
    let mut control_plane = settings.control_plane(live, infra_id, images);
    let owner = control_plane.hosted_cluster();
    let pod_security =
        live.annotations().get(labels::POD_SECURITY_OVERRIDE).map_or(POD_SECURITY, String::as_str);
    let namespace = namespace::namespace(&control_plane.namespace, &owner, pod_security);
    context.applied.apply_all(&context.client, &[namespace]).await?;
    let published = match publish(context, &control_plane).await? {
        Ok(published) => published,
        Err(problem) => {
            report.infrastructure = Infrastructure::Pending(problem);
            look(context, &control_plane.namespace, report).await?;
            return Ok(Action::requeue(LOOK_AGAIN));
        }
    };
    let credentials =
        credentials::ensure(context, &control_plane, &published, Timestamp::now()).await?;
    report.has_kubeconfig = true;
    control_plane.secret_hashes = credentials.hashes.clone();
    let objects = control_plane::objects(&control_plane);
    context.applied.apply_all(&context.client, &objects).await?;
    report.infrastructure = Infrastructure::Ready(published.clone());
    look(context, &control_plane.namespace, report).await?;
    let renewal = credentials.renew_at.map(until);
    if report.workloads.is_api_available() || report.workloads.has_clients() {
        let clients = control_plane::client_objects(&control_plane);
        if context.applied.apply_all(&context.client, &clients).await? > 0 {
            look(context, &control_plane.namespace, report).await?;
        }
    }
    if report.workloads.is_api_available() {
        let api = published.api.clone();
        serve(context, live, &control_plane, cluster_release, published, credentials).await?;
        if !is_available(live) {
            await_published(&api).await;
        }
    }
    Ok(renewal.map_or_else(Action::await_change, Action::requeue))
}

/// Applies the published Services and finds out where they lead.
async fn publish(
    context: &Context,
    control_plane: &ControlPlane,
) -> Result<Result<Published, Problem>, ReconcileError> {
    let objects = services::published(control_plane);
    match context.applied.apply_all(&context.client, &objects).await {
        Ok(_) => {}
        // Refused: the node port is taken or outside the range, or the hosting cluster forbids the type.
        Err(error @ ApplyError::Request { .. }) if error.reason() == "Refused" => {
            let message = format!(
                "{}: ask for another port in spec.services of a new HostedCluster, or free this one",
                chain(&error)
            );
            return Ok(Err(Problem { reason: Reason::InfraStatusFailure, message }));
        }
        Err(error) => return Err(error.into()),
    }
    let found = observe::published(&context.client, control_plane).await?;
    Ok(found.map_err(|pending| Problem {
        reason: match pending {
            Pending::NodePort { .. } => Reason::WaitingOnInfrastructureReady,
            Pending::LoadBalancer { .. } => Reason::LoadBalancerPending,
        },
        message: pending.to_string(),
    }))
}

/// Keeps a session with the hosted API server, and tells it what to apply there.
async fn serve(
    context: &Arc<Context>,
    live: &HostedCluster,
    control_plane: &ControlPlane,
    cluster_release: &Release,
    published: Published,
    credentials: Credentials,
) -> Result<(), ReconcileError> {
    let namespace = &control_plane.namespace;
    let Ok(images) = cluster_release.images() else { return Ok(()) };
    let kubeconfig = remora_api::names::SERVICE_NETWORK_ADMIN_KUBECONFIG;
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
    let id = HostedClusterId {
        namespace: control_plane.hosted_cluster_namespace.clone(),
        name: control_plane.hosted_cluster_name.clone(),
        uid: control_plane.hosted_cluster_uid.clone(),
        infra_id: control_plane.infra_id.clone(),
    };
    context.sessions.ensure(context, &id, namespace, (client, kubeconfig_hash), addons);
    Ok(())
}

/// Tells whether users have been told that the cluster is available.
fn is_available(live: &HostedCluster) -> bool {
    let conditions = live.status.iter().flat_map(|status| &status.conditions);
    let type_ = HostedClusterConditionType::Available.as_str();
    conditions.into_iter().any(|condition| condition.type_ == type_ && condition.status == "True")
}

/// Gives the published endpoint a moment to take connections: the hosting nodes open a Service's port shortly after its
/// pod is ready, and whoever waits for the cluster to be available connects at once. An answer other than a refusal
/// says nothing about where users are.
async fn await_published(endpoint: &Endpoint) {
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

async fn look(
    context: &Context,
    namespace: &str,
    report: &mut Report,
) -> Result<(), ReconcileError> {
    report.workloads = observe::workloads(&context.client, namespace).await?;
    Ok(())
}

/// Resolves the releases of the cluster and of its control plane, and the control plane's images.
async fn releases(
    context: &Context,
    live: &HostedCluster,
) -> Result<(Release, Release, Images), ResolveError> {
    let (cluster_image, control_plane_image) = observe::release_images(&live.spec);
    let namespace = live.namespace().unwrap_or_default();
    let pull_secret = Some(live.spec.pull_secret.name.as_str());
    let resolve = |image| context.releases.resolve(&context.client, &namespace, image, pull_secret);
    let cluster = resolve(cluster_image).await?;
    let control_plane = resolve(control_plane_image).await?;
    let unusable = |image: &str, source| ResolveError::Release { image: image.to_owned(), source };
    // The nodes' images are needed too.
    cluster.images().map_err(|source| unusable(cluster_image, source))?;
    let images = control_plane.images().map_err(|source| unusable(control_plane_image, source))?;
    Ok((cluster, control_plane, images))
}

fn statuses(live: &HostedCluster, cluster: &Release, control_plane: &Release) -> Releases {
    let (cluster_image, control_plane_image) = observe::release_images(&live.spec);
    let status = |release: &Release, image: &str| ReleaseStatus {
        version: release.version().to_owned(),
        image: image.to_owned(),
        ..ReleaseStatus::default()
    };
    Releases {
        cluster: status(cluster, cluster_image),
        control_plane: status(control_plane, control_plane_image),
    }
}

fn foreign_namespace(namespace: &str, owner: Option<String>) -> Fault {
    let whose = owner.map_or_else(
        || "exists and was not made by Remora".to_owned(),
        |owner| format!("belongs to HostedCluster {owner}"),
    );
    Fault::foreign_namespace(format!("control plane namespace {namespace} {whose}"))
}

fn pending(reason: Reason, message: String) -> Infrastructure {
    Infrastructure::Pending(Problem { reason, message })
}

fn until(time: Timestamp) -> Duration {
    let seconds = time.as_second().saturating_sub(Timestamp::now().as_second()).max(1);
    Duration::from_secs(u64::try_from(seconds).unwrap_or(1)).min(LONGEST_WAIT)
}
