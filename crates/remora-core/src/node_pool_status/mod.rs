//! What a NodePool's status says.

mod machines;
mod spec;
mod unused;

use std::collections::BTreeMap;

use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use remora_api::conditions::{ALL_IS_WELL, NodePoolConditionType as Type, Reason};
use remora_api::node_pool::{
    NodePoolCondition, NodePoolSpec, NodePoolStatus, NodeVersion, NodesInfo,
};

use crate::pause::PoolPause;
use crate::pool::{Machine, PoolRules, Problem};

/// Longest message of a condition (the CRD's limit, in bytes to be on the safe side).
const MESSAGE_LIMIT: usize = 32_768;

/// Everything that a NodePool's status is made of.
#[derive(Clone, Copy, Debug)]
pub struct PoolView<'a> {
    /// Generation of the spec.
    pub generation: Option<i64>,
    /// Namespace of the pool and of its HostedCluster.
    pub namespace: &'a str,
    /// The spec.
    pub spec: &'a NodePoolSpec,
    /// The annotations.
    pub annotations: &'a BTreeMap<String, String>,
    /// Whether the pool's machines are left alone.
    pub pause: PoolPause,
    /// What the spec asks for, or what is wrong with it.
    pub rules: &'a Result<PoolRules, Vec<Problem>>,
    /// The HostedCluster.
    pub cluster: &'a ClusterView,
    /// The release.
    pub release: &'a ReleaseView,
    /// The machines' template, once release and spec allow to make one.
    pub template: Option<&'a Result<TemplateView, Problem>>,
    /// Whether bootstrap data was made.
    pub payload: &'a PayloadView,
    /// The machines.
    pub machines: &'a [Machine],
    /// What holds the machines that leave: a sentence each.
    pub drains: &'a [String],
    /// What could not be done to machines: a sentence each.
    pub failures: &'a [String],
}

/// A NodePool's HostedCluster.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ClusterView {
    /// There is none of that name.
    Missing,
    /// It is being deleted.
    Deleting,
    /// Its API server does not answer yet.
    Waiting,
    /// Its API server answers.
    Available {
        /// Version of its control plane.
        version: Option<String>,
    },
}

/// A NodePool's release.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ReleaseView {
    /// Nobody has looked yet.
    Unknown,
    /// It was read.
    Resolved {
        /// Its version.
        version: String,
    },
    /// It cannot be used.
    Failed {
        /// A word.
        reason: Reason,
        /// Image and remedy.
        message: String,
    },
}

/// The template of a NodePool's machines.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TemplateView {
    /// Its hash.
    pub hash: String,
    /// The image of the root disk.
    pub disk_image: String,
    /// What of the root volume is not as asked for: a sentence.
    pub reservation: Option<String>,
}

/// The bootstrap data of a NodePool.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PayloadView {
    /// It cannot be made yet.
    Waiting,
    /// It was made.
    Made,
    /// It could not be made.
    Failed(String),
}

/// Truth value of a condition.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Truth {
    True,
    False,
    Unknown,
}

impl Truth {
    fn as_str(self) -> &'static str {
        match self {
            Self::True => "True",
            Self::False => "False",
            Self::Unknown => "Unknown",
        }
    }
}

impl From<bool> for Truth {
    fn from(value: bool) -> Self {
        if value { Self::True } else { Self::False }
    }
}

/// A condition before it is compared with the one that stands.
struct Draft {
    type_: Type,
    truth: Truth,
    reason: Reason,
    message: String,
}

impl Draft {
    fn new(
        type_: Type,
        truth: impl Into<Truth>,
        reason: Reason,
        message: impl Into<String>,
    ) -> Self {
        Self { type_, truth: truth.into(), reason, message: message.into() }
    }

    fn well(type_: Type) -> Self {
        Self::new(type_, true, Reason::AsExpected, ALL_IS_WELL)
    }

    fn of_problem(problem: &Problem) -> Self {
        Self::new(problem.condition, false, problem.reason, problem.message.clone())
    }
}

