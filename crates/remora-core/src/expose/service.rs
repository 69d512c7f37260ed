//! The hosting side: the Service in the control plane namespace.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::{Service, ServicePort, ServiceSpec};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;
use remora_api::labels;
use sha2::{Digest as _, Sha256};

use super::ClusterView;
use super::allocate::Choice;
use super::hosted::HostedService;
use super::ports::Selected;
use super::slices::SKIP_MIRROR;

/// Longest name of a Service and longest value of a label.
const NAME_LIMIT: usize = 63;
/// Hexadecimal digits of a hash in a shortened name.
const HASH_DIGITS: usize = 10;

/// Annotation of an exposure's Service: hosted node ports whose number was in use, so that another was taken.
const SUBSTITUTED: &str = "remora.dev/substituted-node-ports";
/// Annotation of an exposure's Service: namespace and name of the hosted Service.
const EXPOSED_SERVICE: &str = "remora.dev/exposed-service";
/// Name of the Service that serves an exposure.
///
/// One name per exposure, whatever its length and characters: a name that fits is kept, any other is shortened and
/// gets a hash, under another prefix, so that the two kinds never meet. Neither meets a Service of the control plane.
pub fn service_name(exposure: &str) -> String {
    let plain = format!("expose-{exposure}");
    if plain.len() <= NAME_LIMIT && !exposure.contains('.') {
        return plain;
    }
    let head: String = exposure.chars().map(|c| if c == '.' { '-' } else { c }).collect();
    shortened("exposed-", &head, exposure)
}

/// Value of a label that names an object: its name, shortened where it is too long for a label.
pub(crate) fn label_value(exposure: &str) -> String {
    if exposure.len() <= NAME_LIMIT {
        return exposure.to_owned();
    }
    shortened("", exposure, exposure)
}

/// A name of at most 63 characters: `prefix`, what fits of `head`, and a hash of `whole`.
pub(crate) fn shortened(prefix: &str, head: &str, whole: &str) -> String {
    let digest = Sha256::digest(whole.as_bytes());
    let hash: String = digest.iter().map(|byte| format!("{byte:02x}")).collect();
    let hash: String = hash.chars().take(HASH_DIGITS).collect();
    let room = NAME_LIMIT - prefix.len() - 1 - HASH_DIGITS;
    let head: String = head.chars().take(room).collect();
    format!("{prefix}{}-{hash}", head.trim_end_matches(['-', '.']))
}

/// Which VMs serve.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Backends<'a> {
    /// All of the cluster.
    Cluster,
    /// Those of one NodePool.
    Pool(&'a str),
    /// Those that the operator writes into EndpointSlices: of several NodePools, as a label selector has no "or", or with
    /// ready pods (`externalTrafficPolicy: Local`), which no label tells.
    Listed,
}

impl<'a> Backends<'a> {
    /// The backends that `spec.nodePools` and the hosted Service mean.
    pub(super) fn of(node_pools: &'a [String], hosted: &HostedService) -> Self {
        match node_pools {
            _ if hosted.is_local => Self::Listed,
            [] => Self::Cluster,
            [one] => Self::Pool(one),
            [_, _, ..] => Self::Listed,
        }
    }
}

/// Builds the hosting Service.
pub(super) fn desired_service(
    exposure: (&str, &str),
    cluster: &ClusterView,
    hosted: &HostedService,
    ports: &[(Selected, Choice)],
    backends: Backends<'_>,
) -> Service {
    let (namespace, name) = exposure;
    let annotations = BTreeMap::from([(EXPOSED_SERVICE.to_owned(), hosted.key())]);
    let mut metadata = ObjectMeta {
        namespace: Some(cluster.control_plane_namespace.clone()),
        name: Some(service_name(name)),
        labels: Some(owner_labels(namespace, name, &cluster.infra_id)),
        annotations: Some(annotations),
        ..ObjectMeta::default()
    };
    for (port, choice) in ports {
        if matches!(choice, Choice::Substitute { .. }) {
            note_substitute(&mut metadata, port.target);
        }
    }
    Service {
        metadata,
        spec: Some(ServiceSpec {
            type_: Some("NodePort".to_owned()),
            external_traffic_policy: Some(traffic_policy(hosted).to_owned()),
            selector: selector(&cluster.infra_id, backends),
            ports: Some(ports.iter().map(|(port, choice)| service_port(port, choice)).collect()),
            session_affinity: hosted.session_affinity.clone(),
            session_affinity_config: hosted.session_affinity_config.clone(),
            ..ServiceSpec::default()
        }),
        status: None,
    }
}

/// With `Local` the client's address is kept on both ways: to the VM, and inside to the pod.
fn traffic_policy(hosted: &HostedService) -> &'static str {
    if hosted.is_local { "Local" } else { "Cluster" }
}

