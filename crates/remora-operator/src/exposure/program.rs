//! Bringing the hosting Service in line with the decision.

use k8s_openapi::api::core::v1::Service;
use k8s_openapi::api::discovery::v1::EndpointSlice;
use kube::{Api, Client, ResourceExt};
use remora_api::conditions::Reason;
use remora_api::{ServiceExposure, labels};
use remora_core::expose::{
    Decision, Refusal, SeenSlice, Served, VmPod, service_name, slices, stale_slices, valid_range,
};
use remora_core::exposure_status::Programming;
use remora_core::object::object;

use super::correct::corrected;
use super::observed::{Verdict, control_plane_namespace};
use super::progress::{Applied, Memory, fingerprint};
use crate::apply::{ApplyError, apply, delete_if_exists, failed as failed_request, reference};
use crate::error::chain;

/// What the API server says when a node port was given to someone else meanwhile.
const ALLOCATED_WORDS: &str = "provided port is already allocated";

/// Does what was decided; the decision changes when the API server turns out to know better.
pub(super) async fn program(
    client: &Client,
    exposure: &ServiceExposure,
    verdict: &mut Verdict,
    memory: &mut Memory,
) -> Programming {
    let served = match &verdict.decision {
        Decision::Served(served) => served.clone(),
        Decision::Waiting { .. } => {
            return verdict
                .own
                .clone()
                .map_or(Programming::Absent, |own| Programming::Kept(Box::new(own)));
        }
        Decision::Refused(_) => return withdraw(client, exposure, verdict, memory).await,
    };
    // The backends before the Service that needs them, where that is possible: it may serve already.
    if let Some(own) = &verdict.own
        && let Err(error) = apply_slices(client, &served.service, own, verdict, memory).await
    {
        return failed(&error);
    }
    let (served, live) = match apply_within_range(client, &served, verdict, memory).await {
        Ok(done) => done,
        Err(Failure::Refused(refusal)) => {
            verdict.decision = Decision::Refused(refusal);
            return withdraw(client, exposure, verdict, memory).await;
        }
        Err(Failure::Apply(error)) => return failed(&error),
    };
    let desired = served.service.clone();
    verdict.decision = Decision::Served(Box::new(served));
    match settle_slices(client, &desired, &live, verdict, memory).await {
        Ok(()) => Programming::Done(Box::new(live)),
        Err(error) => failed(&error),
    }
}

enum Failure {
    Refused(Refusal),
    Apply(ApplyError),
}

/// Applies the Service; when the API server refuses a port outside its range, once more with that one left open.
async fn apply_within_range(
    client: &Client,
    served: &Served,
    verdict: &Verdict,
    memory: &mut Memory,
) -> Result<(Served, Service), Failure> {
    let error = match apply_service(client, &served.service, verdict, memory).await {
        Ok(live) => return Ok((served.clone(), live)),
        Err(error) => error,
    };
    let Some(range) = valid_range(&chain(&error)) else { return Err(Failure::Apply(error)) };
    let moved = served.within(&range).map_err(Failure::Refused)?;
    if moved == *served {
        return Err(Failure::Apply(error));
    }
    let live = apply_service(client, &moved.service, verdict, memory).await;
    live.map(|live| (moved, live)).map_err(Failure::Apply)
}

/// Applies the Service unless it is known to be so already.
async fn apply_service(
    client: &Client,
    service: &Service,
    verdict: &Verdict,
    memory: &mut Memory,
) -> Result<Service, ApplyError> {
    let desired = object(service);
    let hash = fingerprint(&serde_json::to_string(&desired).unwrap_or_default());
    if let Some(own) = &verdict.own {
        let seen = Applied { desired: hash, resource_version: own.resource_version() };
        if memory.applied.as_ref() == Some(&seen) {
            return Ok(own.clone());
        }
    }
    let live = apply(client, &desired).await?;
    // What the API server answers to a Service is one.
    let live =
        live.try_parse().map_err(|_| ApplyError::Incomplete { missing: "a Service's fields" })?;
    let live = corrected(client, service, live).await?;
    memory.applied = Some(Applied { desired: hash, resource_version: live.resource_version() });
    memory.forget_failures();
    Ok(live)
}

