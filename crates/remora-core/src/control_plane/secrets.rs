//! The Secrets of a control plane: certificates, the service account key, kubeconfigs.

use std::collections::BTreeMap;

use k8s_openapi::ByteString;
use k8s_openapi::api::core::v1::Secret;
use kube::core::DynamicObject;
use remora_api::{labels, names};
use serde_json::{Value, json};
use sha2::{Digest, Sha256};

use super::kubeconfig::{self, kubeconfig, service_endpoint};
use super::pod::short_hash;
use super::{ControlPlane, from_json};
use crate::endpoint::Endpoint;
use crate::pki::{self, Credential, PrivateKey};

/// Component label of Secrets that several components use.
const COMPONENT: &str = "pki";

/// The credentials from which the kubeconfigs are made.
pub struct Clients {
    /// Certificate of the root authority, PEM.
    pub authority: String,
    /// The administrator.
    pub admin: Credential,
    /// The controller-manager.
    pub kube_controller_manager: Credential,
    /// The scheduler.
    pub kube_scheduler: Credential,
}

/// Builds the Secret of a certificate.
pub fn credential(
    control_plane: &ControlPlane,
    name: &str,
    credential: &Credential,
    authority_pem: &str,
) -> DynamicObject {
    secret(
        control_plane,
        name,
        &[
            (pki::CERTIFICATE_KEY, &credential.certificate),
            (pki::PRIVATE_KEY_KEY, credential.key.expose()),
            (pki::AUTHORITY_KEY, authority_pem),
        ],
    )
}

/// Builds the Secret of the key that signs service account tokens.
pub fn service_account_key(
    control_plane: &ControlPlane,
    key: &PrivateKey,
    public_key: &str,
) -> DynamicObject {
    secret(
        control_plane,
        pki::SERVICE_ACCOUNT_KEY_SECRET,
        &[
            (pki::SERVICE_ACCOUNT_PRIVATE_KEY, key.expose()),
            (pki::SERVICE_ACCOUNT_PUBLIC_KEY, public_key),
        ],
    )
}

/// Builds the copy of the HostedCluster's pull secret.
pub fn pull_secret(control_plane: &ControlPlane, content: &ByteString) -> DynamicObject {
    let name = names::CONTROL_PLANE_PULL_SECRET;
    from_json(json!({
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": control_plane.metadata(name, name),
        "type": "kubernetes.io/dockerconfigjson",
        "data": { names::PULL_SECRET_KEY: content },
    }))
}

/// Builds the kubeconfigs that lead through the hosting cluster's own network.
pub fn internal_kubeconfigs(control_plane: &ControlPlane, clients: &Clients) -> Vec<DynamicObject> {
    let endpoint = service_endpoint(control_plane);
    [
        (names::SERVICE_NETWORK_ADMIN_KUBECONFIG, &clients.admin),
        (kubeconfig::KUBE_CONTROLLER_MANAGER, &clients.kube_controller_manager),
        (kubeconfig::KUBE_SCHEDULER, &clients.kube_scheduler),
    ]
    .into_iter()
    .map(|(name, client)| {
        let text =
            kubeconfig(&control_plane.hosted_cluster_name, &endpoint, &clients.authority, client);
        secret(control_plane, name, &[(names::KUBECONFIG_KEY, &text)])
    })
    .collect()
}

/// Builds the administrator's kubeconfig with the published endpoint, for the control plane namespace.
pub fn admin_kubeconfig(
    control_plane: &ControlPlane,
    clients: &Clients,
    published: &Endpoint,
) -> DynamicObject {
    let name = &control_plane.hosted_cluster_name;
    let text = kubeconfig(name, published, &clients.authority, &clients.admin);
    secret(control_plane, names::ADMIN_KUBECONFIG, &[(names::KUBECONFIG_KEY, &text)])
}

/// Builds the administrator's kubeconfigs for the namespace of the HostedCluster, where its users find them: with the
/// published endpoint, and with `spec.kubeAPIServerDNSName`.
pub fn user_kubeconfigs(
    control_plane: &ControlPlane,
    clients: &Clients,
    published: &Endpoint,
) -> Vec<DynamicObject> {
    let name = &control_plane.hosted_cluster_name;
    let text = kubeconfig(name, published, &clients.authority, &clients.admin);
    let mut kubeconfigs =
        vec![for_user(control_plane, &names::admin_kubeconfig_secret(name), &text)];
    if let Some(dns_name) = &control_plane.api_dns_name {
        let endpoint = Endpoint { host: dns_name.clone(), port: published.port };
        let text = kubeconfig(name, &endpoint, &clients.authority, &clients.admin);
        kubeconfigs.push(for_user(
            control_plane,
            &names::custom_admin_kubeconfig_secret(name),
            &text,
        ));
    }
    kubeconfigs
}

