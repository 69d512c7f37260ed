//! kube-apiserver, with the konnectivity server beside it: the only way from the API server to the nodes.

mod args;
mod konnectivity;

use kube::core::DynamicObject;
use remora_api::names::KUBE_APISERVER;
use serde_json::json;

use super::pod::{self, Access, Container, Pod, Readiness, Volume};
use super::{Availability, ControlPlane, from_json};
use crate::pki::{self, Authority, leaf};

/// Name of the component, of its Deployment and its Service.
pub const NAME: &str = KUBE_APISERVER;

/// Port of the API inside the hosting cluster.
pub const PORT: u16 = 6443;

/// Port at which konnectivity agents arrive inside the hosting cluster.
pub const AGENT_PORT: u16 = konnectivity::AGENT_PORT;

const CONFIG: &str = "kas-config";
const PKI_PATH: &str = "/etc/kubernetes/pki";
const CONFIG_PATH: &str = "/etc/kubernetes/config";
const SOCKET_FOLDER: &str = "/run/konnectivity";
const SOCKET: &str = "/run/konnectivity/server.sock";

/// Builds the Deployment, its configuration, and with several replicas its disruption budget.
pub fn objects(control_plane: &ControlPlane) -> Vec<DynamicObject> {
    let (config, config_hash) = pod::config_map(control_plane, CONFIG, NAME, &config());
    let pod = Pod {
        component: NAME,
        containers: vec![container(control_plane), konnectivity::container(control_plane)],
        volumes: vec![
            ("pki", Volume::Secrets(certificates())),
            ("konnectivity-pki", Volume::Secrets(konnectivity::certificates())),
            ("config", Volume::ConfigMap(CONFIG, config_hash)),
            ("socket", Volume::Empty),
        ],
    };
    let mut objects = vec![config, pod::deployment(control_plane, &pod)];
    if control_plane.availability == Availability::HighlyAvailable {
        objects.push(from_json(json!({
            "apiVersion": "policy/v1",
            "kind": "PodDisruptionBudget",
            "metadata": control_plane.metadata(NAME, NAME),
            "spec": { "minAvailable": 1, "selector": { "matchLabels": pod::selector(NAME) } },
        })));
    }
    objects
}

fn container(control_plane: &ControlPlane) -> Container {
    Container {
        name: NAME,
        image: control_plane.images.kube_apiserver.clone(),
        program: "kube-apiserver",
        args: args::args(control_plane),
        // An idle API server holds some 85 MB of live data. With the Go default of 100 the heap grows to twice that
        // between two collections (155 MB resident were measured with 50, 130 MB with 25); with 30 it stays a third
        // above it, for a tenth more CPU at the start. A GOMEMLIMIT is not set: near the limit the collector runs
        // without end (110 MiB cost 28 CPU seconds in half a minute).
        env: vec![pod::env("GOGC", "30")],
        ports: vec![("api", PORT)],
        probes: pod::probes("HTTPS", PORT, "/readyz", "/livez", Readiness::Probed),
        requests: ("100m", "200Mi"),
        mounts: vec![
            ("pki", PKI_PATH, Access::Read),
            ("config", CONFIG_PATH, Access::Read),
            ("socket", SOCKET_FOLDER, Access::Write),
        ],
    }
}

fn certificates() -> Vec<(&'static str, &'static str, &'static str)> {
    vec![
        (Authority::Root.secret(), pki::CERTIFICATE_KEY, "root-ca.crt"),
        (Authority::Etcd.secret(), pki::CERTIFICATE_KEY, "etcd-ca.crt"),
        (Authority::Aggregator.secret(), pki::CERTIFICATE_KEY, "aggregator-ca.crt"),
        (leaf::KUBE_APISERVER, pki::CERTIFICATE_KEY, "server.crt"),
        (leaf::KUBE_APISERVER, pki::PRIVATE_KEY_KEY, "server.key"),
        (leaf::ETCD_CLIENT, pki::CERTIFICATE_KEY, "etcd-client.crt"),
        (leaf::ETCD_CLIENT, pki::PRIVATE_KEY_KEY, "etcd-client.key"),
        (leaf::KUBELET_CLIENT, pki::CERTIFICATE_KEY, "kubelet-client.crt"),
        (leaf::KUBELET_CLIENT, pki::PRIVATE_KEY_KEY, "kubelet-client.key"),
        (leaf::AGGREGATOR, pki::CERTIFICATE_KEY, "aggregator.crt"),
        (leaf::AGGREGATOR, pki::PRIVATE_KEY_KEY, "aggregator.key"),
        (pki::SERVICE_ACCOUNT_KEY_SECRET, pki::SERVICE_ACCOUNT_PRIVATE_KEY, "service-account.key"),
        (pki::SERVICE_ACCOUNT_KEY_SECRET, pki::SERVICE_ACCOUNT_PUBLIC_KEY, "service-account.pub"),
    ]
}

fn config() -> serde_json::Value {
    let egress = json!({
        "apiVersion": "apiserver.k8s.io/v1beta1",
        "kind": "EgressSelectorConfiguration",
        "egressSelections": [{
            "name": "cluster",
            "connection": {
                "proxyProtocol": "GRPC",
                "transport": { "uds": { "udsName": SOCKET } },
            },
        }],
    });
    let authentication = json!({
        "apiVersion": "apiserver.config.k8s.io/v1",
        "kind": "AuthenticationConfiguration",
        // Nobody is let in without a name, but for the questions of probes and load balancers.
        "anonymous": {
            "enabled": true,
            "conditions": [{ "path": "/livez" }, { "path": "/readyz" }, { "path": "/healthz" }],
        },
    });
    json!({
        args::EGRESS_FILE: egress.to_string(),
        args::AUTHENTICATION_FILE: authentication.to_string(),
    })
}

#[cfg(test)]
mod tests {
    use k8s_openapi::api::apps::v1::Deployment;

    use super::*;
    use crate::control_plane::testing::{assert_is, control_plane};

    #[test]
    fn when_one_replica_is_asked_for_there_is_a_deployment_of_one() {
        let objects = objects(&control_plane());
        assert_is::<Deployment>(objects.last().unwrap());
        insta::assert_yaml_snapshot!(objects);
    }

    #[test]
    fn when_high_availability_is_asked_for_there_are_three_and_a_budget() {
        let mut control_plane = control_plane();
        control_plane.availability = Availability::HighlyAvailable;
        insta::assert_yaml_snapshot!(objects(&control_plane));
    }
}
