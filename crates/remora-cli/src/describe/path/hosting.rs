//! The hops in the hosting cluster.

use k8s_openapi::api::core::v1::{Service, ServicePort};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;
use kube::ResourceExt;
use remora_api::conditions::ExposureConditionType;
use remora_api::names;
use remora_api::service_exposure::{ExposureEndpoint, Protocol};
use remora_core::expose::{ClusterView, VmPod, backends, service_name};
use remora_core::exposure_status::{Answer, answer, told};
use remora_core::install;

use super::hosted::nodes_with_ready_pods;
use super::{Health, Hop, conditions};
use crate::describe::read::{Facts, Machine};

/// Addresses and ports of the hosting nodes, with what the operator found when it connected to them.
pub(super) fn endpoints(facts: &Facts, behind: &[Hop]) -> Hop {
    let hop = Hop::new("nodes of the hosting cluster");
    let endpoints = facts.exposure.status.iter().flat_map(|status| &status.endpoints);
    let reachable = condition(facts, ExposureConditionType::Reachable);
    let hop = endpoints.fold(hop, |hop, endpoint| {
        let (health, detail) = answered(facts, reachable, endpoint);
        let port = endpoint.name.clone().unwrap_or_else(|| endpoint.service_port.to_string());
        hop.with(told(endpoint), health, format!("{port}: {detail}"))
    });
    if hop.items.is_empty() {
        let is_programmed = condition(facts, ExposureConditionType::Programmed)
            .is_some_and(|condition| condition.status == "True");
        let hop = hop.gap("no endpoint is reported");
        return if is_programmed {
            hop.remedy(
                "no hosting node is Ready, or all are kept out by label: see `kubectl get nodes`.",
            )
        } else {
            hop
        };
    }
    if !hop.is_broken() {
        return hop;
    }
    if behind.iter().any(Hop::is_broken) {
        hop.remedy("mend what is broken further down first.")
    } else if behind.iter().all(Hop::is_well) {
        hop.remedy(
            "everything behind is well: see whether kube-proxy runs on that node, and whether a firewall keeps its node \
             ports from the operator.",
        )
    } else {
        hop.remedy("nothing behind is known to be broken: see what is marked with ? first.")
    }
}

fn answered(
    facts: &Facts,
    reachable: Option<&Condition>,
    endpoint: &ExposureEndpoint,
) -> (Health, String) {
    let Some(reachable) = reachable else {
        return (Health::Unknown, "the operator has not connected yet".to_owned());
    };
    if reachable.observed_generation != facts.exposure.metadata.generation {
        return (Health::Unknown, "what is known is about an older spec".to_owned());
    }
    match answer(reachable, endpoint) {
        Answer::Yes => (Health::Well, "answers".to_owned()),
        Answer::No(why) => (Health::Broken, why),
        Answer::Unknown if endpoint.protocol == Protocol::Tcp => {
            (Health::Unknown, "it is not told whether it answers".to_owned())
        }
        Answer::Unknown => {
            let protocol = endpoint.protocol;
            (Health::Unknown, format!("{protocol}, which cannot be told by connecting"))
        }
    }
}

/// The Service in the control plane namespace.
pub(super) fn service(facts: &Facts) -> Hop {
    let hop = Hop::new("Service in the control plane namespace");
    let name = service_name(&facts.exposure.name_any());
    let name = format!("{}/{name}", control_plane(facts));
    match &facts.service {
        Err(why) => hop.gap(why.clone()),
        Ok(Some(service)) => hop.with(name, Health::Well, mappings(service)),
        Ok(None) => {
            let hop = hop.with(name, Health::Broken, "does not exist");
            match conditions(facts).find(|condition| condition.status != "True") {
                Some(first) => hop.remedy(format!(
                    "{} is {} ({}): its message below says what to do.",
                    first.type_, first.status, first.reason
                )),
                None => hop.remedy(format!(
                    "the operator makes it: see whether it runs, `kubectl -n {} get pods`.",
                    install::NAMESPACE
                )),
            }
        }
    }
}

