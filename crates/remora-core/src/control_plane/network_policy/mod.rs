//! Who may connect to the pods of a control plane.
//!
//! Pods of VMs are not selected: what reaches them is the business of the exposures. The probes of the host's kubelet
//! are always let through.

use kube::core::DynamicObject;
use remora_api::labels;
use serde_json::{Value, json};

use super::{ControlPlane, etcd, from_json, kube_apiserver, pod};

/// Builds the policies.
pub fn objects(control_plane: &ControlPlane) -> Vec<DynamicObject> {
    let policy = |name: &str, component: &str, spec: Value| {
        from_json(json!({
            "apiVersion": "networking.k8s.io/v1",
            "kind": "NetworkPolicy",
            "metadata": control_plane.metadata(name, component),
            "spec": spec,
        }))
    };
    vec![
        policy(
            "control-plane-default-deny",
            "network-policy",
            json!({
                "podSelector": {
                    "matchExpressions": [{ "key": labels::CONTROL_PLANE_COMPONENT, "operator": "Exists" }],
                },
                "policyTypes": ["Ingress"],
            }),
        ),
        policy(
            "kube-apiserver",
            kube_apiserver::NAME,
            json!({
                "podSelector": { "matchLabels": pod::selector(kube_apiserver::NAME) },
                "policyTypes": ["Ingress"],
                // Both are published: they authenticate whoever comes.
                "ingress": [{ "ports": [tcp(kube_apiserver::PORT), tcp(kube_apiserver::AGENT_PORT)] }],
            }),
        ),
        policy(
            "etcd",
            etcd::NAME,
            json!({
                "podSelector": { "matchLabels": pod::selector(etcd::NAME) },
                "policyTypes": ["Ingress"],
                "ingress": [
                    {
                        "from": [{ "podSelector": { "matchLabels": pod::selector(kube_apiserver::NAME) } }],
                        "ports": [tcp(etcd::CLIENT_PORT)],
                    },
                    { "from": [{ "podSelector": { "matchLabels": pod::selector(etcd::NAME) } }] },
                ],
            }),
        ),
    ]
}

fn tcp(port: u16) -> Value {
    json!({ "protocol": "TCP", "port": port })
}

#[cfg(test)]
mod tests {
    use k8s_openapi::api::networking::v1::NetworkPolicy;

    use super::*;
    use crate::control_plane::testing::{assert_is, control_plane};

    #[test]
    fn when_policies_are_built_only_published_ports_are_open() {
        let objects = objects(&control_plane());
        objects.iter().for_each(assert_is::<NetworkPolicy>);
        insta::assert_yaml_snapshot!(objects);
    }
}
