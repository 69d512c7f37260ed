//! One look at one exposure: decide, program, probe, report.

use std::sync::Arc;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, OwnerReference};
use k8s_openapi::jiff::Timestamp;
use kube::core::DynamicObject;
use kube::runtime::controller::Action;
use kube::runtime::events::EventType;
use kube::{Resource, ResourceExt};
use remora_api::conditions::Reason;
use remora_api::service_exposure::{ExposureEndpoint, ServiceExposureStatus};
use remora_api::{HostedCluster, ServiceExposure, labels};
use remora_core::exposure_status::{Probing, Programming, endpoints, status};
use serde_json::{Value, json};
use tokio::sync::watch;

use super::observed::{Cluster, Observed, Verdict};
use super::probe::connect_to_all;
use super::program::{delete, program};
use super::progress::{Memory, Progress, fingerprint};
use crate::apply::{ApplyError, apply, patch_status, reference};
use crate::context::Context;
use crate::error::chain;

/// What the reconciler works with.
pub(super) struct Exposures {
    pub(super) context: Arc<Context>,
    pub(super) observed: Observed,
    pub(super) progress: Progress,
    /// Counts what may have freed a node port.
    pub(super) freed: watch::Sender<u64>,
}

/// Looks at one exposure.
pub(super) async fn reconcile(
    exposure: Arc<ServiceExposure>,
    exposures: Arc<Exposures>,
) -> Result<Action, ApplyError> {
    let uid = exposure.uid().unwrap_or_default();
    if exposure.meta().deletion_timestamp.is_some() {
        return clean_up(&exposure, &exposures, &uid).await;
    }
    let Some(mut verdict) = exposures.observed.decide(&exposure) else {
        return Ok(Action::await_change());
    };
    let client = &exposures.context.client;
    let mut memory = exposures.progress.recall(&uid);
    let last = memory.written.clone().or_else(|| exposure.status.clone());
    if let Err(error) = take_care_of(client, &exposure, verdict.cluster.as_ref()).await {
        let failed = failed_to_take_care(&error);
        let nothing = (Vec::new(), Probing::NotTried);
        let next = next_status(&exposure, last.as_ref(), &verdict, &failed, nothing);
        report(&exposure, &exposures, last.as_ref(), &next).await?;
        return Err(error);
    }

    let programming = program(client, &exposure, &mut verdict, &mut memory).await;
    let (endpoints, probing) =
        probe(&exposure, &exposures, &verdict, &programming, &mut memory).await;
    let is_settled = !matches!(programming, Programming::Failed { .. }) && probing.is_settled();
    let pause = if is_settled {
        memory.forget_failures();
        None
    } else {
        Some(memory.pause_after_failure())
    };

    let probed = (endpoints, probing);
    let next = next_status(&exposure, last.as_ref(), &verdict, &programming, probed);
    let reported = report(&exposure, &exposures, last.as_ref(), &next).await;
    if reported.is_ok() {
        memory.written = Some(next);
    }
    exposures.progress.remember(&uid, memory);
    reported?;
    if matches!(programming, Programming::Absent) && verdict.own.is_some() {
        exposures.freed.send_modify(|count| *count += 1);
    }
    Ok(pause.map_or_else(Action::await_change, Action::requeue))
}

fn next_status(
    exposure: &ServiceExposure,
    last: Option<&ServiceExposureStatus>,
    verdict: &Verdict,
    programming: &Programming,
    (endpoints, probing): (Vec<ExposureEndpoint>, Probing),
) -> ServiceExposureStatus {
    status(
        exposure.meta().generation.unwrap_or_default(),
        last,
        &verdict.decision,
        programming,
        (endpoints, &probing),
        Timestamp::now(),
    )
}

/// Nothing is made for an exposure that could go without taking it along.
fn failed_to_take_care(error: &ApplyError) -> Programming {
    let message = format!("{}; it is tried again", chain(error));
    Programming::Failed { reason: Reason::ReconcileError, message }
}

