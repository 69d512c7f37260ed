//! The hosted Service, reduced to what an exposure depends on.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::{Service, ServicePort, SessionAffinityConfig};
use remora_api::service_exposure::Protocol;

/// Beginning of the annotations that users and Remora talk by.
const OWN_ANNOTATIONS: &str = "remora.dev/";

/// What an exposure needs to know of a hosted Service; equal values mean that nothing has to be done.
#[derive(Clone, Debug, PartialEq)]
pub struct HostedService {
    /// Namespace inside the hosted cluster.
    pub namespace: String,
    /// Name.
    pub name: String,
    /// UID.
    pub uid: String,
    /// Its labels.
    pub labels: BTreeMap<String, String>,
    /// Its annotations that are meant for Remora, or come from it.
    pub annotations: BTreeMap<String, String>,
    /// `spec.type`.
    pub type_: String,
    /// Nodes without its pods drop what reaches them (`externalTrafficPolicy: Local`).
    pub is_local: bool,
    /// Its ports, in the Service's order.
    pub ports: Vec<HostedPort>,
    /// `spec.sessionAffinity`, when it is not `None`.
    pub session_affinity: Option<String>,
    /// `spec.sessionAffinityConfig`.
    pub session_affinity_config: Option<SessionAffinityConfig>,
}

/// One port of a hosted Service.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HostedPort {
    /// Name, when it has one.
    pub name: Option<String>,
    /// Number.
    pub port: u16,
    /// Protocol.
    pub protocol: Protocol,
    /// Protocol above it.
    pub app_protocol: Option<String>,
    /// Node port in the hosted cluster, when it has one.
    pub node_port: Option<u16>,
}

impl HostedService {
    /// Reads a Service; one that is being deleted counts as absent.
    pub fn of(service: &Service) -> Option<Self> {
        if service.metadata.deletion_timestamp.is_some() {
            return None;
        }
        let spec = service.spec.as_ref()?;
        Some(Self {
            namespace: service.metadata.namespace.clone()?,
            name: service.metadata.name.clone()?,
            uid: service.metadata.uid.clone().unwrap_or_default(),
            labels: service.metadata.labels.clone().unwrap_or_default(),
            annotations: service
                .metadata
                .annotations
                .iter()
                .flatten()
                .filter(|(key, _)| key.starts_with(OWN_ANNOTATIONS))
                .map(|(key, value)| (key.clone(), value.clone()))
                .collect(),
            type_: spec.type_.clone().unwrap_or_else(|| "ClusterIP".to_owned()),
            is_local: spec.external_traffic_policy.as_deref() == Some("Local"),
            ports: spec.ports.iter().flatten().filter_map(HostedPort::of).collect(),
            session_affinity: spec.session_affinity.clone().filter(|affinity| affinity != "None"),
            session_affinity_config: spec.session_affinity_config.clone(),
        })
    }

    /// Namespace and name.
    pub fn key(&self) -> String {
        format!("{}/{}", self.namespace, self.name)
    }
}

impl HostedPort {
    fn of(port: &ServicePort) -> Option<Self> {
        Some(Self {
            name: port.name.clone().filter(|name| !name.is_empty()),
            port: u16::try_from(port.port).ok()?,
            protocol: protocol(port.protocol.as_deref())?,
            app_protocol: port.app_protocol.clone(),
            node_port: port.node_port.and_then(port_number),
        })
    }

    /// Name and number, as a user may write either.
    pub(super) fn told(&self) -> String {
        match &self.name {
            Some(name) => format!("{name} ({}/{})", self.port, self.protocol),
            None => format!("{}/{}", self.port, self.protocol),
        }
    }

    /// The name of the port in the hosting Service: its own, or one made of number and protocol.
    pub fn hosting_name(&self) -> String {
        let made = || format!("port-{}-{}", self.port, self.protocol.as_str().to_ascii_lowercase());
        self.name.clone().unwrap_or_else(made)
    }
}

/// A port number of a Kubernetes object; 0 means none.
pub(crate) fn port_number(number: i32) -> Option<u16> {
    u16::try_from(number).ok().filter(|number| *number != 0)
}

/// The protocol of a port; TCP when nothing is said.
pub(crate) fn protocol(word: Option<&str>) -> Option<Protocol> {
    let Some(word) = word else { return Some(Protocol::Tcp) };
    Protocol::ALL.iter().copied().find(|protocol| protocol.as_str() == word)
}
