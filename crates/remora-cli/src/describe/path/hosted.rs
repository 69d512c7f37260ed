//! The hops in the hosted cluster.

use std::collections::BTreeSet;

use k8s_openapi::api::core::v1::{Node, Pod, Service, ServicePort};
use kube::ResourceExt;
use remora_core::expose::is_local;

use super::hosting::serving;
use super::{Health, Hop};
use crate::describe::read::{Facts, Hosted, selector};

/// Pods that are not ready and are named.
const NAMED_PODS: usize = 5;

/// The Nodes of the machines that serve, with the node ports at which the Service answers on them.
pub(super) fn nodes(facts: &Facts) -> Hop {
    let hop = Hop::new("nodes of the hosted cluster");
    let hosted = match &facts.hosted {
        Ok(hosted) => hosted,
        Err(why) => return hop.gap(why.clone()),
    };
    let machines = serving(facts);
    if machines.is_empty() {
        return hop.gap("no virtual machine is known whose node it could be");
    }
    let ports = node_ports(hosted);
    let mut names: Vec<&str> = machines.iter().map(|machine| machine.name.as_str()).collect();
    names.sort_unstable();
    let hop = names.into_iter().fold(hop, |hop, name| {
        let node = hosted.nodes.iter().find(|node| node.name_any() == name);
        let (health, detail) = match node {
            None => (Health::Broken, "has not joined"),
            Some(node) if is_ready(node) => (Health::Well, "Ready"),
            Some(_) => (Health::Broken, "not Ready"),
        };
        let name = if ports.is_empty() { name.to_owned() } else { format!("{name}:{ports}") };
        hop.with(name, health, detail)
    });
    if !hop.is_broken() {
        return hop;
    }
    hop.remedy(format!("see why with {}.", inside(facts, "describe nodes")))
}

/// The Service that is exposed.
pub(super) fn service(facts: &Facts) -> Hop {
    let hop = Hop::new("Service of the hosted cluster");
    let hosted = match &facts.hosted {
        Ok(hosted) => hosted,
        Err(why) => return hop.gap(why.clone()),
    };
    let reference = &facts.exposure.spec.service;
    let name = format!("{}/{}", reference.namespace, reference.name);
    let Some(service) = &hosted.service else {
        return hop
            .with(name, Health::Broken, "does not exist")
            .remedy("create it in the hosted cluster, or correct spec.service of the exposure.");
    };
    let spec = service.spec.clone().unwrap_or_default();
    let type_ = spec.type_.unwrap_or_else(|| "ClusterIP".to_owned());
    let ports: Vec<String> = spec.ports.iter().flatten().map(told_port).collect();
    let detail = format!("{type_}, {}", ports.join(", "));
    if !matches!(type_.as_str(), "NodePort" | "LoadBalancer") {
        return hop
            .with(name, Health::Broken, format!("{type_}, which has no node ports"))
            .remedy("set its spec.type to NodePort.");
    }
    let policy = if is_local(service) { ", externalTrafficPolicy Local" } else { "" };
    hop.with(name, Health::Well, format!("{detail}{policy}"))
}

/// The nodes that may serve where the Service keeps to those with ready pods (`externalTrafficPolicy: Local`).
pub(super) fn nodes_with_ready_pods(hosted: &Hosted) -> Option<BTreeSet<String>> {
    let service = hosted.service.as_ref().filter(|service| is_local(service))?;
    // Without a selector it is not known which pods they are.
    selector(service)?;
    let ready = hosted.pods.iter().filter(|pod| is_ready_pod(pod));
    Some(ready.filter_map(|pod| pod.spec.as_ref()?.node_name.clone()).collect())
}

