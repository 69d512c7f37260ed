//! The hosting cluster's certificates and keys.
//!
//! Three authorities, as Kubernetes wants them apart: the cluster's, etcd's, and the one whose
//! clients the API server believes when they speak for somebody else (the aggregation layer).

use std::path::{Path, PathBuf};

use rcgen::{
    BasicConstraints, CertificateParams, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair,
    KeyUsagePurpose,
};
use time::{Duration, OffsetDateTime};

use crate::error::LabError;
use crate::files::{self, Access};
use crate::topology::{CLUSTER_DOMAIN, Host, KUBERNETES_SERVICE, Role, Topology};

/// A lab is made anew far more often than this; nothing renews its certificates.
const VALIDITY: Duration = Duration::days(3650);
/// Clocks of the lab are one clock; the margin is for the certificate's whole seconds.
const BACKDATING: Duration = Duration::minutes(5);

/// An authority of the hosting cluster.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Authority {
    /// Signs servers and users of the hosting cluster.
    Cluster,
    /// Signs etcd's members and clients.
    Etcd,
    /// Signs the aggregation layer's client.
    FrontProxy,
}

impl Authority {
    fn name(self) -> &'static str {
        match self {
            Self::Cluster => "ca",
            Self::Etcd => "etcd-ca",
            Self::FrontProxy => "front-proxy-ca",
        }
    }
}

/// What a certificate proves.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Request {
    /// The certificate's file name without its ending.
    name: String,
    authority: Authority,
    common_name: String,
    organization: Option<&'static str>,
    /// Names and addresses, for servers.
    server_names: Vec<String>,
}

impl Request {
    fn client(
        name: impl Into<String>,
        common_name: impl Into<String>,
        organization: Option<&'static str>,
    ) -> Self {
        Self {
            name: name.into(),
            authority: Authority::Cluster,
            common_name: common_name.into(),
            organization,
            server_names: Vec::new(),
        }
    }
}

/// Certificates and keys as files in one directory.
#[derive(Clone, Debug)]
pub(crate) struct Pki {
    directory: PathBuf,
}

impl Pki {
    pub(crate) fn at(directory: impl Into<PathBuf>) -> Self {
        Self { directory: directory.into() }
    }

    /// The certificate of that name.
    pub(crate) fn certificate(&self, name: &str) -> PathBuf {
        self.directory.join(format!("{name}.crt"))
    }

    /// The key of that name.
    pub(crate) fn key(&self, name: &str) -> PathBuf {
        self.directory.join(format!("{name}.key"))
    }

    /// The certificate of an authority.
    pub(crate) fn authority(&self, authority: Authority) -> PathBuf {
        self.certificate(authority.name())
    }

    /// The key of an authority.
    pub(crate) fn authority_key(&self, authority: Authority) -> PathBuf {
        self.key(authority.name())
    }

    /// The key that signs service account tokens.
    pub(crate) fn service_account_key(&self) -> PathBuf {
        self.key("service-account")
    }

    /// The public half, with which API servers check the tokens.
    pub(crate) fn service_account_public_key(&self) -> PathBuf {
        self.directory.join("service-account.pub")
    }

    /// Issues what is missing and keeps what is there.
    pub(crate) fn ensure(&self, topology: &Topology) -> Result<(), LabError> {
        for authority in [Authority::Cluster, Authority::Etcd, Authority::FrontProxy] {
            if !self.certificate(authority.name()).exists() {
                self.create_authority(authority)?;
            }
        }
        let public = self.service_account_public_key();
        if !public.exists() {
            let key = KeyPair::generate().map_err(certificate_error("service-account"))?;
            write_key(&self.service_account_key(), &key)?;
            files::write(&public, &key.public_key_pem(), Access::Public)?;
        }
        for request in requests(topology) {
            if !self.certificate(&request.name).exists() {
                self.issue(&request)?;
            }
        }
        Ok(())
    }

    fn create_authority(&self, authority: Authority) -> Result<(), LabError> {
        let name = authority.name();
        let key = KeyPair::generate().map_err(certificate_error(name))?;
        let mut params = valid_from_now(Vec::new(), name)?;
        params.distinguished_name.push(DnType::CommonName, format!("remora-lab-{name}"));
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.key_usages = vec![
            KeyUsagePurpose::DigitalSignature,
            KeyUsagePurpose::KeyCertSign,
            KeyUsagePurpose::CrlSign,
        ];
        let certificate = params.self_signed(&key).map_err(certificate_error(name))?;
        write_key(&self.key(name), &key)?;
        // The certificate is what `ensure` looks for, so it comes last.
        files::write(&self.certificate(name), &certificate.pem(), Access::Public).map(drop)
    }

