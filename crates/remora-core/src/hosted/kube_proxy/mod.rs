//! kube-proxy: the Services on every node, by nftables.

use kube::core::DynamicObject;
use serde_json::{Value, json};
use sha2::{Digest, Sha256};

use super::{Addons, api_environment, bind_service_account, daemon_set, metadata, service_account};
use crate::control_plane::{from_json, short_hash};

const NAME: &str = "kube-proxy";
const CONFIG: &str = "kube-proxy-config";

/// Builds the DaemonSet, its configuration and its rights.
pub fn objects(addons: &Addons) -> Vec<DynamicObject> {
    let config = config(addons).to_string();
    let hash = short_hash(&Sha256::digest(&config));
    [
        service_account(NAME),
        bind_service_account("remora:kube-proxy", "system:node-proxier", NAME),
        json!({
            "apiVersion": "v1",
            "kind": "ConfigMap",
            "metadata": metadata(CONFIG),
            "data": { "config.yaml": config },
        }),
        daemon_set(NAME, &hash, pod_spec(addons)),
    ]
    .into_iter()
    .map(from_json)
    .collect()
}

fn config(addons: &Addons) -> Value {
    let clusters: Vec<String> =
        addons.networks.cluster.iter().map(|cluster| cluster.cidr.to_string()).collect();
    json!({
        "apiVersion": "kubeproxy.config.k8s.io/v1alpha1",
        "kind": "KubeProxyConfiguration",
        "mode": "nftables",
        "clusterCIDR": clusters.join(","),
        // The exposures' and the VMs' readiness ask here whether the node serves.
        "healthzBindAddress": "0.0.0.0:10256",
        "metricsBindAddress": "127.0.0.1:10249",
        // The kernel's own limits stay: in a container kube-proxy may not be able to change them.
        "conntrack": { "maxPerCore": 0 },
        // An empty kubeconfig means the ServiceAccount and the environment.
        "clientConnection": { "kubeconfig": "" },
    })
}

fn pod_spec(addons: &Addons) -> Value {
    json!({
        "serviceAccountName": NAME,
        "containers": [{
            "name": NAME,
            "image": addons.images.kube_proxy,
            "imagePullPolicy": "IfNotPresent",
            "command": ["kube-proxy"],
            "args": ["--config=/etc/kube-proxy/config.yaml", "--hostname-override=$(NODE_NAME)"],
            "env": api_environment(addons),
            "resources": { "requests": { "cpu": "20m", "memory": "64Mi" } },
            // Sets kernel parameters (route_localnet, conntrack), which needs a writable /proc/sys.
            "securityContext": { "runAsUser": 0, "privileged": true },
            "volumeMounts": [{ "name": "config", "mountPath": "/etc/kube-proxy", "readOnly": true }],
        }],
        "volumes": [{ "name": "config", "configMap": { "name": CONFIG } }],
    })
}

#[cfg(test)]
mod tests {
    use k8s_openapi::api::apps::v1::DaemonSet;

    use super::*;
    use crate::control_plane::testing::assert_is;
    use crate::hosted::testing::addons;

    #[test]
    fn when_kube_proxy_is_built_it_uses_nftables_and_answers_on_its_health_port() {
        let objects = objects(&addons());
        assert_is::<DaemonSet>(objects.last().unwrap());
        insta::assert_yaml_snapshot!(objects);
    }
}
