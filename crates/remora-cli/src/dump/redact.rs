//! Objects without what is confidential in them.

use kube::core::DynamicObject;
use serde_json::{Map, Value};

/// What stands where something was left out.
const LEFT_OUT: &str = "(left out)";
/// Annotation in which kubectl keeps what it applied last: of a Secret, its content.
const LAST_APPLIED: &str = "kubectl.kubernetes.io/last-applied-configuration";
/// Annotations of Secrets that come from Remora; anyone else's may repeat the content.
const OWN_ANNOTATIONS: [&str; 2] = ["remora.dev/", "hypershift.openshift.io/"];
/// Fields in which a virtual machine, or a stored revision of one, can have its cloud-config written out.
const CLOUD_INIT: [&str; 4] = ["userData", "userDataBase64", "networkData", "networkDataBase64"];

/// The object without the values of a Secret, and without what repeats them.
pub(super) fn redacted(object: &DynamicObject) -> Result<Value, serde_json::Error> {
    let mut value = serde_json::to_value(object)?;
    let is_secret = object.types.as_ref().is_some_and(|types| types.kind == "Secret");
    if let Some(metadata) = value.get_mut("metadata").and_then(Value::as_object_mut) {
        metadata.remove("managedFields");
        if let Some(annotations) = metadata.get_mut("annotations").and_then(Value::as_object_mut) {
            annotations.remove(LAST_APPLIED);
            if is_secret {
                leave_out_others(annotations);
            }
        }
    }
    if is_secret {
        for field in ["data", "stringData"] {
            if let Some(entries) = value.get_mut(field).and_then(Value::as_object_mut) {
                entries.values_mut().for_each(|entry| *entry = LEFT_OUT.into());
            }
        }
    }
    leave_out_cloud_init(&mut value);
    Ok(value)
}

fn leave_out_others(annotations: &mut Map<String, Value>) {
    for (key, value) in annotations {
        if !OWN_ANNOTATIONS.iter().any(|prefix| key.starts_with(prefix)) {
            *value = LEFT_OUT.into();
        }
    }
}

fn leave_out_cloud_init(value: &mut Value) {
    match value {
        Value::Object(fields) => {
            for (name, field) in fields {
                if field.is_string() && CLOUD_INIT.contains(&name.as_str()) {
                    *field = LEFT_OUT.into();
                } else {
                    leave_out_cloud_init(field);
                }
            }
        }
        Value::Array(items) => items.iter_mut().for_each(leave_out_cloud_init),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}
