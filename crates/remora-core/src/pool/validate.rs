//! What a NodePool's spec says that its CRD cannot refuse.

use jiff::SignedDuration;
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;
use remora_api::conditions::{NodePoolConditionType, Reason};
use remora_api::hosted_cluster::PlatformType;
use remora_api::node_pool::{
    Architecture, KubevirtNodePoolPlatform, NodePoolAutoScaling, NodePoolManagement, NodePoolSpec,
    RollingUpdate, UpgradeStrategy, UpgradeType,
};

use super::json_patch::check_patch;
use super::name::{POOL_NAME_LIMIT, names_machines};
use super::plan::Replacement;

/// Most host devices of one machine: each is an entry of its own in the VirtualMachine, and a PCI slot.
const HOST_DEVICES_LIMIT: i64 = 256;

/// Something in the spec that cannot be carried out. Machines are neither made nor removed until it is put right.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problem {
    /// The condition that reports it.
    pub condition: NodePoolConditionType,
    /// A word.
    pub reason: Reason,
    /// Field and remedy.
    pub message: String,
}

/// What the spec asks for, once it makes sense.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PoolRules {
    /// How many machines.
    pub size: Size,
    /// How outdated machines are replaced.
    pub replacement: Replacement,
    /// How long a drain may take; zero is without limit.
    pub drain_timeout: SignedDuration,
}

/// How many machines a pool has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Size {
    /// As many as asked for.
    Fixed(usize),
    /// As many as there are, within bounds.
    Between(usize, usize),
}

impl Size {
    /// How many machines are wanted where there are `present`.
    pub fn wanted(self, present: usize) -> usize {
        match self {
            Self::Fixed(replicas) => replicas,
            Self::Between(min, max) => present.clamp(min, max.max(min)),
        }
    }
}

/// Reads the rules of a pool, or tells everything that is wrong with them.
///
/// `patches` are the JSON patches with the object that carries each.
pub fn validate(
    name: &str,
    spec: &NodePoolSpec,
    patches: &[(&str, &str)],
) -> Result<PoolRules, Vec<Problem>> {
    let mut problems = Vec::new();
    check_name(name, &mut problems);
    check_platform(spec, &mut problems);
    for (carrier, patch) in patches {
        if let Err(error) = check_patch(patch) {
            problems.push(Problem {
                condition: NodePoolConditionType::ValidMachineTemplate,
                reason: Reason::InvalidKubevirtMachineTemplate,
                message: format!(
                    "annotation {} of {carrier}: {error}",
                    remora_api::labels::VM_JSON_PATCH
                ),
            });
        }
    }
    let size = size(spec).map_err(|problem| problems.push(problem)).ok();
    let replicas = size.map_or(0, |size| size.wanted(0));
    let replacement =
        replacement(&spec.management, replicas).map_err(|problem| problems.push(problem)).ok();
    let drain_timeout =
        spec.node_drain_timeout.as_deref().map_or(Ok(SignedDuration::ZERO), |text| {
            duration(text).ok_or_else(|| {
                invalid(
                    NodePoolConditionType::ValidMachineConfig,
                    format!(
                        "spec.nodeDrainTimeout {text:?} is no duration: write it like 5m or 1h30m"
                    ),
                )
            })
        });
    let drain_timeout = drain_timeout.map_err(|problem| problems.push(problem)).ok();
    match (problems.is_empty(), size, replacement, drain_timeout) {
        (true, Some(size), Some(replacement), Some(drain_timeout)) => {
            Ok(PoolRules { size, replacement, drain_timeout })
        }
        _ => Err(problems),
    }
}

fn invalid(condition: NodePoolConditionType, message: String) -> Problem {
    Problem { condition, reason: Reason::ValidationFailed, message }
}

fn check_name(name: &str, problems: &mut Vec<Problem>) {
    if !names_machines(name) {
        problems.push(Problem {
            condition: NodePoolConditionType::ValidMachineTemplate,
            reason: Reason::InvalidKubevirtMachineTemplate,
            message: format!(
                "metadata.name becomes part of host names: it may have at most {POOL_NAME_LIMIT} characters and no \
                 dot; make the NodePool anew under another name"
            ),
        });
    }
}

fn check_platform(spec: &NodePoolSpec, problems: &mut Vec<Problem>) {
    if spec.platform.platform_type != PlatformType::KubeVirt {
        problems.push(Problem {
            condition: NodePoolConditionType::ValidArchPlatform,
            reason: Reason::InvalidArchPlatform,
            message: format!(
                "spec.platform.type {} is not supported: only KubeVirt is",
                spec.platform.platform_type
            ),
        });
    }
    if spec.arch != Architecture::Amd64 {
        problems.push(Problem {
            condition: NodePoolConditionType::ValidArchPlatform,
            reason: Reason::InvalidArchPlatform,
            message: format!("spec.arch {} is not supported: only amd64 is", spec.arch),
        });
    }
    if let Some(kubevirt) = &spec.platform.kubevirt {
        check_networks(kubevirt, problems);
        check_host_devices(kubevirt, problems);
    }
}