/// The virtual machines' pods that the Service selects.
pub(super) fn machines(facts: &Facts) -> Hop {
    let hop = Hop::new("pods of the virtual machines");
    let namespace = facts.exposure.namespace().unwrap_or_default();
    let cluster = &facts.exposure.spec.cluster_name;
    match &facts.cluster {
        Err(why) => return hop.gap(why.clone()),
        Ok(None) => {
            return hop
                .with(
                    format!("HostedCluster {namespace}/{cluster}"),
                    Health::Broken,
                    "does not exist",
                )
                .remedy("create it, or delete the exposure and make one that names another.");
        }
        Ok(Some(found)) if found.spec.infra_id.is_none() => {
            return hop.gap("the HostedCluster has no infraID yet");
        }
        Ok(Some(_)) => {}
    }
    if let Err(why) = &facts.machines {
        return hop.gap(why.clone());
    }
    let mut serving = serving(facts);
    serving.sort_by(|one, other| one.pod.name.cmp(&other.pod.name));
    let hop = serving.iter().fold(hop, |hop, machine| {
        let (health, state) = state(&machine.pod);
        hop.with(&machine.pod.name, health, format!("{state}, {}", place(&machine.pod)))
    });
    let pools = &facts.exposure.spec.node_pools;
    if hop.items.is_empty() {
        let of = if pools.is_empty() {
            "the cluster".to_owned()
        } else {
            format!("NodePool {}", pools.join(", "))
        };
        return hop.with("none", Health::Broken, format!("{of} has no virtual machine")).remedy(
            format!(
                "see why with `remora get nodepools -n {namespace}`, and whether replicas is 0."
            ),
        );
    }
    let broken = hop.items.iter().find(|item| item.health == Health::Broken);
    let Some(pod) = broken.map(|item| item.name.clone()) else { return hop };
    hop.remedy(format!(
        "see what it waits for: `kubectl -n {} describe pod {pod}`.",
        control_plane(facts)
    ))
}

/// The virtual machines that are meant to serve.
pub(super) fn serving(facts: &Facts) -> Vec<&Machine> {
    let (Ok(Some(cluster)), Ok(machines)) = (&facts.cluster, &facts.machines) else {
        return Vec::new();
    };
    let view = ClusterView {
        infra_id: cluster.spec.infra_id.clone().unwrap_or_default(),
        control_plane_namespace: control_plane(facts),
        is_deleting: false,
        node_pools: facts.exposure.spec.node_pools.iter().cloned().collect(),
    };
    let pods = machines.iter().map(|machine| &machine.pod);
    let nodes = facts.hosted.as_ref().ok().and_then(nodes_with_ready_pods);
    let chosen = backends(&facts.exposure, &view, nodes.as_ref(), pods);
    machines.iter().filter(|machine| chosen.contains(&&machine.pod)).collect()
}

fn state(pod: &VmPod) -> (Health, &'static str) {
    match (pod.is_terminating, pod.is_ready) {
        (true, _) => (Health::Unknown, "going"),
        (false, true) => (Health::Well, "ready"),
        (false, false) => (Health::Broken, "not ready"),
    }
}

fn place(pod: &VmPod) -> String {
    let mut place = format!("NodePool {}", pod.node_pool);
    match &pod.node {
        Some(node) => place.push_str(&format!(", on {node}")),
        None => place.push_str(", on no node yet"),
    }
    if let Some(address) = pod.addresses.first() {
        place.push_str(&format!(", {address}"));
    }
    place
}

fn control_plane(facts: &Facts) -> String {
    let namespace = facts.exposure.namespace().unwrap_or_default();
    names::control_plane_namespace(&namespace, &facts.exposure.spec.cluster_name)
}

fn condition(facts: &Facts, type_: ExposureConditionType) -> Option<&Condition> {
    conditions(facts).find(|condition| condition.type_ == type_.as_str())
}

/// Node port outside and node port inside, of each port.
fn mappings(service: &Service) -> String {
    let ports = service.spec.iter().flat_map(|spec| spec.ports.iter().flatten());
    let told = |port: &ServicePort| {
        let outside = port.node_port.map_or_else(|| "none".to_owned(), |port| port.to_string());
        let inside = match &port.target_port {
            Some(IntOrString::Int(number)) => number.to_string(),
            Some(IntOrString::String(name)) => name.clone(),
            None => port.port.to_string(),
        };
        let name = port.name.clone().unwrap_or_else(|| port.port.to_string());
        format!("{name}: {outside} -> {inside}")
    };
    ports.map(told).collect::<Vec<_>>().join(", ")
}
