//! Certificates of a fixture: one authority, one server, one administrator.

use anyhow::Context as _;
use rcgen::{
    BasicConstraints, CertificateParams, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair,
    KeyUsagePurpose,
};

/// A certificate and its key, both PEM.
pub(crate) struct Identity {
    pub(crate) certificate: String,
    pub(crate) key: String,
}

/// All that an API server and its users need.
pub(crate) struct Certificates {
    pub(crate) authority: String,
    pub(crate) server: Identity,
    pub(crate) administrator: Identity,
    /// Key that signs service account tokens.
    pub(crate) service_account_key: String,
    /// Key that verifies them.
    pub(crate) service_account_public_key: String,
}

impl Certificates {
    pub(crate) fn issue() -> anyhow::Result<Self> {
        let key = new_key()?;
        let mut params = CertificateParams::default();
        params.distinguished_name.push(DnType::CommonName, "remora-testkit");
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::DigitalSignature];
        let authority = params.self_signed(&key).context("cannot sign the authority")?.pem();
        let issuer = Issuer::new(params, key);

        let names = ["localhost", "127.0.0.1", "kubernetes.default.svc"].map(str::to_owned);
        let mut server = CertificateParams::new(names).context("cannot name the server")?;
        server.distinguished_name.push(DnType::CommonName, "kube-apiserver");
        server.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];

        let mut administrator = CertificateParams::default();
        administrator.distinguished_name.push(DnType::CommonName, "remora-testkit");
        // Kubernetes takes the organization for the group, and this group may do everything.
        administrator.distinguished_name.push(DnType::OrganizationName, "system:masters");
        administrator.extended_key_usages = vec![ExtendedKeyUsagePurpose::ClientAuth];

        let service_account = new_key()?;
        Ok(Self {
            authority,
            server: sign(&server, &issuer)?,
            administrator: sign(&administrator, &issuer)?,
            service_account_key: service_account.serialize_pem(),
            service_account_public_key: service_account.public_key_pem(),
        })
    }
}

fn new_key() -> anyhow::Result<KeyPair> {
    KeyPair::generate().context("cannot generate a key")
}

fn sign(params: &CertificateParams, issuer: &Issuer<'_, KeyPair>) -> anyhow::Result<Identity> {
    let key = new_key()?;
    let certificate = params.signed_by(&key, issuer).context("cannot sign a certificate")?.pem();
    Ok(Identity { certificate, key: key.serialize_pem() })
}
