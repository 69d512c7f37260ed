//! The demo's first steps: hosting nodes, hosted control plane, hosted nodes.

use std::collections::BTreeMap;
use std::time::Duration;

use k8s_openapi::api::core::v1::{Node, Pod};
use kube::api::ListParams;
use kube::core::DynamicObject;
use kube::{Api, Client, ResourceExt};
use remora_api::conditions::HostedClusterConditionType;
use remora_api::{labels, names};
use serde_json::{Value, json};

use super::{CLUSTER, NAMESPACE, Stage};
use crate::failure::{Failure, told};
use crate::manifest;
use crate::wait::{Look, until_condition, until_found, until_list};

/// Limits that catch a hang: ten times what was measured, or more.
pub(super) const OPERATOR: Duration = Duration::from_secs(300);
const HOSTING_NODES: Duration = Duration::from_secs(300);
const AVAILABLE: Duration = Duration::from_secs(600);
const PUBLISHED: Duration = Duration::from_secs(60);
const NODES_READY: Duration = Duration::from_secs(1200);

/// How the progress is told.
pub(super) type Tell<'a> = &'a (dyn Fn(&str) + Sync);

/// Waits until every hosting node is Ready, and shows them.
pub(super) async fn hosting_nodes(stage: &Stage, tell: Tell<'_>) -> Result<String, Failure> {
    let api: Api<Node> = Api::all(stage.hosting.clone());
    let nodes = until_list(&api, "hosting nodes", HOSTING_NODES, tell, all_ready).await?;
    Ok(nodes.iter().map(|node| format!("   {}\n", node_line(node))).collect())
}

fn all_ready(nodes: &[Node]) -> Look {
    let ready = nodes.iter().filter(|node| is_ready(node)).count();
    if ready == nodes.len() && ready > 0 {
        Look::Done
    } else {
        Look::NotYet(format!("{ready} of {} nodes are Ready", nodes.len()))
    }
}

/// Applies the cluster's manifests and waits for its API, which needs no node.
pub(super) async fn available(
    stage: &Stage,
    manifests: &[&str],
    tell: Tell<'_>,
) -> Result<String, Failure> {
    for text in manifests {
        manifest::apply(&stage.hosting, &manifest::from_yaml(text)?).await?;
    }
    let cluster = object("HostedCluster", CLUSTER)?;
    let available = HostedClusterConditionType::Available.as_str();
    until_condition(&stage.hosting, &cluster, available, AVAILABLE, tell).await?;
    // Its published port answers once the hosting nodes' kube-proxies have heard of it.
    let nodes = Api::<Node>::all(stage.hosted_client().await?);
    let nodes = until_list(&nodes, "hosted API", PUBLISHED, tell, |_| Look::Done).await?;
    let ready = nodes.iter().filter(|node| is_ready(node)).count();
    Ok(format!("   HostedCluster {NAMESPACE}/{CLUSTER} is available with {ready} nodes ready\n"))
}

fn object(kind: &str, name: &str) -> Result<DynamicObject, Failure> {
    manifest::from_json(json!({
        "apiVersion": "hypershift.openshift.io/v1beta1",
        "kind": kind,
        "metadata": {"namespace": NAMESPACE, "name": name},
    }))
}

/// Waits until the hosted nodes are Ready and each one's address is its VM's and its pod's. Both at once: after a
/// breakdown the hosted cluster calls its nodes Ready for a while although their machines are starting again.
pub(super) async fn nodes_ready(
    stage: &Stage,
    hosted: &Client,
    tell: Tell<'_>,
) -> Result<String, Failure> {
    let wanted = wanted_nodes(stage).await?;
    let namespace = names::control_plane_namespace(NAMESPACE, CLUSTER);
    until_found("hosted nodes", NODES_READY, tell, async || {
        let api: Api<Node> = Api::all(hosted.clone());
        let nodes = api.list(&ListParams::default()).await.map_err(|error| told(&error))?;
        let machines = machine_addresses(&stage.hosting, &namespace).await;
        let pods = pod_addresses(&stage.hosting, &namespace).await;
        let [machines, pods] = [machines, pods].map(|found| found.map_err(|error| told(&error)));
        served_by_machines(wanted, &nodes.items, &machines?, &pods?)
    })
    .await
}

/// Shows the nodes, or says what is missing until each of them is Ready at its machine's address.
fn served_by_machines(
    wanted: usize,
    nodes: &[Node],
    machines: &BTreeMap<String, String>,
    pods: &BTreeMap<String, String>,
) -> Result<String, String> {
    let ready = nodes.iter().filter(|node| is_ready(node)).count();
    if ready < wanted || ready < nodes.len() {
        return Err(format!("{ready} of {wanted} nodes are Ready"));
    }
    let mut shown = String::new();
    for node in nodes {
        let (name, address) = (node.name_any(), internal_ip(node));
        let (Some(machine), Some(pod)) = (machines.get(&name), pods.get(&name)) else {
            return Err(format!("node {name} is Ready at {address}, but its VM is not running"));
        };
        if address != *machine || address != *pod {
            let why = format!("node {name} is at {address}, its VM at {machine}, its pod at {pod}");
            return Err(why);
        }
        shown.push_str(&format!("   {} = VM {machine} = pod {pod}\n", node_line(node)));
    }
    Ok(shown)
}

