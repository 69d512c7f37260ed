//! Decides the certificate signing requests of one hosted cluster's nodes.

use std::pin::pin;
use std::time::Duration;

use futures::StreamExt;
use k8s_openapi::api::certificates::v1::CertificateSigningRequest;
use k8s_openapi::api::core::v1::ObjectReference;
use k8s_openapi::jiff::Timestamp;
use kube::api::{PartialObjectMeta, Patch, PatchParams};
use kube::core::DynamicObject;
use kube::runtime::WatchStreamExt;
use kube::runtime::events::EventType;
use kube::runtime::reflector::{self, Store};
use kube::runtime::watcher::{self, watcher};
use kube::{Api, ResourceExt};
use remora_api::labels;
use remora_core::csr::{
    Explanation, Issued, MachineIdentity, NODE_USER_PREFIX, Verdict, decide, is_decided,
    requested_node,
};
use serde_json::json;

use super::error::{PoolError, failed};
use super::kubevirt::{self, Instance, VirtualMachine};
use crate::apply::FIELD_MANAGER;
use crate::error::{chain, is_conflict, is_not_found};
use crate::session::HostedSession;

/// Wait before requests are looked at again after something failed.
const RETRY: Duration = Duration::from_secs(2);

/// Decides requests until the session ends: when they come, and those that wait when a machine changes.
pub async fn run(session: HostedSession) {
    let (reader, writer) = reflector::store();
    let requests = watcher(Api::all(session.client.clone()), watcher::Config::default())
        .default_backoff()
        .reflect(writer)
        .applied_objects();
    let machines: Api<PartialObjectMeta<DynamicObject>> = Api::namespaced_with(
        session.context.client.clone(),
        &session.control_plane_namespace,
        &kubevirt::instances(),
    );
    let machines = watcher(machines, watcher::Config::default().labels(labels::NODE_POOL_NAME))
        .default_backoff()
        .touched_objects();
    let (mut requests, mut machines) = (pin!(requests), pin!(machines));
    let mut retry_at = None;
    loop {
        let is_well = tokio::select! {
            () = session.cancel.cancelled() => return,
            request = requests.next() => match request {
                None => return,
                Some(Ok(request)) => decide_one(&session, &request).await,
                Some(Err(error)) => {
                    tracing::debug!(error = %chain(&error), "cannot follow signing requests");
                    true
                }
            },
            machine = machines.next() => match machine {
                None => return,
                Some(Ok(_)) => decide_pending(&session, &reader).await,
                Some(Err(error)) => {
                    tracing::debug!(error = %chain(&error), "cannot follow VirtualMachineInstances");
                    true
                }
            },
            () = until(retry_at) => {
                retry_at = None;
                decide_pending(&session, &reader).await
            }
        };
        if !is_well {
            retry_at = Some(tokio::time::Instant::now() + RETRY);
        }
    }
}

/// Waits until a time, forever if there is none.
pub(super) async fn until(time: Option<tokio::time::Instant>) {
    match time {
        Some(time) => tokio::time::sleep_until(time).await,
        None => std::future::pending().await,
    }
}

async fn decide_pending(
    session: &HostedSession,
    requests: &Store<CertificateSigningRequest>,
) -> bool {
    let mut is_well = true;
    for request in requests.state_filter(|request| !is_decided(request)) {
        is_well &= decide_one(session, &request).await;
    }
    is_well
}

/// Decides one request; tells whether that went through.
async fn decide_one(session: &HostedSession, request: &CertificateSigningRequest) -> bool {
    if is_decided(request) {
        return true;
    }
    match try_decide(session, request).await {
        Ok(()) => true,
        Err(error) => {
            tracing::warn!(
                namespace = %session.control_plane_namespace,
                request = %request.name_any(),
                error = %chain(&error),
                "cannot decide signing request"
            );
            false
        }
    }
}

async fn try_decide(
    session: &HostedSession,
    request: &CertificateSigningRequest,
) -> Result<(), PoolError> {
    // Whose request it is decides which machine is read; whether the request is in order is decided afterwards.
    let machine = match requested_node(request) {
        Some(name) => observe(session, &name).await?,
        None => None,
    };
    let identity = machine.as_ref().map(|machine| machine.identity.clone());
    match decide(request, |_| identity) {
        Verdict::NotOurs => Ok(()),
        Verdict::Wait(message) => {
            tracing::debug!(request = %request.name_any(), %message, "signing request waits");
            Ok(())
        }
        Verdict::Deny(explanation) => {
            answer(session, request, "Denied", &explanation).await?;
            report_denial(session, request, machine.as_ref(), &explanation).await;
            Ok(())
        }
        Verdict::Approve { explanation, issue } => {
            if let (Some(issue), Some(machine)) = (&issue, &machine)
                && !note(session, machine, issue).await?
            {
                return Ok(());
            }
            answer(session, request, "Approved", &explanation).await
        }
    }
}

struct Observed {
    identity: MachineIdentity,
    resource_version: Option<String>,
    uid: Option<String>,
}

