//! Writing to an API server: server-side apply under one field manager, deletion, status.

use std::collections::HashMap;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::{Mutex, PoisonError};

use futures::{StreamExt, stream};
use kube::api::{Api, DeleteParams, Patch, PatchParams, Preconditions, PropagationPolicy};
use kube::core::{ApiResource, DynamicObject, GroupVersionKind, ObjectMeta};
use kube::runtime::watcher::Event;
use kube::{Client, Resource, ResourceExt};
use serde::Serialize;

use crate::error::is_not_found;

/// The field manager of everything that Remora writes.
pub const FIELD_MANAGER: &str = "remora";

/// How many requests of one batch are under way at once.
const CONCURRENT_REQUESTS: usize = 16;

/// An object could not be written.
#[derive(Debug, thiserror::Error)]
pub enum ApplyError {
    /// The object to write carries no type or no name.
    #[error("cannot write an object without {missing}")]
    Incomplete {
        /// What is missing.
        missing: &'static str,
    },
    /// The API server refused or did not answer.
    #[error("cannot {action} {object}")]
    Request {
        /// What was attempted.
        action: &'static str,
        /// Kind, namespace and name.
        object: ObjectName,
        /// Why.
        #[source]
        source: Box<kube::Error>,
    },
}

impl ApplyError {
    /// A word from a closed set, for conditions, events and metrics.
    pub fn reason(&self) -> &'static str {
        match self {
            Self::Incomplete { .. } => "IncompleteObject",
            Self::Request { source, .. } => match source.as_ref() {
                kube::Error::Api(status) if status.code == 403 => "Forbidden",
                kube::Error::Api(status) if status.code == 409 => "Conflict",
                kube::Error::Api(status) if status.code == 422 || status.code == 400 => "Refused",
                _ => "RequestFailed",
            },
        }
    }

    /// Tells whether the object's namespace is being deleted or does not exist.
    pub fn is_namespace_gone(&self) -> bool {
        match self {
            Self::Request { source, .. } => match source.as_ref() {
                kube::Error::Api(status) => {
                    status.code == 404 || status.message.contains("is being terminated")
                }
                _ => false,
            },
            Self::Incomplete { .. } => false,
        }
    }
}

/// Kind, namespace and name of an object.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ObjectName {
    /// Kind.
    pub kind: String,
    /// Namespace, empty for cluster-scoped objects.
    pub namespace: String,
    /// Name.
    pub name: String,
}

impl ObjectName {
    /// Reads the name of an object.
    pub fn of(object: &DynamicObject) -> Self {
        Self {
            kind: object.types.as_ref().map(|types| types.kind.clone()).unwrap_or_default(),
            namespace: object.namespace().unwrap_or_default(),
            name: object.metadata.name.clone().unwrap_or_default(),
        }
    }

    fn seen(kind: &str, metadata: &ObjectMeta) -> Self {
        Self {
            kind: kind.to_owned(),
            namespace: metadata.namespace.clone().unwrap_or_default(),
            name: metadata.name.clone().unwrap_or_default(),
        }
    }
}

impl std::fmt::Display for ObjectName {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        if self.namespace.is_empty() {
            write!(formatter, "{} {}", self.kind, self.name)
        } else {
            write!(formatter, "{} {}/{}", self.kind, self.namespace, self.name)
        }
    }
}

/// Applies one object server-side, taking over the fields that others may hold.
pub async fn apply(client: &Client, object: &DynamicObject) -> Result<DynamicObject, ApplyError> {
    apply_as(FIELD_MANAGER, client, object).await
}

/// Applies one object server-side under another field manager: for an object of which two parts of Remora write a part.
pub async fn apply_as(
    manager: &str,
    client: &Client,
    object: &DynamicObject,
) -> Result<DynamicObject, ApplyError> {
    let (api, name) = api_of(client, object)?;
    let params = PatchParams::apply(manager).force();
    api.patch(&name, &params, &Patch::Apply(object))
        .await
        .map_err(|source| failed("apply", object, source))
}

/// Applies objects side by side; namespaces and custom resource definitions have to be there before.
///
/// All are attempted; the first error is returned.
pub async fn apply_all(client: &Client, objects: &[DynamicObject]) -> Result<(), ApplyError> {
    let requests: Vec<_> = objects.iter().map(|object| apply(client, object)).collect();
    let results: Vec<Result<DynamicObject, ApplyError>> =
        stream::iter(requests).buffer_unordered(CONCURRENT_REQUESTS).collect().await;
    results.into_iter().try_for_each(|result| result.map(|_| ()))
}

