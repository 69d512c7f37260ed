//! The history of releases.

use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use remora_api::hosted_cluster::{
    ClusterVersionStatus, ControlPlaneUpdateHistory, ControlPlaneVersionStatus, ReleaseStatus,
    UpdateHistory, UpdateState,
};

/// Entries that are kept; older ones are dropped, as OpenShift does.
const MAX_HISTORY: usize = 100;

/// Notes that a release is wanted, and whether it is rolled out.
pub(super) fn version(
    existing: Option<&ClusterVersionStatus>,
    desired: &ReleaseStatus,
    generation: Option<i64>,
    is_rolled_out: bool,
    now: Timestamp,
) -> ClusterVersionStatus {
    let mut version = existing.cloned().unwrap_or_default();
    if version.history.first().is_none_or(|newest| newest.image != desired.image) {
        version.history.insert(
            0,
            UpdateHistory {
                state: UpdateState::Partial,
                started_time: Time(now),
                completion_time: None,
                version: desired.version.clone(),
                image: desired.image.clone(),
                verified: false,
                accepted_risks: None,
            },
        );
        version.history.truncate(MAX_HISTORY);
    }
    if let Some(newest) = version.history.first_mut()
        && is_rolled_out
        && newest.state == UpdateState::Partial
    {
        newest.state = UpdateState::Completed;
        newest.completion_time = Some(Time(now));
    }
    version.desired = desired.clone();
    version.observed_generation = generation.unwrap_or_default();
    version
}

/// The same for the control plane alone.
pub(super) fn control_plane_version(
    existing: Option<&ControlPlaneVersionStatus>,
    desired: &ReleaseStatus,
    generation: Option<i64>,
    is_rolled_out: bool,
    now: Timestamp,
) -> ControlPlaneVersionStatus {
    let mut version = existing.cloned().unwrap_or_default();
    if version.history.first().is_none_or(|newest| newest.image != desired.image) {
        version.history.insert(
            0,
            ControlPlaneUpdateHistory {
                state: UpdateState::Partial,
                started_time: Time(now),
                completion_time: None,
                version: desired.version.clone(),
                image: desired.image.clone(),
            },
        );
        version.history.truncate(MAX_HISTORY);
    }
    if let Some(newest) = version.history.first_mut()
        && is_rolled_out
        && newest.state == UpdateState::Partial
    {
        newest.state = UpdateState::Completed;
        newest.completion_time = Some(Time(now));
    }
    version.desired = desired.clone();
    version.observed_generation = generation;
    version
}
