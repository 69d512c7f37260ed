//! Published endpoints: where clients outside the hosting cluster reach a control plane.

use k8s_openapi::api::core::v1::Service;

use crate::control_plane::Publishing;

/// A host and a port.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Endpoint {
    /// Address or DNS name.
    pub host: String,
    /// Port.
    pub port: u16,
}

impl Endpoint {
    /// The URL of an HTTPS server at this endpoint.
    pub fn url(&self) -> String {
        format!("https://{self}")
    }
}

impl std::fmt::Display for Endpoint {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        if self.host.contains(':') {
            write!(formatter, "[{}]:{}", self.host, self.port)
        } else {
            write!(formatter, "{}:{}", self.host, self.port)
        }
    }
}

/// The published endpoints of a control plane.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Published {
    /// Of the API server.
    pub api: Endpoint,
    /// Of the konnectivity server.
    pub konnectivity: Endpoint,
}

/// Why an endpoint is not known yet.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Pending {
    /// The Service has no node port yet.
    #[error("Service {namespace}/{name} has no node port yet")]
    NodePort {
        /// Namespace of the Service.
        namespace: String,
        /// Name of the Service.
        name: String,
    },
    /// The load balancer has no address yet.
    #[error(
        "load balancer of Service {namespace}/{name} has no address yet: the hosting cluster needs a \
         controller that serves Services of type LoadBalancer; otherwise publish by NodePort"
    )]
    LoadBalancer {
        /// Namespace of the Service.
        namespace: String,
        /// Name of the Service.
        name: String,
    },
}

/// Finds the endpoint of a published Service.
pub fn endpoint(publishing: &Publishing, service: &Service) -> Result<Endpoint, Pending> {
    let namespace = service.metadata.namespace.clone().unwrap_or_default();
    let name = service.metadata.name.clone().unwrap_or_default();
    let spec = service.spec.as_ref();
    let port = spec.and_then(|spec| spec.ports.as_deref()).and_then(<[_]>::first);
    match publishing {
        Publishing::NodePort { address, .. } => {
            let node_port =
                port.and_then(|port| port.node_port).and_then(|port| u16::try_from(port).ok());
            match node_port {
                Some(port) if port > 0 => Ok(Endpoint { host: address.clone(), port }),
                Some(_) | None => Err(Pending::NodePort { namespace, name }),
            }
        }
        Publishing::LoadBalancer { hostname } => {
            let given = balancer_host(service);
            let port = port.and_then(|port| u16::try_from(port.port).ok());
            match (hostname.clone().or_else(|| given.clone()), given, port) {
                // The name that clients use leads nowhere before the balancer has an address.
                (Some(host), Some(_), Some(port)) => Ok(Endpoint { host, port }),
                (_, _, _) => Err(Pending::LoadBalancer { namespace, name }),
            }
        }
    }
}

fn balancer_host(service: &Service) -> Option<String> {
    let ingress = service.status.as_ref()?.load_balancer.as_ref()?.ingress.as_ref()?.first()?;
    ingress.ip.clone().or_else(|| ingress.hostname.clone()).filter(|host| !host.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn service(value: serde_json::Value) -> Service {
        serde_json::from_value(value).unwrap()
    }

    #[test]
    fn when_a_node_port_is_there_the_endpoint_is_the_address_with_it() {
        let service = service(serde_json::json!({
            "metadata": { "namespace": "clusters-demo", "name": "kube-apiserver" },
            "spec": { "ports": [{ "port": 6443, "nodePort": 31234 }] },
        }));
        let publishing = Publishing::NodePort { address: "192.0.2.7".to_owned(), port: None };
        assert_eq!(endpoint(&publishing, &service).unwrap().url(), "https://192.0.2.7:31234");
    }

    #[test]
    fn when_the_load_balancer_has_no_address_that_is_said_with_the_remedy() {
        let service = service(serde_json::json!({
            "metadata": { "namespace": "clusters-demo", "name": "kube-apiserver" },
            "spec": { "ports": [{ "port": 6443 }] },
        }));
        let publishing = Publishing::LoadBalancer { hostname: Some("api.example".to_owned()) };
        insta::assert_snapshot!(endpoint(&publishing, &service).unwrap_err().to_string());
    }

    #[test]
    fn when_the_load_balancer_has_an_address_the_given_name_comes_first() {
        let service = service(serde_json::json!({
            "spec": { "ports": [{ "port": 6443, "nodePort": 31234 }] },
            "status": { "loadBalancer": { "ingress": [{ "ip": "198.51.100.4" }] } },
        }));
        let named = Publishing::LoadBalancer { hostname: Some("api.example".to_owned()) };
        let unnamed = Publishing::LoadBalancer { hostname: None };
        assert_eq!(endpoint(&named, &service).unwrap().url(), "https://api.example:6443");
        assert_eq!(endpoint(&unnamed, &service).unwrap().url(), "https://198.51.100.4:6443");
    }

    #[test]
    fn when_the_host_is_an_ipv6_address_it_is_bracketed() {
        let endpoint = Endpoint { host: "2001:db8::7".to_owned(), port: 6443 };
        assert_eq!(endpoint.url(), "https://[2001:db8::7]:6443");
    }
}
