//! Reads and makes the machines of a pool.

use std::collections::BTreeMap;
use std::sync::Arc;

use k8s_openapi::api::core::v1::{Namespace, Node};
use k8s_openapi::jiff::Timestamp;
use kube::api::{ListParams, PostParams};
use kube::core::DynamicObject;
use kube::{Api, Client, ResourceExt};
use remora_api::labels;
use remora_core::node;
use remora_core::pool::machine::{self, Stay};
use remora_core::pool::{
    Machine, MachineOwner, MachineTemplate, NAME_ENTROPY, machine_name, virtual_machine,
};

use super::error::{PoolError, failed};
use super::kubevirt::{self, Instance, VirtualMachine};
use super::random;
use crate::apply::FIELD_MANAGER;
use crate::error::is_not_found;

/// Which pool in which control plane namespace.
#[derive(Clone, Debug)]
pub(super) struct PoolPlace {
    /// Namespace of the NodePool.
    pub(super) namespace: String,
    /// Name of the NodePool.
    pub(super) name: String,
    /// Name of its HostedCluster.
    pub(super) cluster_name: String,
    /// Namespace of the control plane.
    pub(super) control_plane_namespace: String,
}

impl PoolPlace {
    /// Tells whether the control plane namespace is that of the pool's HostedCluster. Two may claim one namespace: the
    /// pools of the one that is refused must not touch the other's machines.
    pub(super) async fn is_own(&self, client: &Client) -> Result<bool, PoolError> {
        let api: Api<Namespace> = Api::all(client.clone());
        let name = &self.control_plane_namespace;
        let found = api.get_opt(name).await.map_err(failed("read", format!("Namespace {name}")))?;
        let owner = format!("{}/{}", self.namespace, self.cluster_name);
        Ok(found
            .is_none_or(|found| found.annotations().get(labels::HOSTED_CLUSTER) == Some(&owner)))
    }
}

/// Reads the machines of a pool from both clusters; `nodes` is nothing when nobody knows them.
pub(super) async fn observe(
    client: &Client,
    place: &PoolPlace,
    nodes: Option<&[Arc<Node>]>,
) -> Result<Vec<Machine>, PoolError> {
    let namespace = &place.control_plane_namespace;
    let params =
        ListParams::default().labels(&format!("{}={}", labels::NODE_POOL_NAME, place.name));
    let machines: Api<VirtualMachine> =
        Api::namespaced_with(client.clone(), namespace, &kubevirt::virtual_machines());
    let instances: Api<Instance> =
        Api::namespaced_with(client.clone(), namespace, &kubevirt::instances());
    let listed = tokio::try_join!(machines.list(&params), instances.list(&params));
    let (machines, instances) = listed.map_err(|error| {
        // A namespace that does not exist gives an empty list; only an unknown resource is not found.
        if is_not_found(&error) {
            return PoolError::NoKubevirt;
        }
        failed("list", format!("machines of NodePool {}/{}", place.namespace, place.name))(error)
    })?;
    let instances: BTreeMap<String, Instance> =
        instances.items.into_iter().map(|instance| (instance.name_any(), instance)).collect();
    let pool = format!("{}/{}", place.namespace, place.name);
    Ok(machines
        .items
        .iter()
        .filter(|machine| machine.annotations().get(labels::NODE_POOL) == Some(&pool))
        .map(|machine| observed(machine, instances.get(&machine.name_any()), nodes))
        .collect())
}

fn observed(
    machine: &VirtualMachine,
    instance: Option<&Instance>,
    nodes: Option<&[Arc<Node>]>,
) -> Machine {
    let name = machine.name_any();
    let found = nodes.map(|nodes| nodes.iter().find(|node| node.name_any() == name));
    let created = machine.creation_timestamp().map_or(Timestamp::UNIX_EPOCH, |time| time.0);
    Machine {
        template_hash: machine.labels().get(labels::TEMPLATE_HASH).cloned().unwrap_or_default(),
        release_version: machine
            .annotations()
            .get(labels::RELEASE_VERSION)
            .cloned()
            .unwrap_or_default(),
        created,
        stay: stay(machine, created),
        instance: kubevirt::state(machine, instance),
        node: match found {
            None => machine::Node::Unknown,
            Some(node) => node::observed_node(node.map(AsRef::as_ref)),
        },
        kubelet_version: found.flatten().and_then(|node| node::kubelet_version(node)),
        name,
    }
}

fn stay(machine: &VirtualMachine, created: Timestamp) -> Stay {
    let annotations = machine.annotations();
    if machine.metadata.deletion_timestamp.is_some() {
        Stay::Deleted
    } else if let Some(since) = annotations.get(labels::REMOVAL_STARTED) {
        Stay::Leaves(since.parse().unwrap_or(created))
    } else if annotations.contains_key(labels::CAPI_DELETE_MACHINE) {
        Stay::Unwanted
    } else {
        Stay::Stays
    }
}

/// What machines are made of.
#[derive(Clone, Debug)]
pub(super) struct Blueprint<'a> {
    /// infraID of the hosted cluster.
    pub(super) infra_id: &'a str,
    /// Hash of the template.
    pub(super) template_hash: &'a str,
    /// Version of the release.
    pub(super) release_version: &'a str,
    /// The template.
    pub(super) template: &'a MachineTemplate,
    /// JSON patches of users.
    pub(super) patches: &'a [&'a str],
}

/// Makes one machine and returns its name.
pub(super) async fn create(
    client: &Client,
    place: &PoolPlace,
    blueprint: &Blueprint<'_>,
) -> Result<String, PoolError> {
    let name = machine_name(&place.name, &random::bytes::<NAME_ENTROPY>()?);
    let owner = MachineOwner {
        name: &name,
        control_plane_namespace: &place.control_plane_namespace,
        infra_id: blueprint.infra_id,
        node_pool_namespace: &place.namespace,
        node_pool: &place.name,
        template_hash: blueprint.template_hash,
        release_version: blueprint.release_version,
    };
    let machine = virtual_machine(&owner, blueprint.template, blueprint.patches)
        .map_err(|source| PoolError::Patch { node_pool: place.name.clone(), source })?;
    let api: Api<DynamicObject> = Api::namespaced_with(
        client.clone(),
        &place.control_plane_namespace,
        &kubevirt::virtual_machines(),
    );
    let params =
        PostParams { field_manager: Some(FIELD_MANAGER.to_owned()), ..PostParams::default() };
    // Created, never applied: a name that is taken by chance must not change the machine that has it.
    api.create(&params, &machine).await.map_err(failed(
        "create",
        format!("VirtualMachine {}/{name}", place.control_plane_namespace),
    ))?;
    tracing::info!(
        node_pool = %place.name,
        machine = %name,
        template = blueprint.template_hash,
        "machine created"
    );
    Ok(name)
}