/// Removes what was made for an exposure, then lets it go.
async fn clean_up(
    exposure: &ServiceExposure,
    exposures: &Exposures,
    uid: &str,
) -> Result<Action, ApplyError> {
    let client = &exposures.context.client;
    if exposure.finalizers().iter().any(|found| found == labels::EXPOSURE_FINALIZER) {
        delete(client, exposure).await?;
        let mut released = bare(exposure);
        released.metadata.resource_version = exposure.resource_version();
        apply(client, &released).await?;
        tracing::info!(
            namespace = exposure.namespace().unwrap_or_default(),
            name = exposure.name_any(),
            "exposure removed"
        );
    }
    exposures.progress.forget(uid);
    exposures.freed.send_modify(|count| *count += 1);
    Ok(Action::await_change())
}

/// Makes sure that the exposure is not gone before its Service, and goes with its HostedCluster.
async fn take_care_of(
    client: &kube::Client,
    exposure: &ServiceExposure,
    cluster: Option<&Cluster>,
) -> Result<(), ApplyError> {
    let has_finalizer =
        exposure.finalizers().iter().any(|found| found == labels::EXPOSURE_FINALIZER);
    let is_owner = |cluster: &Cluster| {
        exposure.owner_references().iter().any(|owner| owner.uid == cluster.uid)
    };
    if has_finalizer && cluster.is_none_or(is_owner) {
        return Ok(());
    }
    let mut desired = bare(exposure);
    desired.metadata.finalizers = Some(vec![labels::EXPOSURE_FINALIZER.to_owned()]);
    desired.metadata.owner_references = cluster.map(|cluster| vec![owner(cluster)]);
    apply(client, &desired).await.map(|_| ())
}

/// The exposure without content, for what Remora itself says about it.
fn bare(exposure: &ServiceExposure) -> DynamicObject {
    let mut bare =
        reference::<ServiceExposure>(exposure.namespace().as_deref(), &exposure.name_any());
    // One made anew under the same name is another, and a write must not bring a deleted one back.
    bare.metadata.uid = exposure.uid();
    bare.data = json!({});
    bare
}

fn owner(cluster: &Cluster) -> OwnerReference {
    OwnerReference {
        api_version: HostedCluster::api_version(&()).into_owned(),
        kind: HostedCluster::kind(&()).into_owned(),
        name: cluster.name.clone(),
        uid: cluster.uid.clone(),
        controller: None,
        block_owner_deletion: None,
    }
}

/// Connects to every endpoint when something has changed since it was last known to answer.
async fn probe(
    exposure: &ServiceExposure,
    exposures: &Exposures,
    verdict: &Verdict,
    programming: &Programming,
    memory: &mut Memory,
) -> (Vec<ExposureEndpoint>, Probing) {
    let Some(service) = programming.service() else { return (Vec::new(), Probing::NotTried) };
    let endpoints = endpoints(service, &exposures.observed.hosting_nodes(), &verdict.machines);
    let serving = verdict.machines.iter().filter(|pod| pod.is_serving());
    let mut serving: Vec<&str> = serving.map(|pod| pod.uid.as_str()).collect();
    serving.sort_unstable();
    let subject = fingerprint(&(
        serde_json::to_string(&endpoints).unwrap_or_default(),
        exposure.meta().generation,
        service.resource_version(),
        &serving,
        verdict.hosted.as_ref().map(|hosted| (&hosted.nodes, hosted.is_ready)),
    ));
    match &memory.probed {
        Some((about, probing)) if *about == subject && probing.is_settled() => {
            return (endpoints, probing.clone());
        }
        Some((about, _)) if *about == subject => {}
        Some(_) | None => memory.forget_failures(),
    }
    let probes = connect_to_all(&endpoints).await;
    let probing =
        Probing::Tried { probes, machines: verdict.machines.len(), serving: serving.len() };
    memory.probed = Some((subject, probing.clone()));
    (endpoints, probing)
}

