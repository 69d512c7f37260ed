//! Konnectivity agents: one on every node; through them the API server reaches kubelets, Services and webhooks.

use std::collections::BTreeMap;

use k8s_openapi::ByteString;
use kube::core::DynamicObject;
use serde_json::{Value, json};
use sha2::{Digest, Sha256};

use super::{Addons, daemon_set, metadata};
use crate::control_plane::{from_json, short_hash};

const NAME: &str = "konnectivity-agent";
const PKI_PATH: &str = "/etc/konnectivity/pki";

/// Builds the DaemonSet and the Secret with its certificate.
pub fn objects(addons: &Addons) -> Vec<DynamicObject> {
    let data: BTreeMap<&str, ByteString> = [
        ("ca.crt", addons.authority.as_str()),
        ("tls.crt", &addons.konnectivity_agent.certificate),
        ("tls.key", addons.konnectivity_agent.key.expose()),
    ]
    .map(|(key, text)| (key, ByteString(text.as_bytes().to_vec())))
    .into();
    let data = serde_json::to_value(data).expect("bytes");
    let hash = short_hash(&Sha256::digest(data.to_string()));
    let secret = json!({
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": metadata(NAME),
        "type": "Opaque",
        "data": data,
    });
    vec![from_json(secret), from_json(daemon_set(NAME, &hash, pod_spec(addons)))]
}

fn pod_spec(addons: &Addons) -> Value {
    let endpoint = &addons.published.konnectivity;
    json!({
        "automountServiceAccountToken": false,
        "securityContext": {
            "runAsNonRoot": true, "runAsUser": 65532, "runAsGroup": 65532, "fsGroup": 65532,
            "seccompProfile": { "type": "RuntimeDefault" },
        },
        "containers": [{
            "name": NAME,
            "image": addons.images.konnectivity,
            "imagePullPolicy": "IfNotPresent",
            "command": ["proxy-agent"],
            "args": [
                format!("--proxy-server-host={}", endpoint.host),
                format!("--proxy-server-port={}", endpoint.port),
                format!("--ca-cert={PKI_PATH}/ca.crt"),
                format!("--agent-cert={PKI_PATH}/tls.crt"),
                format!("--agent-key={PKI_PATH}/tls.key"),
                "--agent-identifiers=ipv4=$(NODE_IP)",
                // Ports of the node itself: the pod lives in its network.
                "--health-server-port=8134",
                "--admin-bind-address=127.0.0.1",
                "--admin-server-port=8133",
                "--keepalive-time=30s",
                "--logtostderr=true",
                "--v=1",
            ],
            "env": [
                { "name": "NODE_IP", "valueFrom": { "fieldRef": { "fieldPath": "status.hostIP" } } },
            ],
            "livenessProbe": {
                "httpGet": { "path": "/healthz", "port": 8134 },
                "initialDelaySeconds": 30, "periodSeconds": 30, "timeoutSeconds": 15, "failureThreshold": 4,
            },
            "resources": { "requests": { "cpu": "10m", "memory": "30Mi" } },
            "securityContext": {
                "allowPrivilegeEscalation": false,
                "capabilities": { "drop": ["ALL"] },
                "readOnlyRootFilesystem": true,
            },
            "volumeMounts": [{ "name": "pki", "mountPath": PKI_PATH, "readOnly": true }],
        }],
        "volumes": [{ "name": "pki", "secret": { "secretName": NAME, "defaultMode": 0o440 } }],
    })
}

#[cfg(test)]
mod tests {
    use k8s_openapi::api::apps::v1::DaemonSet;

    use super::*;
    use crate::control_plane::testing::assert_is;
    use crate::hosted::testing::addons;

    #[test]
    fn when_the_agent_is_built_it_connects_to_the_published_endpoint() {
        let objects = objects(&addons());
        assert_is::<DaemonSet>(objects.last().unwrap());
        insta::assert_yaml_snapshot!(objects);
    }
}
