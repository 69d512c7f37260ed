//! HostedCluster: a Kubernetes cluster whose control plane runs as pods of the hosting cluster.

mod autoscaling;
mod configuration;
mod etcd;
mod networking;
mod operators;
mod platform;
mod security;
mod services;
mod status;

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::Toleration;
use kube::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

pub use autoscaling::*;
pub use configuration::*;
pub use etcd::*;
pub use networking::*;
pub use operators::*;
pub use platform::*;
pub use security::*;
pub use services::*;
pub use status::*;

use crate::schema::{
    DNS_LABEL, DOMAIN_OR_EMPTY, IMAGE, PAUSED_UNTIL, PAUSED_UNTIL_MESSAGE, immutable,
    immutable_once_filled, rule,
};
use crate::word::words;

/// Name of an object in the same namespace.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[schemars(extend("x-kubernetes-map-type" = "atomic"))]
pub struct LocalObjectReference {
    /// Name of the object.
    #[serde(default)]
    pub name: String,
}

impl LocalObjectReference {
    /// Refers to the object of that name.
    pub fn new(name: impl Into<String>) -> Self {
        Self { name: name.into() }
    }
}

/// A release: the image whose payload names the images of all components.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Release {
    /// Image reference of the release payload.
    #[schemars(length(min = 1, max = 253))]
    #[schemars(extend("x-kubernetes-validations" = [rule(
        IMAGE,
        "Image must start with a word character (letters, digits, or underscores) and contain no white spaces",
    )]))]
    pub image: String,
}

words! {
    /// How many replicas run of what can have several.
    pub enum AvailabilityPolicy {
        /// Several replicas, spread over hosts.
        HighlyAvailable => "HighlyAvailable",
        /// One replica.
        SingleReplica => "SingleReplica",
    }
}

words! {
    /// Where catalogs of OLM run (OpenShift only).
    pub enum OlmCatalogPlacement {
        /// Beside the control plane.
        Management => "management",
        /// Inside the hosted cluster.
        Guest => "guest",
    }
}

/// Registries that hold copies of another registry's images.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ImageContentSource {
    /// Repository that image references name.
    #[schemars(length(max = 255))]
    pub source: String,
    /// Repositories that hold the same images.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 255), inner(length(max = 255)))]
    #[schemars(extend("x-kubernetes-list-type" = "set"))]
    pub mirrors: Vec<String>,
}

