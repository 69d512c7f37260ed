//! What a hosted user asks for by annotating a Service.

use std::collections::BTreeMap;

use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;
use remora_api::labels;
use remora_api::service_exposure::{ExposedPort, ExposureVia, PortRange};

/// What a Service asks for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Ask {
    pub(super) via: ExposureVia,
    pub(super) ports: Vec<ExposedPort>,
}

/// What a Service asks for cannot be understood.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum AskError {
    /// The way is none.
    #[error("annotation {}: {value:?} is no way to be exposed; write {}", labels::EXPOSE, ways())]
    Via {
        /// What is written.
        value: String,
    },
    /// The list of ports cannot be read.
    #[error(
        "annotation {}: cannot read {entry:?}; write name or number of each port and its node port, like \
         http=30080,8443=30443",
        labels::EXPOSE_NODE_PORTS
    )]
    Ports {
        /// The entry that cannot be read.
        entry: String,
    },
}

impl Ask {
    /// The first node port asked for that lies outside a range.
    pub(super) fn outside(&self, range: PortRange) -> Option<i32> {
        let mut asked = self.ports.iter().filter_map(|port| port.node_port);
        asked.find(|port| u16::try_from(*port).map_or(true, |port| !range.contains(port)))
    }
}

/// Reads what a Service asks for; none: nothing.
pub(super) fn ask(annotations: &BTreeMap<String, String>) -> Result<Option<Ask>, AskError> {
    let Some(value) = annotations.get(labels::EXPOSE) else { return Ok(None) };
    let word = value.trim();
    let way = ExposureVia::ALL.iter().find(|way| way.as_str().eq_ignore_ascii_case(word));
    let via = *way.ok_or_else(|| AskError::Via { value: told(value) })?;
    let listed = annotations.get(labels::EXPOSE_NODE_PORTS).map(String::as_str).unwrap_or_default();
    let entries = listed.split(',').map(str::trim).filter(|entry| !entry.is_empty());
    Ok(Some(Ask { via, ports: entries.map(port).collect::<Result<_, _>>()? }))
}

fn port(entry: &str) -> Result<ExposedPort, AskError> {
    let unclear = || AskError::Ports { entry: told(entry) };
    let (port, node_port) = entry.split_once('=').ok_or_else(unclear)?;
    let (port, node_port) = (port.trim(), node_port.trim());
    let number: u16 = node_port.parse().map_err(|_| unclear())?;
    if number == 0 || port.is_empty() || port.len() > 63 {
        return Err(unclear());
    }
    let port = match port.parse::<u16>() {
        Ok(0) => return Err(unclear()),
        Ok(number) => IntOrString::Int(number.into()),
        Err(_) => IntOrString::String(port.to_owned()),
    };
    Ok(ExposedPort { port, node_port: Some(number.into()) })
}

/// A user's text, short enough for a message.
fn told(text: &str) -> String {
    text.chars().take(60).collect()
}

fn ways() -> String {
    let ways: Vec<&str> = ExposureVia::ALL.iter().map(|way| way.as_str()).collect();
    ways.join(" or ")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn asked(via: &str, ports: Option<&str>) -> Result<Option<Ask>, AskError> {
        let mut annotations = BTreeMap::from([(labels::EXPOSE.to_owned(), via.to_owned())]);
        if let Some(ports) = ports {
            annotations.insert(labels::EXPOSE_NODE_PORTS.to_owned(), ports.to_owned());
        }
        ask(&annotations)
    }

    #[test]
    fn a_service_without_the_annotation_asks_for_nothing() {
        let ports = [(labels::EXPOSE_NODE_PORTS.to_owned(), "http=30080".to_owned())];
        assert_eq!(ask(&ports.into()), Ok(None));
    }

    #[test]
    fn ports_are_read_by_name_and_number() {
        let ports = vec![
            ExposedPort { port: IntOrString::String("http".to_owned()), node_port: Some(30080) },
            ExposedPort { port: IntOrString::Int(8443), node_port: Some(30443) },
        ];
        let expected = Ask { via: ExposureVia::NodePort, ports };
        assert_eq!(asked("nodeport", Some(" http=30080, 8443 = 30443,")), Ok(Some(expected)));
    }

    #[test]
    fn what_cannot_be_read_is_named() {
        let messages: Vec<String> = [
            asked("Telepathy", None),
            asked("NodePort", Some("http")),
            asked("NodePort", Some("http=70000")),
            asked("NodePort", Some("=30080")),
            asked("NodePort", Some("0=30080")),
        ]
        .into_iter()
        .map(|result| result.unwrap_err().to_string())
        .collect();
        insta::assert_yaml_snapshot!(messages);
    }

    #[test]
    fn a_port_outside_the_range_is_found() {
        let ask = asked("NodePort", Some("a=30001,b=31001")).unwrap().unwrap();
        assert_eq!(ask.outside(PortRange { first: 30000, last: 30999 }), Some(31001));
        assert_eq!(ask.outside(PortRange { first: 30000, last: 31999 }), None);
    }
}
