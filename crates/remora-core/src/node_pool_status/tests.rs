//! Whole lists of conditions for the situations a pool goes through.

use std::collections::{BTreeMap, BTreeSet};

use jiff::SignedDuration;
use serde_json::{Value, json};

use super::*;
use crate::pause::Pause;
use crate::pool::machine::{Instance, Node, Stay};
use crate::pool::{Replacement, Size};

fn spec(changes: &Value) -> NodePoolSpec {
    let mut spec = json!({
        "clusterName": "cluster-a",
        "release": {"image": "registry.example/release:1.35.4"},
        "platform": {"type": "KubeVirt", "kubevirt": {}},
        "management": {"upgradeType": "Replace"},
        "replicas": 2,
    });
    for (key, value) in changes.as_object().unwrap() {
        spec[key] = value.clone();
    }
    serde_json::from_value(spec).unwrap()
}

fn rules(replicas: usize) -> Result<PoolRules, Vec<Problem>> {
    Ok(PoolRules {
        size: Size::Fixed(replicas),
        replacement: Replacement::OnDelete,
        drain_timeout: SignedDuration::ZERO,
    })
}

fn now() -> Timestamp {
    "2026-11-30T10:00:00Z".parse().unwrap()
}

fn machine(name: &str, node: Node) -> Machine {
    Machine {
        name: name.to_owned(),
        template_hash: "c0ffee".to_owned(),
        release_version: "1.35.4".to_owned(),
        created: now(),
        stay: Stay::Stays,
        instance: Instance::Running { addresses: BTreeSet::new() },
        kubelet_version: (node != Node::Absent).then(|| "v1.35.4".to_owned()),
        node,
    }
}

/// What a situation differs in.
struct Situation {
    spec: NodePoolSpec,
    pause: PoolPause,
    rules: Result<PoolRules, Vec<Problem>>,
    cluster: ClusterView,
    release: ReleaseView,
    template: Option<Result<TemplateView, Problem>>,
    payload: PayloadView,
    machines: Vec<Machine>,
    drains: Vec<String>,
    failures: Vec<String>,
}

impl Default for Situation {
    fn default() -> Self {
        Self {
            spec: spec(&json!({})),
            pause: PoolPause { own: Pause::Active, of_cluster: Pause::Active },
            rules: rules(2),
            cluster: ClusterView::Available { version: Some("1.35.5".to_owned()) },
            release: ReleaseView::Resolved { version: "1.35.4".to_owned() },
            template: Some(Ok(TemplateView {
                hash: "c0ffee".to_owned(),
                disk_image: "registry.example/node-disk@sha256:1234".to_owned(),
                reservation: None,
            })),
            payload: PayloadView::Made,
            machines: vec![],
            drains: vec![],
            failures: vec![],
        }
    }
}

impl Situation {
    fn status(&self, present: &NodePoolStatus) -> NodePoolStatus {
        let view = PoolView {
            generation: Some(7),
            namespace: "clusters",
            spec: &self.spec,
            annotations: &BTreeMap::new(),
            pause: self.pause,
            rules: &self.rules,
            cluster: &self.cluster,
            release: &self.release,
            template: self.template.as_ref(),
            payload: &self.payload,
            machines: &self.machines,
            drains: &self.drains,
            failures: &self.failures,
        };
        node_pool_status(&view, present, now())
    }

    /// One line per condition, and the rest of the status.
    fn told(&self) -> String {
        let status = self.status(&NodePoolStatus::default());
        let mut lines: Vec<String> = status
            .conditions
            .iter()
            .map(|condition| {
                let NodePoolCondition { type_, status, reason, message, .. } = condition;
                format!("{type_}={status} {reason}: {message}")
            })
            .collect();
        lines.push(format!("replicas={} version={:?}", status.replicas, status.version));
        lines.join("\n")
    }
}

#[test]
fn when_all_nodes_are_ready_all_is_well() {
    let situation = Situation {
        machines: vec![machine("a", Node::Ready), machine("b", Node::Ready)],
        ..Situation::default()
    };
    insta::assert_yaml_snapshot!(situation.status(&NodePoolStatus::default()));
}

#[test]
fn when_machines_come_up_each_says_what_it_waits_for() {
    let mut down = machine("b", Node::Absent);
    down.instance = Instance::Down {
        reason: "Scheduling".to_owned(),
        message: "0/3 nodes are available".to_owned(),
    };
    let not_ready = Node::NotReady { message: "cni plugin not initialized".to_owned() };
    insta::assert_snapshot!(
        Situation { machines: vec![machine("a", not_ready), down], ..Situation::default() }.told()
    );
}

#[test]
fn when_the_hosted_cluster_is_missing_the_pool_says_so() {
    insta::assert_snapshot!(
        Situation {
            cluster: ClusterView::Missing,
            release: ReleaseView::Unknown,
            template: None,
            payload: PayloadView::Waiting,
            ..Situation::default()
        }
        .told()
    );
}

