//! The VirtualMachine of one machine.
//!
//! Shape, names and labels are those that Cluster API's KubeVirt provider gives its machines, so that Services,
//! NetworkPolicies and scripts that select them keep working.

use std::collections::BTreeMap;

use kube::core::DynamicObject;
use remora_api::{labels, names};
use serde_json::{Map, Value, json};

use super::json_patch::{PatchError, apply_patch};
use super::template::{DefaultNetwork, MachineTemplate, Multiqueue, QualityOfService, RootDisk};

/// Name of the root disk, its volume and the end of its DataVolume's name: JSON patches and backup tools know it.
const ROOT_DISK: &str = "rhcos";
/// Name of the disk with the bootstrap data.
const BOOTSTRAP_DISK: &str = "cloudinitvolume";
/// Name of the network and interface that the pod network is bound to.
const DEFAULT_NETWORK: &str = "default";
/// Where kube-proxy tells that it has programmed what it knows.
const KUBE_PROXY_HEALTH_PORT: u16 = 10256;
/// A drained node has nothing left to lose, and its root disk goes with it.
const EPHEMERAL_GRACE_SECONDS: u32 = 0;
/// A root disk that stays is given time to be unmounted.
const PERSISTENT_GRACE_SECONDS: u32 = 60;
/// The emptyDir volumes of a virt-launcher pod, without which it can be made anew elsewhere; the cluster autoscaler of
/// the hosting cluster would otherwise not empty a node with such a pod.
const LAUNCHER_VOLUMES: &str = "private,public,sockets,virt-bin-share-dir,libvirt-runtime,\
                                ephemeral-disks,container-disks,hotplug-disks";

/// Which machine of which pool a VirtualMachine is for.
#[derive(Clone, Copy, Debug)]
pub struct MachineOwner<'a> {
    /// Name of the machine.
    pub name: &'a str,
    /// Namespace of the hosted cluster's control plane.
    pub control_plane_namespace: &'a str,
    /// infraID of the hosted cluster.
    pub infra_id: &'a str,
    /// Namespace of the NodePool.
    pub node_pool_namespace: &'a str,
    /// Name of the NodePool.
    pub node_pool: &'a str,
    /// Hash of the template.
    pub template_hash: &'a str,
    /// Version of the release.
    pub release_version: &'a str,
}

/// Builds a VirtualMachine.
///
/// `patches` are the JSON patches that users have put on the HostedCluster and the NodePool, in this order. They can
/// change everything but the identity of the machine.
pub fn virtual_machine(
    owner: &MachineOwner<'_>,
    template: &MachineTemplate,
    patches: &[&str],
) -> Result<DynamicObject, PatchError> {
    let mut machine = json!({
        "apiVersion": "kubevirt.io/v1",
        "kind": "VirtualMachine",
        "metadata": {},
        "spec": {
            "runStrategy": "Always",
            "template": {
                "metadata": {"annotations": template_annotations(template)},
                "spec": instance_spec(owner, template),
            },
        },
    });
    if let RootDisk::Volume { .. } = &template.root_disk {
        machine["spec"]["dataVolumeTemplates"] = json!([data_volume(owner, &template.root_disk)]);
    }
    for patch in patches {
        apply_patch(&mut machine, patch)?;
    }
    stamp(&mut machine, owner)?;
    serde_json::from_value(machine).map_err(|error| PatchError::NoObject(error.to_string()))
}

/// Writes what Remora itself goes by, whatever a patch has made of it.
fn stamp(machine: &mut Value, owner: &MachineOwner<'_>) -> Result<(), PatchError> {
    let metadata = object_at(machine, &["metadata"])?;
    metadata.insert("name".to_owned(), owner.name.into());
    metadata.insert("namespace".to_owned(), owner.control_plane_namespace.into());
    for path in [&["metadata"][..], &["spec", "template", "metadata"][..]] {
        let metadata = object_at(machine, path)?;
        for (field, entries) in
            [("labels", machine_labels(owner)), ("annotations", machine_annotations(owner))]
        {
            let field = metadata.entry(field).or_insert_with(|| json!({}));
            let field = object_at(field, &[])?;
            field.extend(entries.into_iter().map(|(key, value)| (key.to_owned(), value.into())));
        }
    }
    Ok(())
}

