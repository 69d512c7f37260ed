//! Fields and annotations that are accepted and have no effect: said, never silent.

use remora_api::HostedCluster;
use remora_api::hosted_cluster::{
    ClusterConfiguration, HostedClusterSpec, LocalObjectReference, NetworkType,
    OlmCatalogPlacement, ServiceType,
};

use super::annotations;

/// Defaults of `spec.networking.apiServer`, which ask for nothing.
const DEFAULT_ADVERTISE_ADDRESSES: [&str; 2] = ["172.20.0.1", "fd00::1"];
const API_PORT: i32 = 6443;

const OPENSHIFT: &str = "belongs to OpenShift and has no effect";
const NOT_YET: &str = "has no effect yet";

/// Notes about the fields and annotations that are set and have no effect.
pub(super) fn notes(hosted_cluster: &HostedCluster) -> Vec<String> {
    let mut notes = of_spec(&hosted_cluster.spec);
    notes.extend(annotations::notes(hosted_cluster.metadata.annotations.iter().flatten()));
    notes
}

fn of_spec(spec: &HostedClusterSpec) -> Vec<String> {
    // Every field is named, so that a new one is either read or told.
    let HostedClusterSpec {
        // Read.
        release: _,
        control_plane_release: _,
        cluster_id: _,
        infra_id: _,
        kube_api_server_dns_name: _,
        controller_availability_policy: _,
        infrastructure_availability_policy: _,
        services: _,
        pull_secret: _,
        issuer_url: _,
        paused_until: _,
        node_selector: _,
        tolerations: _,
        labels: _,
        // Refused where they ask for something (see `unsupported`).
        service_account_signing_key: _,
        audit_webhook: _,
        secret_encryption: _,
        fips: _,
        // Told here.
        update_service,
        channel,
        platform,
        dns,
        networking,
        autoscaling,
        etcd,
        ssh_key,
        configuration: asked,
        operator_configuration,
        image_content_sources,
        additional_trust_bundle,
        olm_catalog_placement,
        capabilities,
        monitoring,
    } = spec;
    let kubevirt = platform.kubevirt.as_ref();
    let storage = kubevirt.and_then(|kubevirt| kubevirt.storage_driver.as_ref());
    let api_server = networking.api_server.as_ref();
    let managed = etcd.managed.as_ref();
    let is_named = |name: &Option<LocalObjectReference>| {
        name.as_ref().is_some_and(|reference| !reference.name.is_empty())
    };
    let fields = [
        (update_service.is_some(), "updateService", OPENSHIFT),
        (channel.is_some(), "channel", OPENSHIFT),
        (operator_configuration.is_some(), "operatorConfiguration", OPENSHIFT),
        (
            !capabilities.enabled.is_empty() || !capabilities.disabled.is_empty(),
            "capabilities",
            OPENSHIFT,
        ),
        (monitoring.is_some(), "monitoring", OPENSHIFT),
        (*olm_catalog_placement == OlmCatalogPlacement::Guest, "olmCatalogPlacement", OPENSHIFT),
        (autoscaling.is_some(), "autoscaling", NOT_YET),
        (!image_content_sources.is_empty(), "imageContentSources", NOT_YET),
        (is_named(additional_trust_bundle), "additionalTrustBundle", NOT_YET),
        (is_named(ssh_key), "sshKey", "has no effect yet: the key is not put on the nodes"),
        (
            dns.as_ref().is_some_and(|dns| !dns.base_domain.is_empty()),
            "dns",
            "has no effect yet: no name is published under the domain",
        ),
        (
            kubevirt.is_some_and(|kubevirt| kubevirt.base_domain_passthrough == Some(true)),
            "platform.kubevirt.baseDomainPassthrough",
            NOT_YET,
        ),
        (
            storage.is_some(),
            "platform.kubevirt.storageDriver",
            "has no effect yet: no storage driver is installed in the hosted cluster",
        ),
        (
            api_server.is_some_and(|api| {
                api.advertise_address
                    .as_deref()
                    .is_some_and(|address| !DEFAULT_ADVERTISE_ADDRESSES.contains(&address))
            }),
            "networking.apiServer.advertiseAddress",
            "has no effect: nodes and pods reach the API server at its published address",
        ),
        (
            api_server.is_some_and(|api| api.port.is_some_and(|port| port != API_PORT)),
            "networking.apiServer.port",
            "has no effect: nodes and pods reach the API server at its published port",
        ),
        (managed.is_some_and(|etcd| etcd.backup.is_some()), "etcd.managed.backup", NOT_YET),
        (
            managed.is_some_and(|etcd| etcd.scheduling.is_some()),
            "etcd.managed.scheduling",
            "has no effect yet: spec.nodeSelector and spec.tolerations place etcd too",
        ),
    ];
    let mut notes: Vec<String> = services(spec).into_iter().chain(network(spec)).collect();
    let set = fields.into_iter().filter(|(is_set, _, _)| *is_set);
    notes.extend(set.map(|(_, field, why)| format!("spec.{field} {why}")));
    notes.extend(asked.as_ref().map(configuration).unwrap_or_default());
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
        feature_gate,
        image,
        ingress,
        network,
        oauth,
        operatorhub,
        scheduler,
        proxy,
    } = configuration;
    [
        (api_server.is_some(), "apiServer"),
        (authentication.is_some(), "authentication"),
        // `customNoUpgrade` is read.
        (
            feature_gate.as_ref().and_then(|gate| gate.get("featureSet")).is_some_and(|set| {
                set.as_str().is_some_and(|set| !matches!(set, "" | "Default" | "CustomNoUpgrade"))
            }),
            "featureGate.featureSet",
        ),
        // `serviceNodePortRange` is read.
        (
            network.as_ref().is_some_and(|network| !network.other.is_empty()),
            "network apart from serviceNodePortRange",
        ),
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

#[cfg(test)]
mod tests {
    use serde_json::json;

    use crate::validate::testing::hosted_cluster;

    #[test]
    fn when_nothing_is_asked_for_in_vain_only_the_services_and_the_network_are_told() {
        insta::assert_yaml_snapshot!(super::notes(&hosted_cluster(|_| {})));
    }

    #[test]
    fn when_everything_without_effect_is_set_each_field_is_told() {
        let cluster = hosted_cluster(|_| {});
        let mut value = serde_json::to_value(&cluster).unwrap();
        let asked = json!({
            "updateService": "https://updates.example", "channel": "stable",
            "operatorConfiguration": {}, "monitoring": {}, "autoscaling": {},
            "capabilities": { "disabled": ["Console"] }, "olmCatalogPlacement": "guest",
            "imageContentSources": [{ "source": "registry.example" }],
            "additionalTrustBundle": { "name": "bundle" }, "sshKey": { "name": "key" },
            "dns": { "baseDomain": "example.com" },
            "platform": { "type": "KubeVirt", "kubevirt": {
                "baseDomainPassthrough": true, "storageDriver": { "type": "None" },
            } },
            "networking": { "networkType": "Other", "apiServer": {
                "advertiseAddress": "192.0.2.1", "port": 7443,
            } },
            "etcd": { "managementType": "Managed", "managed": {
                "storage": { "type": "PersistentVolume" }, "backup": {}, "scheduling": {},
            } },
            "configuration": {
                "featureGate": { "featureSet": "TechPreviewNoUpgrade" },
                "network": { "externalIP": {} },
                "apiServer": {}, "authentication": {}, "image": {}, "ingress": {}, "oauth": {},
                "operatorhub": {}, "scheduler": {}, "proxy": {},
            },
        });
        let spec = value.get_mut("spec").and_then(serde_json::Value::as_object_mut).unwrap();
        spec.extend(asked.as_object().unwrap().clone());
        insta::assert_yaml_snapshot!(super::notes(&serde_json::from_value(value).unwrap()));
    }
}
