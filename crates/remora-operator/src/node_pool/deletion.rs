//! Takes a NodePool down: machines, nodes, bootstrap data, finalizer, in this order. Nodes of a hosted API server that does
//! not answer are not waited for: they are deleted when it does.

use k8s_openapi::jiff::{SignedDuration, Timestamp};
use kube::ResourceExt;
use kube::runtime::controller::Action;
use remora_api::conditions::{HostedClusterConditionType, Reason};
use remora_api::labels::FINALIZER;
use remora_api::{HostedCluster, NodePool};
use remora_core::node_pool_status::not_ready;
use remora_core::pool::machine::Stay;
use remora_core::pool::{Machine, names_machines, validate};

use super::bootstrap::{self, Expired};
use super::error::PoolError;
use super::machines::{self, PoolPlace};
use super::reconcile::{DRAIN_RETRY, Hosted, hosted, place};
use super::removal::{self, Farewell};
use super::report;
use super::sweep::{Swept, sweep};
use crate::context::Context;

/// Takes the next step of a pool's deletion.
pub(super) async fn delete(
    context: &Context,
    pool: &NodePool,
    cluster: Option<&HostedCluster>,
    now: Timestamp,
) -> Result<Action, PoolError> {
    if !pool.finalizers().iter().any(|finalizer| finalizer == FINALIZER) {
        return Ok(Action::await_change());
    }
    let place = place(pool);
    if !names_machines(&place.name) {
        // Nothing was made for it, and an API server could not even be asked.
        report::release(&context.client, pool).await?;
        return Ok(Action::await_change());
    }
    if !place.is_own(&context.client).await? {
        // Its HostedCluster was refused, so nothing was made for it.
        report::release(&context.client, pool).await?;
        return Ok(Action::await_change());
    }
    // A cluster that goes as a whole needs neither drained nodes nor tidy lists of them.
    let survivor = cluster.filter(|cluster| cluster.metadata.deletion_timestamp.is_none());
    let hosted = match survivor {
        Some(_) => hosted(context, &place).await?,
        None => None,
    };
    if hosted.is_none() && survivor.is_some_and(is_api_server_available) {
        // The operator has just started and will know the nodes in a moment.
        return Ok(Action::requeue(DRAIN_RETRY));
    }
    let known_nodes = hosted.as_ref().map(|hosted| hosted.nodes.as_slice());
    let machines = match machines::observe(&context.client, &place, known_nodes).await {
        Err(PoolError::NoKubevirt) => Vec::new(),
        observed => observed?,
    };
    if !machines.is_empty() {
        let drains =
            remove_machines(context, pool, &place, &machines, hosted.as_ref(), now).await?;
        report_progress(context, pool, &machines, &drains, now).await?;
        return Ok(if drains.is_empty() {
            Action::await_change()
        } else {
            Action::requeue(DRAIN_RETRY)
        });
    }
    if let Some(hosted) = &hosted {
        removal::delete_orphans(&hosted.client, &place, &hosted.nodes, &[]).await?;
        bootstrap::remove_tokens(&hosted.client, &place.name, Expired::Any).await?;
    }
    let user_data =
        bootstrap::user_data(&context.client, &place.control_plane_namespace, &place.name).await?;
    for secret in &user_data {
        bootstrap::delete_secret(&context.client, secret).await?;
    }
    report::release(&context.client, pool).await?;
    if survivor.is_some() && hosted.is_none() {
        sweep_late(context, &place).await?;
    }
    Ok(Action::await_change())
}

/// Deletes the nodes that the pool leaves behind if the hosted API server has answered meanwhile. When it answers from now
/// on, its session finds them itself.
async fn sweep_late(context: &Context, place: &PoolPlace) -> Result<(), PoolError> {
    let Some(hosted) = hosted(context, place).await? else { return Ok(()) };
    let swept = Swept {
        namespace: &place.namespace,
        cluster_name: &place.cluster_name,
        control_plane_namespace: &place.control_plane_namespace,
    };
    sweep(&context.client, &hosted.client, &swept, &hosted.nodes).await
}

/// Lets all machines leave; tells what is waited for.
async fn remove_machines(
    context: &Context,
    pool: &NodePool,
    place: &PoolPlace,
    machines: &[Machine],
    hosted: Option<&Hosted>,
    now: Timestamp,
) -> Result<Vec<String>, PoolError> {
    let drain_timeout = validate(&place.name, &pool.spec, &[])
        .map_or(SignedDuration::ZERO, |rules| rules.drain_timeout);
    let farewell = Farewell {
        hosting: &context.client,
        hosted: hosted.map(|hosted| &hosted.client),
        drain_timeout,
        now,
    };
    let mut drains = Vec::new();
    for machine in machines {
        let mut machine = machine.clone();
        if hosted.is_some() && !machine.is_leaving() {
            removal::mark(&context.client, place, &machine.name, now).await?;
        }
        if !machine.is_leaving() {
            machine.stay = Stay::Leaves(now);
        }
        drains.extend(farewell.advance(place, &machine).await?);
    }
    Ok(drains)
}

async fn report_progress(
    context: &Context,
    pool: &NodePool,
    machines: &[Machine],
    drains: &[String],
    now: Timestamp,
) -> Result<(), PoolError> {
    let names: Vec<&str> = machines.iter().map(|machine| machine.name.as_str()).collect();
    let mut message = format!("The NodePool is being deleted; machines left: {}", names.join(", "));
    for drain in drains {
        message.push_str("; ");
        message.push_str(drain);
    }
    let present = pool.status.clone().unwrap_or_default();
    let status = not_ready(&present, pool.metadata.generation, Reason::Deleting, &message, now);
    report::write(&context.client, pool, &status).await
}

fn is_api_server_available(cluster: &HostedCluster) -> bool {
    let type_ = HostedClusterConditionType::KubeApiServerAvailable.as_str();
    cluster
        .status
        .iter()
        .flat_map(|status| &status.conditions)
        .any(|condition| condition.type_ == type_ && condition.status == "True")
}