fn object_at<'a>(
    value: &'a mut Value,
    path: &[&str],
) -> Result<&'a mut Map<String, Value>, PatchError> {
    let found = path.iter().try_fold(value, |value, key| value.get_mut(*key));
    found
        .and_then(Value::as_object_mut)
        .ok_or_else(|| PatchError::NoObject(format!("{} is no object", path.join("."))))
}

fn machine_labels(owner: &MachineOwner<'_>) -> BTreeMap<&'static str, String> {
    BTreeMap::from([
        (labels::KUBEVIRT_VM, owner.name.to_owned()),
        ("name", owner.name.to_owned()),
        (labels::CAPI_ROLE, labels::CAPI_ROLE_WORKER.to_owned()),
        (labels::CAPI_CLUSTER_NAME, owner.infra_id.to_owned()),
        (labels::CAPK_MACHINE_NAME, owner.name.to_owned()),
        (labels::CAPK_MACHINE_NAMESPACE, owner.control_plane_namespace.to_owned()),
        (labels::NODE_POOL_NAME, owner.node_pool.to_owned()),
        (labels::INFRA_ID, owner.infra_id.to_owned()),
        (labels::TEMPLATE_HASH, owner.template_hash.to_owned()),
    ])
}

fn machine_annotations(owner: &MachineOwner<'_>) -> BTreeMap<&'static str, String> {
    BTreeMap::from([
        (labels::NODE_POOL, format!("{}/{}", owner.node_pool_namespace, owner.node_pool)),
        (labels::RELEASE_VERSION, owner.release_version.to_owned()),
    ])
}

fn template_annotations(template: &MachineTemplate) -> BTreeMap<&'static str, &'static str> {
    let mut annotations = BTreeMap::from([
        ("cluster-autoscaler.kubernetes.io/safe-to-evict-local-volumes", LAUNCHER_VOLUMES),
        // Each root port costs an emulated machine boot time, and no device is plugged in later.
        ("kubevirt.io/placePCIDevicesOnRootComplex", "true"),
    ]);
    if template.default_network == DefaultNetwork::Attached {
        annotations.insert("kubevirt.io/allow-pod-bridge-network-live-migration", "");
    }
    annotations
}

fn instance_spec(owner: &MachineOwner<'_>, template: &MachineTemplate) -> Value {
    let mut spec = json!({
        // Nothing moves a machine's pods away when its host is drained, so the host may stop it.
        "evictionStrategy": "None",
        "terminationGracePeriodSeconds": match template.root_disk {
            RootDisk::Container { .. } => EPHEMERAL_GRACE_SECONDS,
            RootDisk::Volume { .. } => PERSISTENT_GRACE_SECONDS,
        },
        "topologySpreadConstraints": [{
            "maxSkew": 1,
            "topologyKey": "kubernetes.io/hostname",
            "whenUnsatisfiable": "ScheduleAnyway",
            "labelSelector": {"matchLabels": {
                labels::NODE_POOL_NAME: owner.node_pool,
                labels::CAPI_CLUSTER_NAME: owner.infra_id,
            }},
        }],
        "domain": domain(template),
        "networks": networks(template),
        "volumes": [
            {"name": ROOT_DISK, "dataVolume": {"name": data_volume_name(owner)}},
            {"name": BOOTSTRAP_DISK, "cloudInitNoCloud": {"secretRef": {
                "name": names::user_data_secret(owner.node_pool, owner.template_hash),
            }}},
        ],
    });
    if let RootDisk::Container { image, pull_secret } = &template.root_disk {
        let mut disk = json!({"image": image, "imagePullPolicy": "IfNotPresent"});
        if let Some(pull_secret) = pull_secret {
            disk["imagePullSecret"] = pull_secret.as_str().into();
        }
        spec["volumes"][0] = json!({"name": ROOT_DISK, "containerDisk": disk});
    }
    if !template.node_selector.is_empty() {
        spec["nodeSelector"] = json!(template.node_selector);
    }
    if template.default_network == DefaultNetwork::Attached {
        // A virt-launcher pod is ready as soon as its emulator runs. Services over the machines' pods shall hold
        // only nodes that forward traffic, and that is what this endpoint of the node's kube-proxy tells.
        spec["readinessProbe"] = json!({
            "httpGet": {"port": KUBE_PROXY_HEALTH_PORT, "path": "/healthz"},
            "periodSeconds": 2,
            "timeoutSeconds": 3,
            "failureThreshold": 3,
        });
    }
    spec
}

fn domain(template: &MachineTemplate) -> Value {
    let host_devices: Vec<Value> = template
        .host_devices
        .iter()
        .flat_map(|device| std::iter::repeat_n(device.name.as_str(), device.count))
        .enumerate()
        .map(|(index, name)| json!({"name": format!("hostdevice-{index}"), "deviceName": name}))
        .collect();
    let mut devices = json!({
        "disks": [
            // The root disk is rebuilt or re-imaged, never trusted after a host's crash: the host's cache is safe.
            {"name": ROOT_DISK, "disk": {"bus": "virtio"}, "cache": "writeback"},
            {"name": BOOTSTRAP_DISK, "disk": {"bus": "virtio"}},
        ],
        "interfaces": interfaces(template),
        "rng": {},
        "autoattachGraphicsDevice": false,
        "autoattachMemBalloon": false,
    });
    if let RootDisk::Volume { .. } = template.root_disk {
        devices["disks"][0] = json!({"name": ROOT_DISK, "disk": {"bus": "virtio"}});
    }
    // A queue per processor is what a machine with one processor has anyway.
    if template.multiqueue == Multiqueue::Enable && template.cores > 1 {
        devices["networkInterfaceMultiqueue"] = true.into();
    }
    if !host_devices.is_empty() {
        devices["hostDevices"] = host_devices.into();
    }
    match template.quality_of_service {
        QualityOfService::Burstable => json!({
            "cpu": {"cores": template.cores},
            "memory": {"guest": template.memory},
            "devices": devices,
        }),
        QualityOfService::Guaranteed => {
            let amounts = json!({"cpu": template.cores.to_string(), "memory": template.memory});
            json!({"resources": {"requests": amounts, "limits": amounts}, "devices": devices})
        }
    }
}

fn networks(template: &MachineTemplate) -> Vec<Value> {
    let mut networks = Vec::new();
    if template.default_network == DefaultNetwork::Attached {
        networks.push(json!({"name": DEFAULT_NETWORK, "pod": {}}));
    }
    networks.extend(
        additional_networks(template)
            .map(|(name, network)| json!({"name": name, "multus": {"networkName": network}})),
    );
    networks
}

fn interfaces(template: &MachineTemplate) -> Vec<Value> {
    let mut interfaces = Vec::new();
    if template.default_network == DefaultNetwork::Attached {
        interfaces.push(json!({"name": DEFAULT_NETWORK, "bridge": {}}));
    }
    interfaces
        .extend(additional_networks(template).map(|(name, _)| json!({"name": name, "bridge": {}})));
    interfaces
}

/// Pairs each additional network with its name inside the machine.
fn additional_networks(template: &MachineTemplate) -> impl Iterator<Item = (String, &str)> {
    template.additional_networks.iter().enumerate().map(|(index, network)| {
        (format!("iface{}_{}", index + 1, network.replace('/', "-")), network.as_str())
    })
}

fn data_volume_name(owner: &MachineOwner<'_>) -> String {
    format!("{}-{ROOT_DISK}", owner.name)
}

fn data_volume(owner: &MachineOwner<'_>, disk: &RootDisk) -> Value {
    let RootDisk::Volume { image, size, storage_class, access_modes, volume_mode } = disk else {
        return Value::Null;
    };
    let mut storage = json!({"resources": {"requests": {"storage": size}}});
    if let Some(storage_class) = storage_class {
        storage["storageClassName"] = storage_class.as_str().into();
    }
    if !access_modes.is_empty() {
        storage["accessModes"] = json!(access_modes);
    }
    if let Some(volume_mode) = volume_mode {
        storage["volumeMode"] = volume_mode.as_str().into();
    }
    json!({
        "metadata": {
            "name": data_volume_name(owner),
            "labels": {"hypershift.openshift.io/is-kubevirt-rhcos": "true"},
        },
        "spec": {
            "source": {"registry": {"url": format!("docker://{image}"), "pullMethod": "node"}},
            "storage": storage,
        },
    })
}

#[cfg(test)]
mod tests;
