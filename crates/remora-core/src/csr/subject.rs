//! Reads what a node's certificate signing request asks for.

use std::collections::BTreeSet;
use std::net::IpAddr;

use k8s_openapi::api::certificates::v1::CertificateSigningRequest;
use x509_parser::certification_request::X509CertificationRequest;
use x509_parser::extensions::{GeneralName, ParsedExtension};
use x509_parser::pem::parse_x509_pem;
use x509_parser::prelude::FromDer;
use x509_parser::x509::AttributeTypeAndValue;

use super::{CLIENT_SIGNER, NODE_USER_PREFIX, NODES_GROUP};

/// What a node asks for, free of everything that no node may ask for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct NodeRequest {
    /// Name of the node, from the subject's common name.
    pub(super) node_name: String,
    /// Names under which it wants to serve.
    pub(super) dns_names: BTreeSet<String>,
    /// Addresses under which it wants to serve.
    pub(super) addresses: BTreeSet<IpAddr>,
}

/// Parses a request; the error says what no node's request may look like.
pub(super) fn parse(request: &CertificateSigningRequest) -> Result<NodeRequest, String> {
    check_usages(request)?;
    let (_, pem) = parse_x509_pem(&request.spec.request.0)
        .map_err(|error| format!("the request is no PEM block: {error}"))?;
    let (_, parsed) = X509CertificationRequest::from_der(&pem.contents)
        .map_err(|error| format!("the request is no PKCS#10 request: {error}"))?;
    let subject = &parsed.certification_request_info.subject;
    let common_names = texts(subject.iter_common_name())?;
    let organizations = texts(subject.iter_organization())?;
    if organizations != [NODES_GROUP] {
        return Err(format!("the subject's organization has to be {NODES_GROUP} alone"));
    }
    let node_name = match common_names.as_slice() {
        [name] => name.strip_prefix(NODE_USER_PREFIX).filter(|name| !name.is_empty()),
        _ => None,
    }
    .ok_or_else(|| format!("the subject's common name has to be {NODE_USER_PREFIX}<node>"))?;
    let mut asked = NodeRequest {
        node_name: node_name.to_owned(),
        dns_names: BTreeSet::new(),
        addresses: BTreeSet::new(),
    };
    for extension in parsed.requested_extensions().into_iter().flatten() {
        if let ParsedExtension::SubjectAlternativeName(names) = extension {
            for name in &names.general_names {
                add_name(&mut asked, name)?;
            }
        }
    }
    Ok(asked)
}

/// The texts of attributes. One that cannot be read is refused, not skipped: the signer may be able to, and of several
/// common names it takes the last.
fn texts<'a>(
    attributes: impl Iterator<Item = &'a AttributeTypeAndValue<'a>>,
) -> Result<Vec<&'a str>, String> {
    let unreadable = |_| "the subject holds a text that is neither UTF-8 nor ASCII".to_owned();
    attributes.map(|attribute| attribute.as_str().map_err(unreadable)).collect()
}

fn add_name(asked: &mut NodeRequest, name: &GeneralName<'_>) -> Result<(), String> {
    match name {
        GeneralName::DNSName(name) => {
            asked.dns_names.insert((*name).to_owned());
        }
        GeneralName::IPAddress(bytes) => {
            asked.addresses.insert(address(bytes)?);
        }
        _ => return Err("only DNS names and IP addresses may be asked for".to_owned()),
    }
    Ok(())
}

fn address(bytes: &[u8]) -> Result<IpAddr, String> {
    if let Ok(octets) = <[u8; 4]>::try_from(bytes) {
        return Ok(IpAddr::from(octets));
    }
    <[u8; 16]>::try_from(bytes)
        .map(IpAddr::from)
        .map_err(|_| "an IP address has four or sixteen bytes".to_owned())
}

/// The signer checks the usages too, but with a failure the node cannot see the reason of.
fn check_usages(request: &CertificateSigningRequest) -> Result<(), String> {
    let purpose = match request.spec.signer_name.as_str() {
        CLIENT_SIGNER => "client auth",
        _ => "server auth",
    };
    let usages: BTreeSet<_> = request.spec.usages.iter().flatten().map(String::as_str).collect();
    let allowed = BTreeSet::from(["digital signature", "key encipherment", purpose]);
    if usages.contains(purpose) && usages.is_subset(&allowed) {
        Ok(())
    } else {
        Err(format!("usages have to be {purpose}, digital signature and key encipherment at most"))
    }
}
