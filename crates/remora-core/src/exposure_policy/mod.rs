//! Which Services of a hosted cluster its ExposurePolicies expose.
//!
//! ```text
//!  Service of the hosted cluster ─┬─ has an exposure written by hand ──────> left to that one
//!                                 ├─ asks (remora.dev/expose), allowed ────> exposed as it asks
//!                                 ├─ meant by a rule ──────────────────────> exposed as the rule says
//!                                 └─ asks, not allowed ────────────────────> refused, and told why
//! ```
//! What is exposed gets a ServiceExposure: everything else follows from that. Policies are gone through by age, then
//! name, so that the same input gives the same answer in any order.

mod answer;
mod ask;
mod status;

use std::collections::BTreeMap;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, OwnerReference};
use kube::core::{ParseExpressionError, Selector, SelectorExt};
use remora_api::exposure_policy::{ExposureAllowance, ExposureRule};
use remora_api::service_exposure::{ExposedPort, ExposureVia, PortRange, ServiceReference};
use remora_api::{ExposurePolicy, ServiceExposure, ServiceExposureSpec, labels};

pub use self::answer::{Answer, News, Outcome, answer};
pub use self::ask::AskError;
use self::ask::{Ask, ask};
pub use self::status::{InForce, status};
use crate::expose::{HostedService, label_value, shortened};

/// An exposure that exists, reduced to what it is about.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Existing {
    /// Its name.
    pub name: String,
    /// Namespace of the hosted Service.
    pub service_namespace: String,
    /// Name of the hosted Service.
    pub service_name: String,
    /// It was made for a policy.
    pub is_of_policy: bool,
}

/// What becomes of one Service.
#[derive(Clone, Debug, PartialEq)]
pub enum Verdict {
    /// An exposure written by hand has it.
    Left {
        /// Name of that exposure.
        exposure: String,
    },
    /// It is exposed.
    Exposed {
        /// Name of the policy that says so.
        policy: String,
        /// The exposure to apply.
        exposure: Box<ServiceExposure>,
    },
    /// It asked, and is not exposed.
    Refused(Refusal),
}

/// Why a Service that asked is not exposed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Refusal {
    /// What it asks for cannot be understood.
    #[error(transparent)]
    Unclear(#[from] AskError),
    /// No policy allows it.
    #[error(
        "annotation {}: no ExposurePolicy of this cluster allows Services of namespace {namespace} to be exposed by {via}; \
         ask whoever runs the hosting cluster for one",
        labels::EXPOSE
    )]
    NotAllowed {
        /// Namespace of the Service.
        namespace: String,
        /// Way that it asked for.
        via: ExposureVia,
    },
    /// A policy allows it, with other node ports.
    #[error(
        "annotation {}: node port {port} may not be taken, those from {range} may; ask for one of them, or leave the \
         annotation out to be given one",
        labels::EXPOSE_NODE_PORTS
    )]
    PortNotAllowed {
        /// Node port that it asked for.
        port: i32,
        /// What it may ask for.
        range: PortRange,
    },
}

/// A policy that cannot be put into force.
#[derive(Debug, thiserror::Error)]
#[error("spec.expose[{index}].selector: {found}; correct it")]
pub struct PolicyError {
    index: usize,
    found: ParseExpressionError,
}

/// A policy, read.
pub struct Policy<'a> {
    policy: &'a ExposurePolicy,
    rules: Vec<(&'a ExposureRule, Selector)>,
}

impl<'a> Policy<'a> {
    /// Reads a policy.
    ///
    /// # Errors
    /// When the selector of a rule means nothing.
    pub fn read(policy: &'a ExposurePolicy) -> Result<Self, PolicyError> {
        let rules = policy.spec.expose.iter().enumerate().map(|(index, rule)| {
            let selector = rule.selector.clone().unwrap_or_default();
            let selector =
                Selector::try_from(selector).map_err(|found| PolicyError { index, found })?;
            Ok((rule, selector))
        });
        Ok(Self { policy, rules: rules.collect::<Result<_, _>>()? })
    }

    fn name(&self) -> &str {
        self.policy.metadata.name.as_deref().unwrap_or_default()
    }

    /// Age first, then the name.
    fn rank(&self) -> (i64, &str) {
        let created = self.policy.metadata.creation_timestamp.as_ref();
        (created.map_or(i64::MAX, |time| time.0.as_second()), self.name())
    }

    /// The first rule that means a Service.
    fn rule_for(&self, service: &HostedService) -> Option<&'a ExposureRule> {
        let is_listed = |list: &[String], word: &String| list.is_empty() || list.contains(word);
        let mut rules = self.rules.iter().filter(|(rule, selector)| {
            is_listed(&rule.namespaces, &service.namespace)
                && is_listed(&rule.names, &service.name)
                && selector.matches(&service.labels)
        });
        rules.next().map(|(rule, _)| *rule)
    }
}

/// Decides all Services that policies mean or that ask, by namespace and name. The policies are those of one HostedCluster.
pub fn decide<'s>(
    policies: &[&Policy<'_>],
    services: impl IntoIterator<Item = &'s HostedService>,
    existing: &[Existing],
) -> BTreeMap<(String, String), Verdict> {
    let mut policies = policies.to_vec();
    policies.sort_by(|a, b| a.rank().cmp(&b.rank()));
    let by_hand: BTreeMap<(&str, &str), &str> = existing
        .iter()
        .filter(|exposure| !exposure.is_of_policy)
        .map(|known| ((&*known.service_namespace, &*known.service_name), &*known.name))
        .collect();
    let verdicts = services.into_iter().filter_map(|service| {
        let left = by_hand.get(&(&*service.namespace, &*service.name));
        let verdict = match left {
            Some(exposure) => Some(Verdict::Left { exposure: (*exposure).to_owned() }),
            None => verdict(&policies, service),
        };
        Some(((service.namespace.clone(), service.name.clone()), verdict?))
    });
    verdicts.collect()
}

