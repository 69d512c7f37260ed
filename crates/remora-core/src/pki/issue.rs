//! Issuing: a key comes in, a certificate goes out.

use jiff::Timestamp;
use rcgen::{
    BasicConstraints, Certificate, CertificateParams, DistinguishedName, DnType,
    ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair, KeyUsagePurpose, SanType,
};
use time::OffsetDateTime;

use super::plan::{Authority, Leaf, Usage};
use super::{Credential, PrivateKey};

/// Validity of an authority's certificate: ten years. Replacing one means restarting every node, so it outlives them.
const AUTHORITY_DAYS: i64 = 3650;

/// Validity of all other certificates: a year; they are renewed well before (see `renewal`).
const LEAF_DAYS: i64 = 365;

/// How far back a certificate is valid, for machines whose clock lags.
const BACKDATE_SECONDS: i64 = 300;

/// A certificate could not be issued.
#[derive(Debug, thiserror::Error)]
pub enum IssueError {
    /// The private key is no key that can be used here.
    #[error(
        "cannot read the private key of {name}: a PKCS#8 PEM of an ECDSA or Ed25519 key is needed"
    )]
    Key {
        /// Secret of the certificate.
        name: String,
        /// Why.
        #[source]
        source: rcgen::Error,
    },
    /// The authority's certificate cannot be read.
    #[error("cannot read the certificate of authority {name}")]
    Authority {
        /// Secret of the authority.
        name: &'static str,
        /// Why.
        #[source]
        source: rcgen::Error,
    },
    /// A DNS name is not one.
    #[error("cannot put {host:?} into the certificate {name}: it is no DNS name")]
    Name {
        /// Secret of the certificate.
        name: String,
        /// The name.
        host: String,
    },
    /// The signature failed.
    #[error("cannot sign the certificate {name}")]
    Sign {
        /// Secret of the certificate.
        name: String,
        /// Why.
        #[source]
        source: rcgen::Error,
    },
    /// `now` is outside what a certificate can say.
    #[error("cannot express {now} in a certificate")]
    Time {
        /// The time.
        now: Timestamp,
    },
}

/// Issues the certificate of an authority, signed by itself.
pub fn issue_authority(
    authority: Authority,
    cluster: &str,
    key: PrivateKey,
    now: Timestamp,
) -> Result<Credential, IssueError> {
    let name = authority.secret();
    let mut params = CertificateParams::default();
    params.distinguished_name = subject(&format!("{name}.{cluster}"), None);
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
    params.not_before = moment(now, -BACKDATE_SECONDS)?;
    params.not_after = moment(now, AUTHORITY_DAYS * 86_400)?;
    let pair = key_pair(name, &key)?;
    let certificate = params
        .self_signed(&pair)
        .map_err(|source| IssueError::Sign { name: name.to_owned(), source })?;
    Ok(credential(&certificate, key))
}

/// Issues a certificate, signed by its authority.
pub fn issue_leaf(
    leaf: &Leaf,
    authority: &Credential,
    key: PrivateKey,
    now: Timestamp,
) -> Result<Credential, IssueError> {
    let name = leaf.secret;
    let authority_name = leaf.authority.secret();
    let authority_key = key_pair(authority_name, &authority.key)?;
    let issuer = Issuer::from_ca_cert_pem(&authority.certificate, authority_key)
        .map_err(|source| IssueError::Authority { name: authority_name, source })?;
    let pair = key_pair(name, &key)?;
    let certificate = params_of(leaf, now)?
        .signed_by(&pair, &issuer)
        .map_err(|source| IssueError::Sign { name: name.to_owned(), source })?;
    Ok(credential(&certificate, key))
}

/// Gives the public key of a private key, both PEM.
pub fn public_key_pem(key: &PrivateKey) -> Result<String, IssueError> {
    Ok(key_pair(super::SERVICE_ACCOUNT_KEY_SECRET, key)?.public_key_pem())
}

fn params_of(leaf: &Leaf, now: Timestamp) -> Result<CertificateParams, IssueError> {
    let mut params = CertificateParams::default();
    params.distinguished_name = subject(&leaf.common_name, leaf.organization);
    params.not_before = moment(now, -BACKDATE_SECONDS)?;
    params.not_after = moment(now, LEAF_DAYS * 86_400)?;
    params.use_authority_key_identifier_extension = true;
    params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
    params.extended_key_usages = match leaf.usage {
        Usage::Server => vec![ExtendedKeyUsagePurpose::ServerAuth],
        Usage::Client => vec![ExtendedKeyUsagePurpose::ClientAuth],
        Usage::Peer => {
            vec![ExtendedKeyUsagePurpose::ServerAuth, ExtendedKeyUsagePurpose::ClientAuth]
        }
    };
    for host in &leaf.dns_names {
        let name = host
            .clone()
            .try_into()
            .map_err(|_| IssueError::Name { name: leaf.secret.to_owned(), host: host.clone() })?;
        params.subject_alt_names.push(SanType::DnsName(name));
    }
    params.subject_alt_names.extend(leaf.addresses.iter().copied().map(SanType::IpAddress));
    Ok(params)
}

fn subject(common_name: &str, organization: Option<&str>) -> DistinguishedName {
    let mut subject = DistinguishedName::new();
    if let Some(organization) = organization {
        subject.push(DnType::OrganizationName, organization);
    }
    subject.push(DnType::CommonName, common_name);
    subject
}

fn key_pair(name: &str, key: &PrivateKey) -> Result<KeyPair, IssueError> {
    KeyPair::from_pem(key.expose())
        .map_err(|source| IssueError::Key { name: name.to_owned(), source })
}

fn credential(certificate: &Certificate, key: PrivateKey) -> Credential {
    Credential { certificate: certificate.pem(), key }
}

fn moment(now: Timestamp, offset_seconds: i64) -> Result<OffsetDateTime, IssueError> {
    OffsetDateTime::from_unix_timestamp(now.as_second().saturating_add(offset_seconds))
        .map_err(|_| IssueError::Time { now })
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use crate::pki::plan::{Names, leaves};

    pub(crate) fn new_key() -> PrivateKey {
        PrivateKey::new(KeyPair::generate().unwrap().serialize_pem())
    }

    #[test]
    fn when_all_certificates_are_issued_each_verifies_against_its_authority() {
        let now: Timestamp = "2026-11-30T12:00:00Z".parse().unwrap();
        let names = Names { namespace: "clusters-demo".to_owned(), ..Names::default() };
        for leaf in leaves(&names) {
            let authority = issue_authority(leaf.authority, "demo", new_key(), now).unwrap();
            let issued = issue_leaf(&leaf, &authority, new_key(), now).unwrap();
            let authority_der = pem_of(&authority.certificate);
            let leaf_der = pem_of(&issued.certificate);
            let (_, signer) = x509_parser::parse_x509_certificate(&authority_der).unwrap();
            let (_, signed) = x509_parser::parse_x509_certificate(&leaf_der).unwrap();
            assert_eq!(signed.issuer(), signer.subject(), "{}", leaf.secret);
            let common_name = signed.subject().iter_common_name().next().unwrap();
            assert_eq!(common_name.as_str().unwrap(), leaf.common_name);
        }
    }

    #[test]
    fn when_a_private_key_is_shown_it_is_not() {
        assert_eq!(format!("{:?}", new_key()), "<redacted>");
    }

    fn pem_of(text: &str) -> Vec<u8> {
        x509_parser::pem::parse_x509_pem(text.as_bytes()).unwrap().1.contents
    }
}
