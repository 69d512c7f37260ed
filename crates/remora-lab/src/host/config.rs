//! The configuration files of a host's programs.

use std::path::Path;

use serde_json::{Value, json};

use crate::pki::{Authority, Pki};
use crate::topology::{CLUSTER_DOMAIN, DNS_SERVICE, Host, POD_NETWORK, Role};

/// The taint that keeps ordinary pods off the masters.
pub(crate) const CONTROL_PLANE_TAINT: &str = "node-role.kubernetes.io/control-plane";
/// Where containerd listens on every host.
pub(crate) const CONTAINERD_SOCKET: &str = "/run/containerd/containerd.sock";
/// Where volume plugins would be.
pub(crate) const VOLUME_PLUGINS: &str = "/var/lib/kubelet/volume-plugins";
/// Where Debian's package puts the CNI plugins.
const CNI_PLUGINS: &str = "/usr/lib/cni";

/// kubelet's configuration file; JSON is YAML.
pub(crate) fn kubelet(host: &Host, pki: &Pki, resolv_conf: &Path) -> String {
    let certificate = format!("kubelet-{}", host.name);
    let taints = match host.role {
        Role::Master => json!([{"key": CONTROL_PLANE_TAINT, "effect": "NoSchedule"}]),
        Role::Worker => json!([]),
    };
    let config = json!({
        "apiVersion": "kubelet.config.k8s.io/v1beta1",
        "kind": "KubeletConfiguration",
        "address": host.address,
        "authentication": {
            "anonymous": {"enabled": false},
            "webhook": {"enabled": true},
            "x509": {"clientCAFile": pki.authority(Authority::Cluster)},
        },
        "authorization": {"mode": "Webhook"},
        "tlsCertFile": pki.certificate(&certificate),
        "tlsPrivateKeyFile": pki.key(&certificate),
        "cgroupDriver": "cgroupfs",
        "cgroupRoot": format!("/{}", host.scope()),
        // The machine may have cgroup v1 only, which kubelet refuses unless told otherwise.
        "failCgroupV1": false,
        "failSwapOn": false,
        "clusterDNS": [DNS_SERVICE],
        "clusterDomain": CLUSTER_DOMAIN,
        "containerRuntimeEndpoint": format!("unix://{CONTAINERD_SOCKET}"),
        "resolvConf": resolv_conf,
        "podLogsDir": "/var/log/pods",
        "volumePluginDir": VOLUME_PLUGINS,
        "serializeImagePulls": false,
        "registerWithTaints": taints,
        // All hosts share one disk that belongs to the machine: it may be nearly full.
        "evictionHard": {"memory.available": "100Mi", "nodefs.available": "1Gi", "imagefs.available": "1Gi"},
        "imageGCHighThresholdPercent": 100,
        "imageGCLowThresholdPercent": 99,
        // Lowering it needs CAP_SYS_RESOURCE, which root may lack.
        "oomScoreAdj": 0,
    });
    format!("{config:#}\n")
}

/// kube-proxy's configuration file.
pub(crate) fn kube_proxy(host: &Host, kubeconfig: &Path) -> String {
    let config = json!({
        "apiVersion": "kubeproxy.config.k8s.io/v1alpha1",
        "kind": "KubeProxyConfiguration",
        "mode": "nftables",
        "hostnameOverride": host.name,
        "clusterCIDR": POD_NETWORK,
        "clientConnection": {"kubeconfig": kubeconfig},
        // The limit of connections is the machine's and cannot be set from a host.
        "conntrack": {"maxPerCore": 0},
        "oomScoreAdj": 0,
    });
    format!("{config:#}\n")
}