/// What a HostedCluster should be.
#[derive(CustomResource, Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[kube(
    group = "hypershift.openshift.io",
    version = "v1beta1",
    kind = "HostedCluster",
    plural = "hostedclusters",
    shortname = "hc",
    shortname = "hcs",
    category = "remora",
    namespaced,
    status = "HostedClusterStatus",
    derive = "PartialEq",
    doc = "HostedCluster is a Kubernetes cluster whose control plane runs as pods of the hosting cluster.",
    printcolumn(
        name = "Version",
        type_ = "string",
        json_path = r#".status.version.history[?(@.state=="Completed")].version"#,
        description = "Version"
    ),
    printcolumn(
        name = "CP Version",
        type_ = "string",
        json_path = r#".status.controlPlaneVersion.history[?(@.state=="Completed")].version"#,
        description = "Control Plane Version"
    ),
    printcolumn(
        name = "KubeConfig",
        type_ = "string",
        json_path = ".status.kubeconfig.name",
        description = "KubeConfig Secret"
    ),
    printcolumn(
        name = "Progress",
        type_ = "string",
        json_path = r#".status.version.history[?(@.state!="")].state"#,
        description = "Progress"
    ),
    printcolumn(
        name = "Available",
        type_ = "string",
        json_path = r#".status.conditions[?(@.type=="Available")].status"#,
        description = "Available"
    ),
    printcolumn(
        name = "Progressing",
        type_ = "string",
        json_path = r#".status.conditions[?(@.type=="Progressing")].status"#,
        description = "Progressing"
    ),
    printcolumn(
        name = "Message",
        type_ = "string",
        json_path = r#".status.conditions[?(@.type=="Available")].message"#,
        description = "Message"
    ),
    printcolumn(
        name = "CP Progress",
        type_ = "string",
        json_path = ".status.controlPlaneVersion.history[0].state",
        description = "Control Plane Progress",
        priority = 1
    ),
    printcolumn(
        name = "DP Progress",
        type_ = "string",
        json_path = ".status.version.history[0].state",
        description = "Data Plane Progress",
        priority = 1
    )
)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("x-kubernetes-validations" = spec_rules()))]
pub struct HostedClusterSpec {
    /// The release that the cluster should run.
    pub release: Release,
    /// A release for the control plane's components only, unless it is the same as `release`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub control_plane_release: Option<Release>,
    /// RFC 4122 UUID of the cluster; generated when unset.
    #[serde(rename = "clusterID", skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 36, max = 36))]
    #[schemars(extend("x-kubernetes-validations" = [
        rule(
            "self.matches('[a-fA-F0-9]{8}-[a-fA-F0-9]{4}-[a-fA-F0-9]{4}-[a-fA-F0-9]{4}-[a-fA-F0-9]{12}')",
            "clusterID must be an RFC4122 UUID value (xxxxxxxx-xxxx-xxxx-xxxx-xxxxxxxxxxxx in hexadecimal digits)",
        ),
        immutable_once_filled("clusterID"),
    ]))]
    pub cluster_id: Option<String>,
    /// Name that marks the cluster's objects in the infrastructure; generated when unset.
    #[serde(rename = "infraID", skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 253))]
    #[schemars(extend("x-kubernetes-validations" = [
        rule(
            DNS_LABEL,
            "infraID must consist of lowercase alphanumeric characters or '-', start and end with an alphanumeric character, and be between 1 and 253 characters",
        ),
        immutable_once_filled("infraID"),
    ]))]
    pub infra_id: Option<String>,
    /// URL of the service that knows about updates (OpenShift only).
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(extend("x-kubernetes-validations" = [rule("isURL(self)", "updateService must be a valid absolute URL")]))]
    pub update_service: Option<String>,
    /// Channel of updates (OpenShift only).
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 100))]
    pub channel: Option<String>,
    /// Where the nodes run.
    pub platform: PlatformSpec,
    /// Another DNS name of the API server, for which a custom kubeconfig is made.
    #[serde(rename = "kubeAPIServerDNSName", skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 253))]
    #[schemars(extend("x-kubernetes-validations" = [rule(
        DOMAIN_OR_EMPTY,
        "kubeAPIServerDNSName must be a valid URL name (e.g., api.example.com)",
    )]))]
    pub kube_api_server_dns_name: Option<String>,
    /// Replicas of the control plane's components.
    #[serde(default = "highly_available")]
    #[schemars(extend("x-kubernetes-validations" = [immutable("ControllerAvailabilityPolicy")]))]
    pub controller_availability_policy: AvailabilityPolicy,
    /// Replicas of what runs inside the hosted cluster.
    #[serde(default = "single_replica")]
    pub infrastructure_availability_policy: AvailabilityPolicy,
    /// DNS of the cluster.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub dns: Option<DnsSpec>,
    /// Networks of the cluster.
    #[serde(default)]
    pub networking: ClusterNetworking,
    /// Bounds and manners of the cluster autoscaler.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub autoscaling: Option<ClusterAutoscaling>,
    /// The datastore.
    #[serde(default)]
    pub etcd: EtcdSpec,
    /// How each service of the control plane is published.
    #[schemars(length(max = 6))]
    #[schemars(extend("x-kubernetes-list-type" = "atomic"))]
    pub services: Vec<ServicePublishingStrategyMapping>,
    /// Secret with the registries' credentials, key `.dockerconfigjson`.
    pub pull_secret: LocalObjectReference,
    /// Secret with the SSH key of the nodes, key `id_rsa.pub`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ssh_key: Option<LocalObjectReference>,
    /// Issuer of service account tokens.
    #[serde(rename = "issuerURL", default = "default_issuer_url")]
    #[schemars(length(max = 255))]
    #[schemars(extend("x-kubernetes-validations" = [
        immutable("issuerURL"),
        rule("isURL(self)", "issuerURL must be a valid absolute URL"),
    ]))]
    pub issuer_url: String,
    /// Secret with the key that signs service account tokens, key `key`; generated when unset.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub service_account_signing_key: Option<LocalObjectReference>,
    /// Configuration of the hosted cluster, as OpenShift's config API has it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub configuration: Option<ClusterConfiguration>,
    /// Configuration of OpenShift's operators (OpenShift only).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub operator_configuration: Option<OperatorConfiguration>,
    /// Secret with the kubeconfig of the audit webhook, key `webhook-kubeconfig`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub audit_webhook: Option<LocalObjectReference>,
    /// Registries that hold copies of images.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 255))]
    pub image_content_sources: Vec<ImageContentSource>,
    /// ConfigMap with more certificate authorities, key `ca-bundle.crt`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub additional_trust_bundle: Option<LocalObjectReference>,
    /// Encryption of what etcd stores.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub secret_encryption: Option<SecretEncryptionSpec>,
    /// FIPS mode of the nodes (OpenShift only).
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(extend("x-kubernetes-validations" = [immutable("fips")]))]
    pub fips: Option<bool>,
    /// Stops the reconciliation: a time (RFC 3339) or `true`.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 4, max = 35))]
    #[schemars(extend("x-kubernetes-validations" = [rule(PAUSED_UNTIL, PAUSED_UNTIL_MESSAGE)]))]
    pub paused_until: Option<String>,
    /// Where catalogs of OLM run (OpenShift only).
    #[serde(rename = "olmCatalogPlacement", default = "default_catalog_placement")]
    #[schemars(extend("x-kubernetes-validations" = [immutable("OLMCatalogPlacement")]))]
    pub olm_catalog_placement: OlmCatalogPlacement,
    /// Hosts on which the control plane's pods may run.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    #[schemars(extend("x-kubernetes-validations" = [rule("size(self) <= 20", "nodeSelector map can have at most 20 entries")]))]
    pub node_selector: BTreeMap<String, String>,
    /// Tolerations of the control plane's pods.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 25))]
    pub tolerations: Vec<Toleration>,
    /// Labels of the control plane's pods.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    #[schemars(extend("maxProperties" = 20))]
    pub labels: BTreeMap<String, String>,
    /// Optional parts of the cluster (OpenShift only).
    #[serde(default)]
    pub capabilities: Capabilities,
    /// Metrics of the control plane (OpenShift only).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub monitoring: Option<MonitoringSpec>,
}

