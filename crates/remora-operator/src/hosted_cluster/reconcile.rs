//! One pass over a HostedCluster: observe, validate, plan, apply, report.

use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use k8s_openapi::api::core::v1::Namespace;
use kube::api::PostParams;
use kube::runtime::controller::Action;
use kube::{Api, Client, ResourceExt};
use remora_api::HostedCluster;
use remora_api::conditions::Reason;
use remora_api::hosted_cluster::ReleaseStatus;
use remora_api::{labels, names};
use remora_core::control_plane::{self, ControlPlane, namespace, services};
use remora_core::endpoint::{Pending, Published};
use remora_core::hosted_cluster_status::{Infrastructure, Problem, Releases, Report, Workloads};
use remora_core::pause::Pause;
use remora_core::release::{Images, Release};
use remora_core::validate::{Fault, Settings, validate};

use super::error::ReconcileError;
use super::observe::{self, Ownership};
use super::release::ResolveError;
use super::serving::{await_published, is_available, look, look_at_own, serve, stand_by};
use super::{credentials, deletion, identity, kubeconfigs, pull_secret, report};
use crate::apply::{ApplyError, FIELD_MANAGER, failed, reference};
use crate::context::Context;
use crate::error::{chain, is_conflict};

/// When something outside the watched objects has to change, it is looked at again after this time.
const LOOK_AGAIN: Duration = Duration::from_secs(30);

/// How soon a namespace is looked at that someone else has just made.
const CLAIM_AGAIN: Duration = Duration::from_millis(200);

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
    let mut report = Report::new(pause);
    let (live, result) = match with_identity(&context, live.clone(), pause).await {
        Ok(live) => {
            let result = pass(&context, &live, &mut report).await;
            (live, result)
        }
        Err(error) if error.is_conflict() => return Ok(Action::requeue(CLAIM_AGAIN)),
        Err(error) => (live, Err(error)),
    };
    if let Err(error) = &result {
        note(&mut report, error);
        if report.workloads.is_none() {
            let control_plane_namespace = names::control_plane_namespace(&namespace, &name);
            let looked = look_at_own(&context, &live, &control_plane_namespace, &mut report).await;
            if let Err(error) = looked {
                note(&mut report, &error);
            }
        }
    }
    report::write(&context, &live, &report).await?;
    result
}

/// The HostedCluster with its finalizer, infraID and clusterID; as it is while it is paused.
async fn with_identity(
    context: &Context,
    live: HostedCluster,
    pause: Pause,
) -> Result<HostedCluster, ReconcileError> {
    if pause.is_paused() { Ok(live) } else { identity::ensure(&context.client, live).await }
}

/// Puts a failure into the report, once.
fn note(report: &mut Report, error: &ReconcileError) {
    let told = chain(error);
    if !report.failures.contains(&told) {
        report.failures.push(told);
    }
}

/// The first failure of a pass whose other steps go on.
#[derive(Default)]
struct First(Option<ReconcileError>);

impl First {
    /// Takes what a step has brought; a failure goes into the report.
    fn step<T, E: Into<ReconcileError>>(
        &mut self,
        report: &mut Report,
        result: Result<T, E>,
    ) -> Option<T> {
        match result {
            Ok(value) => Some(value),
            Err(error) => {
                let error = error.into();
                note(report, &error);
                self.0.get_or_insert(error);
                None
            }
        }
    }

    /// Ends the pass.
    fn or(self, action: Action) -> Result<Action, ReconcileError> {
        self.0.map_or(Ok(action), Err)
    }
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
    let control_plane_namespace = names::control_plane_namespace(&namespace, &live.name_any());
    if report.pause.is_paused() {
        // What is inside the hosted cluster is this cluster's too: nothing of it is applied.
        stand_by(context, live, &control_plane_namespace, Some(Vec::new()), report).await?;
        return Ok(match report.pause {
            Pause::Until(time) => Action::requeue(until(time)),
            Pause::Indefinite | Pause::Active | Pause::Invalid => Action::await_change(),
        });
    }
    let Ok(settings) = settings else {
        stand_by(context, live, &control_plane_namespace, None, report).await?;
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
            look(context, &control_plane_namespace, report).await?;
            return Ok(Action::requeue(LOOK_AGAIN));
        }
        Ownership::Foreign { owner } => {
            let fault = foreign_namespace(&control_plane_namespace, owner.clone());
            report.settings = Err(vec![fault]);
            // Whatever runs there is not this cluster's.
            report.workloads = Some(Workloads::default());
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
            stand_by(context, live, &control_plane_namespace, None, report).await?;
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
    let mut first = First::default();
    first.step(report, context.applied.apply_all(&context.client, &[namespace]).await);
    let published = match publish(context, &control_plane, &mut first, report).await? {
        Ok(published) => published,
        Err(problem) => {
            report.infrastructure = Infrastructure::Pending(problem);
            stand_by(context, live, &control_plane.namespace, None, report).await?;
            return first.or(Action::requeue(LOOK_AGAIN));
        }
    };
    report.infrastructure = Infrastructure::Ready(published.clone());
    let credentials =
        credentials::ensure(context, &control_plane, &published, Timestamp::now()).await?;
    let users = kubeconfigs::write(context, live, credentials.user_kubeconfigs.clone()).await;
    let is_refused = match first.step(report, users) {
        Some(written) => {
            report.kubeconfigs = Some(written.kubeconfigs);
            let is_refused = !written.faults.is_empty();
            if is_refused {
                report.settings = Err(written.faults);
            }
            is_refused
        }
        None => false,
    };
    control_plane.secret_hashes = credentials.hashes.clone();
    first.step(report, pull_secret::copy(context, live, &control_plane).await);
    let objects = control_plane::objects(&control_plane);
    first.step(report, context.applied.apply_all(&context.client, &objects).await);
    let mut workloads = look(context, &control_plane.namespace, report).await?;
    let renewal = credentials.renew_at.map(until);
    if workloads.is_api_available() || workloads.has_clients() {
        let clients = control_plane::client_objects(&control_plane);
        let sent = context.applied.apply_all(&context.client, &clients).await;
        if first.step(report, sent).is_some_and(|sent| sent > 0) {
            workloads = look(context, &control_plane.namespace, report).await?;
        }
    }
    if workloads.is_api_available() {
        let api = published.api.clone();
        let served =
            serve(context, live, &control_plane, cluster_release, published, credentials).await;
        first.step(report, served);
        if !is_available(live) {
            await_published(&api).await;
        }
    }
    // The Secret in the way is not watched.
    let again = if is_refused { Some(LOOK_AGAIN) } else { renewal };
    first.or(again.map_or_else(Action::await_change, Action::requeue))
}

/// Applies the published Services and finds out where they lead.
async fn publish(
    context: &Context,
    control_plane: &ControlPlane,
    first: &mut First,
    report: &mut Report,
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
        // They may be there from an earlier pass.
        failed @ Err(_) => {
            first.step(report, failed);
        }
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
