//! etcd: the datastore of the hosted API server, one member or three, each on its own volume.

use kube::core::DynamicObject;
use remora_api::names::{ETCD_CLIENT, ETCD_DISCOVERY};
use serde_json::{Value, json};

use super::pod::{self, Access, Container, Pod, Readiness, Volume};
use super::{Availability, ControlPlane, from_json};
use crate::pki::{self, Authority, leaf};

/// Name of the component and of its StatefulSet.
pub const NAME: &str = "etcd";

/// Port for clients.
pub const CLIENT_PORT: u16 = 2379;

const PEER_PORT: u16 = 2380;
/// Port of metrics and health, without TLS: it tells nothing of the content.
const METRICS_PORT: u16 = 2381;

/// Builds the StatefulSet, its Services, and with several members their disruption budget.
pub fn objects(control_plane: &ControlPlane) -> Vec<DynamicObject> {
    let mut objects = services(control_plane);
    objects.push(stateful_set(control_plane));
    if control_plane.availability == Availability::HighlyAvailable {
        objects.push(from_json(json!({
            "apiVersion": "policy/v1",
            "kind": "PodDisruptionBudget",
            "metadata": control_plane.metadata(NAME, NAME),
            "spec": { "maxUnavailable": 1, "selector": { "matchLabels": pod::selector(NAME) } },
        })));
    }
    objects
}

/// The URLs by which the API server reaches etcd.
///
/// With several members each by its own name: the client then balances, and leaves out the one that is down.
pub fn client_urls(control_plane: &ControlPlane) -> Vec<String> {
    let namespace = &control_plane.namespace;
    match control_plane.availability {
        Availability::SingleReplica => {
            vec![format!("https://{ETCD_CLIENT}.{namespace}.svc:{CLIENT_PORT}")]
        }
        Availability::HighlyAvailable => members(control_plane)
            .map(|member| {
                format!("https://{member}.{ETCD_DISCOVERY}.{namespace}.svc:{CLIENT_PORT}")
            })
            .collect(),
    }
}

fn members(control_plane: &ControlPlane) -> impl Iterator<Item = String> {
    (0..control_plane.availability.replicas()).map(|ordinal| format!("{NAME}-{ordinal}"))
}

fn services(control_plane: &ControlPlane) -> Vec<DynamicObject> {
    let client = json!({
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": control_plane.metadata(ETCD_CLIENT, NAME),
        "spec": {
            // One member has nobody to give its clients to: they come as soon as it listens, without waiting for the
            // host's next probe.
            "publishNotReadyAddresses": control_plane.availability == Availability::SingleReplica,
            "selector": pod::selector(NAME),
            "ports": [{ "name": "client", "port": CLIENT_PORT, "targetPort": CLIENT_PORT, "protocol": "TCP" }],
        },
    });
    let discovery = json!({
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": control_plane.metadata(ETCD_DISCOVERY, NAME),
        "spec": {
            "clusterIP": "None",
            // Members find each other before any of them is ready.
            "publishNotReadyAddresses": true,
            "selector": pod::selector(NAME),
            "ports": [
                { "name": "peer", "port": PEER_PORT, "targetPort": PEER_PORT, "protocol": "TCP" },
                { "name": "client", "port": CLIENT_PORT, "targetPort": CLIENT_PORT, "protocol": "TCP" },
            ],
        },
    });
    vec![from_json(client), from_json(discovery)]
}

fn stateful_set(control_plane: &ControlPlane) -> DynamicObject {
    let pod = Pod {
        component: NAME,
        containers: vec![container(control_plane)],
        volumes: vec![(
            "pki",
            Volume::Secrets(vec![
                (Authority::Etcd.secret(), pki::CERTIFICATE_KEY, "ca.crt"),
                (leaf::ETCD_SERVER, pki::CERTIFICATE_KEY, "server.crt"),
                (leaf::ETCD_SERVER, pki::PRIVATE_KEY_KEY, "server.key"),
                (leaf::ETCD_PEER, pki::CERTIFICATE_KEY, "peer.crt"),
                (leaf::ETCD_PEER, pki::PRIVATE_KEY_KEY, "peer.key"),
            ]),
        )],
    };
    let mut claim = json!({
        "accessModes": ["ReadWriteOnce"],
        "resources": { "requests": { "storage": control_plane.etcd_volume.size } },
    });
    if let Some(storage_class) = &control_plane.etcd_volume.storage_class {
        claim["storageClassName"] = storage_class.clone().into();
    }
    from_json(json!({
        "apiVersion": "apps/v1",
        "kind": "StatefulSet",
        "metadata": control_plane.metadata(NAME, NAME),
        "spec": {
            "replicas": control_plane.availability.replicas(),
            "serviceName": ETCD_DISCOVERY,
            // All members at once: a cluster of three forms only when two are there.
            "podManagementPolicy": "Parallel",
            "selector": { "matchLabels": pod::selector(NAME) },
            "template": pod::template(control_plane, &pod),
            "volumeClaimTemplates": [{
                "apiVersion": "v1",
                "kind": "PersistentVolumeClaim",
                "metadata": { "name": "data" },
                "spec": claim,
            }],
        },
    }))
}

