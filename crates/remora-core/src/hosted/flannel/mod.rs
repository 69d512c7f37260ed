//! Flannel: the pod network, a VXLAN between the nodes, from the networks that the controller-manager gives each node.

use kube::core::DynamicObject;
use serde_json::{Value, json};
use sha2::{Digest, Sha256};

use super::{
    Addons, api_environment, bind_service_account, cluster_metadata, daemon_set, metadata,
    service_account,
};
use crate::control_plane::{from_json, short_hash};

const NAME: &str = "flannel";
const CONFIG: &str = "flannel-config";

/// Builds the DaemonSet, its configuration and its rights.
pub fn objects(addons: &Addons) -> Vec<DynamicObject> {
    let config = config(addons);
    let hash = short_hash(&Sha256::digest(&config));
    [
        service_account(NAME),
        json!({
            "apiVersion": "rbac.authorization.k8s.io/v1",
            "kind": "ClusterRole",
            "metadata": cluster_metadata("remora:flannel"),
            "rules": [
                { "apiGroups": [""], "resources": ["pods"], "verbs": ["get"] },
                { "apiGroups": [""], "resources": ["nodes"], "verbs": ["get", "list", "watch"] },
                { "apiGroups": [""], "resources": ["nodes/status"], "verbs": ["patch"] },
            ],
        }),
        bind_service_account("remora:flannel", "remora:flannel", NAME),
        json!({
            "apiVersion": "v1",
            "kind": "ConfigMap",
            "metadata": metadata(CONFIG),
            "data": { "net-conf.json": config },
        }),
        daemon_set(NAME, &hash, pod_spec(addons)),
    ]
    .into_iter()
    .map(from_json)
    .collect()
}

fn config(addons: &Addons) -> String {
    let network = addons.networks.cluster.first().map(|cluster| cluster.cidr.to_string());
    json!({ "Network": network, "EnableNFTables": true, "Backend": { "Type": "vxlan" } })
        .to_string()
}

fn pod_spec(addons: &Addons) -> Value {
    let mut environment = api_environment(addons);
    for (name, path) in [("POD_NAME", "metadata.name"), ("POD_NAMESPACE", "metadata.namespace")] {
        environment
            .push(json!({ "name": name, "valueFrom": { "fieldRef": { "fieldPath": path } } }));
    }
    json!({
        "serviceAccountName": NAME,
        "containers": [{
            "name": NAME,
            "image": addons.images.flannel,
            "imagePullPolicy": "IfNotPresent",
            "command": ["flanneld"],
            "args": ["-kube-subnet-mgr", "-ip-masq", "-iface=eth0"],
            "env": environment,
            // More than its neighbours: the other pods wait for the node's subnet.
            "resources": { "requests": { "cpu": "100m", "memory": "50Mi" } },
            "securityContext": {
                "runAsUser": 0,
                "allowPrivilegeEscalation": false,
                // Links, routes and packet filter of the node.
                "capabilities": { "drop": ["ALL"], "add": ["NET_ADMIN", "NET_RAW"] },
            },
            "volumeMounts": [
                { "name": "run", "mountPath": "/run/flannel" },
                { "name": "config", "mountPath": "/etc/kube-flannel", "readOnly": true },
            ],
        }],
        "volumes": [
            { "name": "run", "hostPath": { "path": "/run/flannel", "type": "DirectoryOrCreate" } },
            { "name": "config", "configMap": { "name": CONFIG } },
        ],
    })
}

#[cfg(test)]
mod tests {
    use k8s_openapi::api::apps::v1::DaemonSet;

    use super::*;
    use crate::control_plane::testing::assert_is;
    use crate::hosted::testing::addons;

    #[test]
    fn when_flannel_is_built_it_reaches_the_api_by_its_published_endpoint() {
        let objects = objects(&addons());
        assert_is::<DaemonSet>(objects.last().unwrap());
        insta::assert_yaml_snapshot!(objects);
    }
}
