//! Telling hosted users: address and condition in the Service's status, and Events.

use k8s_openapi::api::core::v1::Service;
use kube::api::{Patch, PatchParams};
use kube::runtime::events::{Event, EventType, Recorder};
use kube::{Api, Resource, ResourceExt};
use remora_core::load_balancer::{News, Report};

use super::reconcile::Balancers;
use crate::apply::{ApplyError, failed, reference};
use crate::error::{chain, is_not_found};

/// Most characters of an Event's note (events.k8s.io/v1).
const NOTE_LIMIT: usize = 1000;

/// Writes a report, if there is one.
pub(super) async fn tell(
    balancers: &Balancers,
    hosted: &Service,
    report: Option<Report>,
) -> Result<(), ApplyError> {
    let Some(Report { patch, news }) = report else { return Ok(()) };
    let (namespace, name) = (hosted.namespace().unwrap_or_default(), hosted.name_any());
    let api: Api<Service> = Api::namespaced(balancers.session.client.clone(), &namespace);
    match api.patch_status(&name, &PatchParams::default(), &Patch::Strategic(&patch)).await {
        Ok(_) => {}
        Err(error) if is_not_found(&error) => return Ok(()),
        Err(error) => {
            let object = reference::<Service>(Some(&namespace), &name);
            return Err(failed("write the status of", &object, error));
        }
    }
    if let Some(news) = news.filter(|news| balancers.memories.is_new(hosted, news)) {
        tracing::info!(
            namespace = %balancers.session.control_plane_namespace,
            service = %format!("{namespace}/{name}"),
            reason = news.reason,
            note = %news.note,
            "load balancer"
        );
        publish(balancers, hosted, news).await;
    }
    Ok(())
}

/// Writes an Event inside the hosted cluster; one that cannot be written is logged and forgotten.
async fn publish(balancers: &Balancers, hosted: &Service, news: News) {
    let event = Event {
        type_: if news.is_warning { EventType::Warning } else { EventType::Normal },
        reason: news.reason.to_owned(),
        note: Some(news.note.chars().take(NOTE_LIMIT).collect()),
        action: "EnsureLoadBalancer".to_owned(),
        secondary: None,
    };
    // A recorder that lives on would fold other notes of the same reason into the first one.
    let reporter = balancers.session.context.reporter();
    let recorder = Recorder::new(balancers.session.client.clone(), reporter);
    if let Err(error) = recorder.publish(&event, &hosted.object_ref(&())).await {
        tracing::warn!(
            reason = news.reason,
            error = %chain(&error),
            "cannot write event in a hosted cluster"
        );
    }
}
