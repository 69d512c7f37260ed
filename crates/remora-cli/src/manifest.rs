//! Objects on their way to the API server.

use kube::api::{Patch, PatchParams};
use kube::core::{ApiResource, DynamicObject, GroupVersionKind};
use kube::{Api, Client};
use serde_json::Value;

use crate::failure::Failure;

/// Field manager of what a user creates with the command line.
const FIELD_MANAGER: &str = "remora-cli";

/// Makes an object of its JSON form.
pub(crate) fn from_json(value: Value) -> Result<DynamicObject, Failure> {
    serde_json::from_value(value).map_err(unreadable)
}

/// Reads YAML documents.
pub(crate) fn from_yaml(text: &str) -> Result<Vec<DynamicObject>, Failure> {
    let values: Vec<Value> = serde_saphyr::from_multiple(text).map_err(|source| {
        Failure::Unreadable { object: "a manifest".to_owned(), source: Box::new(source) }
    })?;
    values.into_iter().filter(|value| !value.is_null()).map(from_json).collect()
}

fn unreadable(source: serde_json::Error) -> Failure {
    Failure::Unreadable { object: "a manifest".to_owned(), source: Box::new(source) }
}

/// Kind, namespace and name, as they are told.
pub(crate) fn told(object: &DynamicObject) -> String {
    let kind = object.types.as_ref().map_or("object", |types| types.kind.as_str());
    let name = object.metadata.name.as_deref().unwrap_or_default();
    match object.metadata.namespace.as_deref() {
        Some(namespace) => format!("{kind} {namespace}/{name}"),
        None => format!("{kind} {name}"),
    }
}

/// Applies objects one after another, each on top of what is there.
pub(crate) async fn apply(client: &Client, objects: &[DynamicObject]) -> Result<(), Failure> {
    for object in objects {
        apply_one(client, object, FIELD_MANAGER).await?;
    }
    Ok(())
}

/// Applies one object under a field manager.
pub(crate) async fn apply_one(
    client: &Client,
    object: &DynamicObject,
    manager: &str,
) -> Result<DynamicObject, Failure> {
    let name = object.metadata.name.clone().unwrap_or_default();
    let params = PatchParams::apply(manager).force();
    api(client, object)
        .patch(&name, &params, &Patch::Apply(object))
        .await
        .map_err(Failure::request("apply", told(object)))
}

/// Refuses to go on when there is such an object: applying it again could take nodes away.
pub(crate) async fn refuse_existing(
    client: &Client,
    object: &DynamicObject,
) -> Result<(), Failure> {
    let name = object.metadata.name.clone().unwrap_or_default();
    match api(client, object).get_opt(&name).await {
        Ok(None) => Ok(()),
        Ok(Some(_)) => Err(Failure::Flag {
            flag: "--name",
            problem: format!("{} exists already", told(object)),
            remedy: "take another name, or change what is there with kubectl.".to_owned(),
        }),
        Err(error) => Err(Failure::request("read", told(object))(error)),
    }
}

/// The API of an object's kind and namespace.
pub(crate) fn api(client: &Client, object: &DynamicObject) -> Api<DynamicObject> {
    let types = object.types.clone().unwrap_or_default();
    let kind = GroupVersionKind::try_from(&types)
        .unwrap_or_else(|_| GroupVersionKind::gvk("", "v1", &types.kind));
    let resource = ApiResource::from_gvk(&kind);
    match object.metadata.namespace.as_deref() {
        Some(namespace) => Api::namespaced_with(client.clone(), namespace, &resource),
        None => Api::all_with(client.clone(), &resource),
    }
}
