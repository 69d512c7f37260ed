//! One look at the policies of one HostedCluster.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use futures::{StreamExt, stream};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference;
use k8s_openapi::jiff::Timestamp;
use kube::api::PartialObjectMeta;
use kube::runtime::controller::Action;
use kube::{Client, Resource, ResourceExt};
use remora_api::{
    ExposurePolicy, HostedCluster, ServiceExposure, ServiceExposureSpec, labels, names,
};
use remora_core::expose::HostedService;
use remora_core::exposure_policy::{
    Answer, Existing, InForce, Outcome, Policy, Verdict, answer, decide, policy_label, status,
};
use remora_core::object::object;
use serde_json::json;

use super::answers::answer_all;
use crate::apply::{ApplyError, apply, apply_as, delete_if_exists, patch_status, reference};
use crate::context::Context;
use crate::error::chain;
use crate::exposure::view::View;

/// Writes the exposures of policies: what every exposure carries (finalizer, owner) is applied by the usual one.
const FIELD_MANAGER: &str = "remora-exposure-policy";
/// Writes under way at once, for one HostedCluster.
const CONCURRENT_WRITES: usize = 8;

/// What becomes of each Service, by namespace and name.
type Verdicts = BTreeMap<(String, String), Verdict>;

/// What the reconciler works with.
pub(super) struct Policies {
    pub(super) context: Arc<Context>,
    pub(super) policies: View<ExposurePolicy>,
    pub(super) made: View<Made>,
}

/// An exposure, reduced to what policies need to know.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Made {
    pub(super) namespace: String,
    name: String,
    uid: String,
    /// The label that names its policy; none: it was written by hand.
    policy: Option<String>,
    spec: ServiceExposureSpec,
    outcome: Option<Outcome>,
    is_deleting: bool,
}

impl Made {
    pub(super) fn of(exposure: &ServiceExposure) -> Option<Self> {
        Some(Self {
            namespace: exposure.namespace()?,
            name: exposure.name_any(),
            uid: exposure.uid().unwrap_or_default(),
            policy: exposure.labels().get(labels::EXPOSURE_POLICY).cloned(),
            spec: exposure.spec.clone(),
            outcome: exposure.status.as_ref().and_then(Outcome::of),
            is_deleting: exposure.meta().deletion_timestamp.is_some(),
        })
    }

    pub(super) fn cluster(&self) -> &str {
        &self.spec.cluster_name
    }

    fn existing(&self) -> Existing {
        Existing {
            name: self.name.clone(),
            service_namespace: self.spec.service.namespace.clone(),
            service_name: self.spec.service.name.clone(),
            is_of_policy: self.policy.is_some(),
        }
    }
}

impl Policies {
    pub(super) async fn ready(&self) {
        tokio::join!(self.policies.ready(), self.made.ready());
    }

    fn of_cluster(&self, namespace: &str, name: &str) -> Vec<ExposurePolicy> {
        let mut policies = self.policies.all();
        policies.retain(|policy| {
            policy.metadata.namespace.as_deref() == Some(namespace)
                && policy.spec.cluster_name == name
                && policy.metadata.deletion_timestamp.is_none()
        });
        policies
    }

    fn made_for(&self, namespace: &str, name: &str) -> Vec<Made> {
        let mut made = self.made.all();
        made.retain(|made| made.namespace == namespace && made.cluster() == name);
        made
    }
}

/// Puts the policies of a HostedCluster into force, and answers those who asked.
pub(super) async fn reconcile(
    cluster: &PartialObjectMeta<HostedCluster>,
    policies: &Policies,
) -> Result<Action, ApplyError> {
    let (namespace, name) = (cluster.namespace().unwrap_or_default(), cluster.name_any());
    if cluster.metadata.deletion_timestamp.is_some() {
        // Its exposures go with it.
        return Ok(Action::await_change());
    }
    let context = &policies.context;
    let found = policies.of_cluster(&namespace, &name);
    for policy in &found {
        belong_to(&context.client, policy, cluster).await?;
    }
    let control_plane = names::control_plane_namespace(&namespace, &name);
    let session = context.sessions.client_of(&control_plane, &namespace, &name);
    let Some((hosted, services)) = session.zip(context.exposures.all(&control_plane)) else {
        for policy in &found {
            report(context, policy, &InForce::Waiting).await?;
        }
        return Ok(Action::await_change());
    };

    let made = policies.made_for(&namespace, &name);
    let plan = plan(&found, &services, &made);
    let written = write(&context.client, &plan, &made).await;
    let failure = written.as_ref().err().map(|error| chain(error).to_string());
    for (policy, standing) in found.iter().zip(&plan.standings) {
        report(context, policy, &standing.after(failure.as_ref())).await?;
    }
    let answered = answer_all(context, &hosted, answers(&services, &plan.verdicts, &made)).await;
    written.and(answered).map(|()| Action::await_change())
}

/// What one look has decided.
struct Plan {
    verdicts: Verdicts,
    /// One entry for each policy.
    standings: Vec<Standing>,
    /// Labels of policies that cannot be read: what was made for them stays until they can be.
    kept: Vec<String>,
}

/// What came of a policy before anything is written.
enum Standing {
    Read { exposures: usize },
    Unreadable(String),
}

impl Standing {
    fn after(&self, failure: Option<&String>) -> InForce {
        match (self, failure) {
            (Self::Unreadable(why), _) => InForce::Unreadable(why.clone()),
            (Self::Read { exposures }, None) => InForce::Yes { exposures: *exposures },
            (Self::Read { exposures }, Some(failure)) => {
                InForce::Failed { exposures: *exposures, failure: failure.clone() }
            }
        }
    }
}