/// The pods behind the Service.
pub(super) fn pods(facts: &Facts) -> Hop {
    let hop = Hop::new("pods");
    let hosted = match &facts.hosted {
        Ok(hosted) => hosted,
        Err(why) => return hop.gap(why.clone()),
    };
    let Some(service) = &hosted.service else {
        return hop.gap("without the Service it is not known which");
    };
    let Some(selector) = selector(service) else {
        return hop.gap("the Service has no selector: who writes its EndpointSlices knows which");
    };
    let pods: Vec<&Pod> = hosted.pods.iter().filter(|pod| is_meant(pod)).collect();
    if pods.is_empty() {
        return hop
            .with("0/0 ready", Health::Broken, format!("no pod has the labels {selector}"))
            .remedy("start pods with these labels, or correct spec.selector of the Service.");
    }
    let waiting: Vec<&&Pod> = pods.iter().filter(|pod| !is_ready_pod(pod)).collect();
    let ready = pods.len() - waiting.len();
    let health = if ready > 0 { Health::Well } else { Health::Broken };
    let hop = hop.with(format!("{ready}/{} ready", pods.len()), health, selector);
    let hop = waiting
        .iter()
        .take(NAMED_PODS)
        .fold(hop, |hop, pod| hop.with(pod.name_any(), Health::Broken, why_not_ready(pod)));
    let Some(first) = waiting.first() else { return hop };
    let namespace = &facts.exposure.spec.service.namespace;
    let command = format!("-n {namespace} describe pod {}", first.name_any());
    let hop = match waiting.len().saturating_sub(NAMED_PODS) {
        0 => hop,
        more => hop.gap(format!("and {more} more that are not ready")),
    };
    hop.remedy(format!("see what it waits for with {}.", inside(facts, &command)))
}

/// How a command is given inside the hosted cluster.
fn inside(facts: &Facts, command: &str) -> String {
    let cluster = &facts.exposure.spec.cluster_name;
    format!("`kubectl --kubeconfig {cluster}.kubeconfig {command}`")
}

/// The node ports of the exposed Service, as one text.
fn node_ports(hosted: &Hosted) -> String {
    let spec = hosted.service.iter().filter_map(|service: &Service| service.spec.as_ref());
    let ports = spec.flat_map(|spec| spec.ports.iter().flatten()).filter_map(|port| port.node_port);
    ports.map(|port| port.to_string()).collect::<Vec<_>>().join(",")
}

fn told_port(port: &ServicePort) -> String {
    let name = port.name.clone().unwrap_or_else(|| port.port.to_string());
    match port.node_port {
        Some(node_port) => format!("{name}: {node_port} -> {}", port.port),
        None => format!("{name}: no node port"),
    }
}

fn is_ready(node: &Node) -> bool {
    let conditions = node.status.iter().flat_map(|status| status.conditions.iter().flatten());
    conditions.into_iter().any(|found| found.type_ == "Ready" && found.status == "True")
}

/// A pod that has ended, or goes, takes no traffic and is not missed.
fn is_meant(pod: &Pod) -> bool {
    let phase = pod.status.as_ref().and_then(|status| status.phase.as_deref());
    pod.metadata.deletion_timestamp.is_none() && !matches!(phase, Some("Succeeded" | "Failed"))
}

fn is_ready_pod(pod: &Pod) -> bool {
    let conditions = pod.status.iter().flat_map(|status| status.conditions.iter().flatten());
    conditions.into_iter().any(|found| found.type_ == "Ready" && found.status == "True")
}

fn why_not_ready(pod: &Pod) -> String {
    let Some(status) = &pod.status else { return "no status yet".to_owned() };
    let waiting = status.container_statuses.iter().flatten().find_map(|container| {
        let waiting = container.state.as_ref()?.waiting.as_ref()?;
        waiting.reason.clone().map(|reason| format!("{}: {reason}", container.name))
    });
    let refused = || {
        let mut conditions = status.conditions.iter().flatten();
        let found = conditions.find(|found| found.status != "True" && found.message.is_some())?;
        found.message.clone()
    };
    let phase = || status.phase.clone().unwrap_or_else(|| "no phase yet".to_owned());
    waiting.or_else(refused).unwrap_or_else(phase)
}
