//! One look at one hosted Service: decide, program, tell.

use std::sync::Arc;

use jiff::Timestamp;
use k8s_openapi::api::core::v1::Service;
use kube::ResourceExt;
use kube::core::DynamicObject;
use kube::runtime::controller::Action;
use remora_api::labels;
use remora_core::load_balancer::{
    Cluster, Decision, HOSTED_FIELD_MANAGER, Problem, decide, is_marked, release, report,
};
use serde_json::json;

use super::memory::Memories;
use super::observed::{Observed, hosting_name};
use super::program::{Programmed, program, take_away};
use super::tell::tell;
use crate::apply::{ApplyError, apply_as, reference};
use crate::error::chain;
use crate::session::HostedSession;

/// What the reconciler works with.
pub(super) struct Balancers {
    pub(super) session: HostedSession,
    pub(super) observed: Observed,
    pub(super) memories: Memories,
}

/// Looks at one hosted Service.
pub(super) async fn reconcile(
    hosted: Arc<Service>,
    balancers: Arc<Balancers>,
) -> Result<Action, ApplyError> {
    balancers.observed.ready().await;
    let Some(cluster) = balancers.observed.cluster(&balancers.session) else {
        return Ok(Action::await_change());
    };
    let own = balancers.observed.own(&cluster, &hosted);
    match decide(&cluster, &hosted, own.as_ref()) {
        Decision::Leave => {}
        Decision::Serve { service, problem } => {
            serve(&balancers, &cluster, &hosted, (&service, own), problem).await?;
        }
        Decision::Withdraw(problem) => {
            withdraw(&balancers, &cluster, &hosted, own, problem).await?;
        }
    }
    balancers.memories.forget_failures(&hosted);
    Ok(Action::await_change())
}

async fn serve(
    balancers: &Balancers,
    cluster: &Cluster,
    hosted: &Service,
    (desired, own): (&Service, Option<Service>),
    problem: Option<Problem>,
) -> Result<(), ApplyError> {
    if !is_marked(hosted) {
        apply_as(HOSTED_FIELD_MANAGER, &balancers.session.client, &marked(hosted, true)).await?;
    }
    let programmed = program(balancers, cluster, hosted, (desired, own.as_ref())).await;
    let (now, problem) = (Timestamp::now(), problem.as_ref());
    let told = match &programmed {
        Ok(Programmed::Done(live)) => report(hosted, Some(live), problem, now),
        // The one that was there before goes first; its end wakes us.
        Ok(Programmed::Replaced) => report(hosted, None, problem, now),
        // What is missing wakes us when it is there.
        Ok(Programmed::Waiting) => None,
        Err(error) => refusal(hosted, error)
            .and_then(|refused| report(hosted, own.as_ref(), Some(&refused), now)),
    };
    tell(balancers, hosted, told).await?;
    programmed.map(|_| ())
}

/// What of a failure concerns hosted users: that the hosting API server does not want their Service. They need not know
/// what was attempted in which namespace.
fn refusal(hosted: &Service, error: &ApplyError) -> Option<Problem> {
    let message = match error {
        ApplyError::Request { source, .. } => chain(source.as_ref()),
        ApplyError::Incomplete { .. } => return None,
    };
    let is_refused =
        matches!(error.reason(), "Refused" | "Forbidden") && !error.is_namespace_gone();
    is_refused.then(|| Problem::Refused { service: hosting_name(hosted), message })
}

/// Takes the hosting Service away; lets the hosted one go when nothing is left.
async fn withdraw(
    balancers: &Balancers,
    cluster: &Cluster,
    hosted: &Service,
    own: Option<Service>,
    problem: Option<Problem>,
) -> Result<(), ApplyError> {
    // What was never marked has no hosting Service that the watch has not shown.
    let may_exist = own.is_some() || is_marked(hosted);
    if may_exist && take_away(balancers, cluster, hosted).await? {
        return Ok(());
    }
    let report = match &problem {
        Some(problem) => report(hosted, None, Some(problem), Timestamp::now()),
        None => release(hosted),
    };
    tell(balancers, hosted, report).await?;
    if !is_marked(hosted) {
        return Ok(());
    }
    match apply_as(HOSTED_FIELD_MANAGER, &balancers.session.client, &marked(hosted, false)).await {
        Ok(_) => {
            tracing::info!(
                namespace = %balancers.session.control_plane_namespace,
                service = %format!("{}/{}", hosted.namespace().unwrap_or_default(), hosted.name_any()),
                "load balancer removed"
            );
            Ok(())
        }
        // It is gone, or another by now: the watch tells.
        Err(error) if error.reason() == "Conflict" => Ok(()),
        Err(error) => Err(error),
    }
}

/// The hosted Service with nothing but what Remora itself says about it.
fn marked(hosted: &Service, is_marked: bool) -> DynamicObject {
    let mut marked = reference::<Service>(hosted.namespace().as_deref(), &hosted.name_any());
    // One made anew under the same name is another, and a write must not bring a deleted one back.
    marked.metadata.uid = hosted.uid();
    marked.metadata.finalizers =
        is_marked.then(|| vec![labels::LOAD_BALANCER_FINALIZER.to_owned()]);
    marked.data = json!({});
    marked
}