/// Builds the status; `present` is the one that stands.
pub fn node_pool_status(
    view: &PoolView<'_>,
    present: &NodePoolStatus,
    now: Timestamp,
) -> NodePoolStatus {
    let conditions = drafts(view, present)
        .into_iter()
        .map(|draft| condition(draft, view.generation, present, now))
        .collect();
    let available = view.machines.iter().filter(|machine| machine.is_available()).count();
    NodePoolStatus {
        replicas: i32::try_from(available).unwrap_or(i32::MAX),
        version: version(view).or_else(|| present.version.clone()),
        nodes_info: nodes_info(view.machines),
        platform: present.platform.clone(),
        os_image_stream: present.os_image_stream.clone(),
        conditions,
    }
}

/// The status that stands, with another verdict about whether the pool is ready.
pub fn not_ready(
    present: &NodePoolStatus,
    generation: Option<i64>,
    reason: Reason,
    message: &str,
    now: Timestamp,
) -> NodePoolStatus {
    let ready =
        condition(Draft::new(Type::Ready, false, reason, message), generation, present, now);
    let mut status = present.clone();
    status.conditions.retain(|condition| condition.type_ != Type::Ready.as_str());
    status.conditions.push(ready);
    status
}

/// The conditions in the order in which they are decided.
fn drafts(view: &PoolView<'_>, present: &NodePoolStatus) -> Vec<Draft> {
    let mut drafts = vec![
        spec::autoscaling(view),
        spec::checked(view, Type::UpdateManagementEnabled),
        spec::valid_release_image(view),
        spec::checked(view, Type::ValidArchPlatform),
        spec::reconciliation_active(view),
        spec::supported_version_skew(view),
        spec::valid_machine_config(view),
        spec::valid_platform_image(view),
    ];
    drafts.extend(spec::valid_machine_template(view));
    drafts.extend([
        machines::updating_config(view),
        machines::updating_version(view),
        machines::valid_generated_payload(view),
        machines::reached_ignition_endpoint(view, present),
        machines::all_machines_ready(view),
        machines::all_nodes_healthy(view),
        spec::autorepair(view),
    ]);
    drafts.push(machines::ready(view));
    drafts
}

fn condition(
    draft: Draft,
    generation: Option<i64>,
    present: &NodePoolStatus,
    now: Timestamp,
) -> NodePoolCondition {
    let Draft { type_, truth, reason, mut message } = draft;
    let standing = present
        .conditions
        .iter()
        .find(|standing| standing.type_ == type_.as_str() && standing.status == truth.as_str());
    while message.len() > MESSAGE_LIMIT {
        message.pop();
    }
    NodePoolCondition {
        type_: type_.to_string(),
        status: truth.as_str().to_owned(),
        severity: String::new(),
        last_transition_time: standing
            .map_or_else(|| Time(now), |standing| standing.last_transition_time.clone()),
        reason: reason.to_string(),
        message,
        observed_generation: generation,
    }
}

/// The release's version once every machine that stays was made from it.
fn version(view: &PoolView<'_>) -> Option<String> {
    let ReleaseView::Resolved { version } = view.release else { return None };
    let is_uniform = staying(view.machines).all(|machine| machine.release_version == *version);
    is_uniform.then(|| version.clone())
}

fn staying(machines: &[Machine]) -> impl Iterator<Item = &Machine> {
    machines.iter().filter(|machine| !machine.is_leaving())
}

fn nodes_info(machines: &[Machine]) -> Option<NodesInfo> {
    let mut node_versions: Vec<NodeVersion> = Vec::new();
    for machine in machines {
        let Some(kubelet_version) = &machine.kubelet_version else { continue };
        let position = node_versions.iter().position(|known| {
            known.ocp_version == machine.release_version
                && known.kubelet_version == *kubelet_version
        });
        let position = position.unwrap_or_else(|| {
            node_versions.push(NodeVersion {
                ocp_version: machine.release_version.clone(),
                kubelet_version: kubelet_version.clone(),
                ..NodeVersion::default()
            });
            node_versions.len() - 1
        });
        if let Some(entry) = node_versions.get_mut(position) {
            let is_available = machine.is_available();
            entry.ready_node_count += i32::from(is_available);
            entry.unready_node_count += i32::from(!is_available);
        }
    }
    node_versions.sort_by(|one, other| {
        (&one.ocp_version, &one.kubelet_version).cmp(&(&other.ocp_version, &other.kubelet_version))
    });
    (!node_versions.is_empty()).then_some(NodesInfo { node_versions })
}

#[cfg(test)]
mod tests;
