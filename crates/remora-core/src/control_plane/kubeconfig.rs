//! Kubeconfigs: of the administrator, of the operator, of the control plane's own clients.

use remora_api::names;
use serde_json::json;

use super::ControlPlane;
use super::kube_apiserver;
use crate::endpoint::Endpoint;
use crate::pki::Credential;

/// Secret with the kubeconfig of the controller-manager.
pub const KUBE_CONTROLLER_MANAGER: &str = "kcm-kubeconfig";
/// Secret with the kubeconfig of the scheduler.
pub const KUBE_SCHEDULER: &str = "scheduler-kubeconfig";

/// The endpoint of the API server inside the hosting cluster.
pub fn service_endpoint(control_plane: &ControlPlane) -> Endpoint {
    Endpoint {
        host: format!("{}.{}.svc", names::KUBE_APISERVER, control_plane.namespace),
        port: kube_apiserver::PORT,
    }
}

/// Writes a kubeconfig that authenticates by certificate.
pub fn kubeconfig(
    cluster: &str,
    endpoint: &Endpoint,
    authority_pem: &str,
    client: &Credential,
) -> String {
    let encode = |text: &str| base64_of(text.as_bytes());
    let value = json!({
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{
            "name": cluster,
            "cluster": {
                "server": endpoint.url(),
                "certificate-authority-data": encode(authority_pem),
            },
        }],
        "users": [{
            "name": "admin",
            "user": {
                "client-certificate-data": encode(&client.certificate),
                "client-key-data": encode(client.key.expose()),
            },
        }],
        "contexts": [{ "name": cluster, "context": { "cluster": cluster, "user": "admin" } }],
        "current-context": cluster,
    });
    serde_saphyr::to_string(&value).expect("plain strings")
}

fn base64_of(bytes: &[u8]) -> String {
    use base64::Engine as _;
    base64::engine::general_purpose::STANDARD.encode(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pki::PrivateKey;

    #[test]
    fn when_a_kubeconfig_is_written_it_names_server_authority_and_client() {
        let endpoint = Endpoint { host: "192.0.2.7".to_owned(), port: 30443 };
        let client = Credential {
            certificate: "certificate".to_owned(),
            key: PrivateKey::new("key".to_owned()),
        };
        insta::assert_snapshot!(kubeconfig("demo", &endpoint, "authority", &client));
    }
}