fn owner_labels(namespace: &str, name: &str, infra_id: &str) -> BTreeMap<String, String> {
    BTreeMap::from([
        (labels::MANAGED_BY.to_owned(), labels::FIELD_MANAGER.to_owned()),
        (labels::EXPOSURE_NAMESPACE.to_owned(), namespace.to_owned()),
        (labels::EXPOSURE_NAME.to_owned(), label_value(name)),
        (labels::INFRA_ID.to_owned(), infra_id.to_owned()),
        (SKIP_MIRROR.to_owned(), "true".to_owned()),
    ])
}

fn selector(infra_id: &str, backends: Backends<'_>) -> Option<BTreeMap<String, String>> {
    let mut selector = BTreeMap::from([
        (labels::CAPI_CLUSTER_NAME.to_owned(), infra_id.to_owned()),
        (labels::CAPI_ROLE.to_owned(), labels::CAPI_ROLE_WORKER.to_owned()),
    ]);
    match backends {
        Backends::Cluster => {}
        Backends::Pool(pool) => {
            selector.insert(labels::NODE_POOL_NAME.to_owned(), pool.to_owned());
        }
        Backends::Listed => return None,
    }
    Some(selector)
}

fn service_port(port: &Selected, choice: &Choice) -> ServicePort {
    let node_port = match choice {
        Choice::Asked(number) | Choice::Preferred(number) => Some(*number),
        Choice::Substitute { kept, .. } => *kept,
    };
    ServicePort {
        name: Some(port.hosted.hosting_name()),
        port: i32::from(port.hosted.port),
        protocol: Some(port.hosted.protocol.to_string()),
        app_protocol: port.hosted.app_protocol.clone(),
        target_port: Some(IntOrString::Int(i32::from(port.target))),
        node_port: node_port.map(i32::from),
    }
}

/// Takes back the node port of one port, so that the hosting API server chooses one.
pub(super) fn leave_node_port_open(service: &mut Service, port: &Selected) {
    let ports = service.spec.iter_mut().flat_map(|spec| spec.ports.iter_mut().flatten());
    for found in ports.filter(|found| found.name == Some(port.hosted.hosting_name())) {
        found.node_port = None;
    }
    note_substitute(&mut service.metadata, port.target);
}

/// Notes that a hosted node port has another number outside, so that the number is kept.
fn note_substitute(metadata: &mut ObjectMeta, target: u16) {
    let listed = metadata.annotations.get_or_insert_default().entry(SUBSTITUTED.to_owned());
    let listed = listed.or_default();
    if !listed.is_empty() {
        listed.push(',');
    }
    listed.push_str(&target.to_string());
}

/// The node port that an exposure's Service has for a hosted node port now, and whether it is a substitute.
pub(super) fn current_port(own: &Service, port: &Selected) -> (Option<u16>, bool) {
    let Some(spec) = &own.spec else { return (None, false) };
    let is_same = |known: &&ServicePort| {
        super::hosted::protocol(known.protocol.as_deref()) == Some(port.hosted.protocol)
            && known.target_port == Some(IntOrString::Int(i32::from(port.target)))
    };
    let found = spec.ports.iter().flatten().find(is_same);
    let current = found.and_then(|known| known.node_port).and_then(super::hosted::port_number);
    let listed = own.metadata.annotations.as_ref().and_then(|all| all.get(SUBSTITUTED));
    let target = port.target.to_string();
    let is_listed = listed.is_some_and(|list| list.split(',').any(|entry| entry == target));
    (current, is_listed && current.is_some())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_name_that_fits_is_kept_and_another_is_shortened_under_another_prefix() {
        assert_eq!(service_name("petclinic"), "expose-petclinic");
        assert_eq!(service_name("eu.petclinic"), "exposed-eu-petclinic-f9012f5026");
        assert_eq!(service_name(&"n".repeat(253)).len(), NAME_LIMIT);
    }

    proptest! {
        #[test]
        fn names_are_labels_and_meet_only_when_the_exposures_do(
            one in "[a-z0-9]([-.a-z0-9]{0,90}[a-z0-9])?",
            other in "[a-z0-9]([-.a-z0-9]{0,90}[a-z0-9])?",
        ) {
            let name = service_name(&one);
            prop_assert!(name.len() <= NAME_LIMIT && !name.contains('.') && !name.ends_with('-'));
            prop_assert_eq!(name == service_name(&other), one == other);
            let value = label_value(&one);
            prop_assert!(value.len() <= NAME_LIMIT && value.ends_with(|c: char| c.is_ascii_alphanumeric()));
        }
    }
}