    fn issue(&self, request: &Request) -> Result<(), LabError> {
        let name = request.name.as_str();
        let issuer = self.issuer(request.authority)?;
        let key = KeyPair::generate().map_err(certificate_error(name))?;
        let mut params = valid_from_now(request.server_names.clone(), name)?;
        params.distinguished_name.push(DnType::CommonName, &request.common_name);
        if let Some(organization) = request.organization {
            params.distinguished_name.push(DnType::OrganizationName, organization);
        }
        params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
        params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ClientAuth];
        if !request.server_names.is_empty() {
            params.extended_key_usages.push(ExtendedKeyUsagePurpose::ServerAuth);
        }
        params.use_authority_key_identifier_extension = true;
        let certificate = params.signed_by(&key, &issuer).map_err(certificate_error(name))?;
        write_key(&self.key(name), &key)?;
        files::write(&self.certificate(name), &certificate.pem(), Access::Public).map(drop)
    }

    fn issuer(&self, authority: Authority) -> Result<Issuer<'static, KeyPair>, LabError> {
        let name = authority.name();
        let read =
            |path: PathBuf| std::fs::read_to_string(&path).map_err(LabError::file("read", path));
        let key = KeyPair::from_pem(&read(self.key(name))?).map_err(certificate_error(name))?;
        Issuer::from_ca_cert_pem(&read(self.certificate(name))?, key)
            .map_err(certificate_error(name))
    }
}

/// Every certificate that the lab's hosts need.
fn requests(topology: &Topology) -> Vec<Request> {
    let mut requests = vec![
        Request::client("admin", "remora-lab-admin", Some("system:masters")),
        Request::client("kube-controller-manager", "system:kube-controller-manager", None),
        Request::client("kube-scheduler", "system:kube-scheduler", None),
        Request::client("kube-proxy", "system:kube-proxy", None),
        Request::client("kubelet-client", "remora-lab-apiserver", Some("system:masters")),
        Request {
            authority: Authority::Etcd,
            ..Request::client("etcd-client", "kube-apiserver", None)
        },
        Request {
            authority: Authority::FrontProxy,
            ..Request::client("front-proxy-client", "front-proxy-client", None)
        },
    ];
    for host in &topology.hosts {
        requests.extend(host_requests(host));
    }
    requests
}

fn host_requests(host: &Host) -> Vec<Request> {
    let name = host.name.as_str();
    let address = host.address.to_string();
    let kubelet = Request {
        server_names: vec![name.to_owned(), address.clone()],
        ..Request::client(
            format!("kubelet-{name}"),
            format!("system:node:{name}"),
            Some("system:nodes"),
        )
    };
    match host.role {
        Role::Worker => vec![kubelet],
        Role::Master => {
            let own = [name, address.as_str(), "localhost", "127.0.0.1"].map(str::to_owned);
            let etcd = Request {
                authority: Authority::Etcd,
                server_names: own.to_vec(),
                ..Request::client(format!("etcd-{name}"), name, None)
            };
            let mut server_names = own.to_vec();
            server_names.extend([
                KUBERNETES_SERVICE.to_string(),
                "kubernetes".to_owned(),
                "kubernetes.default".to_owned(),
                "kubernetes.default.svc".to_owned(),
                format!("kubernetes.default.svc.{CLUSTER_DOMAIN}"),
            ]);
            let server = Request {
                server_names,
                ..Request::client(format!("kube-apiserver-{name}"), "kube-apiserver", None)
            };
            vec![kubelet, etcd, server]
        }
    }
}

fn valid_from_now(server_names: Vec<String>, name: &str) -> Result<CertificateParams, LabError> {
    let mut params = CertificateParams::new(server_names).map_err(certificate_error(name))?;
    params.distinguished_name = rcgen::DistinguishedName::new();
    let now = OffsetDateTime::now_utc();
    params.not_before = now - BACKDATING;
    params.not_after = now + VALIDITY;
    Ok(params)
}

fn write_key(path: &Path, key: &KeyPair) -> Result<(), LabError> {
    files::write(path, &key.serialize_pem(), Access::Private).map(drop)
}

fn certificate_error(name: &str) -> impl FnOnce(rcgen::Error) -> LabError {
    let name = name.to_owned();
    move |source| LabError::Certificate { name, source }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    #[test]
    fn when_called_twice_it_keeps_what_it_issued() {
        let dir = tempfile::tempdir().unwrap();
        let pki = Pki::at(dir.path());
        let topology = Topology::new(1, 1).unwrap();
        pki.ensure(&topology).unwrap();
        let read = || std::fs::read_to_string(pki.certificate("kubelet-worker-1")).unwrap();
        let first = read();
        pki.ensure(&topology).unwrap();
        assert_eq!(read(), first);
        let key = std::fs::metadata(pki.key("kubelet-worker-1")).unwrap();
        assert_eq!(key.permissions().mode() & 0o777, 0o600);
    }

    #[test]
    fn when_workers_are_added_only_theirs_are_issued() {
        let dir = tempfile::tempdir().unwrap();
        let pki = Pki::at(dir.path());
        pki.ensure(&Topology::new(1, 1).unwrap()).unwrap();
        let read = || std::fs::read_to_string(pki.authority(Authority::Cluster)).unwrap();
        let first = read();
        pki.ensure(&Topology::new(1, 2).unwrap()).unwrap();
        assert_eq!(read(), first);
        assert!(pki.certificate("kubelet-worker-2").exists());
    }

    #[test]
    fn when_there_is_one_master_these_certificates_are_asked_for() {
        let topology = Topology::new(1, 1).unwrap();
        let lines: Vec<_> = requests(&topology)
            .iter()
            .map(|request| {
                format!(
                    "{} {:?} CN={} O={} {}",
                    request.name,
                    request.authority,
                    request.common_name,
                    request.organization.unwrap_or("-"),
                    request.server_names.join(",")
                )
            })
            .collect();
        insta::assert_snapshot!(lines.join("\n"));
    }
}
