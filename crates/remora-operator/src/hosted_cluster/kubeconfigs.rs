//! The administrator's kubeconfigs beside a HostedCluster, where its users find them. Whatever else lies there under
//! their names is someone else's and stays as it is.

use k8s_openapi::api::core::v1::Secret;
use kube::api::PostParams;
use kube::core::{DynamicObject, ObjectMeta};
use kube::{Api, ResourceExt};
use remora_api::{HostedCluster, labels, names};
use remora_core::hosted_cluster_status::Kubeconfigs;
use remora_core::validate::Fault;

use super::error::ReconcileError;
use crate::apply::{FIELD_MANAGER, delete_if_exists, reference};
use crate::context::Context;
use crate::error::is_conflict;

/// What came of writing them.
#[derive(Default)]
pub(super) struct Written {
    /// Which of them are there.
    pub(super) kubeconfigs: Kubeconfigs,
    /// Secrets that are in their way.
    pub(super) faults: Vec<Fault>,
}

/// Whose a Secret beside the HostedCluster is.
enum Whose {
    Nobodys,
    /// Of this HostedCluster, with its UID.
    Own(Option<String>),
    SomeoneElses,
}

/// Writes the kubeconfigs, and deletes the one that is no longer wanted.
pub(super) async fn write(
    context: &Context,
    live: &HostedCluster,
    objects: Vec<DynamicObject>,
) -> Result<Written, ReconcileError> {
    let namespace = live.namespace().unwrap_or_default();
    let cluster = live.name_any();
    let custom = names::custom_admin_kubeconfig_secret(&cluster);
    let mut written = Written::default();
    for mut object in objects {
        let name = object.name_any();
        let Some(uid) = claim(context, &object, (&namespace, &cluster)).await? else {
            written.faults.push(Fault::foreign_secret(&namespace, &name));
            continue;
        };
        // Only this very Secret: another one may be there by now.
        object.metadata.uid = Some(uid);
        context.applied.apply_all(&context.client, &[object]).await?;
        if name == custom {
            written.kubeconfigs.has_custom = true;
        } else {
            written.kubeconfigs.has_admin = true;
        }
    }
    let had_custom = live.status.as_ref().is_some_and(|status| status.custom_kubeconfig.is_some());
    if had_custom && !written.kubeconfigs.has_custom {
        delete(context, &namespace, &cluster, &custom).await?;
    }
    Ok(written)
}

/// Deletes a kubeconfig of this cluster; a Secret of that name that someone else made stays.
pub(super) async fn delete(
    context: &Context,
    namespace: &str,
    cluster: &str,
    name: &str,
) -> Result<(), ReconcileError> {
    if let Whose::Own(uid) = whose(context, (namespace, cluster), name).await? {
        let mut secret = reference::<Secret>(Some(namespace), name);
        secret.metadata.uid = uid;
        delete_if_exists(&context.client, &secret).await?;
    }
    Ok(())
}

/// Makes sure that a Secret exists and is Remora's. Returns its UID, none if it is someone else's.
///
/// It is created, not applied, where there is none: applying would take over what someone else has made since.
async fn claim(
    context: &Context,
    object: &DynamicObject,
    (namespace, cluster): (&str, &str),
) -> Result<Option<String>, ReconcileError> {
    let name = object.name_any();
    match whose(context, (namespace, cluster), &name).await? {
        Whose::Own(uid) => return Ok(uid),
        Whose::SomeoneElses => return Ok(None),
        Whose::Nobodys => {}
    }
    let api: Api<DynamicObject> = Api::namespaced_with(
        context.client.clone(),
        namespace,
        &kube::core::ApiResource::erase::<Secret>(&()),
    );
    let parameters =
        PostParams { field_manager: Some(FIELD_MANAGER.to_owned()), ..PostParams::default() };
    match api.create(&parameters, object).await {
        Ok(created) => Ok(created.metadata.uid),
        Err(error) if is_conflict(&error) => Ok(None),
        Err(source) => Err(ReconcileError::Create {
            namespace: namespace.to_owned(),
            name,
            source: Box::new(source),
        }),
    }
}

async fn whose(
    context: &Context,
    (namespace, cluster): (&str, &str),
    name: &str,
) -> Result<Whose, ReconcileError> {
    let api: Api<Secret> = Api::namespaced(context.client.clone(), namespace);
    let found = api
        .get_metadata_opt(name)
        .await
        .map_err(ReconcileError::reading(format!("Secret {namespace}/{name}")))?;
    let Some(found) = found else { return Ok(Whose::Nobodys) };
    let ObjectMeta { annotations, uid, .. } = found.metadata;
    let owner = annotations.and_then(|mut known| known.remove(labels::HOSTED_CLUSTER));
    let is_own = owner.is_some_and(|owner| owner == format!("{namespace}/{cluster}"));
    Ok(if is_own { Whose::Own(uid) } else { Whose::SomeoneElses })
}
