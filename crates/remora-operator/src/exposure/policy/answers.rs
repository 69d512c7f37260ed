//! Telling hosted users what came of their wish: annotations and an Event on the Service that asked.

use std::sync::Arc;

use futures::{StreamExt, stream};
use k8s_openapi::api::core::v1::{ObjectReference, Service};
use kube::api::{Patch, PatchParams};
use kube::runtime::events::{Event, EventType, Recorder};
use kube::{Api, Client};
use remora_core::expose::HostedService;
use remora_core::exposure_policy::{Answer, News};
use serde_json::json;

use crate::apply::{ApplyError, FIELD_MANAGER, failed, reference};
use crate::context::Context;
use crate::error::{chain, is_not_found};

/// Answers given at once, in one hosted cluster.
const CONCURRENT_ANSWERS: usize = 4;
/// Most characters of an Event's note (events.k8s.io/v1).
const NOTE_LIMIT: usize = 1000;

/// Answers all that have something new to hear; the first failure is returned.
pub(super) async fn answer_all(
    context: &Context,
    hosted: &Client,
    answers: Vec<(Arc<HostedService>, Answer)>,
) -> Result<(), ApplyError> {
    let mut given = Vec::new();
    for (service, answer) in answers {
        given.push(give(context, hosted, service, answer));
    }
    let given: Vec<_> = stream::iter(given).buffer_unordered(CONCURRENT_ANSWERS).collect().await;
    given.into_iter().collect()
}

async fn give(
    context: &Context,
    hosted: &Client,
    service: Arc<HostedService>,
    answer: Answer,
) -> Result<(), ApplyError> {
    let api: Api<Service> = Api::namespaced(hosted.clone(), &service.namespace);
    // The uid makes sure that a Service made anew under the same name does not get the answer of the old one.
    let patch = json!({ "metadata": { "uid": service.uid, "annotations": answer.changes } });
    let params =
        PatchParams { field_manager: Some(FIELD_MANAGER.to_owned()), ..PatchParams::default() };
    match api.patch_metadata(&service.name, &params, &Patch::Merge(&patch)).await {
        Ok(_) => {}
        Err(error) if is_not_found(&error) => return Ok(()),
        Err(error) => {
            let object = reference::<Service>(Some(&service.namespace), &service.name);
            return Err(failed("annotate", &object, error));
        }
    }
    if let Some(news) = answer.news {
        tell(context, hosted, &service, news).await;
    }
    Ok(())
}

/// Writes an Event inside the hosted cluster; one that cannot be written is logged and forgotten.
async fn tell(context: &Context, hosted: &Client, service: &HostedService, news: News) {
    let (type_, reason, note) = match news {
        News::Exposed(addresses) => {
            (EventType::Normal, "Exposed", format!("reached from outside at {addresses}"))
        }
        News::Problem(problem) => (EventType::Warning, "NotExposed", problem),
    };
    let event = Event {
        type_,
        reason: reason.to_owned(),
        note: Some(note.chars().take(NOTE_LIMIT).collect()),
        action: "Expose".to_owned(),
        secondary: None,
    };
    let regarding = ObjectReference {
        api_version: Some("v1".to_owned()),
        kind: Some("Service".to_owned()),
        namespace: Some(service.namespace.clone()),
        name: Some(service.name.clone()),
        uid: Some(service.uid.clone()),
        ..ObjectReference::default()
    };
    let recorder = Recorder::new(hosted.clone(), context.reporter());
    if let Err(error) = recorder.publish(&event, &regarding).await {
        tracing::warn!(reason, error = %chain(&error), "cannot write event in a hosted cluster");
    }
}