/// Deletes an object named by its type, namespace and name; an absent one counts as deleted.
///
/// Returns whether the object was still there.
pub async fn delete_if_exists(client: &Client, object: &DynamicObject) -> Result<bool, ApplyError> {
    let (api, name) = api_of(client, object)?;
    let params = DeleteParams {
        propagation_policy: Some(PropagationPolicy::Background),
        preconditions: object
            .metadata
            .uid
            .clone()
            .map(|uid| Preconditions { uid: Some(uid), resource_version: None }),
        ..DeleteParams::default()
    };
    match api.delete(&name, &params).await {
        Ok(_) => Ok(true),
        Err(error) if is_not_found(&error) => Ok(false),
        Err(source) => Err(failed("delete", object, source)),
    }
}

/// Writes fields of an object's status (JSON merge patch: lists are replaced whole, null removes a field).
pub async fn patch_status<S: Serialize>(
    client: &Client,
    object: &DynamicObject,
    status: &S,
) -> Result<DynamicObject, ApplyError> {
    let (api, name) = api_of(client, object)?;
    let patch = serde_json::json!({ "status": status });
    api.patch_status(&name, &PatchParams::default(), &Patch::Merge(&patch))
        .await
        .map_err(|source| failed("write the status of", object, source))
}

/// Names an object of a known type without its content: for deletion and status.
pub fn reference<K: Resource<DynamicType = ()>>(
    namespace: Option<&str>,
    name: &str,
) -> DynamicObject {
    DynamicObject {
        types: Some(kube::core::TypeMeta {
            api_version: K::api_version(&()).into_owned(),
            kind: K::kind(&()).into_owned(),
        }),
        metadata: ObjectMeta {
            name: Some(name.to_owned()),
            namespace: namespace.map(str::to_owned),
            ..ObjectMeta::default()
        },
        data: serde_json::Value::Null,
    }
}

fn api_of(
    client: &Client,
    object: &DynamicObject,
) -> Result<(Api<DynamicObject>, String), ApplyError> {
    let types =
        object.types.as_ref().ok_or(ApplyError::Incomplete { missing: "apiVersion and kind" })?;
    let kind = GroupVersionKind::try_from(types)
        .map_err(|_| ApplyError::Incomplete { missing: "a valid apiVersion" })?;
    let name =
        object.metadata.name.clone().ok_or(ApplyError::Incomplete { missing: "metadata.name" })?;
    let resource = ApiResource::from_gvk(&kind);
    let api = match object.metadata.namespace.as_deref() {
        Some(namespace) => Api::namespaced_with(client.clone(), namespace, &resource),
        None => Api::all_with(client.clone(), &resource),
    };
    Ok((api, name))
}

/// The error of a request about an object.
pub fn failed(action: &'static str, object: &DynamicObject, source: kube::Error) -> ApplyError {
    ApplyError::Request { action, object: ObjectName::of(object), source: Box::new(source) }
}

/// Remembers what was applied, so that a reconcile which changes nothing sends nothing.
///
/// An entry holds the hash of the desired object and the version that the API server answered with; watches report
/// every change they see through [`Ledger::hear`], which drops the entry of an object that someone else changed.
#[derive(Default)]
pub struct Ledger {
    entries: Mutex<HashMap<ObjectName, Entry>>,
}

struct Entry {
    desired: u64,
    uid: Option<String>,
    version: Version,
}

/// The generation where the object has one (a change of status does not move it), else the resource version.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Version {
    Generation(i64),
    Resource(Option<String>),
}

impl Version {
    fn of(metadata: &ObjectMeta) -> Self {
        match metadata.generation {
            Some(generation) => Self::Generation(generation),
            None => Self::Resource(metadata.resource_version.clone()),
        }
    }
}

impl Ledger {
    /// Applies the objects that are not known to be as desired already.
    ///
    /// All are attempted; the first error is returned. Returns how many requests were sent.
    pub async fn apply_all(
        &self,
        client: &Client,
        objects: &[DynamicObject],
    ) -> Result<usize, ApplyError> {
        let due: Vec<_> = objects
            .iter()
            .filter(|object| !self.is_current(object))
            .map(|object| self.apply(client, object))
            .collect();
        let sent = due.len();
        let results: Vec<Result<(), ApplyError>> =
            // In their order, so that of several failures the same one is told each time.
            stream::iter(due).buffered(CONCURRENT_REQUESTS).collect().await;
        results.into_iter().try_for_each(|result| result).map(|()| sent)
    }

    async fn apply(&self, client: &Client, object: &DynamicObject) -> Result<(), ApplyError> {
        let live = apply(client, object).await?;
        let entry = Entry {
            desired: hash(object),
            uid: live.metadata.uid.clone(),
            version: Version::of(&live.metadata),
        };
        self.lock().insert(ObjectName::of(object), entry);
        Ok(())
    }