/// Reads a machine from the hosting cluster.
async fn observe(session: &HostedSession, name: &str) -> Result<Option<Observed>, PoolError> {
    let namespace = &session.control_plane_namespace;
    let client = session.context.client.clone();
    let machines: Api<VirtualMachine> =
        Api::namespaced_with(client.clone(), namespace, &kubevirt::virtual_machines());
    let instances: Api<Instance> = Api::namespaced_with(client, namespace, &kubevirt::instances());
    let machine = machines
        .get_opt(name)
        .await
        .map_err(failed("read", format!("VirtualMachine {namespace}/{name}")))?;
    let Some(machine) = machine.filter(|machine| {
        machine.metadata.deletion_timestamp.is_none()
            && machine.labels().get(labels::CAPI_CLUSTER_NAME)
                == Some(&session.hosted_cluster.infra_id)
    }) else {
        return Ok(None);
    };
    let instance = instances
        .get_opt(name)
        .await
        .map_err(failed("read", format!("VirtualMachineInstance {namespace}/{name}")))?;
    let Some(node_pool) = machine.labels().get(labels::NODE_POOL_NAME).cloned() else {
        return Ok(None);
    };
    Ok(Some(Observed {
        identity: MachineIdentity {
            name: name.to_owned(),
            node_pool,
            instance: instance.as_ref().and_then(kubevirt::running),
            issued: Issued::read(machine.annotations()),
        },
        resource_version: machine.metadata.resource_version.clone(),
        uid: machine.metadata.uid.clone(),
    }))
}

/// Writes on the VirtualMachine to whom its identity is given; false when it has changed meanwhile.
async fn note(
    session: &HostedSession,
    machine: &Observed,
    issue: &Issued,
) -> Result<bool, PoolError> {
    if machine.identity.issued.as_ref() == Some(issue) {
        return Ok(true);
    }
    let namespace = &session.control_plane_namespace;
    let name = &machine.identity.name;
    let api: Api<VirtualMachine> = Api::namespaced_with(
        session.context.client.clone(),
        namespace,
        &kubevirt::virtual_machines(),
    );
    let patch = json!({"metadata": {
        "resourceVersion": machine.resource_version,
        "annotations": {labels::IDENTITY_ISSUED: issue.note()},
    }});
    let params =
        PatchParams { field_manager: Some(FIELD_MANAGER.to_owned()), ..PatchParams::default() };
    match api.patch(name, &params, &Patch::Merge(&patch)).await {
        Ok(_) => Ok(true),
        Err(error) if is_not_found(&error) => Ok(false),
        Err(error) => Err(failed("annotate", format!("VirtualMachine {namespace}/{name}"))(error)),
    }
}

async fn answer(
    session: &HostedSession,
    request: &CertificateSigningRequest,
    type_: &'static str,
    explanation: &Explanation,
) -> Result<(), PoolError> {
    let name = request.name_any();
    let now = Timestamp::now().to_string();
    let patch = json!({
        "metadata": {"resourceVersion": request.metadata.resource_version},
        "status": {"conditions": [{
            "type": type_,
            "status": "True",
            "reason": explanation.reason,
            "message": explanation.message,
            "lastUpdateTime": now,
            "lastTransitionTime": now,
        }]},
    });
    let api: Api<CertificateSigningRequest> = Api::all(session.client.clone());
    match api.patch_approval(&name, &PatchParams::default(), &Patch::Merge(&patch)).await {
        Ok(_) => {
            tracing::info!(
                namespace = %session.control_plane_namespace,
                request = %name,
                signer = %request.spec.signer_name,
                verdict = type_,
                reason = explanation.reason,
                message = %explanation.message,
                "signing request decided"
            );
            Ok(())
        }
        // Someone else has decided it, or it is gone: the watch tells.
        Err(error) if is_not_found(&error) || is_conflict(&error) => Ok(()),
        Err(error) => {
            Err(failed("decide", format!("hosted CertificateSigningRequest {name}"))(error))
        }
    }
}

/// Tells on the hosting side that someone asked for what is not theirs.
async fn report_denial(
    session: &HostedSession,
    request: &CertificateSigningRequest,
    machine: Option<&Observed>,
    explanation: &Explanation,
) {
    let Some(machine) = machine else { return };
    let resource = kubevirt::virtual_machines();
    let reference = ObjectReference {
        api_version: Some(resource.api_version),
        kind: Some(resource.kind),
        namespace: Some(session.control_plane_namespace.clone()),
        name: Some(machine.identity.name.clone()),
        uid: machine.uid.clone(),
        ..ObjectReference::default()
    };
    let user = request.spec.username.as_deref().unwrap_or_default();
    let note = format!(
        "CertificateSigningRequest {} of {user} for {NODE_USER_PREFIX}{} was denied: {}",
        request.name_any(),
        machine.identity.name,
        explanation.message
    );
    session
        .context
        .event(&reference, EventType::Warning, explanation.reason, "DecideSigningRequest", &note)
        .await;
}
