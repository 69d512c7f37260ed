//! The CRDs against a real API server: defaults, every CEL rule, discovery, subresources.

mod complete;
mod defaults;
mod discovery;
mod rules;
mod schema;

use kube::Client;
use kube::api::{Api, ApiResource, DynamicObject, Patch, PatchParams, ValidationDirective};
use remora_testkit::ApiServer;
use serde_json::Value;
use tokio::sync::OnceCell;

/// The API server with the CRDs.
async fn server() -> anyhow::Result<&'static ApiServer> {
    static INSTALLED: OnceCell<()> = OnceCell::const_new();
    let server = ApiServer::shared()?;
    INSTALLED.get_or_try_init(async || server.install(&remora_api::crds::all()).await).await?;
    Ok(server)
}

/// The API of the manifest's kind, in namespace `default`.
fn api_of(client: Client, manifest: &Value) -> anyhow::Result<Api<DynamicObject>> {
    let object = remora_testkit::manifest::object(manifest.clone())?;
    let types = object.types.unwrap_or_default();
    let (group, version) = types.api_version.split_once('/').unwrap_or(("", &types.api_version));
    let kind = kube::core::GroupVersionKind::gvk(group, version, &types.kind);
    Ok(Api::default_namespaced_with(client, &ApiResource::from_gvk(&kind)))
}

/// Applies a manifest as GitOps tools do; fields that the schema lacks are refused.
async fn apply(
    api: &Api<DynamicObject>,
    manifest: &Value,
    is_dry_run: bool,
) -> kube::Result<DynamicObject> {
    let name = manifest.pointer("/metadata/name").and_then(Value::as_str).unwrap_or_default();
    let params = PatchParams {
        dry_run: is_dry_run,
        field_validation: Some(ValidationDirective::Strict),
        ..PatchParams::apply("test").force()
    };
    if manifest.get("status").is_some() {
        return api.patch_status(name, &params, &Patch::Apply(manifest)).await;
    }
    api.patch(name, &params, &Patch::Apply(manifest)).await
}
