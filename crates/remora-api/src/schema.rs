//! Pieces of the CRD schemas that derive cannot say.

use schemars::{Schema, SchemaGenerator, json_schema};
use serde_json::{Value, json};

/// The pattern of a Kubernetes quantity, as controller-gen writes it.
const QUANTITY: &str = r"^(\+|-)?(([0-9]+(\.[0-9]*)?)|(\.[0-9]+))(([KMGTPE]i)|[numkMGTPE]|([eE](\+|-)?(([0-9]+(\.[0-9]*)?)|(\.[0-9]+))))?$";

/// CEL: the value is one IPv4 or IPv6 network in CIDR notation.
pub(crate) const CIDR: &str = r"self.matches('^((\\d{1,3}\\.){3}\\d{1,3}/\\d{1,2})$') || self.matches('^([0-9a-fA-F]{0,4}:){2,7}([0-9a-fA-F]{0,4})?/[0-9]{1,3}$')";
/// What a refused [`CIDR`] is told.
pub(crate) const CIDR_MESSAGE: &str =
    "cidr must be a valid IPv4 or IPv6 CIDR notation (e.g., 192.168.1.0/24 or 2001:db8::/64)";
/// CEL: the value is empty or a domain name of one label or more.
pub(crate) const DOMAIN_OR_EMPTY: &str =
    r#"self == "" || self.matches('^(?:(?:[a-zA-Z0-9-]+\\.)+[a-zA-Z]{2,}|[a-zA-Z0-9-]+)$')"#;
/// CEL: the value is a fully qualified domain name.
pub(crate) const FQDN: &str = r"self.matches('^(?:[a-zA-Z0-9-]+\\.)+[a-zA-Z]{2,}$')";
/// CEL: the value is a DNS label of any length.
pub(crate) const DNS_LABEL: &str = r"self.matches('^[a-z0-9]([-a-z0-9]*[a-z0-9])?$')";
/// CEL: the value is an image reference as far as a schema can tell.
pub(crate) const IMAGE: &str = r"self.matches('^(\\w+\\S+)$')";
/// CEL: the value is a time or a truth value.
pub(crate) const PAUSED_UNTIL: &str = r"self.matches('^\\d{4}-\\d{2}-\\d{2}T\\d{2}:\\d{2}:\\d{2}.*$') || self in ['true', 'false', 'True', 'False']";
/// What a refused [`PAUSED_UNTIL`] is told.
pub(crate) const PAUSED_UNTIL_MESSAGE: &str =
    "PausedUntil must be a date in RFC3339 format or 'True', 'true', 'False' or 'false'";

/// One CEL rule with the message of its refusal.
pub(crate) fn rule(rule: &str, message: &str) -> Value {
    json!({ "rule": rule, "message": message })
}

/// The rule of a field that never changes once it is set.
pub(crate) fn immutable(field: &str) -> Value {
    rule("self == oldSelf", &format!("{field} is immutable"))
}

