//! One refused spec per rule.

use serde_json::{Value, json};

use super::*;

/// A valid spec with some fields changed.
fn spec(changes: &Value) -> NodePoolSpec {
    let mut spec = json!({
        "clusterName": "cluster-a",
        "release": {"image": "registry.example/release:1.35.4"},
        "platform": {"type": "KubeVirt", "kubevirt": {}},
        "management": {"upgradeType": "Replace"},
        "replicas": 3,
    });
    for (key, value) in changes.as_object().unwrap() {
        spec[key] = value.clone();
    }
    serde_json::from_value(spec).unwrap()
}

fn problem(name: &str, changes: &Value) -> (NodePoolConditionType, Reason, String) {
    let mut problems = validate(name, &spec(changes), &[]).unwrap_err();
    assert_eq!(problems.len(), 1, "{problems:?}");
    let problem = problems.remove(0);
    (problem.condition, problem.reason, problem.message)
}

#[test]
fn when_the_spec_makes_sense_its_rules_are_read() {
    let rules = validate(
        "pool-b",
        &spec(&json!({
            "management": {"upgradeType": "Replace", "replace": {
                "strategy": "RollingUpdate",
                "rollingUpdate": {"maxSurge": "50%", "maxUnavailable": "50%"},
            }},
            "nodeDrainTimeout": "1m30s",
        })),
        &[("NodePool clusters/pool-b", r#"[{"op": "remove", "path": "/spec/x"}]"#)],
    );
    assert_eq!(
        rules,
        Ok(PoolRules {
            size: Size::Fixed(3),
            replacement: Replacement::RollingUpdate { max_surge: 2, max_unavailable: 1 },
            drain_timeout: SignedDuration::from_secs(90),
        })
    );
}

#[test]
fn when_nothing_is_said_defaults_hold() {
    let rules = validate("pool-b", &spec(&json!({"replicas": null})), &[]);
    assert_eq!(
        rules,
        Ok(PoolRules {
            size: Size::Fixed(0),
            replacement: Replacement::RollingUpdate { max_surge: 1, max_unavailable: 0 },
            drain_timeout: SignedDuration::ZERO,
        })
    );
}

#[test]
fn when_a_pool_scales_by_itself_its_size_is_bounded() {
    let changes = json!({"replicas": null, "autoScaling": {"min": 2, "max": 4}});
    let size = validate("pool-b", &spec(&changes), &[]).unwrap().size;
    assert_eq!([0, 3, 9].map(|present| size.wanted(present)), [2, 3, 4]);
}

#[test]
fn when_a_rule_is_broken_the_problem_names_field_and_remedy() {
    let rolling = |surge: Value, unavailable: Value| {
        json!({"management": {"upgradeType": "Replace", "replace": {
            "strategy": "RollingUpdate",
            "rollingUpdate": {"maxSurge": surge, "maxUnavailable": unavailable},
        }}})
    };
    let kubevirt = |value: Value| json!({"platform": {"type": "KubeVirt", "kubevirt": value}});
    insta::assert_debug_snapshot!([
        problem("pool-b", &json!({"replicas": -1})),
        problem("pool-b", &rolling(json!(0), json!(0))),
        problem("pool-b", &rolling(json!("many"), json!(0))),
        problem("pool-b", &rolling(json!(1), json!(-1))),
        problem("pool-b", &json!({"management": {"upgradeType": "InPlace"}})),
        problem("pool-b", &json!({"nodeDrainTimeout": "soon"})),
        problem("pool-b", &json!({"platform": {"type": "AWS"}})),
        problem("pool-b", &json!({"arch": "arm64"})),
        problem("pool-b", &kubevirt(json!({"attachDefaultNetwork": false}))),
        problem("pool-b", &kubevirt(json!({"additionalNetworks": [{"name": "a/b/c"}]}))),
        problem(
            "pool-b",
            &kubevirt(json!({"hostDevices": [
                {"deviceName": "example.com/gpu", "count": 256}, {"deviceName": "example.com/nic"},
            ]}))
        ),
        problem("pool.b", &json!({})),
        problem(&"p".repeat(58), &json!({})),
        problem(&"p".repeat(253), &json!({})),
    ]);
    assert!(validate(&"p".repeat(57), &spec(&json!({})), &[]).is_ok());
}

#[test]
fn when_a_json_patch_is_unreadable_the_problem_names_who_carries_it() {
    let problems =
        validate("pool-b", &spec(&json!({})), &[("HostedCluster clusters/a", "{}")]).unwrap_err();
    assert_eq!(problems.len(), 1);
    assert!(problems[0].message.contains("HostedCluster clusters/a"), "{problems:?}");
}
