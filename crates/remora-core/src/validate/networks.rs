//! `spec.networking`: networks that fit together.

use std::net::IpAddr;

use ipnet::IpNet;
use remora_api::hosted_cluster::{AllocateNodeCidrs, HostedClusterSpec};

use super::Fault;
use crate::control_plane::{ClusterNetwork, Networks, PodNetwork};

/// Ports of hosted Services of type NodePort when the spec names none (Kubernetes' default).
pub(super) const DEFAULT_NODE_PORTS: (u16, u16) = (30000, 32767);

/// Prefix length of a node's part of the pod network when the spec names none, as in HyperShift.
const DEFAULT_HOST_PREFIX_V4: u8 = 23;
/// The same for IPv6.
const DEFAULT_HOST_PREFIX_V6: u8 = 64;

/// kube-controller-manager divides a network into at most 2^16 parts.
const MAX_PARTS_BITS: u8 = 16;

/// kube-apiserver accepts service networks of at most 2^20 addresses.
const MAX_SERVICE_BITS: u8 = 20;

/// The first addresses are given away: the API and DNS need two of them.
const MIN_SERVICE_BITS: u8 = 4;

/// A network and the field that names it.
struct Named {
    field: String,
    network: IpNet,
}

pub(super) fn networks(spec: &HostedClusterSpec, faults: &mut Vec<Fault>) -> Option<Networks> {
    let networking = &spec.networking;
    let known = faults.len();
    let cluster =
        parse(faults, "clusterNetwork", networking.cluster_network.iter().map(|entry| &entry.cidr));
    let service =
        parse(faults, "serviceNetwork", networking.service_network.iter().map(|entry| &entry.cidr));
    let machine =
        parse(faults, "machineNetwork", networking.machine_network.iter().map(|entry| &entry.cidr));
    let all: Vec<&Named> = cluster.iter().chain(&service).chain(&machine).collect();
    check_overlap(&all, faults);
    check_advertise_address(spec, &all, faults);
    check_families(&cluster, &service, faults);
    service.iter().for_each(|named| check_service_size(named, faults));
    let prefixes = networking.cluster_network.iter().map(|entry| entry.host_prefix);
    let cluster = cluster
        .iter()
        .zip(prefixes)
        .filter_map(|(named, prefix)| cluster_network(named, prefix, faults))
        .collect::<Vec<_>>();
    let pod_network = PodNetwork::from(networking.network_type);
    if pod_network == PodNetwork::Flannel && cluster.iter().any(|part| part.cidr.addr().is_ipv6()) {
        faults.push(Fault::unsupported(
            "spec.networking.clusterNetwork names an IPv6 network, and Remora's own pod network is IPv4 only",
            "set spec.networking.networkType to Other and install a pod network, or use IPv4 only",
        ));
    }
    let node_ports = node_ports(spec, faults)?;
    let allowed_sources = allowed_sources(spec, faults);
    (faults.len() == known).then(|| Networks {
        cluster,
        service: service.into_iter().map(|named| named.network).collect(),
        node_ports,
        pod_network,
        allocates_node_cidrs: networking.allocate_node_cidrs == Some(AllocateNodeCidrs::Enabled),
        allowed_sources,
    })
}

fn parse<'a>(
    faults: &mut Vec<Fault>,
    list: &str,
    cidrs: impl Iterator<Item = &'a String>,
) -> Vec<Named> {
    cidrs
        .enumerate()
        .filter_map(|(index, cidr)| {
            let field = format!("spec.networking.{list}[{index}].cidr");
            match cidr.parse::<IpNet>() {
                Ok(network) => Some(Named { field, network: network.trunc() }),
                Err(_) => {
                    faults.push(Fault::invalid(
                        format!("{field} {cidr:?} is no network"),
                        "write an address and a prefix length, like 10.132.0.0/14",
                    ));
                    None
                }
            }
        })
        .collect()
}

fn check_overlap(networks: &[&Named], faults: &mut Vec<Fault>) {
    for (index, first) in networks.iter().enumerate() {
        for second in networks.iter().skip(index + 1) {
            if first.network.contains(&second.network) || second.network.contains(&first.network) {
                faults.push(Fault::invalid(
                    format!(
                        "{} {} overlaps {} {}",
                        first.field, first.network, second.field, second.network
                    ),
                    "choose networks that do not overlap",
                ));
            }
        }
    }
}

fn check_advertise_address(spec: &HostedClusterSpec, networks: &[&Named], faults: &mut Vec<Fault>) {
    let address =
        spec.networking.api_server.as_ref().and_then(|api| api.advertise_address.as_deref());
    let Some(address) = address.and_then(|address| address.parse::<IpAddr>().ok()) else { return };
    if let Some(named) = networks.iter().find(|named| named.network.contains(&address)) {
        faults.push(Fault::invalid(
            format!(
                "spec.networking.apiServer.advertiseAddress {address} lies in {} {}",
                named.field, named.network
            ),
            "choose an address outside the cluster's networks, or leave the field out",
        ));
    }
}