#[test]
fn when_fields_have_no_effect_conditions_say_which() {
    insta::assert_snapshot!(
        Situation {
            spec: spec(&json!({
                "replicas": null,
                "autoScaling": {"min": 1, "max": 4},
                "config": [{"name": "x"}],
                "nodeVolumeDetachTimeout": "5m",
                "management": {"upgradeType": "Replace", "autoRepair": true},
                "platform": {"type": "KubeVirt", "kubevirt": {
                    "rootVolume": {"type": "Persistent", "cacheStrategy": {"type": "PVC"}},
                }},
            })),
            pause: PoolPause { own: Pause::Invalid, of_cluster: Pause::Active },
            rules: rules(0),
            ..Situation::default()
        }
        .told()
    );
}

#[test]
fn when_a_pool_is_left_alone_it_says_whose_field_says_so_and_goes_on_telling_of_its_nodes() {
    let until = Pause::Until("2026-11-30T12:00:00Z".parse().unwrap());
    let told = |own, of_cluster| {
        let situation = Situation {
            pause: PoolPause { own, of_cluster },
            machines: vec![machine("a", Node::Ready)],
            ..Situation::default()
        };
        let status = situation.status(&NodePoolStatus::default());
        let mut lines = Vec::new();
        for type_ in ["ReconciliationActive", "Ready"] {
            let found = status.conditions.iter().find(|found| found.type_ == type_).unwrap();
            lines.push(format!("{type_}={} {}: {}", found.status, found.reason, found.message));
        }
        lines.join("\n")
    };
    insta::assert_snapshot!(
        [
            told(Pause::Indefinite, Pause::Active),
            told(Pause::Active, Pause::Indefinite),
            told(Pause::Active, until),
            told(Pause::Indefinite, until),
            told(Pause::Invalid, Pause::Indefinite),
            // The HostedCluster says itself that its field is no time.
            told(Pause::Active, Pause::Invalid),
        ]
        .join("\n\n")
    );
}

#[test]
fn when_machines_are_replaced_and_leave_the_pool_tells_how_far_it_is() {
    let mut outdated = machine("a", Node::Ready);
    outdated.template_hash = "0ld".to_owned();
    let mut leaving = machine("b", Node::Ready);
    leaving.stay = Stay::Leaves(now());
    insta::assert_snapshot!(
        Situation {
            machines: vec![outdated, leaving.clone(), machine("c", Node::Ready)],
            ..Situation::default()
        }
        .told()
    );
    let drains = vec!["Machine b: pod x/y is protected by a disruption budget".to_owned()];
    let told = Situation {
        machines: vec![leaving, machine("c", Node::Ready), machine("d", Node::Ready)],
        drains,
        ..Situation::default()
    }
    .told();
    assert!(
        told.contains("Ready=True ScalingDown: Nodes that leave: b; Machine b: pod x/y"),
        "{told}"
    );
}

#[test]
fn when_the_pool_is_newer_than_its_cluster_the_skew_is_unsupported() {
    let skew = |pool: &str, cluster: &str| {
        let situation = Situation {
            cluster: ClusterView::Available { version: Some(cluster.to_owned()) },
            release: ReleaseView::Resolved { version: pool.to_owned() },
            ..Situation::default()
        };
        let status = situation.status(&NodePoolStatus::default());
        let skew = status.conditions.iter().find(|found| found.type_ == "SupportedVersionSkew");
        skew.map(|skew| skew.status.clone()).unwrap_or_default()
    };
    assert_eq!(skew("1.35.4", "1.35.4"), "True");
    assert_eq!(skew("1.32.0", "1.35.4"), "True");
    assert_eq!(skew("1.31.9", "1.35.4"), "False");
    assert_eq!(skew("1.35.5", "1.35.4"), "False");
    assert_eq!(skew("1.36.0", "1.35.4"), "False");
    assert_eq!(skew("newest", "1.35.4"), "Unknown");
}

#[test]
fn when_a_status_stands_its_transition_times_stay() {
    let situation = Situation::default();
    let mut before = situation.status(&NodePoolStatus::default());
    let long_ago = Time("2026-01-01T00:00:00Z".parse().unwrap());
    for condition in &mut before.conditions {
        condition.last_transition_time = long_ago.clone();
    }
    assert_eq!(situation.status(&before), before);
    let machines = vec![machine("a", Node::Ready), machine("b", Node::Ready)];
    let after = Situation { machines, ..Situation::default() }.status(&before);
    let moved: Vec<&str> = after
        .conditions
        .iter()
        .filter(|condition| condition.last_transition_time != long_ago)
        .map(|condition| condition.type_.as_str())
        .collect();
    assert_eq!(moved, ["ReachedIgnitionEndpoint", "AllMachinesReady", "AllNodesHealthy", "Ready"]);
}
