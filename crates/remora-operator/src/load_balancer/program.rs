//! Bringing the hosting Service and its EndpointSlices in line with the decision.

use k8s_openapi::api::core::v1::Service;
use k8s_openapi::api::discovery::v1::EndpointSlice;
use kube::core::DynamicObject;
use kube::{Api, ResourceExt};
use remora_core::expose::stale_slices;
use remora_core::load_balancer::{Cluster, is_local, is_made_here, slices};
use remora_core::object::object;

use super::observed::hosting_name;
use super::reconcile::Balancers;
use crate::apply::{ApplyError, apply, delete_if_exists, failed, reference};
use crate::exposure::correct::corrected;

/// How far it is.
pub(super) enum Programmed {
    /// The hosting Service is as desired.
    Done(Box<Service>),
    /// The hosting Service is being deleted: nothing can be made of it any more.
    Replaced,
    /// It is not known yet which VMs serve.
    Waiting,
}

/// Applies what is desired.
pub(super) async fn program(
    balancers: &Balancers,
    cluster: &Cluster,
    hosted: &Service,
    (desired, own): (&Service, Option<&Service>),
) -> Result<Programmed, ApplyError> {
    if own.is_some_and(|own| own.metadata.deletion_timestamp.is_some()) {
        return Ok(Programmed::Replaced);
    }
    let (nodes, machines) = if is_local(desired) {
        let Some(local) = balancers.observed.local(hosted) else { return Ok(Programmed::Waiting) };
        local
    } else {
        Default::default()
    };
    let wanted_for = |uid: Option<String>| {
        let mut owner = desired.clone();
        owner.metadata.uid = uid;
        slices(cluster, &owner, &nodes, &machines)
    };
    // The backends before the Service that needs them, where that is possible: it may serve already.
    let (live, wanted) = match own {
        Some(own) => {
            let wanted = wanted_for(own.uid());
            apply_slices(balancers, hosted, &wanted).await?;
            (apply_service(balancers, hosted, desired, Some(own)).await?, wanted)
        }
        None => {
            let live = apply_service(balancers, hosted, desired, None).await?;
            let wanted = wanted_for(live.uid());
            apply_slices(balancers, hosted, &wanted).await?;
            (live, wanted)
        }
    };
    let seen = balancers.observed.slices_of(&live.name_any());
    for slice in stale_slices(desired, &wanted, &seen) {
        let namespace = Some(cluster.control_plane_namespace.as_str());
        let stale = reference::<EndpointSlice>(namespace, &slice.name);
        delete_if_exists(&balancers.session.context.client, &stale).await?;
    }
    Ok(Programmed::Done(Box::new(live)))
}

async fn apply_service(
    balancers: &Balancers,
    hosted: &Service,
    desired: &Service,
    own: Option<&Service>,
) -> Result<Service, ApplyError> {
    let object = object(desired);
    let seen = own.and_then(ResourceExt::resource_version);
    let live = match (apply_unless_known(balancers, hosted, &object, seen.as_deref()).await?, own) {
        (None, Some(own)) => return Ok(own.clone()),
        (Some(live), _) => parse(live)?,
        (None, None) => return Err(ApplyError::Incomplete { missing: "an answer" }),
    };
    corrected(&balancers.session.context.client, desired, live).await
}

/// What the API server answers to a Service is one.
fn parse(live: DynamicObject) -> Result<Service, ApplyError> {
    live.try_parse().map_err(|_| ApplyError::Incomplete { missing: "a Service's fields" })
}

async fn apply_slices(
    balancers: &Balancers,
    hosted: &Service,
    wanted: &[EndpointSlice],
) -> Result<(), ApplyError> {
    let seen = balancers.observed.slices_of(&hosting_name(hosted));
    for slice in wanted {
        let known = seen.iter().find(|known| known.name == slice.name_any());
        let version = known.and_then(|known| known.resource_version.as_deref());
        apply_unless_known(balancers, hosted, &object(slice), version).await?;
    }
    Ok(())
}

/// Applies an object; none: it is known to be so already.
async fn apply_unless_known(
    balancers: &Balancers,
    hosted: &Service,
    desired: &DynamicObject,
    seen: Option<&str>,
) -> Result<Option<DynamicObject>, ApplyError> {
    if seen.is_some() && balancers.memories.is_applied(hosted, desired, seen) {
        return Ok(None);
    }
    let live = apply(&balancers.session.context.client, desired).await?;
    balancers.memories.applied(hosted, desired, &live);
    Ok(Some(live))
}

/// Deletes the hosting Service, its EndpointSlices with it; tells whether it is still there.
///
/// The API server is asked: a watch may not have shown yet what was made a moment ago.
pub(super) async fn take_away(
    balancers: &Balancers,
    cluster: &Cluster,
    hosted: &Service,
) -> Result<bool, ApplyError> {
    let client = &balancers.session.context.client;
    let name = hosting_name(hosted);
    let mut service = reference::<Service>(Some(&cluster.control_plane_namespace), &name);
    let api: Api<Service> = Api::namespaced(client.clone(), &cluster.control_plane_namespace);
    let found = api.get_opt(&name).await.map_err(|error| failed("read", &service, error))?;
    let Some(found) = found.filter(|found| is_made_here(cluster, found)) else { return Ok(false) };
    if found.metadata.deletion_timestamp.is_some() {
        return Ok(true);
    }
    service.metadata.uid = found.uid();
    delete_if_exists(client, &service).await
}
