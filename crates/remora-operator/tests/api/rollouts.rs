//! Changes of a NodePool that its machines cannot take up where they are.

use std::collections::BTreeSet;

use kube::ResourceExt;
use kube::api::{DynamicObject, ListParams};
use remora_testkit::eventually;
use serde_json::{Value, json};

use crate::cluster::Reef;
use crate::node_pools::of_pool;
use crate::stand_ins::{join, run};
use crate::world::{DEADLINE, wait_for_condition, wait_for_count};

fn cores(machine: &DynamicObject) -> Option<u64> {
    machine.data.pointer("/spec/template/spec/domain/cpu/cores").and_then(Value::as_u64)
}

fn with_cores(cores: u32) -> Value {
    json!({ "replicas": 2, "platform": { "kubevirt": { "compute": { "cores": cores } } } })
}

async fn machines(reef: &Reef, pool: &str) -> anyhow::Result<Vec<DynamicObject>> {
    Ok(reef.machines().list(&ListParams::default().labels(&of_pool(pool))).await?.items)
}

#[tokio::test]
async fn a_new_template_replaces_machines_one_by_one() -> anyhow::Result<()> {
    let reef = Reef::make("rolls").await?;
    let pools = reef.pool("rolls", with_cores(2)).await?;
    let first: BTreeSet<_> = reef.start_all("rolls", 2).await?.into_iter().collect();
    wait_for_condition(&pools, "rolls", ("Ready", "True", "AsExpected")).await?;

    reef.pool("rolls", with_cores(3)).await?;
    let mut started = first.clone();
    eventually("two machines of three cores", DEADLINE, async || {
        let present = machines(&reef, "rolls").await?;
        let leaving = "remora.dev/removal-started";
        let staying = present.iter().filter(|machine| {
            machine.metadata.deletion_timestamp.is_none()
                && !machine.annotations().contains_key(leaving)
        });
        // maxSurge 1, maxUnavailable 0.
        let staying = staying.count();
        assert!(present.len() <= 3, "{} machines are too many", present.len());
        assert!(staying >= 2, "{staying} machines are too few");
        for machine in present {
            if started.insert(machine.name_any()) {
                let address = format!("10.128.30.{}", started.len());
                run(&reef.hosting, &machine, &address).await?;
                join(&reef.hosted, &machine.name_any(), &address).await?;
            }
        }
        let present = machines(&reef, "rolls").await?;
        let cores: Vec<_> = present.iter().filter_map(cores).collect();
        anyhow::ensure!(cores == [3, 3], "{cores:?}");
        Ok(())
    })
    .await?;
    wait_for_condition(&pools, "rolls", ("Ready", "True", "AsExpected")).await?;
    wait_for_condition(&pools, "rolls", ("UpdatingConfig", "False", "AsExpected")).await?;
    Ok(())
}

#[tokio::test]
async fn labels_taints_and_size_replace_nothing() -> anyhow::Result<()> {
    let reef = Reef::make("stays").await?;
    let pools = reef.pool("stays", json!({ "replicas": 1 })).await?;
    let first = reef.start_all("stays", 1).await?;
    wait_for_condition(&pools, "stays", ("Ready", "True", "AsExpected")).await?;
    let spec = json!({
        "replicas": 2,
        "nodeLabels": { "water": "fresh" },
        "taints": [{ "key": "depth", "effect": "NoSchedule" }],
        "nodeDrainTimeout": "5s",
    });
    reef.pool("stays", spec).await?;
    let present = wait_for_count(&reef.machines(), &of_pool("stays"), 2).await?;
    assert!(first.iter().all(|name| present.iter().any(|machine| machine.name_any() == *name)));
    Ok(())
}

#[tokio::test]
async fn on_delete_leaves_old_machines_to_the_user() -> anyhow::Result<()> {
    let reef = Reef::make("waits").await?;
    let spec = |cores: u32| {
        json!({
            "replicas": 1,
            "management": { "replace": { "strategy": "OnDelete" } },
            "platform": { "kubevirt": { "compute": { "cores": cores } } },
        })
    };
    let pools = reef.pool("waits", spec(2)).await?;
    let first = reef.start_all("waits", 1).await?;
    wait_for_condition(&pools, "waits", ("Ready", "True", "AsExpected")).await?;
    reef.pool("waits", spec(3)).await?;
    wait_for_condition(&pools, "waits", ("UpdatingConfig", "True", "AsExpected")).await?;
    let present = machines(&reef, "waits").await?;
    assert_eq!(present.iter().filter_map(cores).collect::<Vec<_>>(), [2]);

    let name = first.first().cloned().unwrap_or_default();
    reef.machines().delete(&name, &kube::api::DeleteParams::default()).await?;
    eventually("a machine of three cores", DEADLINE, async || {
        let present = machines(&reef, "waits").await?;
        anyhow::ensure!(present.iter().filter_map(cores).collect::<Vec<_>>() == [3]);
        Ok(())
    })
    .await
}