fn check_families(cluster: &[Named], service: &[Named], faults: &mut Vec<Fault>) {
    let families = |networks: &[Named]| -> Vec<bool> {
        networks.iter().map(|named| named.network.addr().is_ipv6()).collect()
    };
    for (list, networks) in [("clusterNetwork", cluster), ("serviceNetwork", service)] {
        if let [first, second] = families(networks).as_slice()
            && first == second
        {
            faults.push(Fault::invalid(
                format!("spec.networking.{list} names two networks of one address family"),
                "name one IPv4 and one IPv6 network, or only one",
            ));
        }
    }
    if families(cluster) != families(service) {
        faults.push(Fault::invalid(
            "spec.networking.clusterNetwork and serviceNetwork have different address families",
            "name the same families in the same order in both",
        ));
    }
}

fn check_service_size(named: &Named, faults: &mut Vec<Fault>) {
    let bits = named.network.max_prefix_len() - named.network.prefix_len();
    if !(MIN_SERVICE_BITS..=MAX_SERVICE_BITS).contains(&bits) {
        faults.push(Fault::invalid(
            format!("{} {} has 2^{bits} addresses", named.field, named.network),
            format!(
                "choose a network of 2^4 to 2^{MAX_SERVICE_BITS} addresses, like 172.31.0.0/16"
            ),
        ));
    }
}

fn cluster_network(
    named: &Named,
    prefix: Option<i32>,
    faults: &mut Vec<Fault>,
) -> Option<ClusterNetwork> {
    let network = named.network;
    let default =
        if network.addr().is_ipv6() { DEFAULT_HOST_PREFIX_V6 } else { DEFAULT_HOST_PREFIX_V4 };
    let length = match prefix {
        // A network smaller than the default part is given to a single node.
        None => Some(default.max(network.prefix_len())),
        Some(prefix) => u8::try_from(prefix).ok(),
    };
    let longest = network.max_prefix_len() - 2;
    let highest = longest.min(network.prefix_len().saturating_add(MAX_PARTS_BITS));
    match length {
        Some(length) if (network.prefix_len()..=highest).contains(&length) => {
            Some(ClusterNetwork { cidr: network, host_prefix: length })
        }
        Some(_) | None => {
            let field = named.field.replace(".cidr", ".hostPrefix");
            faults.push(Fault::invalid(
                format!("{field} {} does not divide {network}", prefix.unwrap_or_default()),
                format!("choose a prefix length from {} to {highest}", network.prefix_len()),
            ));
            None
        }
    }
}

fn node_ports(spec: &HostedClusterSpec, faults: &mut Vec<Fault>) -> Option<(u16, u16)> {
    let network =
        spec.configuration.as_ref().and_then(|configuration| configuration.network.as_ref());
    let Some(range) = network.and_then(|network| network.service_node_port_range.as_deref()) else {
        return Some(DEFAULT_NODE_PORTS);
    };
    let parsed = range.split_once('-').and_then(|(first, last)| {
        Some((first.trim().parse::<u16>().ok()?, last.trim().parse::<u16>().ok()?))
    });
    match parsed {
        Some((first, last)) if 0 < first && first <= last => Some((first, last)),
        Some(_) | None => {
            faults.push(Fault::invalid(
                format!(
                    "spec.configuration.network.serviceNodePortRange {range:?} is no range of ports"
                ),
                "write two ports, the lower first, like 30000-32767",
            ));
            None
        }
    }
}

fn allowed_sources(spec: &HostedClusterSpec, faults: &mut Vec<Fault>) -> Vec<IpNet> {
    let blocks = spec.networking.api_server.iter().flat_map(|api| &api.allowed_cidr_blocks);
    blocks
        .filter_map(|block| match block.parse::<IpNet>() {
            Ok(network) => Some(network),
            Err(_) => {
                faults.push(Fault::invalid(
                    format!("spec.networking.apiServer.allowedCIDRBlocks: {block:?} is no network"),
                    "write an address and a prefix length, like 198.51.100.0/24",
                ));
                None
            }
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use remora_api::hosted_cluster::ApiServerNetworking;

    use crate::validate::testing::faults;

    #[test]
    fn when_networks_overlap_both_fields_are_named() {
        insta::assert_yaml_snapshot!(faults(|hosted_cluster| {
            hosted_cluster.spec.networking.service_network[0].cidr = "10.133.0.0/16".to_owned();
        }));
    }

    #[test]
    fn when_the_host_prefix_does_not_divide_the_network_the_possible_ones_are_named() {
        insta::assert_yaml_snapshot!(faults(|hosted_cluster| {
            hosted_cluster.spec.networking.cluster_network[0].host_prefix = Some(8);
        }));
    }

    #[test]
    fn when_the_service_network_is_too_large_that_is_said() {
        insta::assert_yaml_snapshot!(faults(|hosted_cluster| {
            hosted_cluster.spec.networking.service_network[0].cidr = "172.0.0.0/10".to_owned();
        }));
    }

    #[test]
    fn when_the_advertised_address_lies_in_a_network_that_is_said() {
        insta::assert_yaml_snapshot!(faults(|hosted_cluster| {
            hosted_cluster.spec.networking.api_server = Some(ApiServerNetworking {
                advertise_address: Some("172.31.0.9".to_owned()),
                ..ApiServerNetworking::default()
            });
        }));
    }

    #[test]
    fn when_two_networks_have_one_family_that_is_said() {
        insta::assert_yaml_snapshot!(faults(|hosted_cluster| {
            let networks = &mut hosted_cluster.spec.networking.cluster_network;
            let mut second = networks[0].clone();
            second.cidr = "10.64.0.0/14".to_owned();
            networks.push(second);
        }));
    }
}
