//! Manifests: minimal YAML, changed by patches.

use anyhow::Context as _;
use kube::api::DynamicObject;
use serde_json::Value;

/// Reads YAML as plain data.
///
/// # Errors
/// When it is no YAML.
pub fn yaml(text: &str) -> anyhow::Result<Value> {
    serde_saphyr::from_str(text).context("cannot read YAML")
}

/// Reads YAML as an object.
///
/// # Errors
/// When it is no object.
pub fn object(value: Value) -> anyhow::Result<DynamicObject> {
    serde_json::from_value(value).context("this is no object")
}

/// The manifest with a JSON merge patch (RFC 7396) applied: a null removes, a list replaces.
#[must_use]
pub fn patched(mut manifest: Value, patch: &Value) -> Value {
    merge(&mut manifest, patch);
    manifest
}

fn merge(target: &mut Value, patch: &Value) {
    let Value::Object(changes) = patch else {
        *target = patch.clone();
        return;
    };
    if !target.is_object() {
        *target = Value::Object(serde_json::Map::new());
    }
    let Value::Object(fields) = target else { return };
    for (name, change) in changes {
        if change.is_null() {
            fields.remove(name);
        } else {
            merge(fields.entry(name.clone()).or_insert(Value::Null), change);
        }
    }
}

/// The smallest HostedCluster that the API accepts.
pub const HOSTED_CLUSTER: &str = r#"
apiVersion: hypershift.openshift.io/v1beta1
kind: HostedCluster
metadata: { name: reef, namespace: default }
spec:
  release: { image: registry.test/release:1.35.4 }
  pullSecret: { name: reef-pull-secret }
  platform: { type: KubeVirt, kubevirt: {} }
  services:
  - { service: APIServer, servicePublishingStrategy: { type: NodePort, nodePort: { address: 192.0.2.101 } } }
  - { service: OAuthServer, servicePublishingStrategy: { type: Route } }
  - { service: Konnectivity, servicePublishingStrategy: { type: NodePort, nodePort: { address: 192.0.2.102 } } }
  - { service: Ignition, servicePublishingStrategy: { type: None } }
"#;

/// The smallest NodePool that the API accepts.
pub const NODE_POOL: &str = r#"
apiVersion: hypershift.openshift.io/v1beta1
kind: NodePool
metadata: { name: shallows, namespace: default }
spec:
  clusterName: reef
  release: { image: registry.test/release:1.35.4 }
  management: { upgradeType: Replace }
  platform: { type: KubeVirt, kubevirt: {} }
"#;

/// The smallest ServiceExposure that the API accepts.
pub const SERVICE_EXPOSURE: &str = r#"
apiVersion: remora.dev/v1alpha1
kind: ServiceExposure
metadata: { name: shop, namespace: default }
spec:
  clusterName: reef
  service: { namespace: petclinic, name: petclinic-np }
"#;

/// The smallest ExposurePolicy that the API accepts.
pub const EXPOSURE_POLICY: &str = r#"
apiVersion: remora.dev/v1alpha1
kind: ExposurePolicy
metadata: { name: shops, namespace: default }
spec:
  clusterName: reef
"#;

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_null_removes_and_a_list_replaces() {
        let manifest = json!({ "a": { "b": 1, "c": [1, 2] }, "d": "e" });
        let patch = json!({ "a": { "b": null, "c": [3] }, "f": { "g": true } });
        let expected = json!({ "a": { "c": [3] }, "d": "e", "f": { "g": true } });
        assert_eq!(patched(manifest, &patch), expected);
    }
}
