//! What is known about a HostedCluster.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::LocalObjectReference;
use crate::schema::{any_object, any_objects, conditions, rule};
use crate::word::words;

/// What is known about a HostedCluster.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct HostedClusterStatus {
    /// Verdicts; see [`crate::conditions::HostedClusterConditionType`].
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(schema_with = "conditions")]
    pub conditions: Vec<Condition>,
    /// Releases of the whole cluster, nodes included.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub version: Option<ClusterVersionStatus>,
    /// Releases of the control plane.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub control_plane_version: Option<ControlPlaneVersionStatus>,
    /// Secret with the admin kubeconfig.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub kubeconfig: Option<LocalObjectReference>,
    /// Secret with the admin kubeconfig for `kubeAPIServerDNSName`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub custom_kubeconfig: Option<LocalObjectReference>,
    /// Secret with the password of `kubeadmin` (OpenShift only).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub kubeadmin_password: Option<LocalObjectReference>,
    /// Host of the Ignition server (OpenShift only).
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 1024))]
    pub ignition_endpoint: Option<String>,
    /// Where the hosted API server is reached.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub control_plane_endpoint: Option<ApiEndpoint>,
    /// Callback URL of identity providers (OpenShift only).
    #[serde(rename = "oauthCallbackURLTemplate", skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 1024))]
    pub oauth_callback_url_template: Option<String>,
    /// Architectures of the release.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub payload_arch: Option<PayloadArch>,
    /// What a platform reports (none on KubeVirt).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "any_object")]
    pub platform: Option<Value>,
    /// What operators of OpenShift report about the configuration.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "any_object")]
    pub configuration: Option<Value>,
    /// URL of the last backup of etcd.
    #[serde(rename = "lastSuccessfulEtcdBackupURL", skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 2048))]
    #[schemars(extend("x-kubernetes-validations" = [rule(
        "self.matches('^(https|s3)://.*')",
        "lastSuccessfulEtcdBackupURL must be a valid URL with scheme https or s3",
    )]))]
    pub last_successful_etcd_backup_url: Option<String>,
    /// Progress of a change of the encryption key.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "any_object")]
    pub secret_encryption: Option<Value>,
}

words! {
    /// How far the rollout of a release went.
    pub enum UpdateState {
        /// It runs everywhere.
        Completed => "Completed",
        /// It does not run everywhere yet.
        Partial => "Partial",
    }
}

words! {
    /// Architectures of a release.
    pub enum PayloadArch {
        /// Several.
        Multi => "Multi",
        /// arm64.
        Arm64 => "ARM64",
        /// amd64.
        Amd64 => "AMD64",
        /// ppc64le.
        Ppc64le => "PPC64LE",
        /// s390x.
        S390x => "S390X",
    }
}

/// Host and port of the hosted API server.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ApiEndpoint {
    /// Host name or address.
    #[schemars(length(max = 255))]
    pub host: String,
    /// Port.
    pub port: i32,
}

/// A release as the status names it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ReleaseStatus {
    /// Version of the release.
    pub version: String,
    /// Image of the release.
    pub image: String,
    /// Where the release is described.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub url: Option<String>,
    /// Channels of updates that have the release.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(extend("x-kubernetes-list-type" = "set"))]
    pub channels: Vec<String>,
}

/// Releases of the whole cluster, nodes included.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ClusterVersionStatus {
    /// The release that is wanted.
    pub desired: ReleaseStatus,
    /// Releases that were rolled out, the newest first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 100))]
    pub history: Vec<UpdateHistory>,
    /// Generation of the spec that this is about.
    #[serde(default)]
    pub observed_generation: i64,
    /// Releases that could follow.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 100))]
    pub available_updates: Vec<ReleaseStatus>,
    /// Releases that could follow under conditions.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(schema_with = "any_objects")]
    pub conditional_updates: Vec<Value>,
}

/// One release that was rolled out to the whole cluster.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct UpdateHistory {
    /// How far the rollout went.
    pub state: UpdateState,
    /// When it began.
    pub started_time: Time,
    /// When it was complete.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub completion_time: Option<Time>,
    /// Version of the release.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub version: String,
    /// Image of the release.
    pub image: String,
    /// Whether the release's signature was verified.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub verified: bool,
    /// Risks that were accepted.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub accepted_risks: Option<String>,
}

/// Releases of the control plane.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ControlPlaneVersionStatus {
    /// The release that is wanted.
    pub desired: ReleaseStatus,
    /// Releases that were rolled out, the newest first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(min = 1, max = 100), extend("x-kubernetes-list-type" = "atomic"))]
    pub history: Vec<ControlPlaneUpdateHistory>,
    /// Generation of the spec that this is about.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1))]
    pub observed_generation: Option<i64>,
}

/// One release that was rolled out to the control plane.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ControlPlaneUpdateHistory {
    /// How far the rollout went.
    pub state: UpdateState,
    /// When it began.
    pub started_time: Time,
    /// When it was complete.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub completion_time: Option<Time>,
    /// Version of the release.
    #[schemars(length(min = 1, max = 64))]
    #[schemars(extend("x-kubernetes-validations" = [rule(
        r"self.matches('^\\d+\\.\\d+\\.\\d+.*')",
        "version must start with semantic version prefix x.y.z",
    )]))]
    pub version: String,
    /// Image of the release.
    #[schemars(length(min = 1, max = 447))]
    pub image: String,
}
