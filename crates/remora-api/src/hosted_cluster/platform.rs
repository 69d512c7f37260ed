//! The platform of a HostedCluster: KubeVirt's part in full, the others by name only.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::schema::{immutable, rule};
use crate::word::words;

words! {
    /// Platforms that the API knows. Remora serves KubeVirt; the others are told so in a condition.
    pub enum PlatformType {
        /// Amazon Web Services.
        Aws => "AWS",
        /// Microsoft Azure.
        Azure => "Azure",
        /// IBM Cloud.
        IbmCloud => "IBMCloud",
        /// Virtual machines of the hosting cluster, or of another one.
        KubeVirt => "KubeVirt",
        /// Bare metal by agents.
        Agent => "Agent",
        /// IBM Power Virtual Server.
        PowerVs => "PowerVS",
        /// No platform.
        None => "None",
    }
}

/// Where the nodes of a HostedCluster run.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct PlatformSpec {
    /// The platform; cannot be changed.
    #[serde(rename = "type")]
    #[schemars(extend("maxLength" = 100, "x-kubernetes-validations" = [immutable("Type")]))]
    pub platform_type: PlatformType,
    /// Settings of the KubeVirt platform.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub kubevirt: Option<KubevirtPlatformSpec>,
}

/// KubeVirt settings of a HostedCluster.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("x-kubernetes-validations" = [rule(
    "!has(oldSelf.generateID) || has(self.generateID)",
    "Kubevirt GenerateID is required once set",
)]))]
pub struct KubevirtPlatformSpec {
    /// Whether the base domain is a subdomain of the hosting cluster's apps domain (OpenShift only).
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(extend("x-kubernetes-validations" = [immutable("baseDomainPassthrough")]))]
    pub base_domain_passthrough: Option<bool>,
    /// Suffix of names in the infrastructure's namespace; generated when unset.
    #[serde(rename = "generateID", skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 11))]
    #[schemars(extend("x-kubernetes-validations" = [rule(
        "self == oldSelf",
        "Kubevirt GenerateID is immutable once set",
    )]))]
    pub generate_id: Option<String>,
    /// Another cluster in which the VMs run; the hosting cluster when unset.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub credentials: Option<KubevirtPlatformCredentials>,
    /// Which storage classes of the infrastructure the hosted cluster may use.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub storage_driver: Option<KubevirtStorageDriverSpec>,
}

/// Access to the cluster in which the VMs run.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct KubevirtPlatformCredentials {
    /// Secret with the kubeconfig.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub infra_kube_config_secret: Option<KubeconfigSecretRef>,
    /// Namespace of that cluster in which the VMs run.
    #[schemars(length(max = 255))]
    #[schemars(extend("x-kubernetes-validations" = [immutable("infraNamespace")]))]
    pub infra_namespace: String,
}

/// A key of a Secret that holds a kubeconfig.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[schemars(extend("x-kubernetes-validations" = [immutable("infraKubeConfigSecret")]))]
pub struct KubeconfigSecretRef {
    /// Name of the Secret.
    #[schemars(length(max = 255))]
    pub name: String,
    /// Key of the kubeconfig.
    #[schemars(length(max = 255))]
    pub key: String,
}

words! {
    /// Which storage classes of the infrastructure reach the hosted cluster.
    pub enum KubevirtStorageDriverConfigType {
        /// None.
        None => "None",
        /// The default one.
        Default => "Default",
        /// Those that `manual` lists.
        Manual => "Manual",
    }
}

/// Settings of the hosted cluster's storage driver.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[schemars(extend("x-kubernetes-validations" = [immutable("storageDriver")]))]
pub struct KubevirtStorageDriverSpec {
    /// Which storage classes reach the hosted cluster.
    #[serde(rename = "type", default = "default_storage_driver")]
    #[schemars(extend("x-kubernetes-validations" = [immutable("storageDriver.Type")]))]
    pub driver_type: KubevirtStorageDriverConfigType,
    /// The list for type `Manual`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub manual: Option<KubevirtManualStorageDriverConfig>,
}

/// Storage classes that reach the hosted cluster.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("x-kubernetes-validations" = [immutable("storageDriver.Manual")]))]
pub struct KubevirtManualStorageDriverConfig {
    /// Storage classes of the infrastructure and their names inside.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 50))]
    #[schemars(extend("x-kubernetes-validations" = [immutable("storageClassMapping")]))]
    pub storage_class_mapping: Vec<KubevirtStorageClassMapping>,
    /// Snapshot classes of the infrastructure and their names inside.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 50))]
    #[schemars(extend("x-kubernetes-validations" = [immutable("volumeSnapshotClassMapping")]))]
    pub volume_snapshot_class_mapping: Vec<KubevirtVolumeSnapshotClassMapping>,
}

/// One storage class of the infrastructure and its name inside.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct KubevirtStorageClassMapping {
    /// Ties storage classes to the snapshot classes of the same group.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 255))]
    pub group: Option<String>,
    /// Name in the infrastructure.
    #[schemars(length(max = 255))]
    pub infra_storage_class_name: String,
    /// Name in the hosted cluster.
    #[schemars(length(max = 255))]
    pub guest_storage_class_name: String,
}

/// One snapshot class of the infrastructure and its name inside.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct KubevirtVolumeSnapshotClassMapping {
    /// Ties snapshot classes to the storage classes of the same group.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 255))]
    pub group: Option<String>,
    /// Name in the infrastructure.
    #[schemars(length(max = 255))]
    pub infra_volume_snapshot_class_name: String,
    /// Name in the hosted cluster.
    #[schemars(length(max = 255))]
    pub guest_volume_snapshot_class_name: String,
}

fn default_storage_driver() -> KubevirtStorageDriverConfigType {
    KubevirtStorageDriverConfigType::Default
}
