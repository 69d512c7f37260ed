//! kube-controller-manager: the hosted cluster's controllers; signs the kubelets' certificates once they are approved.

use kube::core::DynamicObject;
use serde_json::Value;

use super::pod::{self, Access, Container, Pod, Readiness, Volume};
use super::{Availability, ControlPlane, PodNetwork, kubeconfig};
use crate::pki::{self, Authority};

/// Name of the component and of its Deployment.
pub const NAME: &str = "kube-controller-manager";

const PORT: u16 = 10257;
const PKI_PATH: &str = "/etc/kubernetes/pki";

/// Builds the Deployment.
pub fn objects(control_plane: &ControlPlane) -> Vec<DynamicObject> {
    let pod = Pod {
        component: NAME,
        containers: vec![container(control_plane)],
        volumes: vec![(
            "pki",
            Volume::Secrets(vec![
                (
                    kubeconfig::KUBE_CONTROLLER_MANAGER,
                    remora_api::names::KUBECONFIG_KEY,
                    "kubeconfig",
                ),
                (Authority::Root.secret(), pki::CERTIFICATE_KEY, "root-ca.crt"),
                (Authority::Root.secret(), pki::PRIVATE_KEY_KEY, "root-ca.key"),
                (Authority::Aggregator.secret(), pki::CERTIFICATE_KEY, "aggregator-ca.crt"),
                (
                    pki::SERVICE_ACCOUNT_KEY_SECRET,
                    pki::SERVICE_ACCOUNT_PRIVATE_KEY,
                    "service-account.key",
                ),
            ]),
        )],
    };
    vec![pod::deployment(control_plane, &pod)]
}

fn container(control_plane: &ControlPlane) -> Container {
    Container {
        name: NAME,
        image: control_plane.images.kube_controller_manager.clone(),
        program: "kube-controller-manager",
        args: args(control_plane),
        env: runtime_settings(),
        ports: vec![("metrics", PORT)],
        probes: pod::probes("HTTPS", PORT, "/healthz", "/healthz", Readiness::OnceStarted),
        requests: ("20m", "64Mi"),
        mounts: vec![("pki", PKI_PATH, Access::Read)],
    }
}

fn runtime_settings() -> Vec<Value> {
    // Some 25 MB of live data at idle; see kube-apiserver.
    vec![pod::env("GOGC", "30")]
}

fn args(control_plane: &ControlPlane) -> Vec<String> {
    let mut args = vec![
        format!("--kubeconfig={PKI_PATH}/kubeconfig"),
        format!("--authentication-kubeconfig={PKI_PATH}/kubeconfig"),
        format!("--authorization-kubeconfig={PKI_PATH}/kubeconfig"),
        format!("--client-ca-file={PKI_PATH}/root-ca.crt"),
        format!("--requestheader-client-ca-file={PKI_PATH}/aggregator-ca.crt"),
        format!("--root-ca-file={PKI_PATH}/root-ca.crt"),
        format!("--cluster-signing-cert-file={PKI_PATH}/root-ca.crt"),
        format!("--cluster-signing-key-file={PKI_PATH}/root-ca.key"),
        format!("--service-account-private-key-file={PKI_PATH}/service-account.key"),
        "--use-service-account-credentials=true".to_owned(),
        // Bootstrap tokens that have run out are removed. Routes and load balancers are no business of this process:
        // there is no cloud provider in it.
        "--controllers=*,token-cleaner-controller,-node-route-controller,-service-lb-controller"
            .to_owned(),
        format!("--leader-elect={}", control_plane.availability == Availability::HighlyAvailable),
        format!("--secure-port={PORT}"),
        "--profiling=false".to_owned(),
    ];
    args.extend(networks(control_plane));
    if !control_plane.feature_gates.is_empty() {
        args.push(format!("--feature-gates={}", control_plane.feature_gates.join(",")));
    }
    args
}

fn networks(control_plane: &ControlPlane) -> Vec<String> {
    let networks = &control_plane.networks;
    let join = |parts: Vec<String>| parts.join(",");
    let clusters = join(networks.cluster.iter().map(|network| network.cidr.to_string()).collect());
    let services = join(networks.service.iter().map(ToString::to_string).collect());
    let allocates = networks.pod_network == PodNetwork::Flannel || networks.allocates_node_cidrs;
    let mut args = vec![
        format!("--allocate-node-cidrs={allocates}"),
        format!("--cluster-cidr={clusters}"),
        format!("--service-cluster-ip-range={services}"),
    ];
    if allocates {
        let masks = networks.cluster.iter().map(|network| {
            let flag = match (networks.cluster.len(), network.cidr) {
                (1, _) => "--node-cidr-mask-size",
                (_, ipnet::IpNet::V4(_)) => "--node-cidr-mask-size-ipv4",
                (_, ipnet::IpNet::V6(_)) => "--node-cidr-mask-size-ipv6",
            };
            format!("{flag}={}", network.host_prefix)
        });
        args.extend(masks);
    }
    args
}

#[cfg(test)]
mod tests {
    use k8s_openapi::api::apps::v1::Deployment;

    use super::*;
    use crate::control_plane::testing::{assert_is, control_plane};

    #[test]
    fn when_flannel_is_installed_node_networks_are_allocated() {
        let objects = objects(&control_plane());
        assert_is::<Deployment>(objects.last().unwrap());
        insta::assert_yaml_snapshot!(objects);
    }

    #[test]
    fn when_the_user_brings_the_pod_network_node_networks_are_not_allocated() {
        let mut control_plane = control_plane();
        control_plane.networks.pod_network = PodNetwork::User;
        assert!(args(&control_plane).contains(&"--allocate-node-cidrs=false".to_owned()));
    }
}