fn verdict(policies: &[&Policy<'_>], service: &HostedService) -> Option<Verdict> {
    let refusal = match ask(&service.annotations) {
        Ok(None) => None,
        Ok(Some(asked)) => match allowance(policies, service, &asked) {
            Ok((policy, allowed)) => return Some(exposed(policy, service, &asked.of(allowed))),
            Err(refusal) => Some(refusal),
        },
        Err(unclear) => Some(Refusal::Unclear(unclear)),
    };
    // A rule is about Services with node ports: most have none, and nobody has asked for those to be exposed.
    let has_node_ports = matches!(service.type_.as_str(), "NodePort" | "LoadBalancer");
    let meant = policies.iter().filter(|_| has_node_ports);
    let mut meant = meant.filter_map(|policy| Some((*policy, policy.rule_for(service)?)));
    let ruled = meant.next().map(|(policy, rule)| exposed(policy, service, &Wanted::by(rule)));
    ruled.or_else(|| refusal.map(Verdict::Refused))
}

/// The first allowance under which a Service may have what it asks for.
fn allowance<'p>(
    policies: &[&'p Policy<'p>],
    service: &HostedService,
    asked: &Ask,
) -> Result<(&'p Policy<'p>, &'p ExposureAllowance), Refusal> {
    let mut outside = None;
    for policy in policies {
        for allowed in &policy.policy.spec.allow {
            let namespaces = &allowed.namespaces;
            let is_meant = namespaces.is_empty() || namespaces.contains(&service.namespace);
            if !is_meant || !allowed.via.contains(&asked.via) {
                continue;
            }
            match allowed.node_port_range.and_then(|range| Some((asked.outside(range)?, range))) {
                None => return Ok((*policy, allowed)),
                Some((port, range)) => {
                    outside.get_or_insert(Refusal::PortNotAllowed { port, range });
                }
            }
        }
    }
    let namespace = service.namespace.clone();
    Err(outside.unwrap_or(Refusal::NotAllowed { namespace, via: asked.via }))
}

/// What an exposure of a policy shall be.
struct Wanted<'a> {
    via: ExposureVia,
    node_pools: &'a [String],
    node_port_range: Option<PortRange>,
    ports: Vec<ExposedPort>,
}

impl<'a> Wanted<'a> {
    fn by(rule: &'a ExposureRule) -> Self {
        Self {
            via: rule.via,
            node_pools: &rule.node_pools,
            node_port_range: rule.node_port_range,
            ports: Vec::new(),
        }
    }
}

impl Ask {
    fn of<'a>(&self, allowed: &'a ExposureAllowance) -> Wanted<'a> {
        Wanted {
            via: self.via,
            node_pools: &allowed.node_pools,
            node_port_range: allowed.node_port_range,
            ports: self.ports.clone(),
        }
    }
}

fn exposed(policy: &Policy<'_>, service: &HostedService, wanted: &Wanted<'_>) -> Verdict {
    let spec = &policy.policy.spec;
    let mut exposure = ServiceExposure::new(
        &exposure_name(&spec.cluster_name, service),
        ServiceExposureSpec {
            cluster_name: spec.cluster_name.clone(),
            service: ServiceReference {
                namespace: service.namespace.clone(),
                name: service.name.clone(),
            },
            via: wanted.via,
            node_pools: wanted.node_pools.to_vec(),
            node_port_range: wanted.node_port_range,
            ports: wanted.ports.clone(),
        },
    );
    let made_for = [
        (labels::MANAGED_BY.to_owned(), labels::FIELD_MANAGER.to_owned()),
        (labels::EXPOSURE_POLICY.to_owned(), label_value(policy.name())),
    ];
    exposure.metadata = ObjectMeta {
        namespace: policy.policy.metadata.namespace.clone(),
        labels: Some(made_for.into()),
        owner_references: Some(vec![owner(policy.policy)]),
        ..exposure.metadata
    };
    Verdict::Exposed { policy: policy.name().to_owned(), exposure: Box::new(exposure) }
}

fn owner(policy: &ExposurePolicy) -> OwnerReference {
    OwnerReference {
        api_version: <ExposurePolicy as kube::Resource>::api_version(&()).into_owned(),
        kind: <ExposurePolicy as kube::Resource>::kind(&()).into_owned(),
        name: policy.metadata.name.clone().unwrap_or_default(),
        uid: policy.metadata.uid.clone().unwrap_or_default(),
        controller: Some(true),
        block_owner_deletion: None,
    }
}

/// Name of the exposure that policies make for a Service: one per Service and cluster, whatever the policy.
fn exposure_name(cluster: &str, service: &HostedService) -> String {
    let HostedService { namespace, name, .. } = service;
    shortened("", name, &format!("{cluster}/{namespace}/{name}"))
}

/// Value of the label that names the policy of an exposure.
pub fn policy_label(policy: &str) -> String {
    label_value(policy)
}

#[cfg(test)]
mod tests;
