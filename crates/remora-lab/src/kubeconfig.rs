//! Kubeconfigs: who connects where, trusting whom.

use std::path::Path;

use serde_json::json;

use crate::error::LabError;
use crate::files::{self, Access};
use crate::pki::{Authority, Pki};

/// Writes a kubeconfig with everything inside it, so that it works wherever it is copied.
pub(crate) fn write(path: &Path, server: &str, pki: &Pki, user: &str) -> Result<(), LabError> {
    let authority = encoded(&pki.authority(Authority::Cluster))?;
    let certificate = encoded(&pki.certificate(user))?;
    let key = encoded(&pki.key(user))?;
    let config = render(server, user, &authority, &certificate, &key);
    files::write(path, &config, Access::Private).map(drop)
}

/// A kubeconfig; JSON is YAML.
fn render(server: &str, user: &str, authority: &str, certificate: &str, key: &str) -> String {
    let config = json!({
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{
            "name": "lab",
            "cluster": {"server": server, "certificate-authority-data": authority},
        }],
        "users": [{
            "name": user,
            "user": {"client-certificate-data": certificate, "client-key-data": key},
        }],
        "contexts": [{"name": "lab", "context": {"cluster": "lab", "user": user}}],
        "current-context": "lab",
    });
    format!("{config:#}\n")
}

fn encoded(path: &Path) -> Result<String, LabError> {
    use base64::Engine;
    let bytes = std::fs::read(path).map_err(LabError::file("read", path))?;
    Ok(base64::engine::general_purpose::STANDARD.encode(bytes))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn when_rendered_the_context_joins_server_and_user() {
        insta::assert_snapshot!(render(
            "https://192.168.123.101:6443",
            "admin",
            "QQ==",
            "Qg==",
            "Qw=="
        ));
    }
}
