//! Which ports of the hosted Service are exposed.

use std::collections::BTreeMap;

use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;
use remora_api::service_exposure::{ExposedPort, Protocol};

use super::hosted::{HostedPort, HostedService, port_number};
use super::refusal::Refusal;

/// One exposed port: the hosted one, and the hosting node port that was asked for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Selected {
    /// The port of the hosted Service.
    pub hosted: HostedPort,
    /// Its node port in the hosted cluster.
    pub target: u16,
    /// Node port of the hosting cluster that was asked for.
    pub asked: Option<u16>,
}

/// Picks the ports that `spec.ports` lists, or all; in the hosted Service's order.
pub(super) fn select(
    listed: &[ExposedPort],
    service: &HostedService,
) -> Result<Vec<Selected>, Refusal> {
    let mut asked: BTreeMap<usize, Option<u16>> = BTreeMap::new();
    if listed.is_empty() {
        asked.extend((0..service.ports.len()).map(|index| (index, None)));
    }
    for (index, entry) in listed.iter().enumerate() {
        let node_port = entry.node_port.and_then(port_number);
        let found = matching(&entry.port, service);
        if found.is_empty() {
            return Err(port_not_found(index, &entry.port, service));
        }
        for position in found {
            let known = asked.entry(position).or_insert(node_port);
            if known.is_some() && node_port.is_some() && *known != node_port {
                let what =
                    format!("port {} is listed with another node port before", told(&entry.port));
                return Err(Refusal::Contradiction { index, what });
            }
            *known = known.or(node_port);
        }
    }
    let selected = asked
        .into_iter()
        .filter_map(|(position, asked)| Some((service.ports.get(position)?, asked)))
        .map(|(port, asked)| with_target(port, asked, service))
        .collect::<Result<Vec<_>, _>>()?;
    check_numbers(listed, &selected)?;
    Ok(selected)
}

/// Positions of the ports that a name or number means; a number can mean one port per protocol.
fn matching(wanted: &IntOrString, service: &HostedService) -> Vec<usize> {
    let is_meant = |port: &HostedPort| match wanted {
        IntOrString::Int(number) => i32::from(port.port) == *number,
        IntOrString::String(name) => {
            port.name.as_ref() == Some(name) || name.parse() == Ok(port.port)
        }
    };
    let ports = service.ports.iter().enumerate();
    ports.filter(|(_, port)| is_meant(port)).map(|(position, _)| position).collect()
}

fn with_target(
    port: &HostedPort,
    asked: Option<u16>,
    service: &HostedService,
) -> Result<Selected, Refusal> {
    let target = port
        .node_port
        .ok_or_else(|| Refusal::PortWithoutNodePort { port: port.port, service: service.key() })?;
    Ok(Selected { hosted: port.clone(), target, asked })
}

/// No two ports of one protocol may ask for one number.
fn check_numbers(listed: &[ExposedPort], selected: &[Selected]) -> Result<(), Refusal> {
    let mut owners: BTreeMap<(u16, Protocol), &HostedPort> = BTreeMap::new();
    for port in selected {
        let Some(number) = port.asked else { continue };
        if let Some(other) = owners.insert((number, port.hosted.protocol), &port.hosted) {
            let is_entry =
                |entry: &ExposedPort| entry.node_port.and_then(port_number) == Some(number);
            let index = listed.iter().rposition(is_entry).unwrap_or_default();
            let what = format!(
                "node port {number} is asked for by both {} and {}",
                other.told(),
                port.hosted.told()
            );
            return Err(Refusal::Contradiction { index, what });
        }
    }
    Ok(())
}

fn port_not_found(index: usize, wanted: &IntOrString, service: &HostedService) -> Refusal {
    let listed: Vec<String> = service.ports.iter().map(HostedPort::told).collect();
    let listed = if listed.is_empty() { "none".to_owned() } else { listed.join(", ") };
    Refusal::PortNotFound { index, port: told(wanted), service: service.key(), listed }
}

fn told(port: &IntOrString) -> String {
    match port {
        IntOrString::Int(number) => number.to_string(),
        IntOrString::String(name) => name.clone(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn service() -> HostedService {
        let port = |name: &str, port, protocol, node_port| HostedPort {
            name: Some(name.to_owned()).filter(|name| !name.is_empty()),
            port,
            protocol,
            app_protocol: None,
            node_port,
        };
        HostedService {
            namespace: "petclinic".to_owned(),
            name: "petclinic-np".to_owned(),
            uid: "uid-of-petclinic-np".to_owned(),
            labels: BTreeMap::new(),
            annotations: BTreeMap::new(),
            type_: "NodePort".to_owned(),
            is_local: false,
            ports: vec![
                port("http", 8080, Protocol::Tcp, Some(30001)),
                port("dns", 53, Protocol::Tcp, Some(30053)),
                port("dns-udp", 53, Protocol::Udp, Some(30054)),
                port("late", 9000, Protocol::Tcp, None),
            ],
            session_affinity: None,
            session_affinity_config: None,
        }
    }

    fn number(port: i32, node_port: Option<u16>) -> ExposedPort {
        ExposedPort { port: IntOrString::Int(port), node_port: node_port.map(Into::into) }
    }

    fn named(port: &str, node_port: Option<u16>) -> ExposedPort {
        ExposedPort {
            port: IntOrString::String(port.to_owned()),
            node_port: node_port.map(Into::into),
        }
    }

    fn targets(listed: &[ExposedPort]) -> Result<Vec<(u16, Option<u16>)>, Refusal> {
        let mut service = service();
        service.ports.retain(|port| port.node_port.is_some());
        Ok(select(listed, &service)?.iter().map(|port| (port.target, port.asked)).collect())
    }

    #[test]
    fn when_no_port_is_listed_all_are_exposed() {
        assert_eq!(targets(&[]), Ok(vec![(30001, None), (30053, None), (30054, None)]));
    }

    #[test]
    fn a_port_is_found_by_name_number_or_number_in_quotes() {
        assert_eq!(targets(&[named("http", Some(31001))]), Ok(vec![(30001, Some(31001))]));
        assert_eq!(targets(&[number(8080, None)]), Ok(vec![(30001, None)]));
        assert_eq!(targets(&[named("8080", None)]), Ok(vec![(30001, None)]));
    }

    #[test]
    fn a_number_means_every_protocol_of_that_number() {
        assert_eq!(
            targets(&[number(53, Some(31053))]),
            Ok(vec![(30053, Some(31053)), (30054, Some(31053))])
        );
    }

    #[test]
    fn a_port_listed_twice_counts_once() {
        assert_eq!(
            targets(&[named("http", None), number(8080, Some(31001))]),
            Ok(vec![(30001, Some(31001))])
        );
    }

    #[test]
    fn refusals_name_field_and_remedy() {
        let refusals: Vec<String> = [
            vec![named("http", None), named("https", None)],
            vec![named("http", Some(31001)), number(8080, Some(31002))],
            vec![named("http", Some(31001)), named("dns", Some(31001))],
            vec![number(9000, None)],
        ]
        .iter()
        .map(|listed| select(listed, &service()).unwrap_err().to_string())
        .collect();
        insta::assert_yaml_snapshot!(refusals);
    }
}