fn container(control_plane: &ControlPlane) -> Container {
    Container {
        name: NAME,
        image: control_plane.images.etcd.clone(),
        program: "etcd",
        args: args(control_plane),
        env: runtime_settings(),
        ports: vec![("client", CLIENT_PORT), ("peer", PEER_PORT), ("metrics", METRICS_PORT)],
        probes: pod::probes("HTTP", METRICS_PORT, "/readyz", "/livez", Readiness::Probed),
        requests: ("30m", "64Mi"),
        mounts: vec![
            ("pki", "/etc/etcd/pki", Access::Read),
            ("data", "/var/lib/etcd", Access::Write),
        ],
    }
}

fn runtime_settings() -> Vec<Value> {
    // Little live data (some 15 MB at idle): collecting early costs next to nothing; see kube-apiserver.
    vec![pod::pod_name_env(), pod::env("GOGC", "30")]
}

fn args(control_plane: &ControlPlane) -> Vec<String> {
    let namespace = &control_plane.namespace;
    let host = format!("{ETCD_DISCOVERY}.{namespace}.svc");
    let cluster = members(control_plane)
        .map(|member| format!("{member}=https://{member}.{host}:{PEER_PORT}"))
        .collect::<Vec<_>>()
        .join(",");
    let pki = "/etc/etcd/pki";
    [
        "--name=$(POD_NAME)".to_owned(),
        // A folder of its own: a volume's root may hold lost+found.
        "--data-dir=/var/lib/etcd/data".to_owned(),
        format!("--listen-client-urls=https://0.0.0.0:{CLIENT_PORT}"),
        format!("--advertise-client-urls=https://$(POD_NAME).{host}:{CLIENT_PORT}"),
        format!("--listen-peer-urls=https://0.0.0.0:{PEER_PORT}"),
        format!("--initial-advertise-peer-urls=https://$(POD_NAME).{host}:{PEER_PORT}"),
        format!("--initial-cluster={cluster}"),
        // The infraID: members of a cluster that was made anew under the same name do not join the old one.
        format!("--initial-cluster-token={}", control_plane.infra_id),
        "--initial-cluster-state=new".to_owned(),
        format!("--listen-metrics-urls=http://0.0.0.0:{METRICS_PORT}"),
        "--client-cert-auth=true".to_owned(),
        format!("--trusted-ca-file={pki}/ca.crt"),
        format!("--cert-file={pki}/server.crt"),
        format!("--key-file={pki}/server.key"),
        "--peer-client-cert-auth=true".to_owned(),
        format!("--peer-trusted-ca-file={pki}/ca.crt"),
        format!("--peer-cert-file={pki}/peer.crt"),
        format!("--peer-key-file={pki}/peer.key"),
        // The API server compacts; what it frees may be this much before writes are refused (etcd's own maximum).
        "--quota-backend-bytes=8589934592".to_owned(),
        // Raft entries kept in memory for members that lag: a fifth of etcd's default of 10000.
        "--snapshot-count=2000".to_owned(),
        "--log-level=warn".to_owned(),
    ]
    .into()
}

#[cfg(test)]
mod tests {
    use k8s_openapi::api::apps::v1::StatefulSet;

    use super::*;
    use crate::control_plane::testing::{assert_is, control_plane};

    #[test]
    fn when_one_replica_is_asked_for_there_is_one_member() {
        let objects = objects(&control_plane());
        assert_is::<StatefulSet>(objects.last().unwrap());
        insta::assert_yaml_snapshot!(objects);
    }

    #[test]
    fn when_high_availability_is_asked_for_there_are_three_members_and_a_budget() {
        let mut control_plane = control_plane();
        control_plane.availability = Availability::HighlyAvailable;
        insta::assert_yaml_snapshot!(objects(&control_plane));
        insta::assert_yaml_snapshot!(client_urls(&control_plane));
    }
}
