//! The kubelet's configuration on a NodePool's machines.

use std::net::IpAddr;

use ipnet::IpNet;
use k8s_openapi::api::core::v1::Taint;
use serde_json::{Value, json};

use super::files;

/// What the kubelets of a NodePool have in common.
#[derive(Clone, Debug, PartialEq)]
pub struct KubeletSettings {
    /// Address of the hosted cluster's DNS Service.
    pub cluster_dns: IpAddr,
    /// Taints that a node has from its first moment, so that no pod slips in before they are there.
    pub taints: Vec<Taint>,
}

/// The address of the cluster's DNS Service: the tenth of the network of Services.
pub fn cluster_dns(service_network: &str) -> Option<IpAddr> {
    service_network.parse::<IpNet>().ok()?.hosts().nth(9)
}

/// The `KubeletConfiguration` object.
pub fn kubelet_configuration(settings: &KubeletSettings) -> Value {
    json!({
        "apiVersion": "kubelet.config.k8s.io/v1beta1",
        "kind": "KubeletConfiguration",
        "authentication": {
            "anonymous": {"enabled": false},
            "webhook": {"enabled": true},
            "x509": {"clientCAFile": files::CA_CERTIFICATE},
        },
        "authorization": {"mode": "Webhook"},
        "cgroupDriver": "systemd",
        "clusterDNS": [settings.cluster_dns],
        "clusterDomain": "cluster.local",
        "containerRuntimeEndpoint": "unix:///run/containerd/containerd.sock",
        // The first certificates and all later ones come from the hosted API server.
        "serverTLSBootstrap": true,
        "rotateCertificates": true,
        "registerWithTaints": settings.taints,
        "resolvConf": files::RESOLV_CONF,
        "failSwapOn": false,
        // Absolute values: the defaults are shares (10 % and 15 %) that a small disk full of preloaded images
        // already misses.
        "evictionHard": {
            "memory.available": "50Mi",
            "nodefs.available": "100Mi",
            "nodefs.inodesFree": "1%",
            "imagefs.available": "100Mi",
        },
        // For the same reason: the collector would remove preloaded images that no pod uses yet.
        "imageGCHighThresholdPercent": 95,
        "imageGCLowThresholdPercent": 90,
        "serializeImagePulls": false,
        // A busy guest misses the quick update of its first minute; the next one makes it Ready.
        "nodeStatusUpdateFrequency": "4s",
        "nodeStatusReportFrequency": "5m",
    })
}
