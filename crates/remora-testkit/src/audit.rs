//! What an API server was asked to write, from its audit log.

use std::path::Path;

use anyhow::Context as _;
use serde_json::Value;

/// File of the log in the API server's folder.
pub(crate) const LOG: &str = "audit.log";
/// File of the policy.
pub(crate) const POLICY_FILE: &str = "audit-policy.json";
/// Reads are left out, and so is what is written.
pub(crate) const POLICY: &str = r#"{
    "apiVersion": "audit.k8s.io/v1", "kind": "Policy", "omitStages": ["RequestReceived"],
    "rules": [{ "level": "None", "verbs": ["get", "list", "watch"] }, { "level": "Metadata" }]
}"#;

/// A request to write.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Write {
    /// create, update, patch, delete or deletecollection.
    pub verb: String,
    /// Plural, with the subresource: `hostedclusters/status`.
    pub resource: String,
    /// Namespace, empty for objects without.
    pub namespace: String,
    /// Name, empty where the API server chose it.
    pub name: String,
}

impl std::fmt::Display for Write {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { verb, resource, namespace, name } = self;
        write!(formatter, "{verb} {resource} {namespace}/{name}")
    }
}

/// Reads what a user, in whose name the administrator speaks, has asked for, in the order of the answers.
pub(crate) fn read(folder: &Path, user: &str) -> anyhow::Result<Vec<Write>> {
    let path = folder.join(LOG);
    let log = std::fs::read_to_string(&path)
        .with_context(|| format!("cannot read {}", path.display()))?;
    // The last line may be half written.
    let entries = log.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
    let text = |entry: &Value, path: &str| {
        entry.pointer(path).and_then(Value::as_str).unwrap_or_default().to_owned()
    };
    Ok(entries
        .filter(|entry| text(entry, "/impersonatedUser/username") == user)
        .map(|entry| {
            let resource = text(&entry, "/objectRef/resource");
            let subresource = text(&entry, "/objectRef/subresource");
            let parts: Vec<&str> =
                [&*resource, &*subresource].into_iter().filter(|part| !part.is_empty()).collect();
            Write {
                verb: text(&entry, "/verb"),
                resource: parts.join("/"),
                namespace: text(&entry, "/objectRef/namespace"),
                name: text(&entry, "/objectRef/name"),
            }
        })
        .collect())
}
