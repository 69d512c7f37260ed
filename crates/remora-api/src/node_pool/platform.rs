//! Virtual machines of a pool.

use std::collections::BTreeMap;

use k8s_openapi::apimachinery::pkg::api::resource::Quantity;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::hosted_cluster::PlatformType;
use crate::schema::{immutable, quantity};
use crate::word::words;

/// Where the nodes of a pool run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct NodePoolPlatform {
    /// The platform; cannot be changed.
    #[serde(rename = "type")]
    #[schemars(extend("maxLength" = 100, "x-kubernetes-validations" = [immutable("Type")]))]
    pub platform_type: PlatformType,
    /// Settings of the virtual machines.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub kubevirt: Option<KubevirtNodePoolPlatform>,
}

/// Virtual machines of a pool.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct KubevirtNodePoolPlatform {
    /// The disk that they start from.
    #[serde(default)]
    pub root_volume: KubevirtRootVolume,
    /// Processors and memory.
    #[serde(default)]
    pub compute: KubevirtCompute,
    /// Whether the network interfaces have a queue per processor.
    #[serde(default = "enabled")]
    pub network_interface_multiqueue: MultiQueueSetting,
    /// Networks beside the hosting cluster's pod network.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 20))]
    pub additional_networks: Vec<KubevirtNetwork>,
    /// Whether they are on the hosting cluster's pod network.
    #[serde(default = "attached")]
    pub attach_default_network: bool,
    /// Labels of the hosts on which they may run.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub node_selector: BTreeMap<String, String>,
    /// Devices of the hosts that they get.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 10))]
    pub host_devices: Vec<KubevirtHostDevice>,
}

impl Default for KubevirtNodePoolPlatform {
    fn default() -> Self {
        Self {
            root_volume: KubevirtRootVolume::default(),
            compute: KubevirtCompute::default(),
            network_interface_multiqueue: enabled(),
            additional_networks: Vec::new(),
            attach_default_network: attached(),
            node_selector: BTreeMap::new(),
            host_devices: Vec::new(),
        }
    }
}

words! {
    /// Kinds of root volumes.
    pub enum KubevirtVolumeType {
        /// A volume that outlives the virtual machine's pod.
        Persistent => "Persistent",
    }
}

/// The disk that a virtual machine starts from.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct KubevirtRootVolume {
    /// Where its content comes from; the release's image when unset.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub disk_image: Option<KubevirtDiskImage>,
    /// The kind of volume.
    #[serde(rename = "type", default = "persistent")]
    pub volume_type: KubevirtVolumeType,
    /// The persistent volume.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub persistent: Option<KubevirtPersistentVolume>,
    /// Whether the image is downloaded once for all virtual machines.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cache_strategy: Option<KubevirtCachingStrategy>,
}

impl Default for KubevirtRootVolume {
    fn default() -> Self {
        Self {
            disk_image: None,
            volume_type: persistent(),
            persistent: Some(KubevirtPersistentVolume::default()),
            cache_strategy: None,
        }
    }
}

/// Content of a root volume.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct KubevirtDiskImage {
    /// A container image with the disk in it.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 2048))]
    pub container_disk_image: Option<String>,
}

words! {
    /// Who may mount a volume.
    pub enum PersistentVolumeAccessMode {
        /// One host may write.
        ReadWriteOnce => "ReadWriteOnce",
        /// Every host may write.
        ReadWriteMany => "ReadWriteMany",
        /// Every host may read.
        ReadOnly => "ReadOnly",
        /// One pod may write.
        ReadWriteOncePod => "ReadWriteOncePod",
    }
}

words! {
    /// What a volume is to its pod.
    pub enum PersistentVolumeMode {
        /// A directory.
        Filesystem => "Filesystem",
        /// A block device.
        Block => "Block",
    }
}

/// The persistent volume of a root disk.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct KubevirtPersistentVolume {
    /// Size.
    #[serde(default = "default_volume_size")]
    #[schemars(schema_with = "quantity")]
    pub size: Quantity,
    /// Storage class; the default one when unset.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 255))]
    pub storage_class: Option<String>,
    /// Who may mount it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 10))]
    pub access_modes: Vec<PersistentVolumeAccessMode>,
    /// What it is to the virtual machine's pod.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub volume_mode: Option<PersistentVolumeMode>,
}

impl Default for KubevirtPersistentVolume {
    fn default() -> Self {
        Self {
            size: default_volume_size(),
            storage_class: None,
            access_modes: Vec::new(),
            volume_mode: None,
        }
    }
}

words! {
    /// Whether an image is downloaded once for all virtual machines.
    pub enum KubevirtCachingStrategyType {
        /// It is not.
        None => "None",
        /// It is, into a volume that is cloned.
        Pvc => "PVC",
    }
}

/// Whether an image is downloaded once for all virtual machines.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct KubevirtCachingStrategy {
    /// Whether it is.
    #[serde(rename = "type", default = "no_cache")]
    pub strategy_type: KubevirtCachingStrategyType,
}

words! {
    /// Whether a virtual machine's processors and memory are its alone.
    pub enum QosClass {
        /// They are shared.
        Burstable => "Burstable",
        /// They are its alone.
        Guaranteed => "Guaranteed",
    }
}

/// Processors and memory of a virtual machine.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct KubevirtCompute {
    /// Memory of the guest.
    #[serde(default = "default_memory")]
    #[schemars(schema_with = "quantity")]
    pub memory: Quantity,
    /// Processors of the guest.
    #[serde(default = "default_cores")]
    #[schemars(range(min = 1))]
    pub cores: u32,
    /// Whether they are its alone.
    #[serde(default = "burstable")]
    pub qos_class: QosClass,
}

impl Default for KubevirtCompute {
    fn default() -> Self {
        Self { memory: default_memory(), cores: default_cores(), qos_class: burstable() }
    }
}

words! {
    /// Whether network interfaces have a queue per processor.
    pub enum MultiQueueSetting {
        /// They do.
        Enable => "Enable",
        /// They do not.
        Disable => "Disable",
    }
}

/// A network beside the hosting cluster's pod network.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct KubevirtNetwork {
    /// A NetworkAttachmentDefinition, `[namespace/]name`.
    #[schemars(length(max = 255))]
    pub name: String,
}

/// A device of the host.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct KubevirtHostDevice {
    /// Name under which KubeVirt knows the device.
    #[schemars(length(max = 255))]
    pub device_name: String,
    /// How many of it.
    #[serde(default = "one")]
    #[schemars(range(min = 1, max = 2147483647))]
    pub count: i32,
}

fn enabled() -> MultiQueueSetting {
    MultiQueueSetting::Enable
}

fn attached() -> bool {
    true
}

fn persistent() -> KubevirtVolumeType {
    KubevirtVolumeType::Persistent
}

fn default_volume_size() -> Quantity {
    Quantity("32Gi".to_owned())
}

fn no_cache() -> KubevirtCachingStrategyType {
    KubevirtCachingStrategyType::None
}

fn default_memory() -> Quantity {
    Quantity("8Gi".to_owned())
}

fn default_cores() -> u32 {
    2
}

fn burstable() -> QosClass {
    QosClass::Burstable
}

fn one() -> i32 {
    1
}
