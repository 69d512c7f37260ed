//! What a ServiceExposure says about itself: its endpoints and the three conditions.
//!
//! `Accepted` is the verdict on the request, `Programmed` on the hosting Service, `Reachable` on what the operator
//! found when it connected. Each is about the generation that it names.

mod answer;

use std::collections::BTreeSet;
use std::net::IpAddr;

use k8s_openapi::api::core::v1::{Node, Service, ServicePort};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;
use k8s_openapi::jiff::Timestamp;
use remora_api::conditions::{ExposureConditionType, Reason};
use remora_api::service_exposure::{ExposureEndpoint, ServiceExposureStatus};

pub use self::answer::{Answer, answer};
use crate::expose::{Cause, Choice, Decision, Served, VmPod, is_local, protocol};

/// Node label by which an administrator keeps a node out of what is told to the outside.
const EXCLUDE_NODE: &str = "node.kubernetes.io/exclude-from-external-load-balancers";
/// How many endpoints that do not answer are named.
const NAMED_FAILURES: usize = 3;
/// What stands in `Reachable` before the endpoints that do not answer.
const DO_NOT_ANSWER: &str = " endpoints do not answer: ";
/// Longest message of a condition (metav1.Condition).
const MESSAGE_LIMIT: usize = 32_768;

/// A node of the hosting cluster, reduced to where it answers.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct HostingNode {
    /// Name.
    pub name: String,
    /// Addresses at which its node ports answer.
    pub addresses: Vec<IpAddr>,
}

impl HostingNode {
    /// Reads a node; none when it is not ready or kept out by label.
    pub fn of(node: &Node) -> Option<Self> {
        let is_excluded =
            node.metadata.labels.as_ref().is_some_and(|labels| labels.contains_key(EXCLUDE_NODE));
        let status = node.status.as_ref()?;
        let mut conditions = status.conditions.iter().flatten();
        let is_ready = conditions.any(|found| found.type_ == "Ready" && found.status == "True");
        if is_excluded || !is_ready || node.metadata.deletion_timestamp.is_some() {
            return None;
        }
        let mut addresses = Vec::new();
        for found in status.addresses.iter().flatten() {
            let is_own = matches!(found.type_.as_str(), "InternalIP" | "ExternalIP");
            let Ok(address) = found.address.parse() else { continue };
            if is_own && !addresses.contains(&address) {
                addresses.push(address);
            }
        }
        Some(Self { name: node.metadata.name.clone()?, addresses })
    }
}

/// What came of the hosting Service.
#[derive(Clone, Debug, PartialEq)]
pub enum Programming {
    /// It is there as wanted.
    Done(Box<Service>),
    /// What is there was left as it is, because nothing could be decided.
    Kept(Box<Service>),
    /// There is none.
    Absent,
    /// It could not be written.
    Failed {
        /// Why, in one word.
        reason: Reason,
        /// Why, in one sentence.
        message: String,
    },
}

/// What came of connecting to one endpoint.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Probe {
    /// The endpoint.
    pub endpoint: ExposureEndpoint,
    /// Why it does not answer; none: it answers.
    pub failure: Option<String>,
}

/// What came of connecting to all endpoints.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Probing {
    /// Nothing was tried.
    NotTried,
    /// Every endpoint with TCP was tried.
    Tried {
        /// The results.
        probes: Vec<Probe>,
        /// How many VMs are meant to serve.
        machines: usize,
        /// How many of them do.
        serving: usize,
    },
}

impl Programming {
    /// The Service that serves.
    pub fn service(&self) -> Option<&Service> {
        match self {
            Self::Done(service) | Self::Kept(service) => Some(service),
            Self::Absent | Self::Failed { .. } => None,
        }
    }
}

impl Probing {
    /// Tells whether every endpoint that can be tried answers.
    pub fn is_settled(&self) -> bool {
        match self {
            Self::NotTried => true,
            Self::Tried { probes, .. } => probes.iter().all(|probe| probe.failure.is_none()),
        }
    }
}

/// Every address and port at which the exposure answers, sorted by node order, then port.
///
/// With `externalTrafficPolicy: Local` these are only nodes that run a VM which serves.
pub fn endpoints(
    service: &Service,
    nodes: &[HostingNode],
    machines: &[VmPod],
) -> Vec<ExposureEndpoint> {
    let Some(spec) = &service.spec else { return Vec::new() };
    let families: BTreeSet<&str> = spec.ip_families.iter().flatten().map(String::as_str).collect();
    let is_served = |address: &IpAddr| {
        families.is_empty() || families.contains(if address.is_ipv4() { "IPv4" } else { "IPv6" })
    };
    let runs_a_serving_vm = |node: &HostingNode| {
        let mut serving = machines.iter().filter(|machine| machine.is_serving());
        serving.any(|machine| machine.node.as_ref() == Some(&node.name))
    };
    let answers = |node: &&HostingNode| !is_local(service) || runs_a_serving_vm(node);
    let mut nodes: Vec<&HostingNode> = nodes.iter().filter(answers).collect();
    nodes.sort();
    let mut endpoints = Vec::new();
    for node in nodes {
        for address in node.addresses.iter().filter(|address| is_served(address)) {
            for port in spec.ports.iter().flatten() {
                let Some(node_port) = port.node_port else { continue };
                let Some(protocol) = protocol(port.protocol.as_deref()) else { continue };
                endpoints.push(ExposureEndpoint {
                    address: address.to_string(),
                    port: node_port,
                    service_port: port.port,
                    target_port: target_port(port),
                    protocol,
                    name: port.name.clone(),
                });
            }
        }
    }
    endpoints
}

