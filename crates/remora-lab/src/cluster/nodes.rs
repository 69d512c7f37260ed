//! The hosts as nodes of the hosting cluster.

use std::collections::BTreeMap;
use std::time::Duration;

use k8s_openapi::api::core::v1::Node;
use kube::api::{ListParams, Patch, PatchParams};
use kube::{Api, Client};
use serde_json::{Value, json};

use crate::cluster::api::eventually;
use crate::error::{LabError, with_causes};
use crate::host::config::CONTROL_PLANE_TAINT;
use crate::topology::{Host, Role, Topology};

/// Ten times what was measured.
const REGISTERED: Duration = Duration::from_secs(120);
const READY: Duration = Duration::from_secs(180);

/// Waits for every host to register as a node, and says about each what a node may not say about
/// itself: its role and its part of the pod network.
pub(crate) async fn describe(client: &Client, topology: &Topology) -> Result<(), LabError> {
    let api: Api<Node> = Api::all(client.clone());
    for host in &topology.hosts {
        let awaited = format!("node {}", host.name);
        eventually(&awaited, REGISTERED, || async {
            let patch = Patch::Merge(description(host));
            let parameters = PatchParams::default();
            api.patch(&host.name, &parameters, &patch).await.map_err(|error| with_causes(&error))
        })
        .await?;
    }
    Ok(())
}

fn description(host: &Host) -> Value {
    let labels = match host.role {
        Role::Master => json!({CONTROL_PLANE_TAINT: ""}),
        Role::Worker => json!({"node-role.kubernetes.io/worker": ""}),
    };
    let network = host.pod_network();
    json!({
        "metadata": {"labels": labels},
        "spec": {"podCIDR": network, "podCIDRs": [network]},
    })
}

/// Waits until every host is a Ready node. What a node said before its host's present life, which
/// `born` tells the beginning of in seconds of Unix time, does not count.
pub(crate) async fn all_ready(
    client: &Client,
    topology: &Topology,
    born: impl Fn(&Host) -> Option<i64>,
) -> Result<(), LabError> {
    eventually("all nodes Ready", READY, || async {
        let readiness = said(client).await.map_err(|error| with_causes(&error))?;
        let missing: Vec<_> = topology
            .hosts
            .iter()
            .filter_map(|host| match (readiness.get(&host.name), born(host)) {
                (_, None) => Some(format!("{}: it does not run", host.name)),
                (None, _) => Some(format!("{}: not registered", host.name)),
                (Some(said), Some(born)) if said.at < born => {
                    Some(format!("{}: it has not said anything yet", host.name))
                }
                (Some(Said { verdict: Ok(()), .. }), _) => None,
                (Some(Said { verdict: Err(why), .. }), _) => Some(format!("{}: {why}", host.name)),
            })
            .collect();
        if missing.is_empty() { Ok(()) } else { Err(missing.join("; ")) }
    })
    .await
}

/// Which nodes are Ready, and why the others are not.
pub(crate) async fn readiness(
    client: &Client,
) -> Result<BTreeMap<String, Result<(), String>>, LabError> {
    let said = said(client).await?;
    Ok(said.into_iter().map(|(name, said)| (name, said.verdict)).collect())
}

/// What a node says about itself.
#[derive(Debug, PartialEq, Eq)]
struct Said {
    /// Whether it is Ready, or why not.
    verdict: Result<(), String>,
    /// When, in seconds of Unix time.
    at: i64,
}

async fn said(client: &Client) -> Result<BTreeMap<String, Said>, LabError> {
    let api: Api<Node> = Api::all(client.clone());
    let nodes = api.list(&ListParams::default()).await.map_err(LabError::api("list nodes"))?;
    let entry = |node: Node| {
        let said = said_by(&node);
        (node.metadata.name.unwrap_or_default(), said)
    };
    Ok(nodes.items.into_iter().map(entry).collect())
}

fn said_by(node: &Node) -> Said {
    let conditions = node.status.as_ref().and_then(|status| status.conditions.as_ref());
    let ready = conditions.and_then(|all| all.iter().find(|condition| condition.type_ == "Ready"));
    let Some(condition) = ready else {
        return Said { verdict: Err("it has not said anything yet".to_owned()), at: 0 };
    };
    let verdict = match condition.status.as_str() {
        "True" => Ok(()),
        _ => Err(condition.message.clone().unwrap_or_default()),
    };
    let at = condition.last_heartbeat_time.as_ref().map_or(0, |time| time.0.as_second());
    Said { verdict, at }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn when_a_node_is_not_ready_its_message_is_the_reason() {
        let node = |status: &str| -> Node {
            serde_json::from_value(json!({
                "metadata": {"name": "worker-1"},
                "status": {"conditions": [{
                    "type": "Ready", "status": status, "message": "no CNI",
                    "lastHeartbeatTime": "1970-01-01T00:01:40Z",
                }]},
            }))
            .unwrap()
        };
        let no_cni = Said { verdict: Err("no CNI".to_owned()), at: 100 };
        assert_eq!(said_by(&node("False")), no_cni);
        assert_eq!(said_by(&node("True")), Said { verdict: Ok(()), at: 100 });
        assert!(said_by(&Node::default()).verdict.is_err());
    }

    #[test]
    fn when_the_host_is_a_master_its_node_is_labelled_so() {
        let topology = Topology::new(1, 1).unwrap();
        assert_eq!(
            description(topology.host("master-1").unwrap()),
            json!({
                "metadata": {"labels": {"node-role.kubernetes.io/control-plane": ""}},
                "spec": {"podCIDR": "10.128.101.0/24", "podCIDRs": ["10.128.101.0/24"]},
            })
        );
    }
}
