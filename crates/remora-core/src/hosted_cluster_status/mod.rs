//! The status of a HostedCluster: conditions, versions, endpoint, kubeconfig.

mod conditions;
mod version;
mod workloads;

use jiff::Timestamp;
use remora_api::conditions::Reason;
use remora_api::hosted_cluster::{
    ApiEndpoint, HostedClusterStatus, LocalObjectReference, ReleaseStatus, UpdateState,
};
use remora_api::{HostedCluster, names};

pub use workloads::{Workload, Workloads};

use crate::endpoint::Published;
use crate::pause::Pause;
use crate::validate::Fault;

/// What a pass over a HostedCluster has found.
#[derive(Clone, Debug)]
pub struct Report {
    /// Notes about fields without effect, or the faults of the spec.
    pub settings: Result<Vec<String>, Vec<Fault>>,
    /// Whether the object is left alone.
    pub pause: Pause,
    /// The releases, or why one cannot be used; none if nobody looked.
    pub release: Option<Result<Releases, Problem>>,
    /// Where the control plane is published.
    pub infrastructure: Infrastructure,
    /// How the workloads are doing.
    pub workloads: Workloads,
    /// Whether the administrator's kubeconfigs were written.
    pub has_kubeconfig: bool,
    /// What went wrong, if the pass did not come to its end.
    pub failure: Option<String>,
    /// What a deletion waits for.
    pub deleting: Option<String>,
}

/// The releases of a cluster.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Releases {
    /// Of the nodes and addons: `spec.release`.
    pub cluster: ReleaseStatus,
    /// Of the control plane: `spec.controlPlaneRelease`, else the same.
    pub control_plane: ReleaseStatus,
}

/// A reason and what to say about it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problem {
    /// The reason.
    pub reason: Reason,
    /// What is wrong, with the remedy.
    pub message: String,
}

/// Where the control plane is published.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Infrastructure {
    /// There.
    Ready(Published),
    /// Nowhere yet, or it cannot be.
    Pending(Problem),
    /// Nobody looked.
    Unknown,
}

impl Report {
    /// A report of a pass that has looked at nothing yet.
    pub fn new(pause: Pause) -> Self {
        Self {
            settings: Ok(Vec::new()),
            pause,
            release: None,
            infrastructure: Infrastructure::Unknown,
            workloads: Workloads::default(),
            has_kubeconfig: false,
            failure: None,
            deleting: None,
        }
    }
}

/// Makes the status after a pass.
pub fn status(
    hosted_cluster: &HostedCluster,
    report: &Report,
    now: Timestamp,
) -> HostedClusterStatus {
    let mut status = hosted_cluster.status.clone().unwrap_or_default();
    let generation = hosted_cluster.metadata.generation;
    let was_rolled_out = is_completed(&status);
    // Only a pass that applied everything can tell that everything runs as wanted.
    let is_rolled_out = report.failure.is_none()
        && report.deleting.is_none()
        && matches!(report.infrastructure, Infrastructure::Ready(_))
        && report.workloads.incomplete().is_empty();
    if let Some(Ok(releases)) = &report.release {
        let Releases { cluster, control_plane } = releases;
        status.version = Some(version::version(
            status.version.as_ref(),
            cluster,
            generation,
            is_rolled_out,
            now,
        ));
        status.control_plane_version = Some(version::control_plane_version(
            status.control_plane_version.as_ref(),
            control_plane,
            generation,
            is_rolled_out,
            now,
        ));
    }
    if let Infrastructure::Ready(published) = &report.infrastructure {
        status.control_plane_endpoint = Some(ApiEndpoint {
            host: published.api.host.clone(),
            port: i32::from(published.api.port),
        });
    }
    if report.has_kubeconfig {
        let name = hosted_cluster.metadata.name.as_deref().unwrap_or_default();
        let has_custom = hosted_cluster
            .spec
            .kube_api_server_dns_name
            .as_deref()
            .is_some_and(|name| !name.is_empty());
        status.kubeconfig = Some(LocalObjectReference::new(names::admin_kubeconfig_secret(name)));
        status.custom_kubeconfig = has_custom
            .then(|| LocalObjectReference::new(names::custom_admin_kubeconfig_secret(name)));
    }
    let verdicts = conditions::verdicts(report, &status.conditions, is_rolled_out, was_rolled_out);
    status.conditions = conditions::merge(&status.conditions, verdicts, generation, now);
    status
}

