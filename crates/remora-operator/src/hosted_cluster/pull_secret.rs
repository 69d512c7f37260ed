//! A copy of the pull secret in the control plane namespace: pods and virtual machines can use no other.

use k8s_openapi::api::core::v1::Secret;
use kube::{Api, ResourceExt};
use remora_api::{HostedCluster, labels, names};
use remora_core::control_plane::{ControlPlane, secrets};

use super::error::ReconcileError;
use crate::apply::{delete_if_exists, reference};
use crate::context::Context;

/// Writes the copy; deletes it when the HostedCluster names no pull secret any more.
pub(super) async fn copy(
    context: &Context,
    live: &HostedCluster,
    control_plane: &ControlPlane,
) -> Result<(), ReconcileError> {
    if control_plane.pull_secret.is_none() {
        return delete(context, &control_plane.namespace).await;
    }
    let namespace = live.namespace().unwrap_or_default();
    let name = live.spec.pull_secret.name.as_str();
    let api: Api<Secret> = Api::namespaced(context.client.clone(), &namespace);
    let original = api
        .get(name)
        .await
        .map_err(ReconcileError::reading(format!("pull secret {namespace}/{name}")))?;
    let content = original.data.and_then(|mut data| data.remove(names::PULL_SECRET_KEY));
    let Some(content) = content else {
        return Err(ReconcileError::PullSecretKey { namespace, name: name.to_owned() });
    };
    let object = secrets::pull_secret(control_plane, &content);
    context.applied.apply_all(&context.client, &[object]).await?;
    Ok(())
}

async fn delete(context: &Context, namespace: &str) -> Result<(), ReconcileError> {
    let name = names::CONTROL_PLANE_PULL_SECRET;
    let api: Api<Secret> = Api::namespaced(context.client.clone(), namespace);
    let found = api
        .get_metadata_opt(name)
        .await
        .map_err(ReconcileError::reading(format!("Secret {namespace}/{name}")))?;
    let is_own =
        found.is_some_and(|found| found.labels().contains_key(labels::CONTROL_PLANE_COMPONENT));
    if is_own {
        delete_if_exists(&context.client, &reference::<Secret>(Some(namespace), name)).await?;
    }
    Ok(())
}
