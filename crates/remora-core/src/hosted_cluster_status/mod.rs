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
    /// How the workloads are doing; none if nobody looked.
    pub workloads: Option<Workloads>,
    /// The kubeconfigs beside the HostedCluster; none if nobody came to them.
    pub kubeconfigs: Option<Kubeconfigs>,
    /// What went wrong, each step that failed with its object.
    pub failures: Vec<String>,
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

/// Which of the administrator's kubeconfigs lie beside the HostedCluster.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Kubeconfigs {
    /// The one with the published address.
    pub has_admin: bool,
    /// The one for `spec.kubeAPIServerDNSName`.
    pub has_custom: bool,
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
            workloads: None,
            kubeconfigs: None,
            failures: Vec::new(),
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
    let is_rolled_out = report.failures.is_empty()
        && report.deleting.is_none()
        && matches!(report.infrastructure, Infrastructure::Ready(_))
        && report.workloads.as_ref().is_some_and(|workloads| workloads.incomplete().is_empty());
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
    if let Some(kubeconfigs) = report.kubeconfigs {
        let name = hosted_cluster.metadata.name.as_deref().unwrap_or_default();
        let reference =
            |is_there: bool, secret: String| is_there.then(|| LocalObjectReference::new(secret));
        status.kubeconfig = reference(kubeconfigs.has_admin, names::admin_kubeconfig_secret(name));
        status.custom_kubeconfig =
            reference(kubeconfigs.has_custom, names::custom_admin_kubeconfig_secret(name));
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
            workloads: Some(workloads(ready)),
            kubeconfigs: Some(Kubeconfigs { has_admin: true, has_custom: false }),
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
        let report = Report { workloads: Some(workloads(1)), ..Report::new(Pause::Indefinite) };
        let status = status(&hosted_cluster, &report, at(LATER));
        assert_eq!(condition(&status, "ReconciliationActive").1, "ReconciliationPaused");
        assert_eq!(condition(&status, "Progressing").1, "Blocked");
        assert_eq!(condition(&status, "Available").0, "True");
        assert_eq!(condition(&status, "ValidReleaseImage").0, "True");
        assert_eq!(condition(&status, "InfrastructureReady").0, "True");
    }

    /// A pass that fails before it has looked at anything.
    fn failed() -> Report {
        let failure = "cannot apply Secret clusters-demo/kas-server-crt: refused by a webhook";
        Report { failures: vec![failure.to_owned()], ..Report::new(Pause::Active) }
    }

    #[test]
    fn when_a_pass_fails_that_is_said_and_what_it_did_not_look_at_stays_as_it_was() {
        let mut hosted_cluster = hosted_cluster(|_| {});
        let before = status(&hosted_cluster, &report(1), at(START));
        hosted_cluster.status = Some(before.clone());
        let after = status(&hosted_cluster, &failed(), at(LATER));
        let (truth, reason, message) = condition(&after, "ReconciliationSucceeded");
        assert_eq!((truth.as_str(), reason.as_str()), ("False", "ReconcileError"));
        assert!(message.contains("Secret clusters-demo/kas-server-crt"), "{message}");
        let others = |status: &HostedClusterStatus| -> Vec<_> {
            let mut conditions = status.conditions.clone();
            conditions.retain(|condition| condition.type_ != "ReconciliationSucceeded");
            conditions
        };
        assert_eq!(others(&after), others(&before));
        assert_eq!(HostedClusterStatus { conditions: before.conditions.clone(), ..after }, before);
    }

    #[test]
    fn when_passes_go_on_failing_the_cluster_is_degraded_until_one_succeeds() {
        let mut hosted_cluster = hosted_cluster(|_| {});
        let mut said = |report: &Report| {
            let new = status(&hosted_cluster, report, at(LATER));
            hosted_cluster.status = Some(new.clone());
            let (truth, reason, message) = condition(&new, "Degraded");
            let names_it = message.contains("Secret clusters-demo/kas-server-crt");
            (truth, reason, names_it, condition(&new, "Available").0)
        };
        let degraded = |truth: &str, reason: &str, names_it| {
            (truth.to_owned(), reason.to_owned(), names_it, "True".to_owned())
        };
        assert_eq!(said(&report(1)), degraded("False", "AsExpected", false));
        assert_eq!(said(&failed()), degraded("False", "AsExpected", false));
        assert_eq!(said(&failed()), degraded("True", "ReconcileError", true));
        assert_eq!(said(&report(1)), degraded("False", "AsExpected", false));
    }

    #[test]
    fn when_a_deletion_fails_that_is_said_beside_what_it_waits_for() {
        let mut hosted_cluster = hosted_cluster(|_| {});
        hosted_cluster.status = Some(status(&hosted_cluster, &report(1), at(START)));
        let deleting = Report { deleting: Some("It is held up".to_owned()), ..failed() };
        hosted_cluster.status = Some(status(&hosted_cluster, &deleting, at(LATER)));
        let status = status(&hosted_cluster, &deleting, at(LATER));
        assert_eq!(condition(&status, "ReconciliationSucceeded").1, "ReconcileError");
        assert_eq!(condition(&status, "Degraded").1, "ReconcileError");
        assert_eq!(condition(&status, "Progressing").1, "Deleting");
        assert_eq!(condition(&status, "Available").0, "False");
    }

    #[test]
    fn when_a_kubeconfig_is_no_longer_there_the_status_does_not_name_it() {
        let mut hosted_cluster = hosted_cluster(|_| {});
        let with = |has_admin, has_custom| Report {
            kubeconfigs: Some(Kubeconfigs { has_admin, has_custom }),
            ..report(1)
        };
        let named = |status: &HostedClusterStatus| {
            let name = |reference: &Option<LocalObjectReference>| {
                reference.as_ref().map(|reference| reference.name.clone())
            };
            (name(&status.kubeconfig), name(&status.custom_kubeconfig))
        };
        let both = status(&hosted_cluster, &with(true, true), at(START));
        let admin = Some("demo-admin-kubeconfig".to_owned());
        let custom = Some("demo-custom-admin-kubeconfig".to_owned());
        assert_eq!(named(&both), (admin, custom));
        hosted_cluster.status = Some(both);
        assert_eq!(named(&status(&hosted_cluster, &with(false, false), at(LATER))), (None, None));
    }
}
