//! The published Services of a control plane.

use kube::core::DynamicObject;
use remora_api::names;
use serde_json::{Value, json};

use super::{ControlPlane, Publishing, from_json, kube_apiserver, pod};

/// Builds the Services of the API server and the konnectivity server, published as asked.
///
/// They are applied first: the rest needs to know the ports and addresses that they get.
pub fn published(control_plane: &ControlPlane) -> Vec<DynamicObject> {
    vec![
        service(
            control_plane,
            names::KUBE_APISERVER,
            kube_apiserver::PORT,
            &control_plane.api_publishing,
        ),
        service(
            control_plane,
            names::KONNECTIVITY_SERVER,
            kube_apiserver::AGENT_PORT,
            &control_plane.konnectivity_publishing,
        ),
    ]
}

fn service(
    control_plane: &ControlPlane,
    name: &str,
    port: u16,
    publishing: &Publishing,
) -> DynamicObject {
    let mut service_port =
        json!({ "name": name, "port": port, "targetPort": port, "protocol": "TCP" });
    let kind = match publishing {
        Publishing::NodePort { port: Some(node_port), .. } => {
            service_port["nodePort"] = (*node_port).into();
            "NodePort"
        }
        Publishing::NodePort { port: None, .. } => "NodePort",
        Publishing::LoadBalancer { .. } => "LoadBalancer",
    };
    let mut spec = json!({
        "type": kind,
        "selector": pod::selector(kube_apiserver::NAME),
        "ports": [service_port],
    });
    let allowed = allowed_sources(control_plane, name, publishing);
    if !allowed.is_empty() {
        spec["loadBalancerSourceRanges"] = json!(allowed);
    }
    from_json(json!({
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": control_plane.metadata(name, name),
        "spec": spec,
    }))
}

/// Networks that a load balancer lets through to the API server; none means all.
fn allowed_sources(
    control_plane: &ControlPlane,
    name: &str,
    publishing: &Publishing,
) -> Vec<Value> {
    match publishing {
        Publishing::LoadBalancer { .. } if name == names::KUBE_APISERVER => control_plane
            .networks
            .allowed_sources
            .iter()
            .map(|network| json!(network.to_string()))
            .collect(),
        Publishing::LoadBalancer { .. } | Publishing::NodePort { .. } => Vec::new(),
    }
}

#[cfg(test)]
mod tests {
    use k8s_openapi::api::core::v1::Service;

    use super::*;
    use crate::control_plane::testing::{assert_is, control_plane};

    #[test]
    fn when_published_by_node_port_a_given_port_is_asked_for() {
        let objects = published(&control_plane());
        objects.iter().for_each(assert_is::<Service>);
        insta::assert_yaml_snapshot!(objects);
    }

    #[test]
    fn when_published_by_load_balancer_allowed_sources_are_passed_on() {
        let mut control_plane = control_plane();
        control_plane.api_publishing = Publishing::LoadBalancer { hostname: None };
        control_plane.networks.allowed_sources = vec!["198.51.100.0/24".parse().unwrap()];
        insta::assert_yaml_snapshot!(published(&control_plane));
    }
}
