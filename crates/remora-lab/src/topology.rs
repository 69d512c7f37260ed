//! Which hosts the lab has, and every address in it.

use std::net::Ipv4Addr;

use serde::{Deserialize, Serialize};

use crate::error::LabError;

/// The bridge of the lab on the machine.
pub const BRIDGE: &str = "rmr-br0";
/// What the names of the lab's links, network namespaces and cgroups begin with.
pub const PREFIX: &str = "rmr-";
/// The machine's own address in the lab: the bastion.
pub const BASTION: Ipv4Addr = Ipv4Addr::new(192, 168, 123, 1);
/// The network of bastion and hosts.
pub const HOST_NETWORK: &str = "192.168.123.0/24";
/// Addresses of the host network that Services of type LoadBalancer get.
pub const LOAD_BALANCERS: &str = "192.168.123.200-192.168.123.229";
/// The pod network of the hosting cluster.
pub const POD_NETWORK: &str = "10.128.0.0/16";
/// The service network of the hosting cluster.
pub const SERVICE_NETWORK: &str = "172.30.0.0/16";
/// The address of the Service `kubernetes` of the hosting cluster.
pub const KUBERNETES_SERVICE: Ipv4Addr = Ipv4Addr::new(172, 30, 0, 1);
/// The address of the DNS Service of the hosting cluster.
pub const DNS_SERVICE: Ipv4Addr = Ipv4Addr::new(172, 30, 0, 10);
/// The DNS domain of the hosting cluster.
pub const CLUSTER_DOMAIN: &str = "cluster.local";
/// Where the lab's registry answers, as image references name it.
pub const REGISTRY: &str = "192.168.123.1:5000";
/// The port of the hosting cluster's API server on each master.
pub const API_PORT: u16 = 6443;
/// The port on which each host forwards to an API server that answers.
pub const FORWARDER_PORT: u16 = 7443;

const FIRST_MASTER: u8 = 101;
const FIRST_WORKER: u8 = 104;
/// Workers take the addresses up to .199: those above are load balancers'.
const MOST_WORKERS: u8 = 96;

/// What a host is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Role {
    /// Runs the control plane of the hosting cluster, and KubeVirt's.
    Master,
    /// Runs pods and VMs.
    Worker,
}

/// One host of the hosting cluster.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Host {
    /// Its name, which is also its node's.
    pub name: String,
    /// What it is for.
    pub role: Role,
    /// Its address in the host network.
    pub address: Ipv4Addr,
}

impl Host {
    fn new(role: Role, index: u8) -> Self {
        let (word, first) = match role {
            Role::Master => ("master", FIRST_MASTER),
            Role::Worker => ("worker", FIRST_WORKER),
        };
        let [a, b, c, _] = BASTION.octets();
        let address = Ipv4Addr::new(a, b, c, first.saturating_add(index));
        Self { name: format!("{word}-{}", index.saturating_add(1)), role, address }
    }

    /// The name of its network namespace, its cgroup, and its link on the machine's side.
    pub fn scope(&self) -> String {
        format!("{PREFIX}{}", self.name)
    }

    /// The part of the pod network that is its own.
    pub fn pod_network(&self) -> String {
        format!("10.128.{}.0/24", self.address.octets()[3])
    }

    /// The address of its pods' gateway.
    pub fn pod_gateway(&self) -> Ipv4Addr {
        Ipv4Addr::new(10, 128, self.address.octets()[3], 1)
    }
}

/// The hosts of a lab.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Topology {
    /// Masters first, in the order of their addresses.
    pub hosts: Vec<Host>,
}

impl Topology {
    /// The hosts of a lab with so many masters and workers.
    pub fn new(masters: u8, workers: u8) -> Result<Self, LabError> {
        if masters != 1 && masters != 3 {
            return Err(LabError::Refused(format!(
                "a lab has 1 or 3 masters, not {masters}: etcd needs an odd number of members"
            )));
        }
        if workers == 0 || workers > MOST_WORKERS {
            return Err(LabError::Refused(format!(
                "a lab has 1 to {MOST_WORKERS} workers, not {workers}"
            )));
        }
        let masters = (0..masters).map(|index| Host::new(Role::Master, index));
        let workers = (0..workers).map(|index| Host::new(Role::Worker, index));
        Ok(Self { hosts: masters.chain(workers).collect() })
    }

    /// The masters.
    pub fn masters(&self) -> impl Iterator<Item = &Host> {
        self.hosts.iter().filter(|host| host.role == Role::Master)
    }

    /// The workers.
    pub fn workers(&self) -> impl Iterator<Item = &Host> {
        self.hosts.iter().filter(|host| host.role == Role::Worker)
    }

    /// The host of that name.
    pub fn host(&self, name: &str) -> Result<&Host, LabError> {
        self.hosts.iter().find(|host| host.name == name).ok_or_else(|| {
            let names: Vec<_> = self.hosts.iter().map(|host| host.name.as_str()).collect();
            LabError::Refused(format!(
                "the lab has no host `{name}`; its hosts are {}",
                names.join(", ")
            ))
        })
    }

    /// The URL of the hosting cluster's API as the bastion reaches it.
    pub fn api_url(&self) -> String {
        let address = self.masters().next().map_or(BASTION, |master| master.address);
        format!("https://{address}:{API_PORT}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn when_counts_are_the_defaults_the_workers_start_at_104() {
        let topology = Topology::new(1, 3).unwrap();
        let hosts: Vec<_> = topology
            .hosts
            .iter()
            .map(|host| format!("{} {} {}", host.scope(), host.address, host.pod_network()))
            .collect();
        assert_eq!(
            hosts,
            [
                "rmr-master-1 192.168.123.101 10.128.101.0/24",
                "rmr-worker-1 192.168.123.104 10.128.104.0/24",
                "rmr-worker-2 192.168.123.105 10.128.105.0/24",
                "rmr-worker-3 192.168.123.106 10.128.106.0/24",
            ]
        );
        assert_eq!(topology.api_url(), "https://192.168.123.101:6443");
    }

    #[test]
    fn when_there_are_many_workers_link_names_still_fit_the_kernel() {
        let topology = Topology::new(3, MOST_WORKERS).unwrap();
        assert!(topology.hosts.iter().all(|host| host.scope().len() <= 15));
        assert_eq!(topology.hosts.last().unwrap().address, Ipv4Addr::new(192, 168, 123, 199));
    }

    #[test]
    fn when_counts_make_no_sense_they_are_refused() {
        assert!(Topology::new(2, 3).unwrap_err().to_string().contains("1 or 3 masters"));
        assert!(Topology::new(1, 0).is_err());
        assert!(Topology::new(1, MOST_WORKERS + 1).is_err());
    }

    #[test]
    fn when_a_host_is_unknown_the_error_lists_the_known_ones() {
        let error = Topology::new(1, 1).unwrap().host("worker-9").unwrap_err().to_string();
        assert_eq!(error, "the lab has no host `worker-9`; its hosts are master-1, worker-1");
    }
}