impl HostedCluster {
    /// The rules that look at more than the spec. `derive` cannot place them: see [`crate::crds`].
    pub(crate) fn object_rules() -> serde_json::Value {
        serde_json::json!([
            rule(
                "!has(oldSelf.spec) || !has(oldSelf.spec.infraID) || (has(self.spec) && has(self.spec.infraID))",
                "infraID cannot be removed once set",
            ),
            rule(
                "!has(oldSelf.spec) || !has(oldSelf.spec.clusterID) || (has(self.spec) && has(self.spec.clusterID))",
                "clusterID cannot be removed once set",
            ),
        ])
    }
}

fn spec_rules() -> serde_json::Value {
    serde_json::json!([
        rule(
            "self.platform.type == 'IBMCloud' ? size(self.services) >= 3 : size(self.services) >= 4",
            "spec.services in body should have at least 4 items or 3 for IBMCloud",
        ),
        rule(
            r#"self.platform.type != "IBMCloud" ? self.services == oldSelf.services : true"#,
            "Services is immutable. Changes might result in unpredictable and disruptive behavior.",
        ),
        rule(
            "has(self.issuerURL) || !has(self.serviceAccountSigningKey)",
            "If serviceAccountSigningKey is set, issuerURL must be set",
        ),
        rule(
            r#"!self.services.exists(s, s.service == 'APIServer' && has(s.servicePublishingStrategy.loadBalancer) && has(s.servicePublishingStrategy.loadBalancer.hostname) && s.servicePublishingStrategy.loadBalancer.hostname != "" && has(self.configuration) && has(self.configuration.apiServer) && has(self.configuration.apiServer.servingCerts) && has(self.configuration.apiServer.servingCerts.namedCertificates) && self.configuration.apiServer.servingCerts.namedCertificates.exists(cert, has(cert.names) && cert.names.exists(n, n == s.servicePublishingStrategy.loadBalancer.hostname)))"#,
            "APIServer loadBalancer hostname cannot be in ClusterConfiguration.apiserver.servingCerts.namedCertificates[]",
        ),
        rule(
            "!has(self.operatorConfiguration) || !has(self.operatorConfiguration.clusterNetworkOperator) || !has(self.operatorConfiguration.clusterNetworkOperator.disableMultiNetwork) || !self.operatorConfiguration.clusterNetworkOperator.disableMultiNetwork || self.networking.networkType == 'Other'",
            "disableMultiNetwork can only be set to true when networkType is 'Other'",
        ),
        rule(
            "self.networking.networkType == 'OVNKubernetes' || !has(self.operatorConfiguration) || !has(self.operatorConfiguration.clusterNetworkOperator) || !has(self.operatorConfiguration.clusterNetworkOperator.ovnKubernetesConfig)",
            "ovnKubernetesConfig is forbidden when networkType is not OVNKubernetes",
        ),
        rule(
            "!has(oldSelf.secretEncryption) || has(self.secretEncryption)",
            "secretEncryption cannot be removed once configured",
        ),
    ])
}

fn highly_available() -> AvailabilityPolicy {
    AvailabilityPolicy::HighlyAvailable
}

fn single_replica() -> AvailabilityPolicy {
    AvailabilityPolicy::SingleReplica
}

fn default_catalog_placement() -> OlmCatalogPlacement {
    OlmCatalogPlacement::Management
}

fn default_issuer_url() -> String {
    "https://kubernetes.default.svc".to_owned()
}