fn is_completed(status: &HostedClusterStatus) -> bool {
    status
        .control_plane_version
        .as_ref()
        .and_then(|version| version.history.first())
        .is_some_and(|newest| newest.state == UpdateState::Completed)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::endpoint::Endpoint;
    use crate::validate::testing::hosted_cluster;

    const START: &str = "2026-11-30T12:00:00Z";
    const LATER: &str = "2026-11-30T12:00:07Z";

    fn at(time: &str) -> Timestamp {
        time.parse().unwrap()
    }

    fn workloads(ready: i32) -> Workloads {
        let status = json!({
            "observedGeneration": 1, "replicas": 1, "updatedReplicas": 1, "readyReplicas": ready,
        });
        let object = |name: &str| {
            json!({
                "metadata": { "name": name, "generation": 1 },
                "spec": { "replicas": 1, "selector": {}, "serviceName": "x", "template": {} },
                "status": status,
            })
        };
        let deployments: Vec<_> = crate::control_plane::DEPLOYMENTS
            .iter()
            .map(|name| serde_json::from_value(object(name)).unwrap())
            .collect();
        Workloads::read(&[serde_json::from_value(object("etcd")).unwrap()], &deployments)
    }

    fn report(ready: i32) -> Report {
        let release = ReleaseStatus {
            version: "1.35.4".to_owned(),
            image: "registry.example/release:1.35.4".to_owned(),
            ..ReleaseStatus::default()
        };
        Report {
            release: Some(Ok(Releases { cluster: release.clone(), control_plane: release })),
            infrastructure: Infrastructure::Ready(Published {
                api: Endpoint { host: "192.0.2.7".to_owned(), port: 30443 },
                konnectivity: Endpoint { host: "192.0.2.7".to_owned(), port: 30091 },
            }),
            workloads: workloads(ready),
            has_kubeconfig: true,
            ..Report::new(Pause::Active)
        }
    }

    fn condition(status: &HostedClusterStatus, kind: &str) -> (String, String, String) {
        let condition = status.conditions.iter().find(|condition| condition.type_ == kind).unwrap();
        (condition.status.clone(), condition.reason.clone(), condition.message.clone())
    }

    #[test]
    fn when_everything_runs_the_cluster_is_available_and_the_release_completed() {
        let mut hosted_cluster = hosted_cluster(|_| {});
        let coming_up = status(&hosted_cluster, &report(0), at(START));
        insta::assert_yaml_snapshot!(coming_up);
        hosted_cluster.status = Some(coming_up);
        insta::assert_yaml_snapshot!(status(&hosted_cluster, &report(1), at(LATER)));
    }

    #[test]
    fn when_nothing_changes_the_status_stays_the_same() {
        let mut hosted_cluster = hosted_cluster(|_| {});
        let first = status(&hosted_cluster, &report(1), at(START));
        hosted_cluster.status = Some(first.clone());
        assert_eq!(status(&hosted_cluster, &report(1), at(LATER)), first);
    }

    #[test]
    fn when_the_spec_has_faults_progress_is_blocked_with_their_text() {
        let fault = Fault::invalid("a and b overlap", "choose others");
        let report = Report { settings: Err(vec![fault]), ..Report::new(Pause::Active) };
        let status = status(&hosted_cluster(|_| {}), &report, at(START));
        let text = "a and b overlap: choose others".to_owned();
        let said = |truth: &str, reason: &str| (truth.to_owned(), reason.to_owned(), text.clone());
        assert_eq!(condition(&status, "ValidConfiguration"), said("False", "InvalidConfiguration"));
        assert_eq!(condition(&status, "Progressing"), said("False", "Blocked"));
        assert_eq!(condition(&status, "Available"), said("False", "WaitingForAvailable"));
        assert_eq!(condition(&status, "Degraded").0, "False");
    }

    #[test]
    fn when_a_running_cluster_gets_a_bad_release_it_stays_available_and_progress_is_blocked() {
        let mut hosted_cluster = hosted_cluster(|_| {});
        hosted_cluster.status = Some(status(&hosted_cluster, &report(1), at(START)));
        let problem = Problem { reason: Reason::InvalidImage, message: "no such image".to_owned() };
        let report = Report { release: Some(Err(problem)), ..report(1) };
        let status = status(&hosted_cluster, &report, at(LATER));
        assert_eq!(condition(&status, "Available").0, "True");
        assert_eq!(condition(&status, "Progressing").1, "Blocked");
        assert_eq!(condition(&status, "ValidReleaseImage").1, "InvalidImage");
    }

    #[test]
    fn when_a_replica_is_lost_later_the_cluster_is_degraded() {
        let mut hosted_cluster = hosted_cluster(|_| {});
        hosted_cluster.status = Some(status(&hosted_cluster, &report(1), at(START)));
        let status = status(&hosted_cluster, &report(0), at(LATER));
        assert_eq!(condition(&status, "Degraded").0, "True");
        assert_eq!(condition(&status, "Available").0, "False");
    }

    #[test]
    fn when_paused_that_is_said_and_what_was_not_looked_at_stays_as_it_was() {
        let mut hosted_cluster = hosted_cluster(|_| {});
        hosted_cluster.status = Some(status(&hosted_cluster, &report(1), at(START)));
        let report = Report { workloads: workloads(1), ..Report::new(Pause::Indefinite) };
        let status = status(&hosted_cluster, &report, at(LATER));
        assert_eq!(condition(&status, "ReconciliationActive").1, "ReconciliationPaused");
        assert_eq!(condition(&status, "Progressing").1, "Blocked");
        assert_eq!(condition(&status, "Available").0, "True");
        assert_eq!(condition(&status, "ValidReleaseImage").0, "True");
        assert_eq!(condition(&status, "InfrastructureReady").0, "True");
    }
}
