//! The certificates of one hosted cluster: which must exist, when they are due, how they are issued.
//!
//! ```text
//!  root-ca ─────────── kube-apiserver's and konnectivity's serving certificates, clients of the API server,
//!                      the kubelets' certificates (the controller-manager signs with it)
//!  etcd-ca ─────────── etcd's members and its one client
//!  aggregator-ca ───── the API server towards extension API servers: separate, because whoever holds a
//!                      certificate of it may act as anybody
//!  konnectivity-ca ─── konnectivity agents: separate, so that no kubelet can pose as one
//! ```

mod issue;
mod plan;
mod renewal;

pub use issue::{IssueError, issue_authority, issue_leaf, public_key_pem};
pub use plan::{Authority, KUBELET_CLIENT_USER, Leaf, Names, Usage, leaf, leaves};
pub use renewal::{Due, authority_due, leaf_due, renew_at};

/// Secret with the key that signs service account tokens.
pub const SERVICE_ACCOUNT_KEY_SECRET: &str = "sa-signing-key";
/// Key of the private key in [`SERVICE_ACCOUNT_KEY_SECRET`].
pub const SERVICE_ACCOUNT_PRIVATE_KEY: &str = "service-account.key";
/// Key of the public key in [`SERVICE_ACCOUNT_KEY_SECRET`].
pub const SERVICE_ACCOUNT_PUBLIC_KEY: &str = "service-account.pub";
/// Key of the certificate in every certificate's Secret.
pub const CERTIFICATE_KEY: &str = "tls.crt";
/// Key of the private key in every certificate's Secret.
pub const PRIVATE_KEY_KEY: &str = "tls.key";
/// Key of the issuer's certificate in every certificate's Secret.
pub const AUTHORITY_KEY: &str = "ca.crt";

/// A private key in PEM form; never shown.
#[derive(Clone, PartialEq, Eq)]
pub struct PrivateKey(String);

impl PrivateKey {
    /// Wraps a PEM text.
    pub fn new(pem: String) -> Self {
        Self(pem)
    }

    /// Gives the PEM text, for the Secret that stores it.
    pub fn expose(&self) -> &str {
        &self.0
    }
}

impl std::fmt::Debug for PrivateKey {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str("<redacted>")
    }
}

/// A certificate with its private key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Credential {
    /// Certificate, PEM.
    pub certificate: String,
    /// Private key, PEM.
    pub key: PrivateKey,
}
