//! Fields and annotations of a NodePool that are accepted and have no effect: said, never silent.

use std::collections::BTreeMap;

use remora_api::labels;
use remora_api::node_pool::{
    InPlaceUpgrade, NodePoolManagement, NodePoolPlatform, NodePoolSpec, OsImageStream,
    ReplaceUpgrade, RollingUpdate,
};

/// Annotations of HyperShift's NodePools that this version does not act on.
const ANNOTATIONS: [&str; 3] = [
    labels::HEALTH_CHECK_TIMEOUT,
    labels::HEALTH_CHECK_NODE_STARTUP_TIMEOUT,
    labels::HEALTH_CHECK_MAX_UNHEALTHY,
];

/// Notes about the fields and annotations that are set and have no effect, those apart that conditions of their own tell of.
pub(super) fn notes(spec: &NodePoolSpec, annotations: &BTreeMap<String, String>) -> Vec<String> {
    // Every field is named, so that a new one is either read or told.
    let NodePoolSpec {
        // Read.
        cluster_name: _,
        release: _,
        replicas: _,
        node_drain_timeout: _,
        node_labels: _,
        taints: _,
        paused_until: _,
        // The type is refused where it is another one; the rest makes the machines' template, which names its fields.
        platform: NodePoolPlatform { platform_type: _, kubevirt: _ },
        // Refused where it asks for another than amd64.
        arch: _,
        // Told in AutoscalingEnabled.
        auto_scaling: _,
        // Told here.
        management,
        config,
        tuning_config,
        node_volume_detach_timeout,
        os_image_stream,
    } = spec;
    let is_os_chosen =
        os_image_stream.as_ref().is_some_and(|OsImageStream { name }| name.is_some());
    let fields = [
        (!config.is_empty(), "config", "has no effect: nodes have no Ignition"),
        (
            !tuning_config.is_empty(),
            "tuningConfig",
            "has no effect: nodes have no OpenShift operators",
        ),
        (is_os_chosen, "osImageStream", "has no effect: the release decides the nodes' disk"),
        (
            node_volume_detach_timeout.is_some(),
            "nodeVolumeDetachTimeout",
            "has no effect: a drained machine is deleted without waiting for its volumes to be detached",
        ),
    ];
    let set = fields.into_iter().filter(|(is_set, _, _)| *is_set);
    let mut notes: Vec<String> = set.map(|(_, field, why)| format!("spec.{field} {why}")).collect();
    notes.extend(of_management(management));
    notes.extend(
        annotations
            .keys()
            .filter(|key| ANNOTATIONS.contains(&key.as_str()))
            .map(|key| format!("annotation {key} has no effect: unhealthy nodes are not replaced")),
    );
    notes
}

fn of_management(management: &NodePoolManagement) -> Option<String> {
    let NodePoolManagement {
        // Refused where it is InPlace.
        upgrade_type: _,
        replace:
            ReplaceUpgrade {
                strategy: _,
                rolling_update: None | Some(RollingUpdate { max_unavailable: _, max_surge: _ }),
            },
        in_place,
        // Told in AutorepairEnabled.
        auto_repair: _,
    } = management;
    in_place.as_ref().map(|InPlaceUpgrade { max_unavailable: _ }| {
        "spec.management.inPlace has no effect: nodes are not changed where they are".to_owned()
    })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn told(changes: &serde_json::Value, annotations: &[&str]) -> Vec<String> {
        let mut spec = json!({
            "clusterName": "cluster-a",
            "release": {"image": "registry.example/release:1.35.4"},
            "platform": {"type": "KubeVirt", "kubevirt": {}},
            "management": {"upgradeType": "Replace"},
        });
        let spec = spec.as_object_mut().unwrap();
        spec.extend(changes.as_object().unwrap().clone());
        let spec = serde_json::from_value(json!(spec)).unwrap();
        let annotations =
            annotations.iter().map(|key| ((*key).to_owned(), "1".to_owned())).collect();
        notes(&spec, &annotations)
    }

    #[test]
    fn when_everything_that_is_set_has_an_effect_nothing_is_told() {
        let changes = json!({
            "replicas": 3, "nodeDrainTimeout": "5m", "nodeLabels": {"a": "b"},
            "taints": [{"key": "a", "effect": "NoSchedule"}], "osImageStream": {},
        });
        assert_eq!(told(&changes, &[labels::VM_JSON_PATCH, "example.com/own"]), [""; 0]);
    }

    #[test]
    fn when_everything_without_effect_is_set_each_field_is_told() {
        let changes = json!({
            "config": [{"name": "a"}], "tuningConfig": [{"name": "b"}],
            "osImageStream": {"name": "rhel-10"}, "nodeVolumeDetachTimeout": "5m",
            "management": {"upgradeType": "InPlace", "inPlace": {"maxUnavailable": 2}},
        });
        insta::assert_yaml_snapshot!(told(&changes, &ANNOTATIONS));
    }
}