fn target_port(port: &ServicePort) -> i32 {
    match port.target_port {
        Some(IntOrString::Int(number)) => number,
        // Remora writes numbers alone; nothing else is in a Service of its own.
        Some(IntOrString::String(_)) | None => port.port,
    }
}

/// The node ports as one text, each once, in the Service's order.
fn told_node_ports(endpoints: &[ExposureEndpoint]) -> Option<String> {
    let mut ports: Vec<String> = Vec::new();
    for endpoint in endpoints {
        let port = endpoint.port.to_string();
        if !ports.contains(&port) {
            ports.push(port);
        }
    }
    Some(ports.join(",")).filter(|told| !told.is_empty())
}

/// Address and port as they are written in a URL.
pub fn told(endpoint: &ExposureEndpoint) -> String {
    match endpoint.address.parse() {
        Ok(IpAddr::V6(address)) => format!("[{address}]:{}", endpoint.port),
        Ok(IpAddr::V4(_)) | Err(_) => format!("{}:{}", endpoint.address, endpoint.port),
    }
}

/// The whole status, made from the last one.
pub fn status(
    generation: i64,
    last: Option<&ServiceExposureStatus>,
    decision: &Decision,
    programming: &Programming,
    (endpoints, probing): (Vec<ExposureEndpoint>, &Probing),
    now: Timestamp,
) -> ServiceExposureStatus {
    let verdicts = [
        (ExposureConditionType::Accepted, accepted(decision)),
        (ExposureConditionType::Programmed, programmed(decision, programming)),
        (ExposureConditionType::Reachable, reachable(programming.service(), &endpoints, probing)),
    ];
    let known = last.map(|status| status.conditions.as_slice()).unwrap_or_default();
    let conditions = verdicts
        .into_iter()
        .map(|(type_, verdict)| {
            let still = still_true(type_, (decision, programming), generation, known);
            still.unwrap_or_else(|| condition(type_, &verdict, generation, known, now))
        })
        .collect();
    ServiceExposureStatus {
        observed_generation: Some(generation),
        node_ports: told_node_ports(&endpoints),
        endpoints,
        conditions,
    }
}

/// A verdict on this spec that holds as long as nothing can be decided, as after a restart of the operator.
fn still_true(
    type_: ExposureConditionType,
    (decision, programming): (&Decision, &Programming),
    generation: i64,
    known: &[Condition],
) -> Option<Condition> {
    let is_kept = match type_ {
        ExposureConditionType::Accepted => matches!(decision, Decision::Waiting { .. }),
        ExposureConditionType::Programmed => matches!(programming, Programming::Kept(_)),
        ExposureConditionType::Reachable => false,
    };
    let mut held = known.iter().filter(|known| {
        known.type_ == type_.as_str()
            && known.status == "True"
            && known.observed_generation == Some(generation)
    });
    held.next().filter(|_| is_kept).cloned()
}

struct Verdict {
    status: &'static str,
    reason: Reason,
    message: String,
}

impl Verdict {
    fn yes(reason: Reason, message: impl Into<String>) -> Self {
        Self { status: "True", reason, message: message.into() }
    }

    fn no(reason: Reason, message: impl Into<String>) -> Self {
        Self { status: "False", reason, message: message.into() }
    }

    fn unknown(reason: Reason, message: impl Into<String>) -> Self {
        Self { status: "Unknown", reason, message: message.into() }
    }
}

fn condition(
    type_: ExposureConditionType,
    verdict: &Verdict,
    generation: i64,
    known: &[Condition],
    now: Timestamp,
) -> Condition {
    let before = known.iter().find(|known| known.type_ == type_.as_str());
    let unchanged = before.filter(|before| before.status == verdict.status);
    Condition {
        type_: type_.as_str().to_owned(),
        status: verdict.status.to_owned(),
        reason: verdict.reason.as_str().to_owned(),
        message: verdict.message.chars().take(MESSAGE_LIMIT).collect(),
        observed_generation: Some(generation),
        last_transition_time: unchanged
            .map_or(Time(now), |before| before.last_transition_time.clone()),
    }
}