/// Writes the status if it is another one, and tells the change of a verdict as an event.
async fn report(
    exposure: &ServiceExposure,
    exposures: &Exposures,
    last: Option<&ServiceExposureStatus>,
    next: &ServiceExposureStatus,
) -> Result<(), ApplyError> {
    if last == Some(next) {
        return Ok(());
    }
    let name = reference::<ServiceExposure>(exposure.namespace().as_deref(), &exposure.name_any());
    patch_status(&exposures.context.client, &name, &whole(next)).await?;
    for condition in &next.conditions {
        if let Some(type_) = event_type(last, condition) {
            tracing::info!(
                namespace = exposure.namespace().unwrap_or_default(),
                name = exposure.name_any(),
                condition = condition.type_,
                status = condition.status,
                reason = condition.reason,
                "exposure's condition changed"
            );
            let regarding = exposure.object_ref(&());
            let context = &exposures.context;
            let (reason, message) = (&condition.reason, &condition.message);
            context.event(&regarding, type_, reason, &condition.type_, message).await;
        }
    }
    Ok(())
}

/// The status with its empty fields, so that a merge patch removes what was there.
fn whole(status: &ServiceExposureStatus) -> Value {
    let ServiceExposureStatus { observed_generation, endpoints, node_ports, conditions } = status;
    json!({
        "observedGeneration": observed_generation,
        "endpoints": endpoints,
        "nodePorts": node_ports,
        "conditions": conditions,
    })
}

/// Which event a condition is worth: none unless status or reason changed to something that a user waits for.
fn event_type(last: Option<&ServiceExposureStatus>, next: &Condition) -> Option<EventType> {
    let known = last.into_iter().flat_map(|status| &status.conditions);
    let before = known.into_iter().find(|known| known.type_ == next.type_);
    let is_new =
        before.is_none_or(|known| known.status != next.status || known.reason != next.reason);
    match (is_new, next.status.as_str(), next.type_.as_str()) {
        (false, _, _) | (true, "Unknown", _) => None,
        (true, "True", _) => Some(EventType::Normal),
        // A refusal has its event already, and an endpoint is not expected to answer at once.
        (true, _, "Programmed") if next.reason == "Blocked" || next.reason == "Pending" => None,
        (true, _, "Reachable") if before.is_none_or(|known| known.status != "True") => None,
        (true, _, _) => Some(EventType::Warning),
    }
}

/// What to do after a failure: the API server did not take a write; try again soon.
pub(super) fn after_failure(
    exposure: &ServiceExposure,
    error: &ApplyError,
    exposures: &Exposures,
) -> Action {
    let uid = exposure.uid().unwrap_or_default();
    let mut memory = exposures.progress.recall(&uid);
    let pause = memory.pause_after_failure();
    exposures.progress.remember(&uid, memory);
    tracing::warn!(
        namespace = exposure.namespace().unwrap_or_default(),
        name = exposure.name_any(),
        reason = error.reason(),
        error = %chain(error),
        "cannot reconcile exposure"
    );
    Action::requeue(pause)
}

#[cfg(test)]
mod tests {
    use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;

    use super::*;

    fn condition(type_: &str, status: &str, reason: &str) -> Condition {
        Condition {
            type_: type_.to_owned(),
            status: status.to_owned(),
            reason: reason.to_owned(),
            message: String::new(),
            observed_generation: None,
            last_transition_time: Time(Timestamp::UNIX_EPOCH),
        }
    }

    fn event(before: Option<Condition>, next: &Condition) -> Option<EventType> {
        let conditions = before.into_iter().collect();
        let last = ServiceExposureStatus { conditions, ..ServiceExposureStatus::default() };
        event_type(Some(&last), next)
    }

    #[test]
    fn an_event_is_written_for_what_a_user_waits_for_and_only_once() {
        let reachable = condition("Reachable", "True", "AsExpected");
        assert_eq!(event(None, &reachable), Some(EventType::Normal));
        assert_eq!(event(Some(reachable.clone()), &reachable), None);
        let lost = condition("Reachable", "False", "ConnectionFailed");
        assert_eq!(event(Some(reachable), &lost), Some(EventType::Warning));
        assert_eq!(event(None, &lost), None);
        let refused = condition("Accepted", "False", "NodePortTaken");
        assert_eq!(event(None, &refused), Some(EventType::Warning));
        assert_eq!(event(None, &condition("Programmed", "False", "Blocked")), None);
    }

    #[test]
    fn an_empty_status_removes_what_was_there() {
        let empty = whole(&ServiceExposureStatus::default());
        assert_eq!(
            empty,
            json!({"observedGeneration": null, "endpoints": [], "nodePorts": null, "conditions": []})
        );
    }
}
