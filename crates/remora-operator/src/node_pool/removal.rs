//! Machines that leave: marked, drained, deleted, and their nodes after them.

use std::sync::Arc;

use k8s_openapi::api::core::v1::Node;
use k8s_openapi::jiff::{SignedDuration, Timestamp};
use kube::api::{Patch, PatchParams};
use kube::core::{DynamicObject, TypeMeta};
use kube::{Api, Client, ResourceExt};
use remora_api::labels;
use remora_core::node::{DrainStep, belongs_to, drain_step};
use remora_core::pool::Machine;
use remora_core::pool::machine::Stay;
use serde_json::json;

use super::drain::{self, Drain};
use super::error::{PoolError, failed};
use super::kubevirt::{self, VirtualMachine};
use super::machines::PoolPlace;
use super::nodes;
use crate::apply;
use crate::error::is_not_found;

/// How machines leave.
pub(super) struct Farewell<'a> {
    /// Client to the hosting cluster.
    pub(super) hosting: &'a Client,
    /// Client to the hosted cluster, unless nodes are not drained.
    pub(super) hosted: Option<&'a Client>,
    /// How long a drain may take; zero is without limit.
    pub(super) drain_timeout: SignedDuration,
    /// The time.
    pub(super) now: Timestamp,
}

/// Marks a machine as one that leaves; the mark also tells since when it is drained.
pub(super) async fn mark(
    client: &Client,
    place: &PoolPlace,
    machine: &str,
    now: Timestamp,
) -> Result<(), PoolError> {
    let namespace = &place.control_plane_namespace;
    let api: Api<VirtualMachine> =
        Api::namespaced_with(client.clone(), namespace, &kubevirt::virtual_machines());
    let patch = json!({"metadata": {"annotations": {labels::REMOVAL_STARTED: now.to_string()}}});
    let params = PatchParams {
        field_manager: Some(apply::FIELD_MANAGER.to_owned()),
        ..PatchParams::default()
    };
    match api.patch(machine, &params, &Patch::Merge(&patch)).await {
        Ok(_) => {
            tracing::info!(node_pool = %place.name, %machine, "machine leaves its pool");
            Ok(())
        }
        Err(error) if is_not_found(&error) => Ok(()),
        Err(error) => {
            Err(failed("annotate", format!("VirtualMachine {namespace}/{machine}"))(error))
        }
    }
}

impl Farewell<'_> {
    /// Takes the next step with a machine that leaves; tells what it waits for when its drain goes on.
    pub(super) async fn advance(
        &self,
        place: &PoolPlace,
        machine: &Machine,
    ) -> Result<Option<String>, PoolError> {
        let Stay::Leaves(since) = machine.stay else { return Ok(None) };
        if let Some(hosted) = self.hosted {
            let step = drain_step(&machine.node, since, self.drain_timeout, self.now);
            if step == DrainStep::Drain
                && let Drain::Waits(message) = drain::drain(hosted, &machine.name).await?
            {
                return Ok(Some(message));
            }
        }
        delete_machine(self.hosting, place, &machine.name).await?;
        Ok(None)
    }
}

/// Deletes a VirtualMachine.
pub(super) async fn delete_machine(
    client: &Client,
    place: &PoolPlace,
    machine: &str,
) -> Result<(), PoolError> {
    let resource = kubevirt::virtual_machines();
    let mut reference =
        DynamicObject::new(machine, &resource).within(&place.control_plane_namespace);
    reference.types = Some(TypeMeta { api_version: resource.api_version, kind: resource.kind });
    if apply::delete_if_exists(client, &reference).await? {
        tracing::info!(node_pool = %place.name, %machine, "machine deleted");
    }
    Ok(())
}

/// Deletes the nodes of a pool that have no machine any more.
pub(super) async fn delete_orphans(
    hosted: &Client,
    place: &PoolPlace,
    nodes: &[Arc<Node>],
    machines: &[Machine],
) -> Result<(), PoolError> {
    for node in nodes {
        let name = node.name_any();
        if belongs_to(node, &place.namespace, &place.name)
            && !machines.iter().any(|machine| machine.name == name)
        {
            nodes::delete(hosted, node).await?;
        }
    }
    Ok(())
}