fn accepted(decision: &Decision) -> Verdict {
    match decision {
        Decision::Served(_) => Verdict::yes(
            Reason::AsExpected,
            "the hosted Service exists and its ports can be exposed",
        ),
        Decision::Waiting { reason, message } => Verdict::unknown(*reason, message.clone()),
        Decision::Refused(refusal) => Verdict::no(refusal.reason(), refusal.to_string()),
    }
}

fn programmed(decision: &Decision, programming: &Programming) -> Verdict {
    match (programming, decision) {
        (Programming::Done(service), Decision::Served(served)) => served_on(service, served),
        (Programming::Done(service) | Programming::Kept(service), _) => {
            Verdict::yes(Reason::AsExpected, format!("{} stays as it is", told_service(service)))
        }
        (Programming::Absent, Decision::Refused(_)) => {
            Verdict::no(Reason::Blocked, "nothing is programmed as long as Accepted is False")
        }
        (Programming::Absent, _) => Verdict::no(Reason::Pending, "nothing is programmed yet"),
        (Programming::Failed { reason, message }, _) => Verdict::no(*reason, message.clone()),
    }
}

fn served_on(service: &Service, served: &Served) -> Verdict {
    let ports = service.spec.iter().flat_map(|spec| spec.ports.iter().flatten());
    let mut served_ports = Vec::new();
    let mut reassigned = Vec::new();
    for ((port, choice), live) in served.ports.iter().zip(ports) {
        let node_port = live.node_port.unwrap_or_default();
        let name = format!("{}/{}", port.hosted.port, port.hosted.protocol);
        served_ports.push(format!("{name} on node port {node_port}"));
        match choice {
            Choice::Asked(_) | Choice::Preferred(_) => {}
            Choice::Substitute { cause, .. } => {
                let why = match cause {
                    Cause::InUse { holder: None } => "was in use".to_owned(),
                    Cause::InUse { holder: Some(holder) } => format!("is in use by {holder}"),
                    Cause::OutsideRange { range } => format!("lies outside {range}"),
                };
                reassigned.push(format!(
                    "node port {} {why}, so {node_port} was taken for {name}",
                    port.target
                ));
            }
        }
    }
    let mut message = format!("{} serves {}", told_service(service), served_ports.join(", "));
    if reassigned.is_empty() {
        return Verdict::yes(Reason::AsExpected, message);
    }
    message.push_str("; ");
    message.push_str(&reassigned.join("; "));
    Verdict::yes(Reason::NodePortReassigned, message)
}

fn told_service(service: &Service) -> String {
    let metadata = &service.metadata;
    format!(
        "Service {}/{}",
        metadata.namespace.as_deref().unwrap_or_default(),
        metadata.name.as_deref().unwrap_or_default()
    )
}

fn reachable(
    service: Option<&Service>,
    endpoints: &[ExposureEndpoint],
    probing: &Probing,
) -> Verdict {
    let Probing::Tried { probes, machines, serving } = probing else {
        return Verdict::unknown(
            Reason::Pending,
            "nothing is programmed that could be connected to",
        );
    };
    if endpoints.is_empty() {
        let message = if *serving == 0 && service.is_some_and(is_local) {
            "with externalTrafficPolicy Local only VMs with a ready pod of the hosted Service serve, and none does; see \
             whether its pods are ready"
                .to_owned()
        } else {
            "no node of the hosting cluster is Ready".to_owned()
        };
        return Verdict::no(Reason::NoEndpoints, message);
    }
    if probes.is_empty() {
        return Verdict::unknown(
            Reason::Unsupported,
            "no port is TCP: whether UDP or SCTP answers cannot be told by connecting",
        );
    }
    let untried = endpoints.len() - probes.len().min(endpoints.len());
    let failures: Vec<&Probe> = probes.iter().filter(|probe| probe.failure.is_some()).collect();
    if failures.is_empty() {
        let mut message = format!("connected to all {} endpoints", probes.len());
        if untried > 0 {
            message.push_str(&format!("; {untried} more are not TCP and were not tried"));
        }
        return Verdict::yes(Reason::AsExpected, message);
    }
    let named: Vec<String> = failures
        .iter()
        .take(NAMED_FAILURES)
        .map(|probe| {
            format!("{} ({})", told(&probe.endpoint), probe.failure.as_deref().unwrap_or_default())
        })
        .collect();
    let more = failures.len().saturating_sub(NAMED_FAILURES);
    let more = if more > 0 { format!(" and {more} more") } else { String::new() };
    let (reason, remedy) = if *serving == 0 {
        (Reason::NoEndpoints, "see whether the cluster's NodePools have ready nodes")
    } else {
        (Reason::ConnectionFailed, "see whether the hosted Service has ready pods")
    };
    let message = format!(
        "{} of {}{DO_NOT_ANSWER}{}{more}; {serving} of {machines} VMs serve; {remedy}",
        failures.len(),
        probes.len(),
        named.join(", ")
    );
    Verdict::no(reason, message)
}

#[cfg(test)]
mod tests;
