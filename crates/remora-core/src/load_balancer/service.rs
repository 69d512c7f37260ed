//! The hosting Service.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::{Service, ServicePort, ServiceSpec};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;
use remora_api::labels;

use super::{Cluster, is_local, label_value, node_port};
use crate::expose::slices::SKIP_MIRROR;

/// Annotations of a hosted Service that its hosting Service gets: these, or all that begin so where an entry ends with
/// a slash. They choose among what the hosting cluster gives to everybody. Nothing is listed by which a tenant could
/// claim a name (external-dns) or change how the hosting cluster is built (cloud controllers).
pub const COPIED_ANNOTATIONS: [&str; 2] = ["metallb.io/", "metallb.universe.tf/"];

/// Longest name that cloud providers give (`cloudprovider.DefaultLoadBalancerName`).
const NAME_LENGTH: usize = 32;

/// Name of the Service that serves a hosted Service: `a` and its UID without dashes, 32 characters in all.
pub fn service_name(hosted_uid: &str) -> String {
    let digits = hosted_uid.chars().filter(|character| *character != '-');
    std::iter::once('a').chain(digits).take(NAME_LENGTH).collect()
}

/// Builds the hosting Service.
///
/// `externalIPs` are never copied: with them, a tenant would draw traffic that is meant for others.
pub(super) fn desired_service(
    cluster: &Cluster,
    hosted: &Service,
    ports: &[&ServicePort],
) -> Service {
    let spec = hosted.spec.clone().unwrap_or_default();
    // Where both families are preferred, the hosting cluster may have one: naming two would be refused there.
    let prefers_two = spec.ip_family_policy.as_deref() == Some("PreferDualStack");
    Service {
        metadata: metadata(cluster, hosted),
        spec: Some(ServiceSpec {
            type_: Some("LoadBalancer".to_owned()),
            external_traffic_policy: spec.external_traffic_policy,
            selector: (!is_local(hosted)).then(|| selector(cluster)),
            ports: Some(ports.iter().map(|port| service_port(port)).collect()),
            load_balancer_ip: spec.load_balancer_ip,
            load_balancer_source_ranges: spec.load_balancer_source_ranges,
            session_affinity: spec.session_affinity,
            session_affinity_config: spec.session_affinity_config,
            ip_families: spec.ip_families.filter(|_| !prefers_two),
            ip_family_policy: spec.ip_family_policy,
            ..ServiceSpec::default()
        }),
        status: None,
    }
}

fn metadata(cluster: &Cluster, hosted: &Service) -> ObjectMeta {
    let namespace = hosted.metadata.namespace.clone().unwrap_or_default();
    let name = hosted.metadata.name.clone().unwrap_or_default();
    let mut annotations: BTreeMap<String, String> = hosted
        .metadata
        .annotations
        .iter()
        .flatten()
        .filter(|(key, _)| is_copied(key))
        .map(|(key, value)| (key.clone(), value.clone()))
        .collect();
    annotations.insert(labels::HOSTED_SERVICE.to_owned(), format!("{namespace}/{name}"));
    let labels = [
        (labels::MANAGED_BY, labels::FIELD_MANAGER.to_owned()),
        (labels::INFRA_ID, cluster.infra_id.clone()),
        (labels::CAPI_CLUSTER_NAME, cluster.infra_id.clone()),
        (labels::TENANT_SERVICE_NAMESPACE, label_value(&namespace)),
        (labels::TENANT_SERVICE_NAME, label_value(&name)),
        (SKIP_MIRROR, "true".to_owned()),
    ];
    ObjectMeta {
        namespace: Some(cluster.control_plane_namespace.clone()),
        name: Some(service_name(hosted.metadata.uid.as_deref().unwrap_or_default())),
        labels: Some(labels.map(|(key, value)| (key.to_owned(), value)).into()),
        annotations: Some(annotations),
        ..ObjectMeta::default()
    }
}

fn is_copied(annotation: &str) -> bool {
    COPIED_ANNOTATIONS.iter().any(|listed| {
        if listed.ends_with('/') { annotation.starts_with(listed) } else { annotation == *listed }
    })
}

fn selector(cluster: &Cluster) -> BTreeMap<String, String> {
    BTreeMap::from([
        (labels::CAPI_CLUSTER_NAME.to_owned(), cluster.infra_id.clone()),
        (labels::CAPI_ROLE.to_owned(), labels::CAPI_ROLE_WORKER.to_owned()),
    ])
}

fn service_port(port: &ServicePort) -> ServicePort {
    ServicePort {
        name: port.name.clone(),
        port: port.port,
        protocol: port.protocol.clone(),
        app_protocol: port.app_protocol.clone(),
        target_port: node_port(port).map(IntOrString::Int),
        node_port: None,
    }
}
