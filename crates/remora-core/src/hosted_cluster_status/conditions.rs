//! The conditions of a HostedCluster.

use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};
use remora_api::conditions::{
    ALL_IS_WELL, CONTROL_PLANE_IS_AVAILABLE, HostedClusterConditionType as Type, Reason,
    WAITING_FOR_CONTROL_PLANE,
};

use super::{Infrastructure, Report, Workloads};
use crate::pause::Pause;
use crate::validate::FaultKind;

/// A verdict: what a condition says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Verdict {
    kind: Type,
    pub(super) status: Truth,
    reason: Reason,
    message: String,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Truth {
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

/// Everything that the conditions say after a pass. What the pass did not look at stays as it was said before.
pub(super) fn verdicts(
    report: &Report,
    existing: &[Condition],
    is_rolled_out: bool,
    was_rolled_out: bool,
) -> Vec<Verdict> {
    let was = |kind: Type| existing.iter().find(|condition| condition.type_ == kind.as_str());
    let has_looked = report.workloads.is_some();
    let workloads = report.workloads.clone().unwrap_or_default();
    let mut verdicts =
        vec![configuration(report), supported(report), active(report), succeeded(report)];
    if has_looked || was(Type::EtcdAvailable).is_none() {
        verdicts.push(etcd(&workloads));
    }
    if has_looked || was(Type::KubeApiServerAvailable).is_none() {
        verdicts.push(kube_apiserver(&workloads));
    }
    if report.release.is_some() || was(Type::ValidReleaseImage).is_none() {
        verdicts.push(release(report));
    }
    let was_published = was(Type::InfrastructureReady);
    if report.infrastructure != Infrastructure::Unknown || was_published.is_none() {
        verdicts.push(infrastructure(report));
    }
    let is_published = match report.infrastructure {
        Infrastructure::Ready(_) => true,
        Infrastructure::Pending(_) => false,
        Infrastructure::Unknown => was_published.is_some_and(|was| was.status == "True"),
    };
    // Order of HyperShift: the first of these that is false is what blocks.
    let blocking = [
        Type::SupportedHostedCluster,
        Type::ValidConfiguration,
        Type::ValidReleaseImage,
        Type::ReconciliationActive,
    ]
    .into_iter()
    .find_map(|kind| {
        verdicts
            .iter()
            .find(|verdict| verdict.kind == kind && verdict.status == Truth::False)
            .cloned()
    });
    let is_told = has_looked || report.deleting.is_some();
    if is_told || was(Type::Available).is_none() {
        verdicts.push(available(report, &workloads, is_published, blocking.as_ref()));
    }
    if is_told || blocking.is_some() || was(Type::Progressing).is_none() {
        verdicts.push(progressing(report, &workloads, blocking.as_ref(), is_rolled_out));
    }
    // One failed pass is made again within a second: only the next one that fails tells of something worse.
    let has_failed_before =
        was(Type::ReconciliationSucceeded).is_some_and(|was| was.status == "False");
    let is_failing = has_failed_before && !report.failures.is_empty();
    if has_looked || is_failing || was(Type::Degraded).is_none() {
        verdicts.push(degraded(report, &workloads, was_rolled_out, is_failing));
    }
    verdicts
}

/// Writes verdicts into conditions: those of others stay, and the time of the last transition moves only with the status.
pub(super) fn merge(
    existing: &[Condition],
    verdicts: Vec<Verdict>,
    generation: Option<i64>,
    now: Timestamp,
) -> Vec<Condition> {
    let mut conditions = existing.to_vec();
    for Verdict { kind, status, reason, message } in verdicts {
        let status = status.as_str().to_owned();
        let old = conditions.iter().find(|condition| condition.type_ == kind.as_str());
        let last_transition_time = old
            .filter(|old| old.status == status)
            .map_or(Time(now), |old| old.last_transition_time.clone());
        let condition = Condition {
            type_: kind.as_str().to_owned(),
            status,
            reason: reason.as_str().to_owned(),
            message,
            observed_generation: generation,
            last_transition_time,
        };
        match conditions.iter_mut().find(|old| old.type_ == condition.type_) {
            Some(old) => *old = condition,
            None => conditions.push(condition),
        }
    }
    conditions
}

fn verdict(kind: Type, status: Truth, reason: Reason, message: impl Into<String>) -> Verdict {
    Verdict { kind, status, reason, message: message.into() }
}

fn well(kind: Type) -> Verdict {
    verdict(kind, Truth::True, Reason::AsExpected, ALL_IS_WELL)
}

fn faults_of(report: &Report, kind: FaultKind) -> Option<String> {
    let faults = report.settings.as_ref().err()?;
    let texts: Vec<String> =
        faults.iter().filter(|fault| fault.kind == kind).map(ToString::to_string).collect();
    (!texts.is_empty()).then(|| texts.join("; "))
}

fn configuration(report: &Report) -> Verdict {
    match faults_of(report, FaultKind::Invalid) {
        Some(faults) => {
            verdict(Type::ValidConfiguration, Truth::False, Reason::InvalidConfiguration, faults)
        }
        None => well(Type::ValidConfiguration),
    }
}

fn supported(report: &Report) -> Verdict {
    let kind = Type::SupportedHostedCluster;
    if let Some(faults) = faults_of(report, FaultKind::Unsupported) {
        return verdict(kind, Truth::False, Reason::UnsupportedHostedCluster, faults);
    }
    match &report.settings {
        Ok(unused) if !unused.is_empty() => {
            verdict(kind, Truth::True, Reason::AsExpected, unused.join("; "))
        }
        Ok(_) | Err(_) => well(kind),
    }
}

fn release(report: &Report) -> Verdict {
    let kind = Type::ValidReleaseImage;
    match &report.release {
        Some(Ok(_)) => well(kind),
        Some(Err(problem)) => verdict(kind, Truth::False, problem.reason, problem.message.clone()),
        None => verdict(
            kind,
            Truth::Unknown,
            Reason::StatusUnknown,
            "The release image was not looked at yet",
        ),
    }
}

fn active(report: &Report) -> Verdict {
    let kind = Type::ReconciliationActive;
    match report.pause {
        Pause::Active => {
            verdict(kind, Truth::True, Reason::AsExpected, "Reconciliation active on resource")
        }
        Pause::Indefinite => verdict(
            kind,
            Truth::False,
            Reason::ReconciliationPaused,
            "Reconciliation paused until field removed",
        ),
        Pause::Until(time) => verdict(
            kind,
            Truth::False,
            Reason::ReconciliationPaused,
            format!("Reconciliation paused until: {time}"),
        ),
        Pause::Invalid => verdict(
            kind,
            Truth::True,
            Reason::InvalidPausedUntilValue,
            "Reconciliation active: spec.pausedUntil is neither a time (RFC 3339) nor true or false",
        ),
    }
}

fn succeeded(report: &Report) -> Verdict {
    let kind = Type::ReconciliationSucceeded;
    if report.failures.is_empty() {
        return well(kind);
    }
    verdict(kind, Truth::False, Reason::ReconcileError, report.failures.join("; "))
}

fn infrastructure(report: &Report) -> Verdict {
    let kind = Type::InfrastructureReady;
    match &report.infrastructure {
        Infrastructure::Ready(published) => verdict(
            kind,
            Truth::True,
            Reason::AsExpected,
            format!("API server at {}, konnectivity at {}", published.api, published.konnectivity),
        ),
        Infrastructure::Pending(problem) => {
            verdict(kind, Truth::False, problem.reason, problem.message.clone())
        }
        Infrastructure::Unknown => verdict(
            kind,
            Truth::False,
            Reason::WaitingOnInfrastructureReady,
            "The Services of the control plane were not made yet",
        ),
    }
}

fn etcd(workloads: &Workloads) -> Verdict {
    let kind = Type::EtcdAvailable;
    match workloads.get(crate::control_plane::etcd::NAME) {
        None => verdict(
            kind,
            Truth::False,
            Reason::StatefulSetNotFound,
            "StatefulSet etcd does not exist yet",
        ),
        Some(_) if workloads.has_etcd_quorum() => {
            verdict(kind, Truth::True, Reason::QuorumAvailable, ALL_IS_WELL)
        }
        Some(workload) => verdict(
            kind,
            Truth::False,
            Reason::EtcdWaitingForQuorum,
            format!(
                "Waiting for etcd to reach quorum: {} of {} members ready",
                workload.ready, workload.desired
            ),
        ),
    }
}

fn kube_apiserver(workloads: &Workloads) -> Verdict {
    let kind = Type::KubeApiServerAvailable;
    match workloads.get(crate::control_plane::kube_apiserver::NAME) {
        None => verdict(
            kind,
            Truth::False,
            Reason::NotFound,
            "Deployment kube-apiserver does not exist yet",
        ),
        Some(workload) if workload.ready > 0 => well(kind),
        Some(_) => verdict(
            kind,
            Truth::False,
            Reason::WaitingForAvailable,
            "Waiting for Deployment kube-apiserver to become available",
        ),
    }
}

fn available(
    report: &Report,
    workloads: &Workloads,
    is_published: bool,
    blocking: Option<&Verdict>,
) -> Verdict {
    let kind = Type::Available;
    if let Some(deleting) = &report.deleting {
        return verdict(kind, Truth::False, Reason::Deleting, deleting.clone());
    }
    // The API can be used: that it also does something is told by Progressing and Degraded.
    let serves = workloads.has_etcd_quorum() && workloads.is_api_available();
    match (serves, is_published, blocking) {
        // What runs goes on running, whatever blocks the next change.
        (true, true, _) => {
            verdict(kind, Truth::True, Reason::AsExpected, CONTROL_PLANE_IS_AVAILABLE)
        }
        (_, _, Some(blocking)) => {
            verdict(kind, Truth::False, Reason::WaitingForAvailable, blocking.message.clone())
        }
        (true, false, None) => {
            verdict(kind, Truth::False, Reason::WaitingForAvailable, infrastructure(report).message)
        }
        (false, _, None) => {
            verdict(kind, Truth::False, Reason::WaitingForAvailable, WAITING_FOR_CONTROL_PLANE)
        }
    }
}

fn progressing(
    report: &Report,
    workloads: &Workloads,
    blocking: Option<&Verdict>,
    is_rolled_out: bool,
) -> Verdict {
    let kind = Type::Progressing;
    if let Some(deleting) = &report.deleting {
        return verdict(kind, Truth::True, Reason::Deleting, deleting.clone());
    }
    if let Some(blocking) = blocking {
        return verdict(kind, Truth::False, Reason::Blocked, blocking.message.clone());
    }
    if is_rolled_out {
        return verdict(
            kind,
            Truth::False,
            Reason::AsExpected,
            "HostedCluster is at expected version",
        );
    }
    let message = match workloads.incomplete().as_slice() {
        [] => "Working towards the release".to_owned(),
        components => format!("Rolling out: {}", components.join(", ")),
    };
    verdict(kind, Truth::True, Reason::RollingOut, message)
}

fn degraded(
    report: &Report,
    workloads: &Workloads,
    was_rolled_out: bool,
    is_failing: bool,
) -> Verdict {
    let kind = Type::Degraded;
    let is_missed = was_rolled_out && report.deleting.is_none();
    let missing = if is_missed { workloads.degraded() } else { Vec::new() };
    let failures = if is_failing { report.failures.join("; ") } else { String::new() };
    let replicas = format!("Replicas are missing: {}", missing.join(", "));
    match (is_failing, missing.is_empty()) {
        (false, true) => {
            verdict(kind, Truth::False, Reason::AsExpected, "The hosted cluster is not degraded")
        }
        (false, false) => verdict(kind, Truth::True, Reason::ComponentsNotAvailable, replicas),
        (true, true) => verdict(kind, Truth::True, Reason::ReconcileError, failures),
        (true, false) => {
            let both = format!("{failures}; {replicas}");
            verdict(kind, Truth::True, Reason::ReconcileError, both)
        }
    }
}