fn plan(found: &[ExposurePolicy], services: &[Arc<HostedService>], made: &[Made]) -> Plan {
    let read: Vec<_> = found.iter().map(Policy::read).collect();
    let readable: Vec<&Policy<'_>> = read.iter().filter_map(|read| read.as_ref().ok()).collect();
    let existing: Vec<Existing> = made.iter().map(Made::existing).collect();
    let verdicts = decide(&readable, services.iter().map(|service| &**service), &existing);
    let exposed_by = |name: &str| {
        let is_of = |verdict: &&Verdict| matches!(verdict, Verdict::Exposed { policy, .. } if policy == name);
        verdicts.values().filter(is_of).count()
    };
    let mut kept = Vec::new();
    let mut standings = Vec::new();
    for (policy, read) in found.iter().zip(&read) {
        standings.push(match read {
            Ok(_) => Standing::Read { exposures: exposed_by(&policy.name_any()) },
            Err(error) => {
                kept.push(policy_label(&policy.name_any()));
                Standing::Unreadable(error.to_string())
            }
        });
    }
    Plan { verdicts, standings, kept }
}

/// Makes the exposures that are wanted, and deletes those that are not any more; the first failure is returned.
async fn write(client: &Client, plan: &Plan, made: &[Made]) -> Result<(), ApplyError> {
    let by_name: BTreeMap<&str, &Made> =
        made.iter().map(|made| (made.name.as_str(), made)).collect();
    let mut wanted = BTreeSet::new();
    let mut applied = Vec::new();
    for verdict in plan.verdicts.values() {
        let Verdict::Exposed { exposure, .. } = verdict else { continue };
        let name = exposure.name_any();
        let is_so = by_name.get(name.as_str()).is_some_and(|made| {
            made.spec == exposure.spec
                && made.policy.as_ref() == exposure.labels().get(labels::EXPOSURE_POLICY)
        });
        if !is_so {
            applied.push(make(client, exposure));
        }
        wanted.insert(name);
    }
    let mut deleted = Vec::new();
    for made in made {
        let is_of_policy = made.policy.as_ref().is_some_and(|of| !plan.kept.contains(of));
        if is_of_policy && !made.is_deleting && !wanted.contains(&made.name) {
            deleted.push(unmake(client, made));
        }
    }
    let applied: Vec<_> = stream::iter(applied).buffer_unordered(CONCURRENT_WRITES).collect().await;
    let deleted: Vec<_> = stream::iter(deleted).buffer_unordered(CONCURRENT_WRITES).collect().await;
    applied.into_iter().chain(deleted).collect()
}

async fn make(client: &Client, exposure: &ServiceExposure) -> Result<(), ApplyError> {
    apply_as(FIELD_MANAGER, client, &object(exposure)).await.map(|_| ())
}

async fn unmake(client: &Client, made: &Made) -> Result<(), ApplyError> {
    let mut stale = reference::<ServiceExposure>(Some(&made.namespace), &made.name);
    stale.metadata.uid = Some(made.uid.clone());
    delete_if_exists(client, &stale).await.map(|_| ())
}

/// The Services that have something new to hear.
fn answers(
    services: &[Arc<HostedService>],
    verdicts: &Verdicts,
    made: &[Made],
) -> Vec<(Arc<HostedService>, Answer)> {
    let outcome = |name: &str| made.iter().find(|made| made.name == name)?.outcome.as_ref();
    let due = services.iter().filter_map(|service| {
        let verdict = verdicts.get(&(service.namespace.clone(), service.name.clone()));
        let exposure = match verdict {
            Some(Verdict::Left { exposure }) => Some(exposure.as_str()),
            Some(Verdict::Exposed { exposure, .. }) => exposure.metadata.name.as_deref(),
            Some(Verdict::Refused(_)) | None => None,
        };
        let answer = answer(&service.annotations, verdict, exposure.and_then(outcome))?;
        Some((service.clone(), answer))
    });
    due.collect()
}

/// Makes sure that a policy goes with its HostedCluster.
async fn belong_to(
    client: &Client,
    policy: &ExposurePolicy,
    cluster: &PartialObjectMeta<HostedCluster>,
) -> Result<(), ApplyError> {
    let uid = cluster.uid().unwrap_or_default();
    if policy.owner_references().iter().any(|owner| owner.uid == uid) {
        return Ok(());
    }
    let mut owned = reference::<ExposurePolicy>(policy.namespace().as_deref(), &policy.name_any());
    // A write must not bring a deleted one back.
    owned.metadata.uid = policy.uid();
    owned.metadata.owner_references = Some(vec![OwnerReference {
        api_version: HostedCluster::api_version(&()).into_owned(),
        kind: HostedCluster::kind(&()).into_owned(),
        name: cluster.name_any(),
        uid,
        controller: None,
        block_owner_deletion: None,
    }]);
    owned.data = json!({});
    apply(client, &owned).await.map(|_| ())
}

/// Writes a policy's status if it is another one.
pub(super) async fn report(
    context: &Context,
    policy: &ExposurePolicy,
    in_force: &InForce,
) -> Result<(), ApplyError> {
    let next = status(policy, in_force, Timestamp::now());
    if policy.status.as_ref() == Some(&next) {
        return Ok(());
    }
    let name = reference::<ExposurePolicy>(policy.namespace().as_deref(), &policy.name_any());
    let whole = json!({
        "observedGeneration": next.observed_generation,
        "exposures": next.exposures,
        "conditions": next.conditions,
    });
    patch_status(&context.client, &name, &whole).await.map(|_| ())
}
