//! Steps of single plans, and whole rollouts from any start.

use std::collections::BTreeSet;

use jiff::Timestamp;
use proptest::prelude::*;

use super::*;

fn machine(name: &str, hash: &str, created: i64, is_ready: bool) -> Machine {
    Machine {
        name: name.to_owned(),
        template_hash: hash.to_owned(),
        release_version: "1.35.4".to_owned(),
        created: Timestamp::from_second(created).unwrap(),
        stay: Stay::Stays,
        instance: Instance::Running { addresses: BTreeSet::new() },
        kubelet_version: Some("v1.35.4".to_owned()),
        node: if is_ready {
            Node::Ready
        } else {
            Node::NotReady { message: "network is not ready".to_owned() }
        },
    }
}

fn rolling(replicas: usize, max_surge: usize, max_unavailable: usize) -> Wanted<'static> {
    Wanted {
        replicas,
        template_hash: "new",
        replacement: Replacement::RollingUpdate { max_surge, max_unavailable },
    }
}

fn removes(plan: &Plan) -> Vec<&str> {
    plan.remove.iter().map(String::as_str).collect()
}

#[test]
fn when_a_pool_is_too_small_the_missing_machines_are_created() {
    let plan = plan(rolling(3, 1, 0), &[machine("a", "new", 1, true)]);
    assert_eq!(plan, Plan { create: 2, remove: vec![] });
}

#[test]
fn when_a_pool_is_too_large_the_least_useful_machines_go_first() {
    let mut silent = machine("silent", "new", 1, true);
    silent.node = Node::Unreachable;
    let machines = [
        machine("old", "new", 1, true),
        machine("newest", "new", 9, true),
        machine("not-ready", "new", 2, false),
        silent,
    ];
    assert_eq!(removes(&plan(rolling(1, 1, 0), &machines)), ["silent", "not-ready", "newest"]);
}

#[test]
fn when_a_user_names_a_machine_it_goes_before_all_others() {
    let mut named = machine("named", "new", 1, true);
    named.stay = Stay::Unwanted;
    let machines = [machine("broken", "new", 2, false), named];
    assert_eq!(removes(&plan(rolling(1, 1, 0), &machines)), ["named"]);
}

#[test]
fn when_a_machine_leaves_already_no_other_one_is_chosen() {
    let mut leaving = machine("leaving", "new", 9, true);
    leaving.stay = Stay::Leaves(Timestamp::UNIX_EPOCH);
    let machines = [machine("a", "new", 1, true), leaving];
    assert_eq!(plan(rolling(1, 1, 0), &machines), Plan::default());
}

#[test]
fn when_nobody_knows_how_the_nodes_are_nothing_is_planned() {
    let mut unknown = machine("a", "old", 1, true);
    unknown.node = Node::Unknown;
    assert_eq!(plan(rolling(0, 0, 1), &[unknown]), Plan::default());
}

#[test]
fn when_the_template_changes_one_machine_is_created_before_any_goes() {
    let machines = [machine("a", "old", 1, true), machine("b", "old", 2, true)];
    assert_eq!(plan(rolling(2, 1, 0), &machines), Plan { create: 1, remove: vec![] });
}

#[test]
fn when_the_new_machine_is_not_ready_the_rollout_waits() {
    let machines =
        [machine("a", "old", 1, true), machine("b", "old", 2, true), machine("c", "new", 3, false)];
    assert_eq!(plan(rolling(2, 1, 0), &machines), Plan::default());
}

#[test]
fn when_the_new_machine_is_ready_one_outdated_machine_goes() {
    let machines =
        [machine("a", "old", 1, true), machine("b", "old", 2, true), machine("c", "new", 3, true)];
    assert_eq!(plan(rolling(2, 1, 0), &machines), Plan { create: 0, remove: vec!["b".to_owned()] });
}

#[test]
fn when_no_surge_is_allowed_a_machine_goes_first() {
    let machines = [machine("a", "old", 1, true), machine("b", "old", 2, true)];
    assert_eq!(plan(rolling(2, 0, 1), &machines), Plan { create: 0, remove: vec!["b".to_owned()] });
}

#[test]
fn when_replacement_is_on_delete_outdated_machines_stay() {
    let wanted = Wanted { replacement: Replacement::OnDelete, ..rolling(2, 0, 0) };
    let machines = [machine("a", "old", 1, true), machine("b", "old", 2, true)];
    assert_eq!(plan(wanted, &machines), Plan::default());
    let wanted = Wanted { replicas: 3, ..wanted };
    assert_eq!(plan(wanted, &machines), Plan { create: 1, remove: vec![] });
}

/// Carries a plan out: what is created becomes ready at once, what was chosen to leave is gone in the step after.
fn carry_out(plan: &Plan, machines: &mut Vec<Machine>, step: usize) {
    machines.retain(|machine| !machine.is_leaving());
    for machine in machines.iter_mut() {
        if plan.remove.contains(&machine.name) {
            machine.stay = Stay::Leaves(Timestamp::UNIX_EPOCH);
        }
        machine.node = Node::Ready;
    }
    for index in 0..plan.create {
        let created = i64::try_from(100 + step).unwrap();
        machines.push(machine(&format!("m{step}-{index}"), "new", created, false));
    }
}

proptest! {
    #[test]
    fn when_plans_are_carried_out_the_pool_becomes_what_is_wanted(
        replicas in 0_usize..6,
        (max_surge, max_unavailable) in (0_usize..3, 0_usize..3).prop_filter("one has to move", |(a, b)| a + b > 0),
        start in prop::collection::vec((any::<bool>(), any::<bool>(), 0_i64..50), 0..7),
    ) {
        let wanted = rolling(replicas, max_surge, max_unavailable);
        let mut machines: Vec<Machine> = start
            .iter()
            .enumerate()
            .map(|(index, (is_new, is_ready, created))| {
                machine(&format!("s{index}"), if *is_new { "new" } else { "old" }, *created, *is_ready)
            })
            .collect();
        for step in 0..60 {
            let before = machines.iter().filter(|machine| machine.is_available()).count();
            let floor = replicas.saturating_sub(max_unavailable);
            let next = plan(wanted, &machines);
            prop_assert!(next.create == 0 || machines.len() + next.create <= replicas + max_surge.max(machines.len()));
            carry_out(&next, &mut machines, step);
            let after = machines.iter().filter(|machine| machine.is_available()).count();
            prop_assert!(after >= before.min(floor), "{before} available became {after}, floor {floor}");
        }
        prop_assert_eq!(machines.len(), replicas);
        prop_assert!(machines.iter().all(|machine| machine.template_hash == "new"));
    }

    #[test]
    fn when_machines_are_put_in_order_the_given_order_does_not_matter(
        start in prop::collection::vec((any::<bool>(), any::<bool>(), 0_i64..5), 0..7),
        seed in any::<u64>(),
    ) {
        let machines: Vec<Machine> = start
            .iter()
            .enumerate()
            .map(|(index, (is_new, is_ready, created))| {
                machine(&format!("s{index}"), if *is_new { "new" } else { "old" }, *created, *is_ready)
            })
            .collect();
        let mut turned: Vec<&Machine> = machines.iter().collect();
        let length = turned.len().max(1);
        turned.rotate_left(usize::try_from(seed % length as u64).unwrap() % length);
        let straight = in_order(machines.iter().collect(), "new");
        prop_assert_eq!(in_order(turned, "new"), straight);
    }
}