    fn observe(&self, kind: &str, metadata: &ObjectMeta) -> bool {
        let name = ObjectName::seen(kind, metadata);
        let mut entries = self.lock();
        let is_changed = entries.get(&name).is_some_and(|entry| {
            entry.uid != metadata.uid
                || entry.version != Version::of(metadata)
                || metadata.deletion_timestamp.is_some()
        });
        if is_changed {
            entries.remove(&name);
        }
        is_changed
    }

    /// Tells the ledger what a watch has heard. Returns the object, and whether someone else has changed or deleted it.
    ///
    /// A deletion has to be told as such: the object it carries may look as it was applied.
    pub fn hear<K: Resource>(&self, kind: &str, event: Event<K>) -> Option<(K, bool)> {
        match event {
            Event::Apply(object) | Event::InitApply(object) => {
                let is_changed = self.observe(kind, object.meta());
                Some((object, is_changed))
            }
            Event::Delete(object) => {
                let was_known = self.forget(&ObjectName::seen(kind, object.meta()));
                Some((object, was_known))
            }
            // What was deleted while the watch was broken is in no event.
            Event::Init => {
                self.lock().retain(|name, _| name.kind != kind);
                None
            }
            Event::InitDone => None,
        }
    }

    fn forget(&self, name: &ObjectName) -> bool {
        self.lock().remove(name).is_some()
    }

    /// Forgets everything in a namespace.
    pub fn forget_namespace(&self, namespace: &str) {
        self.lock().retain(|name, _| name.namespace != namespace);
    }

    fn is_current(&self, object: &DynamicObject) -> bool {
        self.lock().get(&ObjectName::of(object)).is_some_and(|entry| entry.desired == hash(object))
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, HashMap<ObjectName, Entry>> {
        // The map is consistent after every statement: a panic elsewhere leaves nothing half-done in it.
        self.entries.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn hash(object: &DynamicObject) -> u64 {
    let mut hasher = DefaultHasher::new();
    serde_json::to_string(object).unwrap_or_default().hash(&mut hasher);
    hasher.finish()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn config_map(value: &str) -> DynamicObject {
        let mut object = reference::<k8s_openapi::api::core::v1::ConfigMap>(Some("ns"), "a");
        object.data = serde_json::json!({"data": {"k": value}});
        object
    }

    fn ledger_with(object: &DynamicObject, resource_version: &str) -> Ledger {
        let ledger = Ledger::default();
        let entry = Entry {
            desired: hash(object),
            uid: Some("u".to_owned()),
            version: Version::Resource(Some(resource_version.to_owned())),
        };
        ledger.lock().insert(ObjectName::of(object), entry);
        ledger
    }

    fn seen(resource_version: &str) -> ObjectMeta {
        ObjectMeta {
            namespace: Some("ns".to_owned()),
            name: Some("a".to_owned()),
            uid: Some("u".to_owned()),
            resource_version: Some(resource_version.to_owned()),
            ..ObjectMeta::default()
        }
    }

    #[test]
    fn when_own_write_comes_back_the_object_stays_current() {
        let ledger = ledger_with(&config_map("x"), "7");
        ledger.observe("ConfigMap", &seen("7"));
        assert!(ledger.is_current(&config_map("x")));
    }

    #[test]
    fn when_someone_else_writes_the_object_is_applied_again() {
        let ledger = ledger_with(&config_map("x"), "7");
        ledger.observe("ConfigMap", &seen("8"));
        assert!(!ledger.is_current(&config_map("x")));
    }

    #[test]
    fn when_someone_else_deletes_the_object_it_is_applied_again() {
        let ledger = ledger_with(&config_map("x"), "7");
        let deleted =
            k8s_openapi::api::core::v1::ConfigMap { metadata: seen("7"), ..Default::default() };
        let heard = ledger.hear("ConfigMap", Event::Delete(deleted));
        assert!(heard.is_some_and(|(_, is_changed)| is_changed));
        assert!(!ledger.is_current(&config_map("x")));
    }

    #[test]
    fn when_a_watch_begins_anew_nothing_of_its_kind_is_taken_for_known() {
        let ledger = ledger_with(&config_map("x"), "7");
        let begun: Event<k8s_openapi::api::core::v1::ConfigMap> = Event::Init;
        assert!(ledger.hear("ConfigMap", begun).is_none());
        assert!(!ledger.is_current(&config_map("x")));
    }

    #[test]
    fn when_the_desired_object_changes_it_is_applied_again() {
        let ledger = ledger_with(&config_map("x"), "7");
        assert!(!ledger.is_current(&config_map("y")));
    }
}
