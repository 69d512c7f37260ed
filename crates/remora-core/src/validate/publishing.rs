//! `spec.services`: how the API server and konnectivity are published.

use std::collections::BTreeMap;
use std::net::IpAddr;

use remora_api::hosted_cluster::{
    HostedClusterSpec, PublishingStrategyType, ServicePublishingStrategy,
    ServicePublishingStrategyMapping, ServiceType,
};

use super::Fault;
use super::networks::DEFAULT_NODE_PORTS;
use crate::control_plane::{Networks, Publishing};

pub(super) struct Published {
    pub(super) api: Publishing,
    pub(super) konnectivity: Publishing,
}

pub(super) fn publishing(
    spec: &HostedClusterSpec,
    networks: Option<&Networks>,
    faults: &mut Vec<Fault>,
) -> Option<Published> {
    let range = networks.map_or(DEFAULT_NODE_PORTS, |networks| networks.node_ports);
    let api = one(spec, ServiceType::ApiServer, range, networks, faults);
    let konnectivity = one(spec, ServiceType::Konnectivity, range, networks, faults);
    check_host_names(&spec.services, faults);
    let (api, konnectivity) = (api?, konnectivity?);
    if let (
        Publishing::NodePort { port: Some(first), .. },
        Publishing::NodePort { port: Some(second), .. },
    ) = (&api, &konnectivity)
        && first == second
    {
        faults.push(Fault::invalid(
            format!("spec.services: APIServer and Konnectivity both ask for node port {first}"),
            "give them different ports, or leave one out to have a free one taken",
        ));
    }
    Some(Published { api, konnectivity })
}

fn one(
    spec: &HostedClusterSpec,
    service: ServiceType,
    range: (u16, u16),
    networks: Option<&Networks>,
    faults: &mut Vec<Fault>,
) -> Option<Publishing> {
    let mut mappings = spec.services.iter().filter(|mapping| mapping.service == service);
    let Some(mapping) = mappings.next() else {
        faults.push(Fault::invalid(
            format!("spec.services does not name {service}"),
            "add it, published by LoadBalancer or NodePort",
        ));
        return None;
    };
    if mappings.next().is_some() {
        faults.push(Fault::invalid(
            format!("spec.services names {service} twice"),
            "name each service once",
        ));
    }
    let strategy = &mapping.service_publishing_strategy;
    match strategy.strategy_type {
        PublishingStrategyType::LoadBalancer => Some(Publishing::LoadBalancer {
            hostname: strategy
                .load_balancer
                .as_ref()
                .and_then(|balancer| balancer.hostname.clone()),
        }),
        PublishingStrategyType::NodePort => node_port(service, strategy, range, networks, faults),
        PublishingStrategyType::Route
        | PublishingStrategyType::None
        | PublishingStrategyType::S3 => {
            faults.push(Fault::unsupported(
                format!("spec.services: {service} is to be published by {}", strategy.strategy_type),
                "publish it by LoadBalancer or NodePort: spec.services cannot be changed, so delete the \
                 HostedCluster and create it anew (Routes exist on OpenShift only)",
            ));
            None
        }
    }
}

fn node_port(
    service: ServiceType,
    strategy: &ServicePublishingStrategy,
    (first, last): (u16, u16),
    networks: Option<&Networks>,
    faults: &mut Vec<Fault>,
) -> Option<Publishing> {
    let Some(asked) = &strategy.node_port else {
        faults.push(Fault::invalid(
            format!("spec.services: {service} is published by NodePort without nodePort.address"),
            "add the address under which the hosting nodes are reached",
        ));
        return None;
    };
    check_address(service, &asked.address, networks, faults);
    let port = match asked.port {
        // Not positive means any, as in HyperShift.
        None | Some(..=0) => None,
        Some(port) => {
            match u16::try_from(port) {
                Ok(port) if (first..=last).contains(&port) => Some(port),
                Ok(_) | Err(_) => {
                    faults.push(Fault::invalid(
                    format!("spec.services: nodePort.port {port} of {service} is outside {first}-{last}"),
                    "choose a port of that range, or 0 to have a free one taken",
                ));
                    return None;
                }
            }
        }
    };
    Some(Publishing::NodePort { address: asked.address.clone(), port })
}