/// Writes the slices that the exposure needs; `live` is the Service that they go with.
async fn apply_slices(
    client: &Client,
    desired: &Service,
    live: &Service,
    verdict: &Verdict,
    memory: &mut Memory,
) -> Result<Vec<EndpointSlice>, ApplyError> {
    let machines: Vec<&VmPod> = verdict.machines.iter().collect();
    let mut owner = desired.clone();
    owner.metadata.uid = live.uid();
    let wanted = slices(&owner, &machines);
    for slice in &wanted {
        let (name, slice) = (slice.name_any(), object(slice));
        let hash = fingerprint(&serde_json::to_string(&slice).unwrap_or_default());
        let seen = verdict.slices.iter().find(|seen| seen.name == name);
        let is_known = |seen: &SeenSlice| {
            let resource_version = seen.resource_version.clone();
            memory.slices.get(&name) == Some(&Applied { desired: hash, resource_version })
        };
        if seen.is_some_and(is_known) {
            continue;
        }
        let written = apply(client, &slice).await?;
        let applied = Applied { desired: hash, resource_version: written.resource_version() };
        memory.slices.insert(name, applied);
    }
    Ok(wanted)
}

/// Writes the slices that the exposure needs, and removes those that it needs no more.
async fn settle_slices(
    client: &Client,
    desired: &Service,
    live: &Service,
    verdict: &Verdict,
    memory: &mut Memory,
) -> Result<(), ApplyError> {
    let wanted = apply_slices(client, desired, live, verdict, memory).await?;
    for stale in stale_slices(desired, &wanted, &verdict.slices) {
        let slice = reference::<EndpointSlice>(Some(&stale.namespace), &stale.name);
        delete_if_exists(client, &slice).await?;
        memory.slices.remove(&stale.name);
    }
    Ok(())
}

/// Takes the Service back, if there is one.
async fn withdraw(
    client: &Client,
    exposure: &ServiceExposure,
    verdict: &Verdict,
    memory: &mut Memory,
) -> Programming {
    if verdict.own.is_none() && memory.applied.is_none() {
        return Programming::Absent;
    }
    match delete(client, exposure).await {
        Ok(()) => {
            memory.applied = None;
            memory.slices.clear();
            memory.probed = None;
            Programming::Absent
        }
        Err(error) => failed(&error),
    }
}

/// Deletes the exposure's Service; its EndpointSlices go with it.
pub(super) async fn delete(client: &Client, exposure: &ServiceExposure) -> Result<(), ApplyError> {
    let namespace = control_plane_namespace(exposure);
    let name = service_name(&exposure.name_any());
    let mut service = reference::<Service>(Some(&namespace), &name);
    let api: Api<Service> = Api::namespaced(client.clone(), &namespace);
    let found =
        api.get_opt(&name).await.map_err(|error| failed_request("read", &service, error))?;
    match found {
        Some(found) if is_made_for(exposure, &found) => {
            // One that was made anew under the same name meanwhile is another's.
            service.metadata.uid = found.uid();
            delete_if_exists(client, &service).await.map(|_| ())
        }
        _ => Ok(()),
    }
}

/// Tells whether a Service was made for this exposure, and not for one of another namespace whose HostedCluster claims the
/// same control plane namespace, nor by anybody else.
pub(super) fn is_made_for(exposure: &ServiceExposure, service: &Service) -> bool {
    service.labels().get(labels::EXPOSURE_NAMESPACE) == exposure.namespace().as_ref()
}

fn failed(error: &ApplyError) -> Programming {
    let told = chain(error);
    let reason = if told.contains(ALLOCATED_WORDS) {
        Reason::NodePortTaken
    } else if error.is_namespace_gone() {
        Reason::Pending
    } else {
        Reason::ServiceRefused
    };
    Programming::Failed { reason, message: format!("{told}; it is tried again") }
}
