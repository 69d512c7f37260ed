//! Conditions about what the spec asks for.

use remora_api::conditions::{NodePoolConditionType as Type, Reason};
use remora_api::node_pool::KubevirtCachingStrategyType;

use super::{ClusterView, Draft, PoolView, ReleaseView, Truth, unused};
use crate::pause::{Pause, PoolPause};

/// How many minor versions a pool may be behind its control plane (Kubernetes' own skew policy).
const MINOR_SKEW: u64 = 3;

pub(super) fn autoscaling(view: &PoolView<'_>) -> Draft {
    match &view.spec.auto_scaling {
        None => Draft::new(Type::AutoscalingEnabled, false, Reason::AsExpected, ""),
        Some(bounds) => Draft::new(
            Type::AutoscalingEnabled,
            false,
            Reason::Unsupported,
            format!(
                "there is no autoscaler in this version of Remora: the pool stays between {} and {} nodes, but does \
                 not follow the load; set spec.replicas instead of spec.autoScaling to change its size",
                bounds.min, bounds.max
            ),
        ),
    }
}

pub(super) fn autorepair(view: &PoolView<'_>) -> Draft {
    if view.spec.management.auto_repair {
        Draft::new(
            Type::AutorepairEnabled,
            false,
            Reason::Unsupported,
            "spec.management.autoRepair has no effect in this version of Remora: delete the VirtualMachine of an \
             unhealthy node to have it replaced",
        )
    } else {
        Draft::new(Type::AutorepairEnabled, false, Reason::AsExpected, "")
    }
}

/// A condition that is true unless the spec's check says otherwise.
pub(super) fn checked(view: &PoolView<'_>, type_: Type) -> Draft {
    problem(view, type_).unwrap_or_else(|| Draft::well(type_))
}

fn problem(view: &PoolView<'_>, type_: Type) -> Option<Draft> {
    let problems = view.rules.as_ref().err()?;
    let mut found = problems.iter().filter(|problem| problem.condition == type_);
    let mut draft = Draft::of_problem(found.next()?);
    for problem in found {
        draft.message.push_str("; ");
        draft.message.push_str(&problem.message);
    }
    Some(draft)
}

pub(super) fn valid_release_image(view: &PoolView<'_>) -> Draft {
    let type_ = Type::ValidReleaseImage;
    match view.release {
        ReleaseView::Unknown => {
            Draft::new(type_, Truth::Unknown, Reason::StatusUnknown, "The release was not read yet")
        }
        ReleaseView::Resolved { .. } => Draft::new(
            type_,
            true,
            Reason::AsExpected,
            format!("Using release image: {}", view.spec.release.image),
        ),
        ReleaseView::Failed { reason, message } => {
            Draft::new(type_, false, *reason, message.clone())
        }
    }
}

pub(super) fn reconciliation_active(view: &PoolView<'_>) -> Draft {
    let type_ = Type::ReconciliationActive;
    let PoolPause { own, of_cluster } = view.pause;
    let own_message = match own {
        Pause::Active | Pause::Invalid => None,
        Pause::Indefinite => Some("Reconciliation paused until field removed".to_owned()),
        Pause::Until(time) => Some(format!("Reconciliation paused until: {time}")),
    };
    let cluster = format!("HostedCluster {}/{}", view.namespace, view.spec.cluster_name);
    let cluster_message = match of_cluster {
        Pause::Active | Pause::Invalid => None,
        Pause::Indefinite => Some(format!(
            "{cluster} is paused, and the machines of its NodePools with it: remove its spec.pausedUntil to have them \
             looked after again"
        )),
        Pause::Until(time) => Some(format!(
            "{cluster} is paused until {time}, and the machines of its NodePools with it: remove its spec.pausedUntil \
             to have them looked after before"
        )),
    };
    let messages: Vec<String> = own_message.into_iter().chain(cluster_message).collect();
    if !messages.is_empty() {
        return Draft::new(type_, false, Reason::ReconciliationPaused, messages.join("; "));
    }
    if own == Pause::Invalid {
        return Draft::new(
            type_,
            true,
            Reason::InvalidPausedUntilValue,
            "spec.pausedUntil is neither a time (RFC 3339) nor a truth value: reconciliation goes on",
        );
    }
    Draft::new(type_, true, Reason::AsExpected, "Reconciliation active on resource")
}