/// How many nodes the example's pool asks for; someone may have scaled it.
async fn wanted_nodes(stage: &Stage) -> Result<usize, Failure> {
    let pool = object("NodePool", CLUSTER)?;
    let found = manifest::api(&stage.hosting, &pool).get(CLUSTER).await;
    let found = found.map_err(Failure::request("read", manifest::told(&pool)))?;
    let replicas = found.data.pointer("/spec/replicas").and_then(Value::as_u64);
    Ok(replicas.and_then(|count| usize::try_from(count).ok()).unwrap_or_default())
}

async fn machine_addresses(
    client: &Client,
    namespace: &str,
) -> Result<BTreeMap<String, String>, Failure> {
    let any = manifest::from_json(json!({
        "apiVersion": "kubevirt.io/v1",
        "kind": "VirtualMachineInstance",
        "metadata": {"namespace": namespace},
    }))?;
    let found = manifest::api(client, &any).list(&ListParams::default()).await;
    let found = found.map_err(Failure::request("list", "VirtualMachineInstances"))?;
    let address = |instance: &DynamicObject| {
        let interfaces = instance.data.pointer("/status/interfaces")?.as_array()?;
        let is_default = |one: &&Value| one.get("name").and_then(Value::as_str) == Some("default");
        let default = interfaces.iter().find(is_default)?;
        default.get("ipAddress").and_then(Value::as_str).map(str::to_owned)
    };
    let named = |instance: DynamicObject| Some((instance.name_any(), address(&instance)?));
    Ok(found.items.into_iter().filter_map(named).collect())
}

async fn pod_addresses(
    client: &Client,
    namespace: &str,
) -> Result<BTreeMap<String, String>, Failure> {
    let api: Api<Pod> = Api::namespaced(client.clone(), namespace);
    let selector = format!("{}={}", labels::CAPI_ROLE, labels::CAPI_ROLE_WORKER);
    let found = api.list(&ListParams::default().labels(&selector)).await;
    let found = found.map_err(Failure::request("list", "the machines' pods"))?;
    let named = |pod: Pod| {
        let machine = pod.labels().get(labels::KUBEVIRT_VM).cloned()?;
        let status = pod.status?;
        // A pod that has ended stays beside the one that follows it.
        let is_running = status.phase.as_deref() == Some("Running");
        Some((machine, status.pod_ip.filter(|_| is_running)?))
    };
    Ok(found.items.into_iter().filter_map(named).collect())
}

fn node_line(node: &Node) -> String {
    let info = node.status.as_ref().and_then(|status| status.node_info.as_ref());
    let version = info.map_or("", |info| info.kubelet_version.as_str());
    let state = if is_ready(node) { "Ready" } else { "NotReady" };
    format!("{:<24} {state:<9} {version:<9} {}", node.name_any(), internal_ip(node))
}

fn internal_ip(node: &Node) -> String {
    let addresses = node.status.iter().flat_map(|status| status.addresses.iter().flatten());
    let mut internal = addresses.filter(|address| address.type_ == "InternalIP");
    internal.next().map(|found| found.address.clone()).unwrap_or_default()
}

fn is_ready(node: &Node) -> bool {
    let conditions = node.status.iter().flat_map(|status| status.conditions.iter().flatten());
    conditions.into_iter().any(|found| found.type_ == "Ready" && found.status == "True")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn node(name: &str, address: &str) -> Node {
        serde_json::from_value(json!({
            "metadata": {"name": name},
            "status": {
                "addresses": [{"type": "InternalIP", "address": address}],
                "conditions": [{"type": "Ready", "status": "True"}],
                "nodeInfo": {"kubeletVersion": "v1.35.4"},
            },
        }))
        .unwrap()
    }

    fn at(pairs: &[(&str, &str)]) -> BTreeMap<String, String> {
        pairs.iter().map(|(name, address)| ((*name).to_owned(), (*address).to_owned())).collect()
    }

    #[test]
    fn a_ready_node_counts_only_while_its_machine_runs_at_its_address() {
        let nodes = [node("a", "10.0.0.1")];
        let (here, nowhere) = (at(&[("a", "10.0.0.1")]), at(&[]));
        let judge = |wanted, machines, pods| served_by_machines(wanted, &nodes, machines, pods);
        assert_eq!(
            judge(1, &here, &here),
            Ok("   a                        Ready     v1.35.4   10.0.0.1 = VM 10.0.0.1 = pod 10.0.0.1\n".to_owned())
        );
        assert_eq!(judge(2, &here, &here), Err("1 of 2 nodes are Ready".to_owned()));
        assert_eq!(
            judge(1, &here, &nowhere),
            Err("node a is Ready at 10.0.0.1, but its VM is not running".to_owned())
        );
        let again = at(&[("a", "10.0.0.9")]);
        assert_eq!(
            served_by_machines(1, &nodes, &again, &again),
            Err("node a is at 10.0.0.1, its VM at 10.0.0.9, its pod at 10.0.0.9".to_owned())
        );
    }
}