/// containerd's configuration file.
pub(crate) fn containerd(pause_image: &str, registry_hosts: &Path, cni: &Path) -> String {
    let registry_hosts = registry_hosts.display();
    let cni = cni.display();
    format!(
        r#"version = 3
root = "/var/lib/containerd"
state = "/run/containerd"

[grpc]
address = "{CONTAINERD_SOCKET}"

[plugins."io.containerd.internal.v1.opt"]
path = "/var/lib/containerd/opt"

[plugins."io.containerd.cri.v1.images".pinned_images]
sandbox = "{pause_image}"

[plugins."io.containerd.cri.v1.images".registry]
config_path = "{registry_hosts}"

[plugins."io.containerd.cri.v1.runtime"]
disable_apparmor = true
# Root may lack CAP_SYS_RESOURCE, which lowering a score needs.
restrict_oom_score_adj = true
# As often as the kubelet asks; every second, the default, would keep every pod's shim busy.
stats_collect_period = "10s"

[plugins."io.containerd.cri.v1.runtime".cni]
bin_dirs = ["{CNI_PLUGINS}"]
conf_dir = "{cni}"

[plugins."io.containerd.cri.v1.runtime".containerd.runtimes.runc]
runtime_type = "io.containerd.runc.v2"

[plugins."io.containerd.cri.v1.runtime".containerd.runtimes.runc.options]
BinaryName = "/usr/sbin/runc"
SystemdCgroup = false
"#
    )
}

/// How containerd reaches the lab's registry, which speaks plain HTTP.
pub(crate) fn registry_host(registry: &str) -> String {
    format!(
        "server = \"http://{registry}\"\n\n[host.\"http://{registry}\"]\n\
         capabilities = [\"pull\", \"resolve\"]\n"
    )
}

/// The pod network of one host: a bridge, addresses out of the host's part.
pub(crate) fn cni(host: &Host) -> String {
    let config: Value = json!({
        "cniVersion": "1.0.0",
        "name": "pods",
        "plugins": [
            {
                "type": "bridge",
                "bridge": "cni0",
                "isGateway": true,
                "hairpinMode": true,
                // The hosts' own rules decide where pod addresses are hidden.
                "ipMasq": false,
                "ipam": {
                    "type": "host-local",
                    "ranges": [[{"subnet": host.pod_network(), "gateway": host.pod_gateway()}]],
                    "routes": [{"dst": "0.0.0.0/0"}],
                },
            },
            {"type": "portmap", "capabilities": {"portMappings": true}},
        ],
    });
    format!("{config:#}\n")
}

/// The name servers that pods inherit: the machine's, without those only the machine can reach.
pub(crate) fn resolv_conf(machine: &str) -> String {
    let is_reachable = |line: &&str| {
        let mut words = line.split_whitespace();
        words.next() != Some("nameserver")
            || !words.next().is_some_and(|address| address.starts_with("127.") || address == "::1")
    };
    machine.lines().filter(is_reachable).fold(String::new(), |text, line| text + line + "\n")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::topology::Topology;

    #[test]
    fn when_rendered_the_files_of_a_master_are_these() {
        let topology = Topology::new(1, 1).unwrap();
        let master = topology.host("master-1").unwrap();
        let pki = Pki::at("/lab/pki");
        insta::assert_snapshot!("kubelet", kubelet(master, &pki, Path::new("/lab/resolv.conf")));
        insta::assert_snapshot!("kube_proxy", kube_proxy(master, Path::new("/lab/kp.conf")));
        insta::assert_snapshot!("cni", cni(master));
        insta::assert_snapshot!(
            "containerd",
            containerd("r:5000/pod@sha256:aa", Path::new("/lab/certs.d"), Path::new("/lab/net.d"))
        );
    }

    #[test]
    fn when_the_host_is_a_worker_it_has_no_taint() {
        let topology = Topology::new(1, 1).unwrap();
        let worker = topology.host("worker-1").unwrap();
        let config = kubelet(worker, &Pki::at("/lab/pki"), Path::new("/lab/resolv.conf"));
        let config: Value = serde_json::from_str(&config).unwrap();
        assert_eq!(config.get("registerWithTaints"), Some(&json!([])));
        assert_eq!(config.get("cgroupRoot"), Some(&json!("/rmr-worker-1")));
    }

    #[test]
    fn when_a_name_server_listens_on_the_machine_only_pods_do_not_get_it() {
        let machine = "search a.example\nnameserver 127.0.0.53\nnameserver 10.0.0.2\n";
        assert_eq!(resolv_conf(machine), "search a.example\nnameserver 10.0.0.2\n");
    }
}
