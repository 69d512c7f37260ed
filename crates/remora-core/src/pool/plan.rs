//! How many machines a NodePool gains and which it loses.
//!
//! ```text
//!             outdated machines?
//!   no ───────────────────────────► fewer than wanted: create, more: remove
//!   yes, OnDelete ────────────────► the same; outdated ones go first when one has to go
//!   yes, RollingUpdate ───────────► create up to wanted + surge, remove outdated ones
//!                                   while wanted - unavailable stay available
//! ```
//! A plan is one step. Every step of it changes what is seen, and the next plan starts from there; nothing has to be
//! remembered between plans but which machines leave, which is written on the machines.
//!
//! As long as nobody knows how the nodes are, no machine is chosen to leave.

use std::cmp::Reverse;

use super::machine::{Instance, Machine, Node, Stay};

/// How outdated machines are replaced.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Replacement {
    /// By new ones, a few at a time.
    RollingUpdate {
        /// How many machines more than wanted there may be.
        max_surge: usize,
        /// How many of the wanted machines may be unavailable.
        max_unavailable: usize,
    },
    /// When a user deletes them.
    OnDelete,
}

/// What a NodePool wants.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Wanted<'a> {
    /// How many machines.
    pub replicas: usize,
    /// Hash of the template they shall have.
    pub template_hash: &'a str,
    /// How the others are replaced.
    pub replacement: Replacement,
}

/// One step towards what is wanted.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Plan {
    /// How many machines are created now.
    pub create: usize,
    /// Names of the machines that are chosen to leave now.
    pub remove: Vec<String>,
}

/// Plans the next step of a NodePool.
pub fn plan(wanted: Wanted<'_>, machines: &[Machine]) -> Plan {
    if machines.iter().any(|machine| machine.node == Node::Unknown) {
        return Plan::default();
    }
    let staying: Vec<&Machine> = machines.iter().filter(|machine| !machine.is_leaving()).collect();
    let has_outdated = staying.iter().any(|machine| machine.template_hash != wanted.template_hash);
    match wanted.replacement {
        Replacement::RollingUpdate { max_surge, max_unavailable } if has_outdated => {
            let limits = Limits {
                ceiling: wanted.replicas + max_surge,
                floor: wanted.replicas.saturating_sub(max_unavailable),
            };
            plan_rollout(wanted, limits, machines.len(), &staying)
        }
        Replacement::RollingUpdate { .. } | Replacement::OnDelete => plan_size(wanted, staying),
    }
}

#[derive(Clone, Copy)]
struct Limits {
    ceiling: usize,
    floor: usize,
}

fn plan_size(wanted: Wanted<'_>, staying: Vec<&Machine>) -> Plan {
    let excess = staying.len().saturating_sub(wanted.replicas);
    Plan {
        create: wanted.replicas.saturating_sub(staying.len()),
        remove: first_to_go(staying, wanted.template_hash).take(excess).collect(),
    }
}

fn plan_rollout(wanted: Wanted<'_>, limits: Limits, existing: usize, staying: &[&Machine]) -> Plan {
    let (updated, outdated): (Vec<&Machine>, Vec<&Machine>) =
        staying.iter().partition(|machine| machine.template_hash == wanted.template_hash);
    let is_available = |machine: &&&Machine| machine.is_available();
    let available = staying.iter().filter(is_available).count();
    let updated_unavailable = updated.len() - updated.iter().filter(is_available).count();
    // Machines that still leave count: the surge is a promise about what the hosting cluster has to carry.
    let create =
        wanted.replicas.saturating_sub(updated.len()).min(limits.ceiling.saturating_sub(existing));
    // New machines that are not available yet hold the rollout: a template that never works costs no more than the
    // surge.
    let mut removable = staying.len().saturating_sub(limits.floor + updated_unavailable);
    let mut spare = available.saturating_sub(limits.floor);
    let surplus = updated.len().saturating_sub(wanted.replicas);
    let mut remove: Vec<String> =
        first_to_go(updated, wanted.template_hash).take(surplus).collect();
    for machine in in_order(outdated, wanted.template_hash) {
        let is_free = !machine.is_available();
        if removable == 0 || (!is_free && spare == 0) {
            continue;
        }
        removable -= 1;
        spare -= usize::from(!is_free);
        remove.push(machine.name.clone());
    }
    Plan { create, remove }
}

fn first_to_go(machines: Vec<&Machine>, template_hash: &str) -> impl Iterator<Item = String> {
    in_order(machines, template_hash).into_iter().map(|machine| machine.name.clone())
}

/// The order in which machines go: those that a user named first, then outdated ones, then those that serve least
/// (never joined or silent, then not ready), then the newest, whose pods have run for the shortest time.
pub fn in_order<'a>(mut machines: Vec<&'a Machine>, template_hash: &str) -> Vec<&'a Machine> {
    machines.sort_by_key(|machine| {
        (
            machine.stay != Stay::Unwanted,
            machine.template_hash == template_hash,
            service(machine),
            Reverse(machine.created),
            machine.name.clone(),
        )
    });
    machines
}

fn service(machine: &Machine) -> u8 {
    match (&machine.instance, &machine.node) {
        (Instance::Down { .. }, _) | (_, Node::Unknown | Node::Absent | Node::Unreachable) => 0,
        (Instance::Running { .. }, Node::NotReady { .. }) => 1,
        (Instance::Running { .. }, Node::Ready) => 2,
    }
}

#[cfg(test)]
mod tests;
