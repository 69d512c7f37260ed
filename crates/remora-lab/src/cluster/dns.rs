//! CoreDNS in the hosting cluster.

use serde_json::{Value, json};

use crate::topology::{CLUSTER_DOMAIN, DNS_SERVICE};

/// CoreDNS's namespace and name.
pub(crate) const NAMESPACE: &str = "kube-system";
pub(crate) const NAME: &str = "coredns";

/// Everything that CoreDNS consists of.
pub(crate) fn objects(image: &str) -> Vec<Value> {
    vec![
        json!({
            "apiVersion": "v1",
            "kind": "ServiceAccount",
            "metadata": {"name": NAME, "namespace": NAMESPACE},
        }),
        json!({
            "apiVersion": "rbac.authorization.k8s.io/v1",
            "kind": "ClusterRole",
            "metadata": {"name": "system:coredns"},
            "rules": [
                {
                    "apiGroups": [""],
                    "resources": ["endpoints", "services", "pods", "namespaces"],
                    "verbs": ["list", "watch"],
                },
                {
                    "apiGroups": ["discovery.k8s.io"],
                    "resources": ["endpointslices"],
                    "verbs": ["list", "watch"],
                },
            ],
        }),
        json!({
            "apiVersion": "rbac.authorization.k8s.io/v1",
            "kind": "ClusterRoleBinding",
            "metadata": {"name": "system:coredns"},
            "roleRef": {
                "apiGroup": "rbac.authorization.k8s.io",
                "kind": "ClusterRole",
                "name": "system:coredns",
            },
            "subjects": [{"kind": "ServiceAccount", "name": NAME, "namespace": NAMESPACE}],
        }),
        json!({
            "apiVersion": "v1",
            "kind": "ConfigMap",
            "metadata": {"name": NAME, "namespace": NAMESPACE},
            "data": {"Corefile": corefile()},
        }),
        json!({
            "apiVersion": "v1",
            "kind": "Service",
            "metadata": {"name": "kube-dns", "namespace": NAMESPACE, "labels": labels()},
            "spec": {
                "clusterIP": DNS_SERVICE,
                "selector": labels(),
                "ports": [
                    {"name": "dns", "port": 53, "protocol": "UDP"},
                    {"name": "dns-tcp", "port": 53, "protocol": "TCP"},
                ],
            },
        }),
        deployment(image),
    ]
}

fn labels() -> Value {
    json!({"k8s-app": "kube-dns"})
}

fn corefile() -> String {
    format!(
        ".:53 {{\n    errors\n    health\n    ready\n    kubernetes {CLUSTER_DOMAIN} in-addr.arpa \
         ip6.arpa {{\n        pods insecure\n        fallthrough in-addr.arpa ip6.arpa\n    }}\n    \
         forward . /etc/resolv.conf\n    cache 30\n}}\n"
    )
}

fn deployment(image: &str) -> Value {
    json!({
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": NAME, "namespace": NAMESPACE, "labels": labels()},
        "spec": {
            "replicas": 1,
            "selector": {"matchLabels": labels()},
            "template": {
                "metadata": {"labels": labels()},
                "spec": {
                    "serviceAccountName": NAME,
                    "priorityClassName": "system-cluster-critical",
                    // It asks the host's name servers about everything outside the cluster.
                    "dnsPolicy": "Default",
                    "tolerations": [{
                        "key": "node-role.kubernetes.io/control-plane",
                        "operator": "Exists",
                        "effect": "NoSchedule",
                    }],
                    "containers": [container(image)],
                    "volumes": [{"name": "config", "configMap": {"name": NAME}}],
                },
            },
        },
    })
}

fn container(image: &str) -> Value {
    json!({
        "name": NAME,
        "image": image,
        "command": ["coredns"],
        "args": ["-conf", "/etc/coredns/Corefile"],
        "ports": [
            {"name": "dns", "containerPort": 53, "protocol": "UDP"},
            {"name": "dns-tcp", "containerPort": 53, "protocol": "TCP"},
        ],
        "readinessProbe": {"httpGet": {"path": "/ready", "port": 8181}, "periodSeconds": 2},
        "livenessProbe": {"httpGet": {"path": "/health", "port": 8080}},
        "resources": {"requests": {"cpu": "20m", "memory": "40Mi"}},
        "securityContext": {
            "allowPrivilegeEscalation": false,
            "capabilities": {"add": ["NET_BIND_SERVICE"], "drop": ["ALL"]},
            "readOnlyRootFilesystem": true,
            "runAsUser": 0,
        },
        "volumeMounts": [{"name": "config", "mountPath": "/etc/coredns", "readOnly": true}],
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn when_rendered_these_are_the_objects() {
        insta::assert_json_snapshot!(objects("192.168.123.1:5000/remora/coredns@sha256:aa"));
    }
}
