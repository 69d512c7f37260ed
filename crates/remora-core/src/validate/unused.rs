//! Fields that are accepted and have no effect: said, never silent.

use remora_api::hosted_cluster::{
    ClusterConfiguration, HostedClusterSpec, NetworkType, ServiceType,
};

/// Notes about the fields that are set and have no effect.
pub(super) fn notes(spec: &HostedClusterSpec) -> Vec<String> {
    let mut notes: Vec<String> = services(spec).into_iter().collect();
    notes.extend(network(spec));
    let openshift = "belongs to OpenShift and has no effect";
    let fields = [
        (spec.update_service.is_some(), "updateService", openshift),
        (spec.channel.is_some(), "channel", openshift),
        (spec.operator_configuration.is_some(), "operatorConfiguration", openshift),
        (
            !spec.capabilities.enabled.is_empty() || !spec.capabilities.disabled.is_empty(),
            "capabilities",
            openshift,
        ),
        (spec.monitoring.is_some(), "monitoring", openshift),
        (spec.autoscaling.is_some(), "autoscaling", "has no effect yet"),
        (!spec.image_content_sources.is_empty(), "imageContentSources", "has no effect yet"),
        (spec.additional_trust_bundle.is_some(), "additionalTrustBundle", "has no effect yet"),
    ];
    notes.extend(
        fields
            .into_iter()
            .filter(|(is_set, _, _)| *is_set)
            .map(|(_, field, why)| format!("spec.{field} {why}")),
    );
    notes.extend(spec.configuration.as_ref().map(configuration).unwrap_or_default());
    notes
}

fn services(spec: &HostedClusterSpec) -> Option<String> {
    let unused: Vec<&str> = spec
        .services
        .iter()
        .filter(|mapping| match mapping.service {
            ServiceType::ApiServer | ServiceType::Konnectivity => false,
            ServiceType::OAuthServer
            | ServiceType::Oidc
            | ServiceType::Ignition
            | ServiceType::OvnSbDb => true,
        })
        .map(|mapping| mapping.service.as_str())
        .collect();
    match unused.as_slice() {
        [] => None,
        [one] => Some(format!("spec.services: {one} is OpenShift's and is not published")),
        [_, _, ..] => Some(format!(
            "spec.services: {} are OpenShift's and are not published",
            unused.join(", ")
        )),
    }
}

fn network(spec: &HostedClusterSpec) -> Option<String> {
    match spec.networking.network_type {
        NetworkType::Other => None,
        network
        @ (NetworkType::OvnKubernetes | NetworkType::OpenShiftSdn | NetworkType::Calico) => {
            Some(format!("spec.networking.networkType {network}: the pod network is flannel"))
        }
    }
}

fn configuration(configuration: &ClusterConfiguration) -> Vec<String> {
    let ClusterConfiguration {
        api_server,
        authentication,
        // Read: feature gates and the node port range.
        feature_gate: _,
        image,
        ingress,
        network: _,
        oauth,
        operatorhub,
        scheduler,
        proxy,
    } = configuration;
    [
        (api_server.is_some(), "apiServer"),
        (authentication.is_some(), "authentication"),
        (image.is_some(), "image"),
        (ingress.is_some(), "ingress"),
        (oauth.is_some(), "oauth"),
        (operatorhub.is_some(), "operatorhub"),
        (scheduler.is_some(), "scheduler"),
        (proxy.is_some(), "proxy"),
    ]
    .into_iter()
    .filter(|(is_set, _)| *is_set)
    .map(|(_, field)| format!("spec.configuration.{field} has no effect yet"))
    .collect()
}
