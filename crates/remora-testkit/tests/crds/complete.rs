//! Every field survives the API server and the Rust types.

use remora_api::{ExposurePolicy, HostedCluster, NodePool, ServiceExposure};
use remora_testkit::manifest::{
    self, EXPOSURE_POLICY, HOSTED_CLUSTER, NODE_POOL, SERVICE_EXPOSURE, patched,
};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use crate::{api_of, apply, schema, server};

/// The manifests of a kind, whole.
fn manifests(kind: &str, base: &str) -> anyhow::Result<Vec<Value>> {
    let base = manifest::yaml(base)?;
    let patches = manifest::yaml(include_str!("complete.yaml"))?;
    let patches = patches.get(kind).and_then(Value::as_array).cloned().unwrap_or_default();
    Ok(patches.iter().map(|patch| patched(base.clone(), patch)).collect())
}

async fn check<T: DeserializeOwned + Serialize>(
    manifests: &[Value],
    definition: usize,
) -> anyhow::Result<()> {
    for manifest in manifests {
        let api = api_of(server().await?.client().await?, manifest)?;
        // Strict: a field that the schema lacks is an error.
        let seen = apply(&api, manifest, true).await?;
        let seen = seen.data.get("spec").cloned().unwrap_or_default();
        let typed: T = serde_json::from_value(json!({ "metadata": {}, "spec": seen }))?;
        let typed = serde_json::to_value(typed)?.get("spec").cloned();
        assert_eq!(typed, Some(seen), "the Rust types lose or add something");
    }
    let definitions = remora_api::crds::all();
    let paths = schema::paths(&schema::of(&definitions[definition])?);
    let unused: Vec<_> = paths
        .iter()
        .filter(|path| path.starts_with("spec."))
        .filter(|path| !manifests.iter().any(|manifest| schema::has(manifest, path)))
        .collect();
    assert!(unused.is_empty(), "complete.yaml leaves out {unused:?}");
    Ok(())
}

#[tokio::test]
async fn every_field_of_a_hosted_cluster_survives() -> anyhow::Result<()> {
    check::<HostedCluster>(&manifests("hosted_cluster", HOSTED_CLUSTER)?, 0).await
}

#[tokio::test]
async fn every_field_of_a_node_pool_survives() -> anyhow::Result<()> {
    check::<NodePool>(&manifests("node_pool", NODE_POOL)?, 1).await
}

#[tokio::test]
async fn every_field_of_a_service_exposure_survives() -> anyhow::Result<()> {
    check::<ServiceExposure>(&manifests("service_exposure", SERVICE_EXPOSURE)?, 2).await
}

#[tokio::test]
async fn every_field_of_an_exposure_policy_survives() -> anyhow::Result<()> {
    check::<ExposurePolicy>(&manifests("exposure_policy", EXPOSURE_POLICY)?, 3).await
}
