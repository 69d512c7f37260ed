//! How the services of a control plane are published.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::schema::{FQDN, rule};
use crate::word::words;

/// CEL: the value is a host name, an IPv4 or an IPv6 address.
const ADDRESS: &str = r"self.matches('^(([a-zA-Z0-9][-a-zA-Z0-9]*\\.)+[a-zA-Z]{2,}|localhost)$') || self.matches('^((\\d{1,3}\\.){3}\\d{1,3})$') || self.matches('^(([0-9a-fA-F]{1,4}:){7}[0-9a-fA-F]{1,4}|([0-9a-fA-F]{1,4}:){1,7}:|([0-9a-fA-F]{1,4}:){1,6}:[0-9a-fA-F]{1,4}|([0-9a-fA-F]{1,4}:){1,5}(:[0-9a-fA-F]{1,4}){1,2}|([0-9a-fA-F]{1,4}:){1,4}(:[0-9a-fA-F]{1,4}){1,3}|([0-9a-fA-F]{1,4}:){1,3}(:[0-9a-fA-F]{1,4}){1,4}|([0-9a-fA-F]{1,4}:){1,2}(:[0-9a-fA-F]{1,4}){1,5}|[0-9a-fA-F]{1,4}:((:[0-9a-fA-F]{1,4}){1,6})|:((:[0-9a-fA-F]{1,4}){1,7}|:))$')";
const HOSTNAME_MESSAGE: &str = "hostname must be a valid domain name (e.g., example.com)";

words! {
    /// Services of a control plane that are published.
    pub enum ServiceType {
        /// The hosted API server.
        ApiServer => "APIServer",
        /// The OAuth server (OpenShift only).
        OAuthServer => "OAuthServer",
        /// The OIDC documents (no longer published).
        Oidc => "OIDC",
        /// The tunnel from the API server to the nodes.
        Konnectivity => "Konnectivity",
        /// Bootstrap data by Ignition (OpenShift only).
        Ignition => "Ignition",
        /// OVN's southbound database (no longer published).
        OvnSbDb => "OVNSbDb",
    }
}

words! {
    /// Ways to publish a service.
    pub enum PublishingStrategyType {
        /// A Service of type LoadBalancer.
        LoadBalancer => "LoadBalancer",
        /// A Service of type NodePort.
        NodePort => "NodePort",
        /// An OpenShift Route.
        Route => "Route",
        /// Not at all.
        None => "None",
        /// Objects in S3.
        S3 => "S3",
    }
}

/// One service and how it is published.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ServicePublishingStrategyMapping {
    /// The service.
    pub service: ServiceType,
    /// How it is published.
    pub service_publishing_strategy: ServicePublishingStrategy,
}

/// How a service is published.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("x-kubernetes-validations" = [
    rule(
        "self.type == 'NodePort' ? has(self.nodePort) : !has(self.nodePort)",
        "nodePort is required when type is NodePort, and forbidden otherwise",
    ),
    rule(
        "self.type == 'Route' ? !has(self.nodePort) && !has(self.loadBalancer) : !has(self.route)",
        "only route is allowed when type is Route, and forbidden otherwise",
    ),
    rule(
        "self.type == 'LoadBalancer' ? !has(self.nodePort) && !has(self.route) : !has(self.loadBalancer)",
        "only loadBalancer is required when type is LoadBalancer, and forbidden otherwise",
    ),
    rule(
        "self.type == 'None' ? !has(self.nodePort) && !has(self.route) && !has(self.loadBalancer) : true",
        "None does not allowed any configuration for loadBalancer, nodePort, or route",
    ),
    rule(
        "self.type == 'S3' ? !has(self.nodePort) && !has(self.route) && !has(self.loadBalancer) : true",
        "S3 does not allowed any configuration for loadBalancer, nodePort, or route",
    ),
]))]
pub struct ServicePublishingStrategy {
    /// The way.
    #[serde(rename = "type")]
    pub strategy_type: PublishingStrategyType,
    /// Address and port for type `NodePort`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub node_port: Option<NodePortPublishingStrategy>,
    /// Host name for type `LoadBalancer`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub load_balancer: Option<LoadBalancerPublishingStrategy>,
    /// Host name for type `Route`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub route: Option<RoutePublishingStrategy>,
}

/// Address and port of a service that is published by NodePort.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct NodePortPublishingStrategy {
    /// Host name or address by which the hosts are reached.
    #[schemars(length(min = 1, max = 253))]
    #[schemars(extend("x-kubernetes-validations" = [rule(
        ADDRESS,
        "address must be a valid hostname, IPv4, or IPv6 address",
    )]))]
    pub address: String,
    /// The node port; any free one when unset or not positive.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub port: Option<i32>,
}

/// Host name of a service that is published by a load balancer.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct LoadBalancerPublishingStrategy {
    /// DNS name of the load balancer.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 253))]
    #[schemars(extend("x-kubernetes-validations" = [rule(FQDN, HOSTNAME_MESSAGE)]))]
    pub hostname: Option<String>,
}

/// Host name of a service that is published by a Route.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct RoutePublishingStrategy {
    /// DNS name of the Route.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 253))]
    #[schemars(extend("x-kubernetes-validations" = [rule(FQDN, HOSTNAME_MESSAGE)]))]
    pub hostname: Option<String>,
}
