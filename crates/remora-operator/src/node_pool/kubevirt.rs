//! The few fields of KubeVirt's objects that Remora reads.

use std::collections::BTreeSet;
use std::net::IpAddr;

use kube::core::{ApiResource, GroupVersionKind, Object};
use remora_core::csr::RunningInstance;
use remora_core::pool::machine;
use serde::{Deserialize, Serialize};

/// A VirtualMachine.
pub(super) type VirtualMachine = Object<Ignored, VirtualMachineStatus>;
/// A VirtualMachineInstance.
pub(super) type Instance = Object<Ignored, InstanceStatus>;

/// A part that is not looked at.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(super) struct Ignored {}

/// What is known about a VirtualMachine.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct VirtualMachineStatus {
    printable_status: String,
    conditions: Vec<Condition>,
}

/// What is known about a VirtualMachineInstance.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct InstanceStatus {
    phase: String,
    conditions: Vec<Condition>,
    interfaces: Vec<Interface>,
}

#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Condition {
    #[serde(rename = "type")]
    type_: String,
    status: String,
    message: String,
}

#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Interface {
    ip_address: Option<IpAddr>,
    ip_addresses: Vec<IpAddr>,
}

/// The resource of VirtualMachines.
pub(super) fn virtual_machines() -> ApiResource {
    ApiResource::from_gvk(&GroupVersionKind::gvk("kubevirt.io", "v1", "VirtualMachine"))
}

/// The resource of VirtualMachineInstances.
pub(super) fn instances() -> ApiResource {
    ApiResource::from_gvk(&GroupVersionKind::gvk("kubevirt.io", "v1", "VirtualMachineInstance"))
}

/// The instance, if it runs.
pub(super) fn running(instance: &Instance) -> Option<RunningInstance> {
    let status = instance.status.as_ref().filter(|status| status.phase == "Running")?;
    if instance.metadata.deletion_timestamp.is_some() {
        return None;
    }
    Some(RunningInstance { uid: instance.metadata.uid.clone()?, addresses: addresses(status) })
}

/// How the instance of a machine is.
pub(super) fn state(
    virtual_machine: &VirtualMachine,
    instance: Option<&Instance>,
) -> machine::Instance {
    if let Some(instance) = instance {
        if let Some(RunningInstance { addresses, uid: _ }) = running(instance) {
            return machine::Instance::Running { addresses };
        }
        let status = instance.status.clone().unwrap_or_default();
        let reason = if status.phase.is_empty() { "Pending".to_owned() } else { status.phase };
        return machine::Instance::Down { reason, message: complaint(&status.conditions) };
    }
    let status = virtual_machine.status.clone().unwrap_or_default();
    let reason = if status.printable_status.is_empty() {
        "Provisioning".to_owned()
    } else {
        status.printable_status
    };
    machine::Instance::Down { reason, message: complaint(&status.conditions) }
}

fn addresses(status: &InstanceStatus) -> BTreeSet<IpAddr> {
    status
        .interfaces
        .iter()
        .flat_map(|interface| interface.ip_address.iter().chain(&interface.ip_addresses))
        .copied()
        .collect()
}

/// What KubeVirt complains about: conditions that are false and say why, or tell of a failure.
fn complaint(conditions: &[Condition]) -> String {
    let is_complaint = |condition: &&Condition| {
        let is_failure = condition.type_ == "Failure" && condition.status == "True";
        !condition.message.is_empty() && (condition.status == "False" || is_failure)
    };
    let messages: BTreeSet<&str> = conditions
        .iter()
        .filter(is_complaint)
        .map(|condition| condition.message.as_str())
        // What every instance says before its guest runs.
        .filter(|message| !message.contains("Guest VM is not reported as running"))
        .collect();
    messages.into_iter().collect::<Vec<_>>().join("; ")
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn instance(phase: &str) -> Instance {
        serde_json::from_value(json!({
            "apiVersion": "kubevirt.io/v1",
            "kind": "VirtualMachineInstance",
            "metadata": {"name": "a", "uid": "u"},
            "spec": {"domain": {}},
            "status": {
                "phase": phase,
                "conditions": [
                    {"type": "Ready", "status": "False", "message": "Guest VM is not reported as running"},
                    {"type": "PodScheduled", "status": "False", "message": "0/3 nodes are available"},
                    {"type": "LiveMigratable", "status": "True", "message": "fine"},
                ],
                "interfaces": [
                    {"name": "default", "ipAddress": "10.0.0.1", "ipAddresses": ["10.0.0.1", "fd00::1"]},
                    {"mac": "02:00:00:00:00:01"},
                ],
            },
        }))
        .unwrap()
    }

    fn virtual_machine() -> VirtualMachine {
        serde_json::from_value(json!({
            "metadata": {"name": "a"},
            "spec": {},
            "status": {"printableStatus": "CrashLoopBackOff", "conditions": [
                {"type": "Failure", "status": "True", "message": "no such disk"},
            ]},
        }))
        .unwrap()
    }

    #[test]
    fn when_an_instance_runs_its_addresses_are_known() {
        let addresses = ["10.0.0.1", "fd00::1"].map(|address| address.parse().unwrap()).into();
        assert_eq!(
            state(&virtual_machine(), Some(&instance("Running"))),
            machine::Instance::Running { addresses }
        );
    }

    #[test]
    fn when_an_instance_finds_no_place_it_says_why() {
        assert_eq!(
            state(&virtual_machine(), Some(&instance("Scheduling"))),
            machine::Instance::Down {
                reason: "Scheduling".to_owned(),
                message: "0/3 nodes are available".to_owned(),
            }
        );
    }

    #[test]
    fn when_there_is_no_instance_the_virtual_machine_says_why() {
        assert_eq!(
            state(&virtual_machine(), None),
            machine::Instance::Down {
                reason: "CrashLoopBackOff".to_owned(),
                message: "no such disk".to_owned(),
            }
        );
    }
}
