//! Whole VirtualMachines.

use remora_api::node_pool::KubevirtNodePoolPlatform;
use serde_json::json;

use super::*;
use crate::pool::template::{TemplateSources, VolumeImporter};

const OWNER: MachineOwner<'static> = MachineOwner {
    name: "pool-b-x7k2p",
    control_plane_namespace: "clusters-a",
    infra_id: "a-9q4zt",
    node_pool_namespace: "clusters",
    node_pool: "pool-b",
    template_hash: "c0ffee0123",
    release_version: "1.35.4",
};

fn template(platform: Value, importer: VolumeImporter) -> MachineTemplate {
    let platform: KubevirtNodePoolPlatform = serde_json::from_value(platform).unwrap();
    let sources = TemplateSources {
        release_disk: Some("registry.example/node-disk@sha256:1234"),
        pull_secret: Some("pull-secret"),
        importer,
    };
    MachineTemplate::new(&platform, sources).unwrap()
}

fn everything() -> Value {
    json!({
        "rootVolume": {"type": "Persistent", "persistent": {
            "size": "20Gi", "storageClass": "fast", "accessModes": ["ReadWriteMany"], "volumeMode": "Block",
        }},
        "compute": {"cores": 3, "memory": "5Gi", "qosClass": "Guaranteed"},
        "networkInterfaceMultiqueue": "Disable",
        "additionalNetworks": [{"name": "net-ns/vlan7"}, {"name": "storage"}],
        "nodeSelector": {"zone": "east"},
        "hostDevices": [{"deviceName": "vendor/gpu", "count": 2}, {"deviceName": "vendor/nic"}],
    })
}

#[test]
fn when_a_pool_asks_for_nothing_special_its_machine_runs_from_the_release_disk() {
    let template = template(json!({}), VolumeImporter::Absent);
    insta::assert_yaml_snapshot!(virtual_machine(&OWNER, &template, &[]).unwrap());
}

#[test]
fn when_every_field_is_used_the_machine_has_it() {
    let template = template(everything(), VolumeImporter::Installed);
    insta::assert_yaml_snapshot!(virtual_machine(&OWNER, &template, &[]).unwrap());
}

#[test]
fn when_the_pool_network_is_not_attached_nothing_is_probed_over_it() {
    let platform =
        json!({"attachDefaultNetwork": false, "additionalNetworks": [{"name": "net-ns/vlan7"}]});
    let machine =
        virtual_machine(&OWNER, &template(platform, VolumeImporter::Absent), &[]).unwrap();
    let spec = &machine.data["spec"]["template"]["spec"];
    assert_eq!(
        spec["networks"],
        json!([{"name": "iface1_net-ns-vlan7", "multus": {"networkName": "net-ns/vlan7"}}])
    );
    assert_eq!(
        spec["domain"]["devices"]["interfaces"],
        json!([{"name": "iface1_net-ns-vlan7", "bridge": {}}])
    );
    assert_eq!(spec["readinessProbe"], Value::Null);
}

#[test]
fn when_patches_change_a_machine_its_identity_stays() {
    let template = template(json!({}), VolumeImporter::Absent);
    let patches = [
        r#"[{"op": "replace", "path": "/spec/template/spec/domain/cpu/cores", "value": 7}]"#,
        r#"[{"op": "add", "path": "/metadata/labels", "value": {"name": "mallory", "extra": "yes"}}]"#,
    ];
    let machine = virtual_machine(&OWNER, &template, &patches).unwrap();
    assert_eq!(machine.data["spec"]["template"]["spec"]["domain"]["cpu"]["cores"], 7);
    let labels = machine.metadata.labels.unwrap();
    assert_eq!(labels["name"], "pool-b-x7k2p");
    assert_eq!(labels["extra"], "yes");
}

#[test]
fn when_a_patch_destroys_the_machine_it_is_refused() {
    let template = template(json!({}), VolumeImporter::Absent);
    for patch in [
        r#"[{"op": "replace", "path": "/metadata", "value": 1}]"#,
        r#"[{"op": "remove", "path": "/spec/template"}]"#,
        r#"[{"op": "add", "path": "/spec/template/metadata/labels", "value": []}]"#,
    ] {
        let error = virtual_machine(&OWNER, &template, &[patch]).unwrap_err();
        assert!(matches!(error, PatchError::NoObject(_)), "{error}");
    }
}

#[test]
fn when_neither_pool_nor_release_names_a_disk_there_is_no_template() {
    let sources =
        TemplateSources { release_disk: None, pull_secret: None, importer: VolumeImporter::Absent };
    assert!(MachineTemplate::new(&KubevirtNodePoolPlatform::default(), sources).is_err());
}