/// The rule of a field that may be filled in while it is empty and never changes afterwards.
pub(crate) fn immutable_once_filled(field: &str) -> Value {
    rule(r#"oldSelf == "" || self == oldSelf"#, &format!("{field} is immutable"))
}

/// Schema of a quantity.
pub(crate) fn quantity(_: &mut SchemaGenerator) -> Schema {
    json_schema!({
        "pattern": QUANTITY,
        "x-kubernetes-int-or-string": true,
    })
}

/// Schema of a number or a string (a percentage, a port's name).
pub(crate) fn int_or_string(_: &mut SchemaGenerator) -> Schema {
    json_schema!({
        "x-kubernetes-int-or-string": true,
    })
}

/// Schema of a list of `metav1.Condition`.
pub(crate) fn conditions(_: &mut SchemaGenerator) -> Schema {
    json_schema!({
        "type": "array",
        "maxItems": 100,
        "x-kubernetes-list-type": "map",
        "x-kubernetes-list-map-keys": ["type"],
        "items": {
            "type": "object",
            "required": ["lastTransitionTime", "message", "reason", "status", "type"],
            "properties": {
                "lastTransitionTime": { "type": "string", "format": "date-time" },
                "message": { "type": "string", "maxLength": 32768 },
                "observedGeneration": { "type": "integer", "format": "int64", "minimum": 0 },
                "reason": {
                    "type": "string",
                    "minLength": 1,
                    "maxLength": 1024,
                    "pattern": "^[A-Za-z]([A-Za-z0-9_,:]*[A-Za-z0-9_])?$",
                },
                "status": { "type": "string", "enum": ["True", "False", "Unknown"] },
                "type": {
                    "type": "string",
                    "maxLength": 316,
                    "pattern": r"^([a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*/)?(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])$",
                },
            },
        },
    })
}

/// Schema of an object whose content this API does not look into.
pub(crate) fn any_object(_: &mut SchemaGenerator) -> Schema {
    json_schema!({ "type": "object", "x-kubernetes-preserve-unknown-fields": true })
}

/// Schema of a label selector (`metav1.LabelSelector`).
pub(crate) fn label_selector(_: &mut SchemaGenerator) -> Schema {
    json_schema!({
        "type": "object",
        "x-kubernetes-map-type": "atomic",
        "properties": {
            "matchLabels": {
                "type": "object",
                "maxProperties": 50,
                "additionalProperties": { "type": "string", "maxLength": 63 },
            },
            "matchExpressions": {
                "type": "array",
                "maxItems": 50,
                "x-kubernetes-list-type": "atomic",
                "items": {
                    "type": "object",
                    "required": ["key", "operator"],
                    "properties": {
                        "key": { "type": "string", "minLength": 1, "maxLength": 317 },
                        "operator": { "type": "string", "enum": ["In", "NotIn", "Exists", "DoesNotExist"] },
                        "values": {
                            "type": "array",
                            "maxItems": 100,
                            "x-kubernetes-list-type": "atomic",
                            "items": { "type": "string", "maxLength": 63 },
                        },
                    },
                    "x-kubernetes-validations": [rule(
                        "self.operator in ['In', 'NotIn'] ? has(self.values) && size(self.values) > 0 : !has(self.values) || size(self.values) == 0",
                        "values must be given for In and NotIn, and must not be for Exists and DoesNotExist",
                    )],
                },
            },
        },
    })
}

/// Schema of a list of objects whose content this API does not look into.
pub(crate) fn any_objects(generator: &mut SchemaGenerator) -> Schema {
    json_schema!({
        "type": "array",
        "maxItems": 100,
        "x-kubernetes-list-type": "atomic",
        "items": any_object(generator),
    })
}

/// Schema of a set of networks.
pub(crate) fn cidr_blocks(_: &mut SchemaGenerator) -> Schema {
    json_schema!({
        "type": "array",
        "maxItems": 500,
        "x-kubernetes-list-type": "set",
        "items": {
            "type": "string",
            "maxLength": 43,
            "x-kubernetes-validations": [rule(CIDR, CIDR_MESSAGE)],
        },
    })
}

/// Makes a derived schema one that Go's API types would have had.
///
/// Rust's `Option` becomes `nullable` in a derived schema, which would keep an explicit null and
/// leave the field without its default; without it the API server drops the null and fills in the
/// default. Number formats that Kubernetes does not know (`uint32`) are dropped: 1.36 enforces
/// formats. A `title` (the Rust name) says nothing to a user.
pub(crate) fn normalise(schema: &mut Value) {
    match schema {
        Value::Object(fields) => {
            fields.remove("nullable");
            fields.remove("title");
            if fields
                .get("format")
                .and_then(Value::as_str)
                .is_some_and(|name| name.starts_with("uint"))
            {
                fields.remove("format");
            }
            if let Some(values) = fields.get_mut("enum").and_then(Value::as_array_mut) {
                values.retain(|value| !value.is_null());
            }
            for keyword in ["items", "additionalProperties"] {
                if let Some(inner) = fields.get_mut(keyword) {
                    normalise(inner);
                }
            }
            if let Some(properties) = fields.get_mut("properties").and_then(Value::as_object_mut) {
                properties.values_mut().for_each(normalise);
            }
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) | Value::Array(_) => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nullable_and_foreign_formats_are_dropped_at_every_depth() {
        let mut schema = json!({
            "type": "object",
            "title": "Pool",
            "properties": {
                "nullable": { "type": "string", "nullable": true },
                "list": { "items": { "type": "integer", "format": "uint32", "nullable": true } },
                "map": { "additionalProperties": { "type": "integer", "format": "int32" } },
                "word": { "enum": ["a", null] },
            },
        });
        normalise(&mut schema);
        assert_eq!(
            schema,
            json!({
                "type": "object",
                "properties": {
                    "nullable": { "type": "string" },
                    "list": { "items": { "type": "integer" } },
                    "map": { "additionalProperties": { "type": "integer", "format": "int32" } },
                    "word": { "enum": ["a"] },
                },
            })
        );
    }
}