fn check_host_devices(kubevirt: &KubevirtNodePoolPlatform, problems: &mut Vec<Problem>) {
    let asked: i64 = kubevirt.host_devices.iter().map(|device| i64::from(device.count)).sum();
    if asked > HOST_DEVICES_LIMIT {
        problems.push(invalid(
            NodePoolConditionType::ValidMachineConfig,
            format!(
                "spec.platform.kubevirt.hostDevices asks for {asked} devices for each machine: at most \
                 {HOST_DEVICES_LIMIT} are possible; lower the counts"
            ),
        ));
    }
}

fn check_networks(kubevirt: &KubevirtNodePoolPlatform, problems: &mut Vec<Problem>) {
    if !kubevirt.attach_default_network && kubevirt.additional_networks.is_empty() {
        problems.push(invalid(
            NodePoolConditionType::ValidMachineConfig,
            "spec.platform.kubevirt.attachDefaultNetwork is false and additionalNetworks is empty: machines need a \
             network"
                .to_owned(),
        ));
    }
    for network in &kubevirt.additional_networks {
        if !is_network_name(&network.name) {
            problems.push(invalid(
                NodePoolConditionType::ValidMachineConfig,
                format!(
                    "spec.platform.kubevirt.additionalNetworks: {:?} is no NetworkAttachmentDefinition; write it as \
                     <namespace>/<name>",
                    network.name
                ),
            ));
        }
    }
}

fn is_network_name(name: &str) -> bool {
    let is_word = |part: &str| {
        !part.is_empty()
            && part.bytes().all(|byte| {
                byte.is_ascii_lowercase() || byte.is_ascii_digit() || matches!(byte, b'-' | b'.')
            })
    };
    match name.split_once('/') {
        Some((namespace, name)) => is_word(namespace) && is_word(name),
        None => is_word(name),
    }
}

fn size(spec: &NodePoolSpec) -> Result<Size, Problem> {
    if let Some(NodePoolAutoScaling { min, max }) = spec.auto_scaling {
        let bound = |value: i32| usize::try_from(value).unwrap_or(0);
        // Like HyperShift on this platform: a pool that scales keeps at least one node.
        return Ok(Size::Between(bound(min).max(1), bound(max)));
    }
    let replicas = spec.replicas.unwrap_or(0);
    usize::try_from(replicas).map(Size::Fixed).map_err(|_| {
        invalid(
            NodePoolConditionType::ValidMachineConfig,
            format!("spec.replicas is {replicas}: it has to be 0 or more"),
        )
    })
}

fn replacement(management: &NodePoolManagement, replicas: usize) -> Result<Replacement, Problem> {
    let problem = |message| invalid(NodePoolConditionType::UpdateManagementEnabled, message);
    if management.upgrade_type == UpgradeType::InPlace {
        return Err(Problem {
            condition: NodePoolConditionType::UpdateManagementEnabled,
            reason: Reason::Unsupported,
            message: "spec.management.upgradeType InPlace is not supported: make the NodePool anew with Replace"
                .to_owned(),
        });
    }
    if management.replace.strategy == UpgradeStrategy::OnDelete {
        return Ok(Replacement::OnDelete);
    }
    let RollingUpdate { max_unavailable, max_surge } =
        management.replace.rolling_update.clone().unwrap_or_default();
    let path = "spec.management.replace.rollingUpdate";
    let max_surge = share(max_surge.as_ref(), 1, replicas, Rounding::Up)
        .ok_or_else(|| problem(format!("{path}.maxSurge is neither a number nor a percentage")))?;
    let max_unavailable =
        share(max_unavailable.as_ref(), 0, replicas, Rounding::Down).ok_or_else(|| {
            problem(format!("{path}.maxUnavailable is neither a number nor a percentage"))
        })?;
    if max_surge == 0 && max_unavailable == 0 && replicas > 0 {
        return Err(problem(format!(
            "{path}: maxSurge and maxUnavailable are both 0 for {replicas} replicas, so that no node could ever be \
             replaced; raise one of them"
        )));
    }
    Ok(Replacement::RollingUpdate { max_surge, max_unavailable })
}

#[derive(Clone, Copy)]
enum Rounding {
    Up,
    Down,
}

/// Reads a number, or a percentage of the replicas.
fn share(
    value: Option<&IntOrString>,
    default: usize,
    replicas: usize,
    rounding: Rounding,
) -> Option<usize> {
    match value {
        None => Some(default),
        Some(IntOrString::Int(number)) => usize::try_from(*number).ok(),
        Some(IntOrString::String(text)) => {
            let percent: usize = text.strip_suffix('%')?.parse().ok()?;
            let hundredths = replicas.checked_mul(percent)?;
            Some(match rounding {
                Rounding::Up => hundredths.div_ceil(100),
                Rounding::Down => hundredths / 100,
            })
        }
    }
}

/// Reads a duration as Go writes it.
fn duration(text: &str) -> Option<SignedDuration> {
    if text == "0" {
        return Some(SignedDuration::ZERO);
    }
    text.parse::<SignedDuration>().ok().filter(|duration| *duration >= SignedDuration::ZERO)
}

#[cfg(test)]
mod tests;
