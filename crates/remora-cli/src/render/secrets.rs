//! Templates of the Secrets that a cluster names: everything but their content.

use kube::core::DynamicObject;
use remora_api::names;
use serde_json::Value;

/// A Secret that a HostedCluster names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct NamedSecret {
    pub(super) name: String,
    /// Where it is named.
    field: String,
    type_: &'static str,
    keys: &'static [&'static str],
}

const OPAQUE: &str = "Opaque";
const TLS: &str = "kubernetes.io/tls";
const TLS_KEYS: &[&str] = &["tls.crt", "tls.key"];
const NAMED_CERTIFICATES: &str = "/spec/configuration/apiServer/servingCerts/namedCertificates";

/// Field, type and keys of each Secret that a HostedCluster can name.
const NAMED: [(&str, &str, &[&str]); 8] = [
    ("/spec/pullSecret", "kubernetes.io/dockerconfigjson", &[names::PULL_SECRET_KEY]),
    ("/spec/sshKey", OPAQUE, &[names::SSH_KEY_KEY]),
    ("/spec/serviceAccountSigningKey", OPAQUE, &["key"]),
    ("/spec/auditWebhook", OPAQUE, &["webhook-kubeconfig"]),
    ("/spec/secretEncryption/aescbc/activeKey", OPAQUE, &["key"]),
    ("/spec/secretEncryption/aescbc/backupKey", OPAQUE, &["key"]),
    (
        "/spec/etcd/unmanaged/tls/clientSecret",
        OPAQUE,
        &["etcd-client.crt", "etcd-client.key", "etcd-client-ca.crt"],
    ),
    ("/spec/platform/kubevirt/credentials/infraKubeConfigSecret", OPAQUE, &[names::KUBECONFIG_KEY]),
];

/// The Secrets that a HostedCluster names, each once.
pub(super) fn named(hosted_cluster: &DynamicObject) -> Vec<NamedSecret> {
    let mut found: Vec<NamedSecret> = Vec::new();
    let mut add = |reference: Option<&Value>, field: &str, type_, keys| {
        let name = reference.and_then(|reference| reference.get("name")).and_then(Value::as_str);
        let Some(name) = name.filter(|name| !name.is_empty()) else { return };
        if !found.iter().any(|known| known.name == name) {
            let field = field.trim_start_matches('/').replace('/', ".");
            found.push(NamedSecret { name: name.to_owned(), field, type_, keys });
        }
    };
    for (field, type_, keys) in NAMED {
        add(hosted_cluster.data.pointer(field), field, type_, keys);
    }
    let certificates = hosted_cluster.data.pointer(NAMED_CERTIFICATES).and_then(Value::as_array);
    for (index, certificate) in certificates.into_iter().flatten().enumerate() {
        let field = format!("{NAMED_CERTIFICATES}/{index}/servingCertificate");
        add(certificate.get("servingCertificate"), &field, TLS, TLS_KEYS);
    }
    found
}

impl NamedSecret {
    /// The manifest with a blank for each value.
    pub(super) fn template(&self, cluster: &str, namespace: &str) -> String {
        let Self { name, field, type_, keys } = self;
        let blanks: String = keys.iter().map(|key| format!("  {key}: # fill in\n")).collect();
        format!(
            "# Named by {field} of HostedCluster {namespace}/{cluster}. Its content does not belong into a repository as it \
             is:\n# fill it in with what you use for secrets (Sealed Secrets, SOPS, External Secrets), or create it by \
             hand.\n# This file is not listed in kustomization.yaml.\napiVersion: v1\nkind: Secret\nmetadata:\n  \
             name: {name}\n  namespace: {namespace}\ntype: {type_}\nstringData:\n{blanks}"
        )
    }
}
