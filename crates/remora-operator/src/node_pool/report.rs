//! Writes what concerns the NodePool object itself: its finalizer, its owner, its status.

use kube::api::{Patch, PatchParams};
use kube::{Api, Client, Resource, ResourceExt};
use remora_api::labels::FINALIZER;
use remora_api::node_pool::NodePoolStatus;
use remora_api::{HostedCluster, NodePool};
use serde_json::{Value, json};

use super::error::{PoolError, failed};
use crate::apply;
use crate::error::is_not_found;

/// Takes a pool in charge: it is not gone before its machines are, and it goes with its HostedCluster.
pub(super) async fn claim(
    client: &Client,
    pool: &NodePool,
    cluster: &HostedCluster,
) -> Result<(), PoolError> {
    let Some(owner) = cluster.owner_ref(&()) else { return Ok(()) };
    let is_owned = pool.owner_references().iter().any(|present| present.uid == owner.uid);
    if is_owned && pool.finalizers().iter().any(|finalizer| finalizer == FINALIZER) {
        return Ok(());
    }
    let mut desired =
        apply::reference::<NodePool>(pool.metadata.namespace.as_deref(), &pool.name_any());
    // Only this very object: an apply would otherwise create one that has just been deleted.
    desired.metadata.uid.clone_from(&pool.metadata.uid);
    desired.metadata.finalizers = Some(vec![FINALIZER.to_owned()]);
    desired.metadata.owner_references = Some(vec![owner]);
    apply::apply(client, &desired).await?;
    Ok(())
}

/// Lets a pool go.
pub(super) async fn release(client: &Client, pool: &NodePool) -> Result<(), PoolError> {
    let namespace = pool.namespace().unwrap_or_default();
    let name = pool.name_any();
    let others: Vec<&String> =
        pool.finalizers().iter().filter(|finalizer| *finalizer != FINALIZER).collect();
    let patch = json!({"metadata": {
        "resourceVersion": pool.metadata.resource_version,
        "finalizers": others,
    }});
    let api: Api<NodePool> = Api::namespaced(client.clone(), &namespace);
    match api.patch(&name, &PatchParams::default(), &Patch::Merge(&patch)).await {
        Ok(_) => {
            tracing::info!(%namespace, node_pool = %name, "node pool deleted");
            Ok(())
        }
        Err(error) if is_not_found(&error) => Ok(()),
        Err(error) => {
            Err(failed("remove the finalizer of", format!("NodePool {namespace}/{name}"))(error))
        }
    }
}

/// Writes the status if it has changed.
pub(super) async fn write(
    client: &Client,
    pool: &NodePool,
    status: &NodePoolStatus,
) -> Result<(), PoolError> {
    if pool.status.as_ref() == Some(status) {
        return Ok(());
    }
    let mut fields = serde_json::to_value(status).unwrap_or_default();
    // A merge leaves what is not named.
    for field in ["nodesInfo", "version"] {
        if fields.get(field).is_none() {
            fields[field] = Value::Null;
        }
    }
    let reference =
        apply::reference::<NodePool>(pool.metadata.namespace.as_deref(), &pool.name_any());
    match apply::patch_status(client, &reference, &fields).await {
        Ok(_) => Ok(()),
        Err(error) if error.is_namespace_gone() => Ok(()),
        Err(error) => Err(error.into()),
    }
}
