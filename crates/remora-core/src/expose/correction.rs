//! What others have added to a hosting Service.

use std::collections::{BTreeMap, BTreeSet};

use k8s_openapi::api::core::v1::{Service, ServicePort};
use serde_json::{Map, Value, json};

/// What somebody else has added to a hosting Service and a server-side apply leaves, as a merge patch that takes it away;
/// none when there is nothing.
///
/// An apply changes what it names. Ports beside the desired ones would go on serving what the hosted Service does not
/// say, and more labels in the selector would keep machines out.
pub fn correction(desired: &Service, live: &Service) -> Option<Value> {
    let (desired, live) = (desired.spec.as_ref()?, live.spec.as_ref()?);
    let wanted: BTreeSet<_> = desired.ports.iter().flatten().map(port_key).collect();
    let ports = live.ports.as_deref().unwrap_or_default();
    let kept: Vec<_> = ports.iter().filter(|port| wanted.contains(&port_key(port))).collect();
    let mut spec = Map::new();
    if kept.len() < ports.len() {
        spec.insert("ports".to_owned(), json!(kept));
    }
    let strays = [
        ("externalIPs", live.external_ips.is_some()),
        ("loadBalancerIP", live.load_balancer_ip.is_some() && desired.load_balancer_ip.is_none()),
        (
            "loadBalancerSourceRanges",
            live.load_balancer_source_ranges.is_some()
                && desired.load_balancer_source_ranges.is_none(),
        ),
    ];
    for (field, is_stray) in strays {
        if is_stray {
            spec.insert(field.to_owned(), Value::Null);
        }
    }
    if let Some(selector) = stray_selector(desired.selector.as_ref(), live.selector.as_ref()) {
        spec.insert("selector".to_owned(), selector);
    }
    (!spec.is_empty()).then(|| json!({ "spec": spec }))
}

fn stray_selector(
    desired: Option<&BTreeMap<String, String>>,
    live: Option<&BTreeMap<String, String>>,
) -> Option<Value> {
    let live = live?;
    let Some(desired) = desired else { return Some(Value::Null) };
    let strays = live.keys().filter(|key| !desired.contains_key(*key));
    let strays: Map<String, Value> = strays.map(|key| (key.clone(), Value::Null)).collect();
    (!strays.is_empty()).then_some(Value::Object(strays))
}

/// What tells ports of a Service apart.
fn port_key(port: &ServicePort) -> (i32, &str) {
    (port.port, port.protocol.as_deref().unwrap_or("TCP"))
}
