//! Bringing the hosting Service in line with the decision.

use k8s_openapi::api::core::v1::Service;
use k8s_openapi::api::discovery::v1::EndpointSlice;
use kube::api::ListParams;
use kube::{Api, Client, ResourceExt};
use remora_api::conditions::Reason;
use remora_api::{ServiceExposure, labels};
use remora_core::expose::{
    Decision, Refusal, SLICE_MANAGED_BY, SLICE_MANAGER, SLICE_SERVICE, Served, VmPod, service_name,
    slices, valid_range,
};
use remora_core::exposure_status::Programming;
use remora_core::object::object;

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
    let live = match apply_within_range(client, &served, verdict, memory).await {
        Ok((served, live)) => {
            verdict.decision = Decision::Served(Box::new(served));
            live
        }
        Err(Failure::Refused(refusal)) => {
            verdict.decision = Decision::Refused(refusal);
            return withdraw(client, exposure, verdict, memory).await;
        }
        Err(Failure::Apply(error)) => return failed(&error),
    };
    match apply_slices(client, exposure, verdict, &live).await {
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
    desired: &Service,
    verdict: &Verdict,
    memory: &mut Memory,
) -> Result<Service, ApplyError> {
    let desired = object(desired);
    let hash = fingerprint(&serde_json::to_string(&desired).unwrap_or_default());
    if let Some(own) = &verdict.own {
        let seen = Applied { desired: hash, resource_version: own.resource_version() };
        if memory.applied.as_ref() == Some(&seen) {
            return Ok(own.clone());
        }
    }
    let live = apply(client, &desired).await?;
    memory.applied = Some(Applied { desired: hash, resource_version: live.resource_version() });
    memory.forget_failures();
    // What the API server answers to a Service is one.
    live.try_parse().map_err(|_| ApplyError::Incomplete { missing: "a Service's fields" })
}

/// Writes the slices that the exposure needs, and removes those that it needs no more.
async fn apply_slices(
    client: &Client,
    exposure: &ServiceExposure,
    verdict: &Verdict,
    live: &Service,
) -> Result<(), ApplyError> {
    let machines: Vec<&VmPod> = verdict.machines.iter().collect();
    let desired = slices(exposure, live, &machines);
    let had_no_selector = |own: &Service| own.spec.as_ref().is_some_and(|s| s.selector.is_none());
    if desired.is_empty() && !verdict.own.as_ref().is_some_and(had_no_selector) {
        return Ok(());
    }
    for slice in &desired {
        apply(client, &object(slice)).await?;
    }
    let namespace = live.namespace().unwrap_or_default();
    let selector =
        format!("{SLICE_SERVICE}={},{SLICE_MANAGED_BY}={SLICE_MANAGER}", live.name_any());
    let api: Api<EndpointSlice> = Api::namespaced(client.clone(), &namespace);
    let found = api.list_metadata(&ListParams::default().labels(&selector)).await;
    let found = found.map_err(|source| ApplyError::Request {
        action: "list the EndpointSlices of",
        object: crate::apply::ObjectName::of(&reference::<Service>(
            Some(&namespace),
            &live.name_any(),
        )),
        source: Box::new(source),
    })?;
    let is_wanted = |name: &str| desired.iter().any(|slice| slice.name_any() == name);
    for slice in found.items.iter().filter(|slice| !is_wanted(&slice.name_any())) {
        let name = slice.name_any();
        delete_if_exists(client, &reference::<EndpointSlice>(Some(&namespace), &name)).await?;
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
