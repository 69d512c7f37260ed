//! Empties nodes.

use k8s_openapi::api::core::v1::{Node, Pod};
use kube::api::{EvictParams, ListParams, Patch, PatchParams};
use kube::{Api, Client, ResourceExt};
use remora_core::node::{PodVerdict, pod_verdict};
use serde_json::json;

use super::error::{PoolError, failed};
use crate::error::is_not_found;

/// How many pods are named when a drain tells what it waits for.
const NAMED_PODS: usize = 3;

/// How far a drain is.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Drain {
    /// Every pod that can live elsewhere is gone.
    Empty,
    /// Pods are left: a sentence.
    Waits(String),
}

/// Takes one step of a drain: no new pods, and every pod that can live elsewhere is asked to go.
pub(super) async fn drain(client: &Client, node: &str) -> Result<Drain, PoolError> {
    cordon(client, node).await?;
    let api: Api<Pod> = Api::all(client.clone());
    let params = ListParams::default().fields(&format!("spec.nodeName={node}"));
    let pods =
        api.list(&params).await.map_err(failed("list pods of", format!("hosted Node {node}")))?;
    let mut going = Vec::new();
    let mut refused = Vec::new();
    for pod in &pods.items {
        let name = format!("{}/{}", pod.namespace().unwrap_or_default(), pod.name_any());
        match pod_verdict(pod) {
            PodVerdict::Leave => {}
            PodVerdict::Await => going.push(name),
            PodVerdict::Evict => match evict(client, pod).await? {
                Eviction::Accepted => going.push(name),
                Eviction::Refused => refused.push(name),
            },
        }
    }
    Ok(report(node, &going, &refused))
}

fn report(node: &str, going: &[String], refused: &[String]) -> Drain {
    let named = |pods: &[String]| {
        let names: Vec<&str> = pods.iter().take(NAMED_PODS).map(String::as_str).collect();
        let more = pods.len().saturating_sub(NAMED_PODS);
        if more == 0 { names.join(", ") } else { format!("{} and {more} more", names.join(", ")) }
    };
    match (going, refused) {
        ([], []) => Drain::Empty,
        (_, [_, ..]) => Drain::Waits(format!(
            "node {node} cannot be drained: a PodDisruptionBudget protects {}",
            named(refused)
        )),
        (_, []) => Drain::Waits(format!("node {node} is being drained: {} left", named(going))),
    }
}

/// Keeps new pods off a node.
async fn cordon(client: &Client, node: &str) -> Result<(), PoolError> {
    let api: Api<Node> = Api::all(client.clone());
    let patch = json!({"spec": {"unschedulable": true}});
    match api.patch(node, &PatchParams::default(), &Patch::Merge(&patch)).await {
        Ok(_) => Ok(()),
        Err(error) if is_not_found(&error) => Ok(()),
        Err(error) => Err(failed("cordon", format!("hosted Node {node}"))(error)),
    }
}

enum Eviction {
    Accepted,
    Refused,
}

async fn evict(client: &Client, pod: &Pod) -> Result<Eviction, PoolError> {
    let namespace = pod.namespace().unwrap_or_default();
    let name = pod.name_any();
    let api: Api<Pod> = Api::namespaced(client.clone(), &namespace);
    match api.evict(&name, &EvictParams::default()).await {
        Ok(_) => Ok(Eviction::Accepted),
        Err(error) if is_not_found(&error) => Ok(Eviction::Accepted),
        // 429: the disruption budget allows no further eviction now.
        Err(kube::Error::Api(status)) if status.code == 429 => Ok(Eviction::Refused),
        Err(error) => Err(failed("evict", format!("hosted Pod {namespace}/{name}"))(error)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(count: usize) -> Vec<String> {
        (0..count).map(|index| format!("ns/p{index}")).collect()
    }

    #[test]
    fn when_a_budget_refuses_the_report_names_the_pods() {
        let Drain::Waits(message) = report("n1", &names(1), &names(5)) else { panic!("empty") };
        assert_eq!(
            message,
            "node n1 cannot be drained: a PodDisruptionBudget protects ns/p0, ns/p1, ns/p2 and 2 more"
        );
    }

    #[test]
    fn when_no_pod_is_left_the_node_is_empty() {
        assert_eq!(report("n1", &[], &[]), Drain::Empty);
    }
}
