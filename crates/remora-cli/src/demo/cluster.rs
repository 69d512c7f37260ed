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
use crate::failure::Failure;
use crate::manifest;
use crate::wait::{Look, until_condition, until_list};

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

/// Waits for the hosted nodes, and compares each one's address with its VM's and its pod's.
pub(super) async fn nodes_ready(
    stage: &Stage,
    hosted: &Client,
    tell: Tell<'_>,
) -> Result<String, Failure> {
    let wanted = wanted_nodes(stage).await?;
    let api: Api<Node> = Api::all(hosted.clone());
    let nodes = until_list(&api, "hosted nodes", NODES_READY, tell, |nodes: &[Node]| {
        let ready = nodes.iter().filter(|node| is_ready(node)).count();
        if ready >= wanted && ready == nodes.len() {
            Look::Done
        } else {
            Look::NotYet(format!("{ready} of {wanted} nodes are Ready"))
        }
    })
    .await?;
    let namespace = names::control_plane_namespace(NAMESPACE, CLUSTER);
    let machines = machine_addresses(&stage.hosting, &namespace).await?;
    let pods = pod_addresses(&stage.hosting, &namespace).await?;
    let mut shown = String::new();
    for node in &nodes {
        let name = node.name_any();
        let address = internal_ip(node);
        let (machine, pod) = (machines.get(&name).cloned(), pods.get(&name).cloned());
        let [machine, pod] = [machine, pod].map(Option::unwrap_or_default);
        shown.push_str(&format!("   {} = VM {machine} = pod {pod}\n", node_line(node)));
        if address != machine || address != pod {
            return Err(Failure::Unequal { node: name, address, machine, pod });
        }
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
    let named =
        |instance: DynamicObject| (instance.name_any(), address(&instance).unwrap_or_default());
    Ok(found.items.into_iter().map(named).collect())
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
        let address = pod.status.and_then(|status| status.pod_ip)?;
        Some((machine, address))
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
