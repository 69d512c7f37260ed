//! Annotations of a HostedCluster: which are read, which are not, and what is wrong with those that are.

use std::collections::BTreeMap;

use remora_api::labels;

use crate::control_plane::ResourceRequest;

/// Containers whose requests can be replaced.
const CONTAINERS: [&str; 5] = [
    "etcd.etcd",
    "kube-apiserver.kube-apiserver",
    "kube-apiserver.konnectivity-server",
    "kube-controller-manager.kube-controller-manager",
    "kube-scheduler.kube-scheduler",
];

/// Annotations of HyperShift that this version does not act on.
const WITHOUT_EFFECT: [&str; 13] = [
    labels::HEALTH_CHECK_TIMEOUT,
    labels::HEALTH_CHECK_NODE_STARTUP_TIMEOUT,
    labels::HEALTH_CHECK_MAX_UNHEALTHY,
    labels::FORCE_UPGRADE_TO,
    labels::DESTROY_GRACE_PERIOD,
    labels::CLEANUP_CLOUD_RESOURCES,
    labels::DISABLE_MACHINE_MANAGEMENT,
    labels::IMAGE_OVERRIDES,
    labels::ALLOW_UNSUPPORTED_KUBEVIRT,
    labels::RESTORED_FROM_BACKUP,
    labels::CLUSTER_SIZE_OVERRIDE,
    labels::CONTROL_PLANE_OPERATOR_IMAGE,
    labels::CAPI_PROVIDER_IMAGE,
];

type Annotation<'a> = (&'a String, &'a String);

/// Notes about annotations that are set and have no effect, wholly or in part.
pub(super) fn notes<'a>(annotations: impl Iterator<Item = Annotation<'a>>) -> Vec<String> {
    annotations.flat_map(note).collect()
}

fn note((key, value): Annotation<'_>) -> Vec<String> {
    if WITHOUT_EFFECT.contains(&key.as_str()) {
        return vec![format!("annotation {key} has no effect yet")];
    }
    let Some(container) = container(key) else { return Vec::new() };
    if !CONTAINERS.contains(&container) {
        let known = CONTAINERS.join(", ");
        return vec![format!("annotation {key} names no container: there are {known}")];
    }
    parts(value)
        .filter_map(Result::err)
        .map(|part| {
            format!("annotation {key}: {part:?} is neither cpu=<quantity> nor memory=<quantity>")
        })
        .collect()
}

/// Requests of the annotations `resource-request-override.hypershift.openshift.io/<workload>.<container>`.
pub(super) fn resource_requests<'a>(
    annotations: impl Iterator<Item = Annotation<'a>>,
) -> BTreeMap<String, ResourceRequest> {
    annotations
        .filter_map(|(key, value)| {
            let mut request = ResourceRequest::default();
            for (resource, quantity) in parts(value).filter_map(Result::ok) {
                match resource {
                    Resource::Cpu => request.cpu = Some(quantity.to_owned()),
                    Resource::Memory => request.memory = Some(quantity.to_owned()),
                }
            }
            Some((container(key)?.to_owned(), request))
        })
        .collect()
}

enum Resource {
    Cpu,
    Memory,
}

fn container(key: &str) -> Option<&str> {
    key.strip_prefix(labels::RESOURCE_REQUEST_OVERRIDE_PREFIX)?.strip_prefix('/')
}

/// The parts of a request, or the text of one that is none.
fn parts(value: &str) -> impl Iterator<Item = Result<(Resource, &str), &str>> {
    value.split(',').map(|part| match part.split_once('=') {
        Some(("cpu", quantity)) if is_quantity(quantity) => Ok((Resource::Cpu, quantity)),
        Some(("memory", quantity)) if is_quantity(quantity) => Ok((Resource::Memory, quantity)),
        Some(_) | None => Err(part),
    })
}

/// Whether a text is a Kubernetes quantity that a container can request: digits, at most one dot, and a suffix.
fn is_quantity(text: &str) -> bool {
    const SUFFIXES: [&str; 13] =
        ["", "m", "k", "M", "G", "T", "P", "E", "Ki", "Mi", "Gi", "Ti", "Pi"];
    let end = text.find(|letter: char| !letter.is_ascii_digit() && letter != '.');
    let (number, suffix) = text.split_at(end.unwrap_or(text.len()));
    SUFFIXES.contains(&suffix)
        && number.bytes().any(|byte| byte.is_ascii_digit())
        && number.bytes().filter(|byte| *byte == b'.').count() <= 1
}

#[cfg(test)]
mod tests {
    use super::*;

    fn told(annotations: &[(&str, &str)]) -> Vec<String> {
        let annotations: BTreeMap<String, String> = annotations
            .iter()
            .map(|(key, value)| ((*key).to_owned(), (*value).to_owned()))
            .collect();
        notes(annotations.iter())
    }

    #[test]
    fn when_an_annotation_has_no_effect_it_is_told() {
        let all: Vec<(&str, &str)> = WITHOUT_EFFECT.iter().map(|key| (*key, "1")).collect();
        let expected: Vec<String> = {
            let mut keys = WITHOUT_EFFECT.to_vec();
            keys.sort_unstable();
            keys.iter().map(|key| format!("annotation {key} has no effect yet")).collect()
        };
        assert_eq!(told(&all), expected);
        assert_eq!(told(&[(labels::RESTART_DATE, "now"), ("example.com/own", "x")]), [""; 0]);
    }

    #[test]
    fn when_a_request_cannot_be_read_its_part_is_told_and_the_others_are_used() {
        let key = "resource-request-override.hypershift.openshift.io/etcd.etcd";
        let other = "resource-request-override.hypershift.openshift.io/etcd.etcdd";
        let annotations = [(key, "cpu=1.5,memory=lots,disk=1Gi"), (other, "cpu=1")];
        insta::assert_yaml_snapshot!(told(&annotations));
        let owned: BTreeMap<String, String> =
            [(key.to_owned(), annotations[0].1.to_owned())].into();
        let request = ResourceRequest { cpu: Some("1.5".to_owned()), memory: None };
        assert_eq!(resource_requests(owned.iter()), [("etcd.etcd".to_owned(), request)].into());
    }

    #[test]
    fn when_a_text_is_read_quantities_are_told_from_others() {
        for text in ["1", "0.5", "100m", "2Gi", "128M"] {
            assert!(is_quantity(text), "{text}");
        }
        for text in ["", "Gi", "1.2.3", "-1", "1 Gi", "1gb", "."] {
            assert!(!is_quantity(text), "{text}");
        }
    }
}
