//! Conditions about the machines and their nodes.

use remora_api::conditions::{ALL_IS_WELL, NO_REPLICAS, NodePoolConditionType as Type, Reason};
use remora_api::node_pool::NodePoolStatus;

use super::{ClusterView, Draft, PayloadView, PoolView, ReleaseView, Truth, staying};
use crate::pool::machine::{Instance, Node};
use crate::pool::{Machine, Size};

pub(super) fn updating_config(view: &PoolView<'_>) -> Draft {
    let type_ = Type::UpdatingConfig;
    let (Some(Ok(template)), ReleaseView::Resolved { version }) = (view.template, view.release)
    else {
        return Draft::new(type_, false, Reason::AsExpected, "");
    };
    let is_outdated = |machine: &&Machine| {
        machine.template_hash != template.hash && machine.release_version == *version
    };
    match staying(view.machines).filter(is_outdated).count() {
        0 => Draft::new(type_, false, Reason::AsExpected, ""),
        outdated => Draft::new(
            type_,
            true,
            Reason::AsExpected,
            format!(
                "Updating config in progress. Target config: {}; {outdated} of {} nodes have another one",
                template.hash,
                staying(view.machines).count()
            ),
        ),
    }
}

pub(super) fn updating_version(view: &PoolView<'_>) -> Draft {
    let type_ = Type::UpdatingVersion;
    let ReleaseView::Resolved { version } = view.release else {
        return Draft::new(type_, false, Reason::AsExpected, "");
    };
    let is_outdated = |machine: &&Machine| machine.release_version != *version;
    match staying(view.machines).filter(is_outdated).count() {
        0 => Draft::new(type_, false, Reason::AsExpected, ""),
        outdated => Draft::new(
            type_,
            true,
            Reason::AsExpected,
            format!(
                "Updating version in progress. Target version: {version}; {outdated} of {} nodes have another one",
                staying(view.machines).count()
            ),
        ),
    }
}

pub(super) fn valid_generated_payload(view: &PoolView<'_>) -> Draft {
    let type_ = Type::ValidGeneratedPayload;
    match view.payload {
        PayloadView::Waiting => Draft::new(
            type_,
            Truth::Unknown,
            Reason::StatusUnknown,
            "Bootstrap data is made once the HostedCluster's API server answers",
        ),
        PayloadView::Made => {
            Draft::new(type_, true, Reason::AsExpected, "Payload generated successfully")
        }
        PayloadView::Failed(message) => {
            Draft::new(type_, false, Reason::ReconcileError, message.clone())
        }
    }
}

/// Once a machine has joined this stays true while there is none: the way in was found to be open.
pub(super) fn reached_ignition_endpoint(view: &PoolView<'_>, present: &NodePoolStatus) -> Draft {
    let type_ = Type::ReachedIgnitionEndpoint;
    let has_joined =
        view.machines.iter().any(|machine| !matches!(machine.node, Node::Absent | Node::Unknown));
    let had_joined = present
        .conditions
        .iter()
        .any(|condition| condition.type_ == type_.as_str() && condition.status == "True");
    let is_unknown = view.machines.iter().all(|machine| machine.node == Node::Unknown);
    if has_joined || (had_joined && is_unknown) {
        Draft::new(type_, true, Reason::AsExpected, "Machines reach the hosted API server")
    } else {
        Draft::new(
            type_,
            false,
            Reason::IgnitionNotReached,
            "No machine has joined the hosted cluster yet",
        )
    }
}

pub(super) fn all_machines_ready(view: &PoolView<'_>) -> Draft {
    let not_ready = view.machines.iter().filter_map(|machine| match &machine.instance {
        Instance::Running { .. } => None,
        Instance::Down { reason, message } => {
            Some(told(&format!("Machine {}: {reason}", machine.name), message))
        }
    });
    let messages: Vec<String> = view.failures.iter().cloned().chain(not_ready).collect();
    let reason = if view.failures.is_empty() { Reason::VmNotReady } else { Reason::VmCreateFailed };
    all(view, Type::AllMachinesReady, reason, &messages, "No machines are created yet")
}