pub(super) fn supported_version_skew(view: &PoolView<'_>) -> Draft {
    let type_ = Type::SupportedVersionSkew;
    let (
        ReleaseView::Resolved { version: pool },
        ClusterView::Available { version: Some(cluster) },
    ) = (view.release, view.cluster)
    else {
        return Draft::new(
            type_,
            Truth::Unknown,
            Reason::StatusUnknown,
            "The versions of the pool and of its HostedCluster are not both known yet",
        );
    };
    match (numbers(pool), numbers(cluster)) {
        (Some(pool_numbers), Some(cluster_numbers)) => {
            let (major, minor, _) = cluster_numbers;
            let is_behind = pool_numbers < (major, minor.saturating_sub(MINOR_SKEW), 0);
            if pool_numbers > cluster_numbers || is_behind {
                Draft::new(
                    type_,
                    false,
                    Reason::UnsupportedSkew,
                    format!(
                        "version {pool} of the pool has to be at most {cluster}, its HostedCluster's, and at most \
                         {MINOR_SKEW} minor versions behind; change spec.release.image"
                    ),
                )
            } else {
                Draft::new(type_, true, Reason::AsExpected, "Release image version is valid")
            }
        }
        _ => Draft::new(
            type_,
            Truth::Unknown,
            Reason::StatusUnknown,
            format!("version {pool} or {cluster} is no semantic version"),
        ),
    }
}

fn numbers(version: &str) -> Option<(u64, u64, u64)> {
    let core = version.split(['-', '+']).next()?;
    let mut numbers = core.split('.').map(|number| number.parse::<u64>().ok());
    match (numbers.next(), numbers.next(), numbers.next(), numbers.next()) {
        (Some(Some(major)), Some(Some(minor)), Some(Some(patch)), None) => {
            Some((major, minor, patch))
        }
        _ => None,
    }
}

pub(super) fn valid_machine_config(view: &PoolView<'_>) -> Draft {
    let mut draft = checked(view, Type::ValidMachineConfig);
    for note in unused::notes(view.spec, view.annotations) {
        draft.message.push_str("; ");
        draft.message.push_str(&note);
    }
    draft
}

pub(super) fn valid_platform_image(view: &PoolView<'_>) -> Draft {
    let type_ = Type::ValidPlatformImage;
    match view.template {
        Some(Err(problem)) if problem.condition == type_ => Draft::of_problem(problem),
        Some(Ok(template)) => {
            let mut message = format!("Root disk image: {}", template.disk_image);
            for reservation in
                template.reservation.as_deref().into_iter().chain(cache_reservation(view))
            {
                message.push_str("; ");
                message.push_str(reservation);
            }
            Draft::new(type_, true, Reason::AsExpected, message)
        }
        Some(Err(_)) | None => Draft::new(
            type_,
            Truth::Unknown,
            Reason::StatusUnknown,
            "The root disk image is not known yet",
        ),
    }
}

fn cache_reservation(view: &PoolView<'_>) -> Option<&'static str> {
    let root_volume = &view.spec.platform.kubevirt.as_ref()?.root_volume;
    let strategy = root_volume.cache_strategy.as_ref()?.strategy_type;
    (strategy == KubevirtCachingStrategyType::Pvc)
        .then_some("cacheStrategy PVC has no effect: each machine gets its disk from the image")
}

/// Only written while there is something wrong.
pub(super) fn valid_machine_template(view: &PoolView<'_>) -> Option<Draft> {
    let type_ = Type::ValidMachineTemplate;
    let of_template = match view.template {
        Some(Err(problem)) if problem.condition == type_ => Some(Draft::of_problem(problem)),
        Some(_) | None => None,
    };
    problem(view, type_).or(of_template)
}
