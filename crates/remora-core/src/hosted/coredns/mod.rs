//! CoreDNS: names inside the hosted cluster; all others are asked of the node's own servers.

use kube::core::DynamicObject;
use serde_json::{Value, json};
use sha2::{Digest, Sha256};

use super::{Addons, bind_service_account, cluster_metadata, metadata, service_account};
use crate::control_plane::{Availability, from_json, short_hash};

const NAME: &str = "coredns";
const CONFIG: &str = "coredns-config";
/// Name of the Service, which tools expect.
const SERVICE: &str = "kube-dns";
/// Above 1023, so that no capability is needed; the Service has the usual port.
const PORT: u16 = 1053;

const COREFILE: &str = "\
.:1053 {
    errors
    health :8080 {
        lameduck 5s
    }
    ready :8181
    kubernetes cluster.local in-addr.arpa ip6.arpa {
        pods insecure
        fallthrough in-addr.arpa ip6.arpa
        ttl 30
    }
    prometheus :9153
    forward . /etc/resolv.conf {
        max_concurrent 1000
    }
    cache 30
    loop
    reload
    loadbalance
}
";

/// Builds the Deployment, its Service, configuration and rights.
pub fn objects(addons: &Addons) -> Vec<DynamicObject> {
    [
        service_account(NAME),
        json!({
            "apiVersion": "rbac.authorization.k8s.io/v1",
            "kind": "ClusterRole",
            "metadata": cluster_metadata("remora:coredns"),
            "rules": [
                {
                    "apiGroups": [""],
                    "resources": ["endpoints", "services", "pods", "namespaces"],
                    "verbs": ["list", "watch"],
                },
                { "apiGroups": ["discovery.k8s.io"], "resources": ["endpointslices"], "verbs": ["list", "watch"] },
            ],
        }),
        bind_service_account("remora:coredns", "remora:coredns", NAME),
        json!({
            "apiVersion": "v1",
            "kind": "ConfigMap",
            "metadata": metadata(CONFIG),
            "data": { "Corefile": COREFILE },
        }),
        service(addons),
        deployment(addons),
    ]
    .into_iter()
    .map(from_json)
    .collect()
}

fn service(addons: &Addons) -> Value {
    let mut metadata = metadata(SERVICE);
    metadata["labels"]["kubernetes.io/name"] = "CoreDNS".into();
    json!({
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": metadata,
        "spec": {
            "clusterIP": addons.networks.dns_service_address().map(|address| address.to_string()),
            "selector": { "k8s-app": NAME },
            "ports": [
                { "name": "dns", "port": 53, "targetPort": PORT, "protocol": "UDP" },
                { "name": "dns-tcp", "port": 53, "targetPort": PORT, "protocol": "TCP" },
                { "name": "metrics", "port": 9153, "targetPort": 9153, "protocol": "TCP" },
            ],
        },
    })
}

fn deployment(addons: &Addons) -> Value {
    let replicas = match addons.availability {
        Availability::SingleReplica => 1,
        Availability::HighlyAvailable => 2,
    };
    json!({
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": metadata(NAME),
        "spec": {
            "replicas": replicas,
            "revisionHistoryLimit": 2,
            "strategy": { "type": "RollingUpdate", "rollingUpdate": { "maxUnavailable": 1 } },
            "selector": { "matchLabels": { "k8s-app": NAME } },
            "template": {
                "metadata": {
                    "labels": { "k8s-app": NAME },
                    "annotations": { "remora.dev/config-hash": short_hash(&Sha256::digest(COREFILE)) },
                },
                "spec": pod_spec(addons),
            },
        },
    })
}

fn pod_spec(addons: &Addons) -> Value {
    json!({
        "serviceAccountName": NAME,
        "enableServiceLinks": false,
        "priorityClassName": "system-cluster-critical",
        // The node's resolv.conf, which names the servers for everything outside.
        "dnsPolicy": "Default",
        "nodeSelector": { "kubernetes.io/os": "linux" },
        "tolerations": [
            { "key": "CriticalAddonsOnly", "operator": "Exists" },
            { "key": "node-role.kubernetes.io/control-plane", "operator": "Exists", "effect": "NoSchedule" },
        ],
        "topologySpreadConstraints": [{
            "maxSkew": 1,
            "topologyKey": "kubernetes.io/hostname",
            "whenUnsatisfiable": "ScheduleAnyway",
            "labelSelector": { "matchLabels": { "k8s-app": NAME } },
        }],
        "securityContext": {
            "runAsNonRoot": true, "runAsUser": 65532, "runAsGroup": 65532,
            "seccompProfile": { "type": "RuntimeDefault" },
        },
        "containers": [{
            "name": NAME,
            "image": addons.images.coredns,
            "imagePullPolicy": "IfNotPresent",
            "command": ["coredns"],
            "args": ["-conf", "/etc/coredns/Corefile"],
            "ports": [
                { "name": "dns", "containerPort": PORT, "protocol": "UDP" },
                { "name": "dns-tcp", "containerPort": PORT, "protocol": "TCP" },
                { "name": "metrics", "containerPort": 9153, "protocol": "TCP" },
            ],
            "livenessProbe": {
                "httpGet": { "path": "/health", "port": 8080 },
                "initialDelaySeconds": 60, "periodSeconds": 10, "timeoutSeconds": 5, "failureThreshold": 5,
            },
            "readinessProbe": {
                "httpGet": { "path": "/ready", "port": 8181 },
                "periodSeconds": 2, "timeoutSeconds": 5, "failureThreshold": 3,
            },
            "resources": { "requests": { "cpu": "20m", "memory": "40Mi" }, "limits": { "memory": "256Mi" } },
            "securityContext": {
                "allowPrivilegeEscalation": false,
                "capabilities": { "drop": ["ALL"] },
                "readOnlyRootFilesystem": true,
            },
            "volumeMounts": [{ "name": "config", "mountPath": "/etc/coredns", "readOnly": true }],
        }],
        "volumes": [{ "name": "config", "configMap": { "name": CONFIG } }],
    })
}

#[cfg(test)]
mod tests {
    use k8s_openapi::api::apps::v1::Deployment;
    use k8s_openapi::api::core::v1::Service;

    use super::*;
    use crate::control_plane::testing::assert_is;
    use crate::hosted::NAMESPACE;
    use crate::hosted::testing::addons;

    #[test]
    fn when_coredns_is_built_its_service_has_the_tenth_address() {
        let objects = objects(&addons());
        let kind = |kind: &str| {
            objects.iter().find(|object| object.types.as_ref().unwrap().kind == kind).unwrap()
        };
        assert_is::<Deployment>(kind("Deployment"));
        assert_is::<Service>(kind("Service"));
        assert_eq!(kind("Service").metadata.namespace.as_deref(), Some(NAMESPACE));
        insta::assert_yaml_snapshot!(objects);
    }
}