pub(super) fn all_nodes_healthy(view: &PoolView<'_>) -> Draft {
    let unhealthy = view.machines.iter().filter_map(|machine| match &machine.node {
        Node::Ready => None,
        Node::Unknown => Some(format!(
            "Machine {}: its node is not known, because the hosted API server does not answer",
            machine.name
        )),
        Node::Absent => Some(format!("Machine {}: its node has not joined", machine.name)),
        Node::Unreachable => {
            Some(format!("Machine {}: the kubelet of its node is silent", machine.name))
        }
        Node::NotReady { message } => {
            Some(told(&format!("Machine {}: its node is not ready", machine.name), message))
        }
    });
    let messages: Vec<String> = unhealthy.collect();
    all(view, Type::AllNodesHealthy, Reason::NodesNotReady, &messages, "No nodes are created yet")
}

fn told(subject: &str, message: &str) -> String {
    if message.is_empty() { subject.to_owned() } else { format!("{subject}: {message}") }
}

/// A condition that is true when there are machines and nothing is wrong with any.
fn all(view: &PoolView<'_>, type_: Type, reason: Reason, messages: &[String], none: &str) -> Draft {
    if !messages.is_empty() {
        Draft::new(type_, false, reason, messages.join("; "))
    } else if !view.machines.is_empty() {
        Draft::well(type_)
    } else if wanted(view) == Some(0) {
        Draft::new(type_, false, Reason::AsExpected, NO_REPLICAS)
    } else {
        Draft::new(type_, false, Reason::NotFound, none)
    }
}

fn wanted(view: &PoolView<'_>) -> Option<usize> {
    let rules = view.rules.as_ref().ok()?;
    Some(match rules.size {
        Size::Fixed(replicas) => replicas,
        Size::Between(..) => rules.size.wanted(staying(view.machines).count()),
    })
}

pub(super) fn ready(view: &PoolView<'_>) -> Draft {
    let type_ = Type::Ready;
    if let Some((reason, message)) = obstacle(view) {
        return Draft::new(type_, false, reason, message);
    }
    let wanted = wanted(view).unwrap_or_default();
    let available = view.machines.iter().filter(|machine| machine.is_available()).count();
    if available < wanted {
        let mut message = format!("{available} of {wanted} nodes are ready");
        for failure in view.failures {
            message.push_str("; ");
            message.push_str(failure);
        }
        return Draft::new(type_, false, Reason::ScalingUp, message);
    }
    let updating = [updating_version(view), updating_config(view)];
    if let Some(update) = updating.into_iter().find(|update| update.truth == Truth::True) {
        return Draft::new(type_, true, Reason::RollingOut, update.message);
    }
    let leaving: Vec<&str> = view
        .machines
        .iter()
        .filter(|machine| machine.is_leaving())
        .map(|machine| machine.name.as_str())
        .collect();
    if leaving.is_empty() {
        return Draft::new(type_, true, Reason::AsExpected, ALL_IS_WELL);
    }
    let mut message = format!("Nodes that leave: {}", leaving.join(", "));
    for drain in view.drains {
        message.push_str("; ");
        message.push_str(drain);
    }
    Draft::new(type_, true, Reason::ScalingDown, message)
}

/// What keeps the pool from being worked on.
fn obstacle(view: &PoolView<'_>) -> Option<(Reason, String)> {
    let name = &view.spec.cluster_name;
    match view.cluster {
        ClusterView::Missing => {
            return Some((
                Reason::HostedClusterNotFound,
                format!(
                    "there is no HostedCluster {name} in this namespace: create it, or make the NodePool anew with \
                     another spec.clusterName"
                ),
            ));
        }
        ClusterView::Deleting => {
            let message = format!("HostedCluster {name} is being deleted");
            return Some((Reason::HostedClusterDeleting, message));
        }
        ClusterView::Waiting | ClusterView::Available { .. } => {}
    }
    if let Some(problem) = view.rules.as_ref().err().and_then(|problems| problems.first()) {
        return Some((problem.reason, problem.message.clone()));
    }
    if let ReleaseView::Failed { reason, message } = view.release {
        return Some((*reason, message.clone()));
    }
    if let Some(Err(problem)) = view.template {
        return Some((problem.reason, problem.message.clone()));
    }
    if let PayloadView::Failed(message) = view.payload {
        return Some((Reason::ReconcileError, message.clone()));
    }
    if *view.cluster == ClusterView::Waiting {
        let message = format!("HostedCluster {name} is not available yet");
        return Some((Reason::HostedClusterNotAvailable, message));
    }
    None
}
