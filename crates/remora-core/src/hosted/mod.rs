//! What Remora wants to exist inside a hosted cluster.

pub mod bootstrap_rbac;
pub mod coredns;
pub mod flannel;
pub mod konnectivity_agent;
pub mod kube_proxy;
pub mod kubernetes_endpoints;

use std::net::IpAddr;

use kube::core::DynamicObject;
use remora_api::labels;
use serde_json::{Value, json};

use crate::control_plane::{Availability, Networks, PodNetwork};
use crate::endpoint::Published;
use crate::pki::Credential;
use crate::release::Images;

/// Namespace of the addons.
pub const NAMESPACE: &str = "kube-system";

/// What the addons need to know.
#[derive(Clone, Debug)]
pub struct Addons {
    /// Component images.
    pub images: Images,
    /// Networks of the hosted cluster.
    pub networks: Networks,
    /// Where nodes reach the control plane.
    pub published: Published,
    /// Addresses of the published API endpoint: its own, or what its name resolves to.
    pub api_addresses: Vec<IpAddr>,
    /// Replicas of what runs inside the hosted cluster.
    pub availability: Availability,
    /// Certificate of the root authority, PEM.
    pub authority: String,
    /// The konnectivity agents' certificate.
    pub konnectivity_agent: Credential,
}

/// Builds all addons.
pub fn objects(addons: &Addons) -> Vec<DynamicObject> {
    let mut objects = bootstrap_rbac::objects();
    objects.extend(kubernetes_endpoints::objects(addons));
    if addons.networks.pod_network == PodNetwork::Flannel {
        objects.extend(flannel::objects(addons));
    }
    objects.extend(kube_proxy::objects(addons));
    objects.extend(coredns::objects(addons));
    objects.extend(konnectivity_agent::objects(addons));
    objects
}

fn metadata(name: &str) -> Value {
    json!({
        "name": name,
        "namespace": NAMESPACE,
        "labels": { labels::MANAGED_BY: labels::FIELD_MANAGER, "k8s-app": name },
    })
}

fn cluster_metadata(name: &str) -> Value {
    json!({ "name": name, "labels": { labels::MANAGED_BY: labels::FIELD_MANAGER } })
}

/// A DaemonSet on every node, whatever its taints.
fn daemon_set(name: &str, config_hash: &str, pod_spec: Value) -> Value {
    let mut spec = pod_spec;
    spec["hostNetwork"] = true.into();
    spec["enableServiceLinks"] = false.into();
    spec["priorityClassName"] = "system-node-critical".into();
    spec["nodeSelector"] = json!({ "kubernetes.io/os": "linux" });
    spec["tolerations"] = json!([{ "operator": "Exists" }]);
    spec["terminationGracePeriodSeconds"] = 5.into();
    json!({
        "apiVersion": "apps/v1",
        "kind": "DaemonSet",
        "metadata": metadata(name),
        "spec": {
            "selector": { "matchLabels": { "k8s-app": name } },
            "updateStrategy": { "type": "RollingUpdate", "rollingUpdate": { "maxUnavailable": "10%" } },
            "template": {
                "metadata": {
                    "labels": { "k8s-app": name },
                    "annotations": { "remora.dev/config-hash": config_hash },
                },
                "spec": spec,
            },
        },
    })
}

/// Environment that leads a client to the published API endpoint.
///
/// The pod network and the Services are made by those who read it, so they cannot go by the Service's address.
fn api_environment(addons: &Addons) -> Vec<Value> {
    let endpoint = &addons.published.api;
    vec![
        json!({ "name": "KUBERNETES_SERVICE_HOST", "value": endpoint.host }),
        json!({ "name": "KUBERNETES_SERVICE_PORT", "value": endpoint.port.to_string() }),
        json!({ "name": "NODE_NAME", "valueFrom": { "fieldRef": { "fieldPath": "spec.nodeName" } } }),
    ]
}

/// A ServiceAccount in the addons' namespace.
fn service_account(name: &str) -> Value {
    json!({ "apiVersion": "v1", "kind": "ServiceAccount", "metadata": metadata(name) })
}

/// Binds a ClusterRole to a ServiceAccount in the addons' namespace.
fn bind_service_account(binding: &str, role: &str, service_account: &str) -> Value {
    cluster_role_binding(
        binding,
        role,
        &json!({ "kind": "ServiceAccount", "name": service_account, "namespace": NAMESPACE }),
    )
}

fn cluster_role_binding(binding: &str, role: &str, subject: &Value) -> Value {
    json!({
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": "ClusterRoleBinding",
        "metadata": cluster_metadata(binding),
        "roleRef": { "apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": role },
        "subjects": [subject],
    })
}

#[cfg(test)]
pub(crate) mod testing {
    use super::*;
    use crate::endpoint::Endpoint;
    use crate::pki::PrivateKey;

    pub(crate) fn addons() -> Addons {
        let control_plane = crate::control_plane::testing::control_plane();
        Addons {
            images: control_plane.images,
            networks: control_plane.networks,
            published: Published {
                api: Endpoint { host: "192.0.2.7".to_owned(), port: 30443 },
                konnectivity: Endpoint { host: "konnectivity.example".to_owned(), port: 30091 },
            },
            api_addresses: vec!["192.0.2.7".parse().unwrap()],
            availability: Availability::SingleReplica,
            authority: "root authority".to_owned(),
            konnectivity_agent: Credential {
                certificate: "agent certificate".to_owned(),
                key: PrivateKey::new("agent key".to_owned()),
            },
        }
    }
}
