//! The flags of kube-apiserver.

use super::{CONFIG_PATH, PKI_PATH, PORT};
use crate::control_plane::{Availability, ControlPlane, etcd};

pub(super) const EGRESS_FILE: &str = "egress.json";
pub(super) const AUTHENTICATION_FILE: &str = "authentication.json";

pub(super) fn args(control_plane: &ControlPlane) -> Vec<String> {
    let mut args = storage(control_plane);
    args.extend(serving(control_plane));
    args.extend(identity(control_plane));
    args.extend(towards_nodes());
    args.extend(networks(control_plane));
    if !control_plane.feature_gates.is_empty() {
        args.push(format!("--feature-gates={}", control_plane.feature_gates.join(",")));
    }
    args
}

fn storage(control_plane: &ControlPlane) -> Vec<String> {
    vec![
        format!("--etcd-servers={}", etcd::client_urls(control_plane).join(",")),
        format!("--etcd-cafile={PKI_PATH}/etcd-ca.crt"),
        format!("--etcd-certfile={PKI_PATH}/etcd-client.crt"),
        format!("--etcd-keyfile={PKI_PATH}/etcd-client.key"),
    ]
}

fn serving(control_plane: &ControlPlane) -> Vec<String> {
    let mut args = vec![
        format!("--secure-port={PORT}"),
        format!("--tls-cert-file={PKI_PATH}/server.crt"),
        format!("--tls-private-key-file={PKI_PATH}/server.key"),
        "--allow-privileged=true".to_owned(),
        "--profiling=false".to_owned(),
    ];
    if control_plane.availability == Availability::HighlyAvailable {
        // Now and then a client is asked to connect anew, so that a replica that was away gets its share again.
        args.push("--goaway-chance=0.001".to_owned());
    }
    args
}

fn identity(control_plane: &ControlPlane) -> Vec<String> {
    vec![
        format!("--client-ca-file={PKI_PATH}/root-ca.crt"),
        format!("--authentication-config={CONFIG_PATH}/{AUTHENTICATION_FILE}"),
        "--enable-bootstrap-token-auth=true".to_owned(),
        "--authorization-mode=Node,RBAC".to_owned(),
        "--enable-admission-plugins=NodeRestriction".to_owned(),
        format!("--service-account-issuer={}", control_plane.issuer_url),
        format!("--service-account-signing-key-file={PKI_PATH}/service-account.key"),
        format!("--service-account-key-file={PKI_PATH}/service-account.pub"),
        format!("--requestheader-client-ca-file={PKI_PATH}/aggregator-ca.crt"),
        "--requestheader-allowed-names=system:aggregator".to_owned(),
        "--requestheader-username-headers=X-Remote-User".to_owned(),
        "--requestheader-group-headers=X-Remote-Group".to_owned(),
        "--requestheader-extra-headers-prefix=X-Remote-Extra-".to_owned(),
        format!("--proxy-client-cert-file={PKI_PATH}/aggregator.crt"),
        format!("--proxy-client-key-file={PKI_PATH}/aggregator.key"),
    ]
}

fn towards_nodes() -> Vec<String> {
    vec![
        format!("--egress-selector-config-file={CONFIG_PATH}/{EGRESS_FILE}"),
        format!("--kubelet-certificate-authority={PKI_PATH}/root-ca.crt"),
        format!("--kubelet-client-certificate={PKI_PATH}/kubelet-client.crt"),
        format!("--kubelet-client-key={PKI_PATH}/kubelet-client.key"),
        // Names of hosted nodes resolve nowhere in the hosting cluster.
        "--kubelet-preferred-address-types=InternalIP".to_owned(),
    ]
}

fn networks(control_plane: &ControlPlane) -> Vec<String> {
    let networks = &control_plane.networks;
    let services: Vec<String> = networks.service.iter().map(ToString::to_string).collect();
    let (first, last) = networks.node_ports;
    vec![
        format!("--service-cluster-ip-range={}", services.join(",")),
        format!("--service-node-port-range={first}-{last}"),
        // The operator writes the EndpointSlice of default/kubernetes: hosted nodes reach the published address,
        // never this pod's.
        "--endpoint-reconciler-type=none".to_owned(),
    ]
}
