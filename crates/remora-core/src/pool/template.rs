//! From what a NodePool asks for to what a machine is made of.

use std::collections::BTreeMap;

use remora_api::hosted_cluster::ImageContentSource;
use remora_api::node_pool::{
    KubevirtCompute, KubevirtDiskImage, KubevirtHostDevice, KubevirtNetwork,
    KubevirtNodePoolPlatform, KubevirtPersistentVolume, KubevirtRootVolume, KubevirtVolumeType,
    MultiQueueSetting, QosClass,
};
use serde::Serialize;
use sha2::{Digest, Sha256};

/// Forty bits: a NodePool has few revisions at a time, and the hash is part of names.
const HASH_BYTES: usize = 5;

/// What a machine is made of.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MachineTemplate {
    /// Root disk.
    pub root_disk: RootDisk,
    /// Number of virtual processors.
    pub cores: u32,
    /// Memory, as a Kubernetes quantity.
    pub memory: String,
    /// Whether processors and memory are reserved.
    pub quality_of_service: QualityOfService,
    /// Whether the network interfaces have a queue per processor.
    pub multiqueue: Multiqueue,
    /// Whether the machine is on the pod network.
    pub default_network: DefaultNetwork,
    /// NetworkAttachmentDefinitions, as `<namespace>/<name>` or `<name>`.
    pub additional_networks: Vec<String>,
    /// Labels of the hosting nodes that may carry the machine.
    pub node_selector: BTreeMap<String, String>,
    /// Devices of the host.
    pub host_devices: Vec<HostDevice>,
}

/// A machine's root disk.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RootDisk {
    /// From an image, made anew at every start.
    Container {
        /// Container disk.
        image: String,
        /// Secret of the control plane namespace to pull it with.
        pull_secret: Option<String>,
    },
    /// A volume that CDI fills from an image once.
    Volume {
        /// Container disk.
        image: String,
        /// Size, as a Kubernetes quantity.
        size: String,
        /// StorageClass.
        storage_class: Option<String>,
        /// Access modes.
        access_modes: Vec<String>,
        /// Volume mode.
        volume_mode: Option<String>,
    },
}

/// Whether processors and memory are reserved.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum QualityOfService {
    /// Shared.
    Burstable,
    /// Reserved.
    Guaranteed,
}

/// Whether network interfaces have a queue per processor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Multiqueue {
    /// One queue per processor.
    Enable,
    /// One queue.
    Disable,
}

/// Whether the machine is on the pod network.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DefaultNetwork {
    /// It is, with its pod's address.
    Attached,
    /// It is on additional networks only.
    Detached,
}

/// Devices of one kind of the host.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HostDevice {
    /// Resource name.
    pub name: String,
    /// How many.
    pub count: usize,
}

/// Whether the hosting cluster can fill volumes from images (CDI).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum VolumeImporter {
    /// It can.
    Installed,
    /// It cannot: root disks come from the image at every start.
    Absent,
}

/// What a template takes from elsewhere than the NodePool's own spec.
#[derive(Clone, Copy, Debug)]
pub struct TemplateSources<'a> {
    /// The release's disk image, if it has one.
    pub release_disk: Option<&'a str>,
    /// Secret of the control plane namespace to pull images with.
    pub pull_secret: Option<&'a str>,
    /// Whether volumes can be filled from images.
    pub importer: VolumeImporter,
}

/// There is no disk image: neither the NodePool nor its release names one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "the release has no image node-disk and spec.platform.kubevirt.rootVolume.diskImage names none"
)]
pub struct NoDiskImage;

