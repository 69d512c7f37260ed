//! The way of an exposure from outside to the pods, hop by hop, with the health of each.
//!
//! ```text
//!  outside ── hosting node : port ── hosting Service ── VM pod ── hosted node : node port ── hosted Service ── pods
//! ```

mod hosted;
mod hosting;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use kube::ResourceExt;
use serde::Serialize;

use super::read::Facts;
use crate::get::policy_of;

/// An exposure with the way from outside to the pods.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Description {
    pub(super) namespace: String,
    pub(super) name: String,
    pub(super) cluster: String,
    /// Namespace and name of the hosted Service.
    pub(super) service: String,
    pub(super) via: &'static str,
    /// The ExposurePolicy that made it; none when it was written by hand.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) policy: Option<String>,
    /// From outside to the pods.
    pub(super) path: Vec<Hop>,
    pub(super) conditions: Vec<Verdict>,
}

/// One station on the way.
#[derive(Clone, Debug, Default, Serialize)]
pub(super) struct Hop {
    pub(super) what: String,
    pub(super) items: Vec<Item>,
    /// What is not known of it, and why.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) gap: Option<String>,
    /// What to do when it is broken.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) remedy: Option<String>,
}

/// One thing of a station: traffic goes by any that is well.
#[derive(Clone, Debug, Serialize)]
pub(super) struct Item {
    pub(super) name: String,
    pub(super) health: Health,
    pub(super) detail: String,
}

/// Whether traffic comes through.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub(super) enum Health {
    Well,
    Broken,
    Unknown,
}

/// A condition, as it is shown.
#[derive(Clone, Debug, Serialize)]
pub(super) struct Verdict {
    #[serde(rename = "type")]
    pub(super) type_: String,
    pub(super) status: String,
    pub(super) reason: String,
    pub(super) message: String,
}

impl Hop {
    fn new(what: impl Into<String>) -> Self {
        Self { what: what.into(), ..Self::default() }
    }

    /// The hop with a thing of which the health is known.
    fn with(mut self, name: impl Into<String>, health: Health, detail: impl Into<String>) -> Self {
        self.items.push(Item { name: name.into(), health, detail: detail.into() });
        self
    }

    fn gap(mut self, gap: impl Into<String>) -> Self {
        self.gap = Some(gap.into());
        self
    }

    fn remedy(mut self, remedy: impl Into<String>) -> Self {
        self.remedy = Some(remedy.into());
        self
    }

    fn is_broken(&self) -> bool {
        self.items.iter().any(|item| item.health == Health::Broken)
    }

    fn is_well(&self) -> bool {
        self.gap.is_none() && self.items.iter().all(|item| item.health == Health::Well)
    }
}

/// Draws the conclusions from what was read.
pub(super) fn describe(facts: &Facts) -> Description {
    let exposure = &facts.exposure;
    let spec = &exposure.spec;
    let behind = [
        hosting::service(facts),
        hosting::machines(facts),
        hosted::nodes(facts),
        hosted::service(facts),
        hosted::pods(facts),
    ];
    let mut path = vec![hosting::endpoints(facts, &behind)];
    path.extend(behind);
    Description {
        namespace: exposure.namespace().unwrap_or_default(),
        name: exposure.name_any(),
        cluster: spec.cluster_name.clone(),
        service: format!("{}/{}", spec.service.namespace, spec.service.name),
        via: spec.via.as_str(),
        policy: policy_of(&exposure.metadata),
        path,
        conditions: conditions(facts).map(Verdict::of).collect(),
    }
}

impl Verdict {
    fn of(condition: &Condition) -> Self {
        Self {
            type_: condition.type_.clone(),
            status: condition.status.clone(),
            reason: condition.reason.clone(),
            message: condition.message.clone(),
        }
    }
}

fn conditions(facts: &Facts) -> impl Iterator<Item = &Condition> {
    facts.exposure.status.iter().flat_map(|status| &status.conditions)
}