/// Hashes the content of Secrets, by name.
pub fn hashes<'a>(
    secrets: impl IntoIterator<Item = &'a DynamicObject>,
) -> BTreeMap<String, String> {
    secrets
        .into_iter()
        .filter_map(|object| {
            let data: BTreeMap<String, ByteString> =
                serde_json::from_value(object.data.get("data")?.clone()).ok()?;
            Some((object.metadata.name.clone()?, hash(&data)))
        })
        .collect()
}

/// Hashes the content of a Secret.
pub fn hash(data: &BTreeMap<String, ByteString>) -> String {
    let mut hasher = Sha256::new();
    for (key, ByteString(content)) in data {
        for part in [key.as_bytes(), content] {
            hasher.update(part.len().to_be_bytes());
            hasher.update(part);
        }
    }
    short_hash(&hasher.finalize())
}

/// Reads the certificate and key of a Secret.
pub fn read_credential(secret: &Secret) -> Option<Credential> {
    let text = |key: &str| {
        let bytes = &secret.data.as_ref()?.get(key)?.0;
        String::from_utf8(bytes.clone()).ok()
    };
    Some(Credential {
        certificate: text(pki::CERTIFICATE_KEY)?,
        key: PrivateKey::new(text(pki::PRIVATE_KEY_KEY)?),
    })
}

fn secret(control_plane: &ControlPlane, name: &str, data: &[(&str, &str)]) -> DynamicObject {
    from_json(json!({
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": control_plane.metadata(name, COMPONENT),
        "type": "Opaque",
        "data": encoded(data),
    }))
}

fn for_user(control_plane: &ControlPlane, name: &str, text: &str) -> DynamicObject {
    from_json(json!({
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": {
            "name": name,
            "namespace": control_plane.hosted_cluster_namespace,
            "labels": {
                labels::MANAGED_BY: labels::FIELD_MANAGER,
                labels::CONTROL_PLANE_COMPONENT: COMPONENT,
            },
            "annotations": { labels::HOSTED_CLUSTER: control_plane.hosted_cluster() },
            // Goes with the HostedCluster even if nobody deletes it.
            "ownerReferences": [{
                "apiVersion": format!("{}/{}", remora_api::HYPERSHIFT_GROUP, remora_api::HYPERSHIFT_VERSION),
                "kind": "HostedCluster",
                "name": control_plane.hosted_cluster_name,
                "uid": control_plane.hosted_cluster_uid,
                "controller": true,
            }],
        },
        "type": "Opaque",
        "data": encoded(&[(names::KUBECONFIG_KEY, text)]),
    }))
}

fn encoded(data: &[(&str, &str)]) -> BTreeMap<String, Value> {
    data.iter()
        .map(|(key, text)| {
            let bytes = ByteString(text.as_bytes().to_vec());
            ((*key).to_owned(), serde_json::to_value(bytes).expect("bytes"))
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::control_plane::testing::{assert_is, control_plane};

    fn credential_named(name: &str) -> Credential {
        Credential {
            certificate: format!("{name} certificate"),
            key: PrivateKey::new(format!("{name} key")),
        }
    }

    fn clients() -> Clients {
        Clients {
            authority: "root authority".to_owned(),
            admin: credential_named("admin"),
            kube_controller_manager: credential_named("controller-manager"),
            kube_scheduler: credential_named("scheduler"),
        }
    }

    #[test]
    fn when_secrets_are_built_they_are_secrets() {
        let control_plane = control_plane();
        let published = Endpoint { host: "192.0.2.7".to_owned(), port: 30443 };
        let mut objects = internal_kubeconfigs(&control_plane, &clients());
        objects.push(admin_kubeconfig(&control_plane, &clients(), &published));
        objects.extend(user_kubeconfigs(&control_plane, &clients(), &published));
        objects.push(credential(&control_plane, "etcd-ca", &credential_named("etcd"), "authority"));
        objects.push(service_account_key(
            &control_plane,
            &PrivateKey::new("private".to_owned()),
            "public",
        ));
        let content = ByteString(br#"{"auths":{}}"#.to_vec());
        objects.push(pull_secret(&control_plane, &content));
        objects.iter().for_each(assert_is::<Secret>);
        insta::assert_yaml_snapshot!(objects);
    }

    #[test]
    fn when_a_secret_is_written_it_can_be_read_back() {
        let written =
            credential(&control_plane(), "etcd-ca", &credential_named("etcd"), "authority");
        let secret: Secret =
            serde_json::from_value(serde_json::to_value(written).unwrap()).unwrap();
        assert_eq!(read_credential(&secret), Some(credential_named("etcd")));
    }
}
