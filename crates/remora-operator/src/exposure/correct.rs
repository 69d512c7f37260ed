//! Taking away what others have added to a hosting Service.

use k8s_openapi::api::core::v1::Service;
use kube::api::{Patch, PatchParams};
use kube::{Api, Client, ResourceExt};
use remora_core::expose::correction;
use remora_core::object::object;

use crate::apply::{ApplyError, FIELD_MANAGER, failed};

/// Corrects a Service that was applied a moment ago; gives it as it is then.
pub(crate) async fn corrected(
    client: &Client,
    desired: &Service,
    live: Service,
) -> Result<Service, ApplyError> {
    let Some(patch) = correction(desired, &live) else { return Ok(live) };
    let api: Api<Service> = Api::namespaced(client.clone(), &live.namespace().unwrap_or_default());
    let params =
        PatchParams { field_manager: Some(FIELD_MANAGER.to_owned()), ..PatchParams::default() };
    let corrected = api.patch(&live.name_any(), &params, &Patch::Merge(&patch)).await;
    corrected.map_err(|error| failed("correct", &object(desired), error))
}
