//! Which certificates must exist.

use std::collections::BTreeSet;
use std::net::IpAddr;

use remora_api::names;

/// Who signs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Authority {
    /// Serving certificates, API clients and kubelets.
    Root,
    /// etcd's members and clients.
    Etcd,
    /// The API server towards extension API servers.
    Aggregator,
    /// Konnectivity agents.
    Konnectivity,
}

impl Authority {
    /// All of them.
    pub const ALL: [Self; 4] = [Self::Root, Self::Etcd, Self::Aggregator, Self::Konnectivity];

    /// Name of the Secret, and of the certificate's subject.
    pub fn secret(self) -> &'static str {
        match self {
            Self::Root => "root-ca",
            Self::Etcd => "etcd-ca",
            Self::Aggregator => "aggregator-ca",
            Self::Konnectivity => "konnectivity-ca",
        }
    }
}

/// What a certificate may be used for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Usage {
    /// To serve.
    Server,
    /// To be known as a client.
    Client,
    /// Both: etcd's members call each other with the certificate that they serve with.
    Peer,
}

/// A certificate that must exist.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Leaf {
    /// Name of its Secret.
    pub secret: &'static str,
    /// Who signs it.
    pub authority: Authority,
    /// Common name: for API clients the user.
    pub common_name: String,
    /// Organization: for API clients the group.
    pub organization: Option<&'static str>,
    /// What it is for.
    pub usage: Usage,
    /// DNS names that it is valid for.
    pub dns_names: BTreeSet<String>,
    /// Addresses that it is valid for.
    pub addresses: BTreeSet<IpAddr>,
}

/// Names and addresses under which the control plane is reached.
#[derive(Clone, Debug, Default)]
pub struct Names {
    /// Control plane namespace.
    pub namespace: String,
    /// Published hosts of the API server: addresses or DNS names.
    pub api_hosts: Vec<String>,
    /// Published hosts of the konnectivity server.
    pub konnectivity_hosts: Vec<String>,
    /// Addresses of the Service `default/kubernetes` inside the hosted cluster, one per service network.
    pub kubernetes_service_addresses: Vec<IpAddr>,
}

/// Secrets of the leaf certificates.
pub mod leaf {
    /// Serving certificate of the API server.
    pub const KUBE_APISERVER: &str = "kas-server-crt";
    /// The API server as a client of kubelets.
    pub const KUBELET_CLIENT: &str = "kas-kubelet-client-crt";
    /// The API server as a client of extension API servers.
    pub const AGGREGATOR: &str = "kas-aggregator-crt";
    /// The API server as a client of etcd.
    pub const ETCD_CLIENT: &str = "etcd-client-tls";
    /// etcd towards its clients.
    pub const ETCD_SERVER: &str = "etcd-server-tls";
    /// etcd towards its peers.
    pub const ETCD_PEER: &str = "etcd-peer-tls";
    /// Serving certificate of the konnectivity server.
    pub const KONNECTIVITY_SERVER: &str = "konnectivity-server-crt";
    /// Konnectivity agents.
    pub const KONNECTIVITY_AGENT: &str = "konnectivity-agent-crt";
    /// The administrator, whose kubeconfig users get and the operator uses.
    pub const ADMIN: &str = "system-admin-client-crt";
    /// The controller-manager as a client of the API server.
    pub const KUBE_CONTROLLER_MANAGER: &str = "kcm-client-crt";
    /// The scheduler as a client of the API server.
    pub const KUBE_SCHEDULER: &str = "scheduler-client-crt";
}

/// User of the API server's certificate towards kubelets; a role binding inside the hosted cluster lets it in.
pub const KUBELET_CLIENT_USER: &str = "kube-apiserver-kubelet-client";

/// Lists every certificate that a hosted cluster needs.
pub fn leaves(names: &Names) -> Vec<Leaf> {
    let mut leaves = serving(names);
    leaves.extend(clients());
    leaves
}

