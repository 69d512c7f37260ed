//! The konnectivity server: agents on the hosted nodes connect to it, and the API server reaches nodes, Services and
//! webhooks through them.

use super::{SOCKET, SOCKET_FOLDER};
use crate::control_plane::ControlPlane;
use crate::control_plane::pod::{self, Access, Container, Readiness};
use crate::pki::{self, Authority, leaf};

pub(super) const AGENT_PORT: u16 = 8091;
const HEALTH_PORT: u16 = 8092;
const ADMIN_PORT: u16 = 8093;
const PKI_PATH: &str = "/etc/konnectivity/pki";

pub(super) fn container(control_plane: &ControlPlane) -> Container {
    Container {
        name: "konnectivity-server",
        image: control_plane.images.konnectivity.clone(),
        program: "proxy-server",
        args: args(control_plane),
        env: vec![pod::env("GOGC", "50")],
        ports: vec![("agents", AGENT_PORT)],
        // Not /readyz: it waits for an agent, and there is none before the first node. Not asked again either: a
        // failing konnectivity server shall not take the API server beside it out of its Service.
        probes: pod::probes("HTTP", HEALTH_PORT, "/healthz", "/healthz", Readiness::OnceStarted),
        requests: ("10m", "32Mi"),
        mounts: vec![
            ("konnectivity-pki", PKI_PATH, Access::Read),
            ("socket", SOCKET_FOLDER, Access::Write),
        ],
    }
}

pub(super) fn certificates() -> Vec<(&'static str, &'static str, &'static str)> {
    vec![
        (Authority::Konnectivity.secret(), pki::CERTIFICATE_KEY, "agents-ca.crt"),
        (leaf::KONNECTIVITY_SERVER, pki::CERTIFICATE_KEY, "server.crt"),
        (leaf::KONNECTIVITY_SERVER, pki::PRIVATE_KEY_KEY, "server.key"),
    ]
}

fn args(control_plane: &ControlPlane) -> Vec<String> {
    vec![
        "--mode=grpc".to_owned(),
        format!("--uds-name={SOCKET}"),
        // A socket that a killed predecessor left behind is replaced.
        "--delete-existing-uds-file=true".to_owned(),
        // No port for the API server: it comes by the socket.
        "--server-port=0".to_owned(),
        format!("--agent-port={AGENT_PORT}"),
        format!("--health-port={HEALTH_PORT}"),
        "--health-bind-address=0.0.0.0".to_owned(),
        format!("--admin-port={ADMIN_PORT}"),
        "--admin-bind-address=127.0.0.1".to_owned(),
        format!("--server-count={}", control_plane.availability.replicas()),
        // Agents show a certificate of the konnectivity authority.
        format!("--cluster-ca-cert={PKI_PATH}/agents-ca.crt"),
        format!("--cluster-cert={PKI_PATH}/server.crt"),
        format!("--cluster-key={PKI_PATH}/server.key"),
        // A node is reached by its own agent where it has one; everything else by any agent.
        "--proxy-strategies=destHost,default".to_owned(),
        // An agent that went away without a word, with its VM, gets no more work after half a minute: this time, and
        // the twenty seconds that gRPC waits for an answer.
        "--keepalive-time=10s".to_owned(),
        "--logtostderr=true".to_owned(),
        "--v=1".to_owned(),
    ]
}
