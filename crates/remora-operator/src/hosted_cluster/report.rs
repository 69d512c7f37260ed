//! Writes a HostedCluster's status, and events about what has changed in it.

use jiff::Timestamp;
use kube::runtime::events::EventType;
use kube::{Resource, ResourceExt};
use remora_api::HostedCluster;
use remora_api::conditions::HostedClusterConditionType as Type;
use remora_api::hosted_cluster::HostedClusterStatus;
use remora_core::hosted_cluster_status::{Report, status};
use remora_core::merge_patch::merge_patch;

use super::error::ReconcileError;
use crate::apply;
use crate::context::Context;

/// Conditions whose change is worth an event, and the status that is worth a warning.
const TOLD: [(Type, &str); 7] = [
    (Type::Available, ""),
    (Type::Degraded, "True"),
    (Type::ValidConfiguration, "False"),
    (Type::SupportedHostedCluster, "False"),
    (Type::ValidReleaseImage, "False"),
    (Type::InfrastructureReady, ""),
    (Type::ReconciliationSucceeded, "False"),
];

/// Writes the status if it has changed.
pub(super) async fn write(
    context: &Context,
    hosted_cluster: &HostedCluster,
    report: &Report,
) -> Result<(), ReconcileError> {
    let new = status(hosted_cluster, report, Timestamp::now());
    let old = hosted_cluster.status.clone().unwrap_or_default();
    if new == old {
        return Ok(());
    }
    let namespace = hosted_cluster.namespace().unwrap_or_default();
    let name = hosted_cluster.name_any();
    let reference = apply::reference::<HostedCluster>(Some(&namespace), &name);
    // A field that is no longer true is taken away: leaving it out would leave it there.
    let json = |status| serde_json::to_value(status).expect("plain data");
    let patch = merge_patch(&json(&old), &json(&new));
    apply::patch_status(&context.client, &reference, &patch).await?;
    tell(context, hosted_cluster, &old, &new).await;
    Ok(())
}

async fn tell(
    context: &Context,
    hosted_cluster: &HostedCluster,
    old: &HostedClusterStatus,
    new: &HostedClusterStatus,
) {
    let find = |status: &HostedClusterStatus, kind: Type| {
        status.conditions.iter().find(|condition| condition.type_ == kind.as_str()).cloned()
    };
    for (kind, warning) in TOLD {
        let (before, Some(now)) = (find(old, kind), find(new, kind)) else { continue };
        let is_new = before.as_ref().is_none_or(|before| before.status != now.status);
        let is_turned_off = before.is_some() || now.status == warning;
        // A condition that begins as nobody would worry about it is not told.
        if !is_new || !(is_turned_off || (kind == Type::Available && now.status == "True")) {
            continue;
        }
        let type_ = if now.status == warning { EventType::Warning } else { EventType::Normal };
        let note = format!("{kind} is {}: {}", now.status, now.message);
        tracing::info!(
            namespace = %hosted_cluster.namespace().unwrap_or_default(),
            name = %hosted_cluster.name_any(),
            condition = %kind, status = %now.status, reason = %now.reason, message_text = %now.message,
            "condition changed"
        );
        context
            .event(&hosted_cluster.object_ref(&()), type_, &now.reason, "Reconcile", &note)
            .await;
    }
}