fn serving(names: &Names) -> Vec<Leaf> {
    let namespace = &names.namespace;
    let (mut api_names, mut api_addresses) = hosts(&names.api_hosts);
    api_names.extend(service_names(names::KUBE_APISERVER, namespace));
    api_names.extend(
        ["localhost", "kubernetes", "kubernetes.default", "kubernetes.default.svc"]
            .map(str::to_owned),
    );
    api_names.insert("kubernetes.default.svc.cluster.local".to_owned());
    api_addresses.extend(names.kubernetes_service_addresses.iter().copied());
    api_addresses.insert(LOOPBACK);

    let (mut konnectivity_names, konnectivity_addresses) = hosts(&names.konnectivity_hosts);
    konnectivity_names.extend(service_names(names::KONNECTIVITY_SERVER, namespace));

    let mut etcd_names: BTreeSet<String> = service_names(names::ETCD_CLIENT, namespace).collect();
    let discovery = names::ETCD_DISCOVERY;
    etcd_names.extend([
        "localhost".to_owned(),
        format!("*.{discovery}.{namespace}.svc"),
        format!("*.{discovery}.{namespace}.svc.cluster.local"),
    ]);
    vec![
        Leaf {
            dns_names: api_names,
            addresses: api_addresses,
            ..leaf_of(leaf::KUBE_APISERVER, Authority::Root, Usage::Server, "kube-apiserver")
        },
        Leaf {
            dns_names: konnectivity_names,
            addresses: konnectivity_addresses,
            ..leaf_of(
                leaf::KONNECTIVITY_SERVER,
                Authority::Root,
                Usage::Server,
                "konnectivity-server",
            )
        },
        Leaf {
            dns_names: etcd_names.clone(),
            addresses: [LOOPBACK].into(),
            ..leaf_of(leaf::ETCD_SERVER, Authority::Etcd, Usage::Peer, "etcd")
        },
        Leaf {
            dns_names: etcd_names,
            addresses: [LOOPBACK].into(),
            ..leaf_of(leaf::ETCD_PEER, Authority::Etcd, Usage::Peer, "etcd")
        },
    ]
}

fn clients() -> Vec<Leaf> {
    let client = |secret, authority, user| leaf_of(secret, authority, Usage::Client, user);
    vec![
        client(leaf::ETCD_CLIENT, Authority::Etcd, "kube-apiserver"),
        client(leaf::AGGREGATOR, Authority::Aggregator, "system:aggregator"),
        client(leaf::KONNECTIVITY_AGENT, Authority::Konnectivity, "konnectivity-agent"),
        client(leaf::KUBELET_CLIENT, Authority::Root, KUBELET_CLIENT_USER),
        client(leaf::KUBE_CONTROLLER_MANAGER, Authority::Root, "system:kube-controller-manager"),
        client(leaf::KUBE_SCHEDULER, Authority::Root, "system:kube-scheduler"),
        Leaf {
            organization: Some("system:masters"),
            ..client(leaf::ADMIN, Authority::Root, "system:admin")
        },
    ]
}

const LOOPBACK: IpAddr = IpAddr::V4(std::net::Ipv4Addr::LOCALHOST);

fn leaf_of(secret: &'static str, authority: Authority, usage: Usage, common_name: &str) -> Leaf {
    Leaf {
        secret,
        authority,
        common_name: common_name.to_owned(),
        organization: None,
        usage,
        dns_names: BTreeSet::new(),
        addresses: BTreeSet::new(),
    }
}

/// The names by which a Service is known inside the hosting cluster.
fn service_names(service: &str, namespace: &str) -> impl Iterator<Item = String> {
    [
        service.to_owned(),
        format!("{service}.{namespace}"),
        format!("{service}.{namespace}.svc"),
        format!("{service}.{namespace}.svc.cluster.local"),
    ]
    .into_iter()
}

fn hosts(hosts: &[String]) -> (BTreeSet<String>, BTreeSet<IpAddr>) {
    let mut names = BTreeSet::new();
    let mut addresses = BTreeSet::new();
    for host in hosts {
        match host.parse() {
            Ok(address) => {
                addresses.insert(address);
            }
            Err(_) => {
                names.insert(host.clone());
            }
        }
    }
    (names, addresses)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn when_a_cluster_is_published_every_certificate_names_where_it_is_used() {
        let names = Names {
            namespace: "clusters-demo".to_owned(),
            api_hosts: vec!["192.0.2.7".to_owned(), "api.demo.example".to_owned()],
            konnectivity_hosts: vec!["192.0.2.8".to_owned()],
            kubernetes_service_addresses: vec!["172.31.0.1".parse().unwrap()],
        };
        insta::assert_debug_snapshot!(leaves(&names));
    }
}