fn check_address(
    service: ServiceType,
    address: &str,
    networks: Option<&Networks>,
    faults: &mut Vec<Fault>,
) {
    let is_numbers =
        address.chars().all(|character| character.is_ascii_digit() || character == '.');
    let Ok(ip) = address.parse::<IpAddr>() else {
        if is_numbers {
            faults.push(Fault::invalid(
                format!("spec.services: nodePort.address {address} of {service} is no address"),
                "write four numbers from 0 to 255, or a DNS name",
            ));
        }
        return;
    };
    let Some(networks) = networks else { return };
    let inside =
        networks.service.iter().chain(networks.cluster.iter().map(|cluster| &cluster.cidr));
    for network in inside.filter(|network| network.contains(&ip)) {
        faults.push(Fault::invalid(
            format!(
                "spec.services: nodePort.address {ip} of {service} lies in the cluster's own network {network}"
            ),
            "name an address of the hosting nodes, and choose networks that do not contain it",
        ));
    }
}

/// Two services under one name cannot be told apart by whoever routes by it.
fn check_host_names(services: &[ServicePublishingStrategyMapping], faults: &mut Vec<Fault>) {
    let mut seen: BTreeMap<&str, ServiceType> = BTreeMap::new();
    for mapping in services {
        let strategy = &mapping.service_publishing_strategy;
        let balancer =
            strategy.load_balancer.as_ref().and_then(|balancer| balancer.hostname.as_deref());
        let route = strategy.route.as_ref().and_then(|route| route.hostname.as_deref());
        for host in balancer.into_iter().chain(route).filter(|host| !host.is_empty()) {
            if let Some(other) = seen.insert(host, mapping.service) {
                faults.push(Fault::invalid(
                    format!(
                        "spec.services: {other} and {} share the host name {host}",
                        mapping.service
                    ),
                    "give each service a name of its own",
                ));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use remora_api::hosted_cluster::{
        LoadBalancerPublishingStrategy, NodePortPublishingStrategy, PublishingStrategyType,
        ServicePublishingStrategy,
    };

    use crate::validate::testing::faults;

    fn by_node_port(address: &str, port: Option<i32>) -> ServicePublishingStrategy {
        ServicePublishingStrategy {
            strategy_type: PublishingStrategyType::NodePort,
            node_port: Some(NodePortPublishingStrategy { address: address.to_owned(), port }),
            load_balancer: None,
            route: None,
        }
    }

    fn by_balancer(hostname: &str) -> ServicePublishingStrategy {
        ServicePublishingStrategy {
            strategy_type: PublishingStrategyType::LoadBalancer,
            node_port: None,
            load_balancer: Some(LoadBalancerPublishingStrategy {
                hostname: Some(hostname.to_owned()),
            }),
            route: None,
        }
    }

    fn faults_of(
        api: ServicePublishingStrategy,
        konnectivity: ServicePublishingStrategy,
    ) -> Vec<String> {
        faults(|hosted_cluster| {
            let services = &mut hosted_cluster.spec.services;
            services[0].service_publishing_strategy = api;
            services[1].service_publishing_strategy = konnectivity;
        })
    }

    #[test]
    fn when_a_port_is_not_positive_any_free_one_is_fine() {
        let faults =
            faults_of(by_node_port("192.0.2.7", Some(0)), by_node_port("192.0.2.7", Some(-1)));
        assert_eq!(faults, Vec::<String>::new());
    }

    #[test]
    fn when_a_port_is_outside_the_range_the_range_is_named() {
        let faults = faults_of(
            by_node_port("192.0.2.7", Some(6443)),
            by_node_port("192.0.2.7", Some(70000)),
        );
        insta::assert_yaml_snapshot!(faults);
    }

    #[test]
    fn when_both_ask_for_one_port_that_is_said() {
        let faults = faults_of(
            by_node_port("192.0.2.7", Some(30443)),
            by_node_port("192.0.2.7", Some(30443)),
        );
        insta::assert_yaml_snapshot!(faults);
    }

    #[test]
    fn when_an_address_lies_in_the_clusters_network_or_is_none_that_is_said() {
        let faults = faults_of(by_node_port("172.31.0.7", None), by_node_port("192.0.2.700", None));
        insta::assert_yaml_snapshot!(faults);
    }

    #[test]
    fn when_two_services_share_a_host_name_that_is_said() {
        let faults = faults_of(by_balancer("api.example.com"), by_balancer("api.example.com"));
        insta::assert_yaml_snapshot!(faults);
    }

    #[test]
    fn when_the_api_server_is_published_by_route_the_remedy_is_named() {
        let route = ServicePublishingStrategy {
            strategy_type: PublishingStrategyType::Route,
            node_port: None,
            load_balancer: None,
            route: None,
        };
        insta::assert_yaml_snapshot!(faults_of(route, by_balancer("konnectivity.example.com")));
    }

    #[test]
    fn when_konnectivity_is_missing_that_is_said() {
        insta::assert_yaml_snapshot!(faults(|hosted_cluster| {
            hosted_cluster.spec.services.remove(1);
        }));
    }
}
