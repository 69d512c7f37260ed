//! What is as it should be is left alone: a further pass writes the status that it must, and nothing else.
//!
//! A change of the spec without consequence makes the pass. It ends with the status, which names the new generation, so
//! that when this is seen everything that the pass has written is in the API server's audit log.

use kube::ResourceExt;
use kube::api::{Api, DynamicObject, Patch, PatchParams};
use remora_testkit::eventually;
use serde_json::{Value, json};

use crate::cluster::Reef;
use crate::hosted_clusters::Made;
use crate::operator;
use crate::world::{DEADLINE, World, wait_for_condition};

/// Changes a spec and waits for the pass over it. Returns what the operator has written in the two namespaces.
async fn written_after(
    objects: &Api<DynamicObject>,
    (namespace, name): (&str, &str),
    change: Value,
) -> anyhow::Result<Vec<String>> {
    let world = World::shared().await?;
    let all = || world.hosting.writes_of(&operator::user());
    let before = all()?.len();
    let changed = objects.patch(name, &PatchParams::default(), &Patch::Merge(change)).await?;
    let generation = json!(changed.metadata.generation);
    eventually(&format!("a status of {namespace}/{name}"), DEADLINE, async || {
        let object = objects.get(name).await?;
        let of_object = object.data.pointer("/status/observedGeneration");
        let of_condition = object.data.pointer("/status/conditions/0/observedGeneration");
        let seen = of_object.or(of_condition).cloned();
        anyhow::ensure!(seen.as_ref() == Some(&generation), "it is about generation {seen:?}");
        let control_plane = format!("{namespace}-reef");
        let written = all()?;
        let written = written.iter().skip(before);
        let own = written.filter(|write| {
            write.namespace == namespace
                || write.namespace == control_plane
                || write.name == control_plane
        });
        let own: Vec<String> = own.map(ToString::to_string).collect();
        // The answer to the last one is seen a moment before its entry in the log.
        anyhow::ensure!(own.iter().any(|write| write.contains("/status ")), "only {own:?}");
        Ok(own)
    })
    .await
}

#[tokio::test]
async fn a_settled_cluster_writes_its_status_alone() -> anyhow::Result<()> {
    let made = Made::make("settled", json!({})).await?;
    made.stand_in_for_pods().await?;
    wait_for_condition(&made.clusters, "reef", ("Available", "True", "AsExpected")).await?;
    wait_for_condition(&made.clusters, "reef", ("Progressing", "False", "AsExpected")).await?;
    let id = ("settled", "reef");
    let channel = |name: &str| json!({ "spec": { "channel": name } });
    written_after(&made.clusters, id, channel("first")).await?;
    let written = written_after(&made.clusters, id, channel("second")).await?;
    assert_eq!(written, ["patch hostedclusters/status settled/reef"]);
    Ok(())
}

#[tokio::test]
async fn a_settled_pool_writes_its_status_alone() -> anyhow::Result<()> {
    let reef = Reef::make("settled-pool").await?;
    let pools = reef.pool("steady", json!({ "replicas": 1 })).await?;
    reef.start_all("steady", 1).await?;
    wait_for_condition(&pools, "steady", ("Ready", "True", "AsExpected")).await?;
    let id = ("settled-pool", "steady");
    let timeout = |text: &str| json!({ "spec": { "nodeDrainTimeout": text } });
    written_after(&pools, id, timeout("1s")).await?;
    let written = written_after(&pools, id, timeout("2s")).await?;
    assert_eq!(written, ["patch nodepools/status settled-pool/steady"]);
    Ok(())
}

#[tokio::test]
async fn a_settled_exposure_writes_its_status_alone() -> anyhow::Result<()> {
    let reef = Reef::make("settled-shop").await?;
    let service = json!({ "type": "NodePort", "ports": [{ "name": "http", "port": 8080, "nodePort": 30061 }] });
    reef.hosted_service(service).await?;
    let exposures = reef.expose("shop", json!({ "ports": [{ "port": "http" }] })).await?;
    wait_for_condition(&exposures, "shop", ("Programmed", "True", "AsExpected")).await?;
    let id = ("settled-shop", "shop");
    let ports = |port: Value| json!({ "spec": { "ports": [{ "port": port }] } });
    written_after(&exposures, id, ports(json!(8080))).await?;
    let written = written_after(&exposures, id, ports(json!("http"))).await?;
    assert_eq!(written, ["patch serviceexposures/status settled-shop/shop"]);
    assert_eq!(exposures.get("shop").await?.name_any(), "shop");
    Ok(())
}
