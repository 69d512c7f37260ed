//! Nodes that NodePools have left behind.
//!
//! A pool that is deleted while the hosted API server does not answer takes its machines away and cannot reach their
//! nodes. They are looked for when the API server answers again, whether the HostedCluster is paused or not: it is the
//! rest of a deletion.

use std::collections::BTreeSet;
use std::sync::Arc;

use k8s_openapi::api::core::v1::Node;
use kube::api::ListParams;
use kube::core::DynamicObject;
use kube::{Api, Client, ResourceExt};
use remora_api::{NodePool, labels};
use remora_core::node::left_behind;

use super::error::{PoolError, failed};
use super::{kubevirt, nodes};
use crate::error::is_not_found;

/// Which hosted cluster is looked through.
pub(super) struct Swept<'a> {
    /// Namespace of the HostedCluster.
    pub(super) namespace: &'a str,
    /// Name of the HostedCluster.
    pub(super) cluster_name: &'a str,
    /// Namespace of its control plane.
    pub(super) control_plane_namespace: &'a str,
}

/// Deletes the nodes whose machine and NodePool are gone. `known` was read before: whatever is made from now on is in none
/// of the lists.
pub(super) async fn sweep(
    hosting: &Client,
    hosted: &Client,
    swept: &Swept<'_>,
    known: &[Arc<Node>],
) -> Result<(), PoolError> {
    let left = |pools: &BTreeSet<String>, machines: &BTreeSet<String>| -> Vec<Node> {
        let nodes = known.iter().map(AsRef::as_ref);
        left_behind(nodes, swept.namespace, pools, machines).into_iter().cloned().collect()
    };
    if left(&BTreeSet::new(), &BTreeSet::new()).is_empty() {
        return Ok(());
    }
    let pools = node_pools(hosting, swept).await?;
    if left(&pools, &BTreeSet::new()).is_empty() {
        return Ok(());
    }
    let machines = machines(hosting, swept).await?;
    for node in &left(&pools, &machines) {
        nodes::delete(hosted, node).await?;
    }
    Ok(())
}

/// The NodePools that still look after their nodes.
async fn node_pools(hosting: &Client, swept: &Swept<'_>) -> Result<BTreeSet<String>, PoolError> {
    let namespace = swept.namespace;
    let api: Api<NodePool> = Api::namespaced(hosting.clone(), namespace);
    let pools = api
        .list(&ListParams::default())
        .await
        .map_err(failed("list", format!("NodePools of namespace {namespace}")))?;
    let looks_after = |pool: &&NodePool| {
        pool.spec.cluster_name == swept.cluster_name
            && (pool.metadata.deletion_timestamp.is_none()
                || pool.finalizers().iter().any(|finalizer| finalizer == labels::FINALIZER))
    };
    Ok(pools.items.iter().filter(looks_after).map(ResourceExt::name_any).collect())
}

/// All VirtualMachines of the control plane namespace, whoever made them.
async fn machines(hosting: &Client, swept: &Swept<'_>) -> Result<BTreeSet<String>, PoolError> {
    let namespace = swept.control_plane_namespace;
    let api: Api<DynamicObject> =
        Api::namespaced_with(hosting.clone(), namespace, &kubevirt::virtual_machines());
    let machines = api.list_metadata(&ListParams::default()).await.map_err(|error| {
        // A namespace that does not exist gives an empty list; only an unknown resource is not found.
        if is_not_found(&error) {
            return PoolError::NoKubevirt;
        }
        failed("list", format!("VirtualMachines of namespace {namespace}"))(error)
    })?;
    Ok(machines.items.iter().map(ResourceExt::name_any).collect())
}