impl MachineTemplate {
    /// Reads what a NodePool's machines are made of. Every field is named, so that a new one is either read or told.
    pub fn new(
        platform: &KubevirtNodePoolPlatform,
        sources: TemplateSources<'_>,
    ) -> Result<Self, NoDiskImage> {
        let KubevirtNodePoolPlatform {
            root_volume,
            compute: KubevirtCompute { memory, cores, qos_class },
            network_interface_multiqueue,
            additional_networks,
            attach_default_network,
            node_selector,
            host_devices,
        } = platform;
        Ok(Self {
            root_disk: root_disk(root_volume, sources)?,
            cores: *cores,
            memory: memory.0.clone(),
            quality_of_service: match qos_class {
                QosClass::Burstable => QualityOfService::Burstable,
                QosClass::Guaranteed => QualityOfService::Guaranteed,
            },
            multiqueue: match network_interface_multiqueue {
                MultiQueueSetting::Enable => Multiqueue::Enable,
                MultiQueueSetting::Disable => Multiqueue::Disable,
            },
            default_network: if *attach_default_network {
                DefaultNetwork::Attached
            } else {
                DefaultNetwork::Detached
            },
            additional_networks: additional_networks
                .iter()
                .map(|KubevirtNetwork { name }| name.clone())
                .collect(),
            node_selector: node_selector.clone(),
            host_devices: host_devices
                .iter()
                .map(|KubevirtHostDevice { device_name, count }| HostDevice {
                    name: device_name.clone(),
                    count: usize::try_from(*count).unwrap_or(1),
                })
                .collect(),
        })
    }
}

fn root_disk(
    root_volume: &KubevirtRootVolume,
    sources: TemplateSources<'_>,
) -> Result<RootDisk, NoDiskImage> {
    let KubevirtRootVolume {
        disk_image,
        volume_type: KubevirtVolumeType::Persistent,
        persistent,
        // Told in ValidPlatformImage.
        cache_strategy: _,
    } = root_volume;
    let own = disk_image
        .as_ref()
        .and_then(|KubevirtDiskImage { container_disk_image }| container_disk_image.as_deref())
        .filter(|image| !image.is_empty());
    let image = own.or(sources.release_disk).ok_or(NoDiskImage)?.to_owned();
    Ok(match (persistent, sources.importer) {
        (
            Some(KubevirtPersistentVolume { size, storage_class, access_modes, volume_mode }),
            VolumeImporter::Installed,
        ) => RootDisk::Volume {
            image,
            size: size.0.clone(),
            storage_class: storage_class.clone(),
            access_modes: access_modes.iter().map(ToString::to_string).collect(),
            volume_mode: volume_mode.map(|mode| mode.to_string()),
        },
        (Some(_), VolumeImporter::Absent) | (None, _) => {
            RootDisk::Container { image, pull_secret: sources.pull_secret.map(str::to_owned) }
        }
    })
}

/// Everything that asks for new machines when it changes; nothing else does.
///
/// What the hosting cluster happens to offer and how Remora renders a machine are no part of it: neither an
/// installation of CDI nor an upgrade of Remora may replace all nodes of all clusters.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct Revision<'a> {
    /// The release image.
    pub release_image: &'a str,
    /// The NodePool's own description of its machines.
    pub platform: &'a KubevirtNodePoolPlatform,
    /// JSON patches of the VirtualMachine, the HostedCluster's before the NodePool's.
    pub patches: &'a [&'a str],
    /// Name of the pull secret; its content may change without replacing nodes.
    pub pull_secret: &'a str,
    /// Name of the additional trust bundle.
    pub additional_trust_bundle: Option<&'a str>,
    /// Mirrors of images.
    pub image_content_sources: &'a [ImageContentSource],
}

impl Revision<'_> {
    /// A short hash that changes when any field does.
    pub fn hash(&self) -> String {
        let text = serde_json::to_vec(self).expect("plain data has a JSON form");
        let digest = Sha256::digest(text);
        digest.iter().take(HASH_BYTES).map(|byte| format!("{byte:02x}")).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A hash that changes without the user's doing replaces every machine there is.
    #[test]
    fn when_remora_is_upgraded_the_hash_of_a_revision_stays() {
        let revision = Revision {
            release_image: "registry.example/release:1.35.4",
            platform: &KubevirtNodePoolPlatform::default(),
            patches: &["[]"],
            pull_secret: "demo-pull-secret",
            additional_trust_bundle: None,
            image_content_sources: &[],
        };
        assert_eq!(revision.hash(), "0596565b8f");
    }
}
