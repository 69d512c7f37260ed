//! Walks the schemas of the CRDs.

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use serde_json::Value;

/// The schema of a definition's only version.
pub(crate) fn of(definition: &CustomResourceDefinition) -> anyhow::Result<Value> {
    let definition = serde_json::to_value(definition)?;
    let schema = definition.pointer("/spec/versions/0/schema/openAPIV3Schema").cloned();
    schema.ok_or_else(|| anyhow::anyhow!("a definition has no schema"))
}

/// Path and message of every CEL rule below a schema; `[]` stands for any index.
pub(crate) fn rules(schema: &Value) -> Vec<(String, String)> {
    let mut found = Vec::new();
    visit(schema, "", &mut |path, schema| {
        let rules = schema.get("x-kubernetes-validations").and_then(Value::as_array);
        for rule in rules.into_iter().flatten() {
            let message = rule.get("message").and_then(Value::as_str).unwrap_or_default();
            found.push((path.to_owned(), message.to_owned()));
        }
    });
    found
}

/// Path of every field below a schema; `[]` stands for any index, `{}` for any key.
pub(crate) fn paths(schema: &Value) -> Vec<String> {
    let mut found = Vec::new();
    visit(schema, "", &mut |path, _| found.push(path.to_owned()));
    found
}

/// Whether a manifest has something at a path of [`paths`].
pub(crate) fn has(manifest: &Value, path: &str) -> bool {
    let Some(path) = path.strip_prefix('.').or(Some(path)).filter(|path| !path.is_empty()) else {
        return true;
    };
    if let Some(rest) = path.strip_prefix("[]") {
        return manifest.as_array().into_iter().flatten().any(|item| has(item, rest));
    }
    if let Some(rest) = path.strip_prefix("{}") {
        return manifest.as_object().into_iter().flatten().any(|(_, value)| has(value, rest));
    }
    let end = path.find(['.', '[', '{']).unwrap_or(path.len());
    let (name, rest) = path.split_at(end);
    manifest.get(name).is_some_and(|value| has(value, rest))
}

fn visit(schema: &Value, path: &str, see: &mut dyn FnMut(&str, &Value)) {
    see(path, schema);
    for (name, property) in
        schema.get("properties").and_then(Value::as_object).into_iter().flatten()
    {
        let path = if path.is_empty() { name.clone() } else { format!("{path}.{name}") };
        visit(property, &path, see);
    }
    if let Some(items) = schema.get("items") {
        visit(items, &format!("{path}[]"), see);
    }
    if let Some(values) = schema.get("additionalProperties").filter(|values| values.is_object()) {
        visit(values, &format!("{path}{{}}"), see);
    }
}
