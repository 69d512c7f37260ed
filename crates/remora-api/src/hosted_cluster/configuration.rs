//! Configuration of the hosted cluster: the parts of OpenShift's config API that a HostedCluster embeds.
//!
//! Fields that Remora reads are typed. The rest is kept as it was written, so that manifests
//! survive a round trip, and so that validation can say what is not used.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::schema::any_object;

/// Fields of an embedded spec that Remora does not read.
pub type OtherFields = BTreeMap<String, Value>;

/// Configuration of the hosted cluster, one embedded spec for each of OpenShift's config kinds.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ClusterConfiguration {
    /// The API server.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub api_server: Option<ApiServerConfiguration>,
    /// Authentication (OpenShift only).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "any_object")]
    pub authentication: Option<Value>,
    /// Feature gates.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "any_object")]
    pub feature_gate: Option<Value>,
    /// Registries that images may come from (OpenShift only).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "any_object")]
    pub image: Option<Value>,
    /// Ingress (OpenShift only).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "any_object")]
    pub ingress: Option<Value>,
    /// The network.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub network: Option<NetworkConfiguration>,
    /// The OAuth server (OpenShift only).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub oauth: Option<OAuthConfiguration>,
    /// Sources of OLM's catalogs (OpenShift only).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "any_object")]
    pub operatorhub: Option<Value>,
    /// The scheduler (OpenShift only).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "any_object")]
    pub scheduler: Option<Value>,
    /// The proxy by which nodes and control plane reach the outside.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub proxy: Option<ProxyConfiguration>,
}

/// The API server's configuration.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ApiServerConfiguration {
    /// Certificates that it serves beside its own.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub serving_certs: Option<ServingCerts>,
    /// Fields that Remora does not read.
    #[serde(flatten)]
    pub other: OtherFields,
}

/// Certificates that the API server serves beside its own.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ServingCerts {
    /// Certificates by the names that clients ask for.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 32), extend("x-kubernetes-list-type" = "atomic"))]
    pub named_certificates: Vec<NamedCertificate>,
}

/// A certificate and the names that clients ask for.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct NamedCertificate {
    /// Names; those of the certificate when empty.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 64), extend("x-kubernetes-list-type" = "atomic"))]
    pub names: Vec<String>,
    /// Secret with the certificate.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub serving_certificate: Option<SecretNameReference>,
}

/// Name of a Secret.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct SecretNameReference {
    /// Name of the Secret.
    pub name: String,
}

/// The network's configuration.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct NetworkConfiguration {
    /// Ports that Services of type NodePort may have, `<first>-<last>`.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(regex(
        pattern = r"^([0-9]{1,4}|[1-5][0-9]{4}|6[0-4][0-9]{3}|65[0-4][0-9]{2}|655[0-2][0-9]|6553[0-5])-([0-9]{1,4}|[1-5][0-9]{4}|6[0-4][0-9]{3}|65[0-4][0-9]{2}|655[0-2][0-9]|6553[0-5])$"
    ))]
    pub service_node_port_range: Option<String>,
    /// Fields that Remora does not read.
    #[serde(flatten)]
    pub other: OtherFields,
}

/// The OAuth server's configuration.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("x-kubernetes-validations" = [crate::schema::rule(
    "!has(self.tokenConfig) || !has(self.tokenConfig.accessTokenInactivityTimeout) || duration(self.tokenConfig.accessTokenInactivityTimeout).getSeconds() >= 300",
    "spec.configuration.oauth.tokenConfig.accessTokenInactivityTimeout minimum acceptable token timeout value is 300 seconds",
)]))]
pub struct OAuthConfiguration {
    /// Life of tokens.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub token_config: Option<TokenConfiguration>,
    /// Fields that Remora does not read.
    #[serde(flatten)]
    pub other: OtherFields,
}

/// Life of OAuth tokens.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct TokenConfiguration {
    /// Time without use after which a token ends.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 64))]
    pub access_token_inactivity_timeout: Option<String>,
    /// Fields that Remora does not read.
    #[serde(flatten)]
    pub other: OtherFields,
}

/// The proxy's configuration.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ProxyConfiguration {
    /// Proxy of HTTP requests.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub http_proxy: Option<String>,
    /// Proxy of HTTPS requests.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub https_proxy: Option<String>,
    /// Hosts and networks that are reached without a proxy, separated by commas.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub no_proxy: Option<String>,
    /// Fields that Remora does not read.
    #[serde(flatten)]
    pub other: OtherFields,
}
