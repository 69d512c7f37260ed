//! What an ExposurePolicy says about itself.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};
use k8s_openapi::jiff::Timestamp;
use remora_api::conditions::{ExposureConditionType, Reason};
use remora_api::{ExposurePolicy, ExposurePolicyStatus};

/// How far a policy is in force.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum InForce {
    /// It is.
    Yes {
        /// Services that it exposes.
        exposures: usize,
    },
    /// Some of it could not be written.
    Failed {
        /// Services that it shall expose.
        exposures: usize,
        /// What went wrong.
        failure: String,
    },
    /// The hosted API server does not answer: what is exposed stays.
    Waiting,
    /// It means nothing.
    Unreadable(String),
    /// Its HostedCluster does not exist.
    WithoutCluster,
}

/// The whole status, made from the last one.
pub fn status(policy: &ExposurePolicy, in_force: &InForce, now: Timestamp) -> ExposurePolicyStatus {
    let (namespace, name) =
        (policy.metadata.namespace.as_deref().unwrap_or_default(), &policy.spec.cluster_name);
    let last = policy.status.as_ref();
    let generation = policy.metadata.generation;
    let known = last.and_then(|status| status.exposures);
    let (status, reason, message, exposures) = match in_force {
        InForce::Yes { exposures } => (
            "True",
            Reason::AsExpected,
            format!("{exposures} Services are exposed by it"),
            count(*exposures),
        ),
        InForce::Failed { exposures, failure } => (
            "True",
            Reason::ReconcileError,
            format!("{failure}; it is tried again"),
            count(*exposures),
        ),
        InForce::Waiting => {
            let message = format!(
                "the API server of HostedCluster {namespace}/{name} does not answer yet; nothing is changed until it does"
            );
            ("Unknown", Reason::HostedClusterNotAvailable, message, known)
        }
        InForce::Unreadable(why) => ("False", Reason::InvalidConfiguration, why.clone(), known),
        InForce::WithoutCluster => {
            let message = format!(
                "spec.clusterName: HostedCluster {namespace}/{name} does not exist; create it, or delete the policy"
            );
            ("False", Reason::HostedClusterNotFound, message, Some(0))
        }
    };
    let type_ = ExposureConditionType::Accepted.as_str();
    let before = last.and_then(|last| last.conditions.iter().find(|found| found.type_ == type_));
    let since = before.filter(|before| before.status == status);
    let condition = Condition {
        type_: type_.to_owned(),
        status: status.to_owned(),
        reason: reason.as_str().to_owned(),
        message,
        observed_generation: generation,
        last_transition_time: since.map_or(Time(now), |before| before.last_transition_time.clone()),
    };
    ExposurePolicyStatus { observed_generation: generation, exposures, conditions: vec![condition] }
}

fn count(exposures: usize) -> Option<i32> {
    i32::try_from(exposures).ok()
}
