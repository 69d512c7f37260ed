//! Every CEL rule: a manifest that it accepts and one that it refuses, in the YAML files beside.

use anyhow::Context as _;
use kube::api::{DeleteParams, DynamicObject};
use kube::core::Status;
use kube::{Api, CustomResourceExt};
use remora_api::{ExposurePolicy, HostedCluster, NodePool, ServiceExposure};
use remora_testkit::manifest::{
    self, EXPOSURE_POLICY, HOSTED_CLUSTER, NODE_POOL, SERVICE_EXPOSURE, patched,
};
use serde::Deserialize;
use serde_json::{Value, json};

use crate::{api_of, apply, schema, server};

/// One rule and the manifests that show it.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Case {
    /// Where the rule is; `[]` stands for any index.
    field: String,
    /// A part of what a refused manifest is told.
    message: String,
    /// Patch of the base manifest that makes the object which the others update.
    create: Option<Value>,
    /// Patch that is applied after `create`.
    first: Option<Value>,
    /// Patch that passes.
    accepted: Value,
    /// Patch that does not; missing where a rule cannot be broken.
    refused: Option<Value>,
}

#[tokio::test]
async fn each_rule_of_the_hosted_cluster_accepts_and_refuses() -> anyhow::Result<()> {
    check(HOSTED_CLUSTER, include_str!("hosted_cluster.yaml"), HostedCluster::crd_name()).await
}

#[tokio::test]
async fn each_rule_of_the_node_pool_accepts_and_refuses() -> anyhow::Result<()> {
    check(NODE_POOL, include_str!("node_pool.yaml"), NodePool::crd_name()).await
}

#[tokio::test]
async fn each_rule_of_the_service_exposure_accepts_and_refuses() -> anyhow::Result<()> {
    let cases = include_str!("service_exposure.yaml");
    check(SERVICE_EXPOSURE, cases, ServiceExposure::crd_name()).await
}

#[tokio::test]
async fn each_rule_of_the_exposure_policy_accepts_and_refuses() -> anyhow::Result<()> {
    let cases = include_str!("exposure_policy.yaml");
    check(EXPOSURE_POLICY, cases, ExposurePolicy::crd_name()).await
}

async fn check(base: &str, cases: &str, definition: &str) -> anyhow::Result<()> {
    let base = manifest::yaml(base)?;
    let cases: Vec<Case> = serde_saphyr::from_str(cases).context("cannot read the cases")?;
    assert_every_rule_has_a_case(definition, &cases)?;
    let api = api_of(server().await?.client().await?, &base)?;
    let mut failures = Vec::new();
    for (number, case) in cases.iter().enumerate() {
        let name = format!("rule-{number}");
        let base = patched(base.clone(), &json!({ "metadata": { "name": name } }));
        if let Err(error) = check_case(&api, &base, &name, case).await {
            failures.push(format!("{} ({}): {error:#}", case.field, case.message));
        }
    }
    assert!(failures.is_empty(), "{} of {}:\n{}", failures.len(), cases.len(), failures.join("\n"));
    Ok(())
}

async fn check_case(
    api: &Api<DynamicObject>,
    base: &Value,
    name: &str,
    case: &Case,
) -> anyhow::Result<()> {
    let mut present = base.clone();
    let is_status = case.field.starts_with("status");
    if is_status {
        apply(api, base, false).await.context("base")?;
    }
    for patch in case.create.iter().chain(&case.first) {
        present = patched(present, patch);
        apply(api, &present, false).await.context("create")?;
    }
    apply(api, &patched(present.clone(), &case.accepted), true).await.context("accepted")?;
    let refused = match &case.refused {
        Some(patch) => apply(api, &patched(present, patch), true).await.err(),
        None => None,
    };
    if is_status || case.create.is_some() {
        api.delete(name, &DeleteParams::default()).await.context("delete")?;
    }
    match (&case.refused, refused) {
        (None, _) => Ok(()),
        (Some(_), Some(kube::Error::Api(response))) => assert_names_the_rule(&response, case),
        (Some(_), Some(error)) => Err(error.into()),
        (Some(_), None) => anyhow::bail!("what should be refused is accepted"),
    }
}

fn assert_names_the_rule(response: &Status, case: &Case) -> anyhow::Result<()> {
    let causes = response.details.iter().flat_map(|details| &details.causes);
    let is_named = causes.clone().any(|cause| {
        without_indexes(&cause.field) == case.field && cause.message.contains(&case.message)
    });
    anyhow::ensure!(is_named, "refused for another reason: {}", response.message);
    Ok(())
}

/// The path of a field with `[]` for every index, and nothing for the object itself.
fn without_indexes(field: &str) -> String {
    let mut parts = field.split('[');
    let mut path = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        path.push_str("[]");
        path.push_str(part.split_once(']').map_or("", |(_, rest)| rest));
    }
    if path == "<nil>" { String::new() } else { path }
}

fn assert_every_rule_has_a_case(definition: &str, cases: &[Case]) -> anyhow::Result<()> {
    let definitions = remora_api::crds::all();
    let definition = definitions
        .iter()
        .find(|candidate| candidate.metadata.name.as_deref() == Some(definition))
        .context("no such definition")?;
    let rules = schema::rules(&schema::of(definition)?);
    let is_about = |case: &Case, (field, message): &(String, String)| {
        &case.field == field && message.contains(&case.message)
    };
    for rule in &rules {
        let shown = cases.iter().filter(|case| is_about(case, rule)).count();
        anyhow::ensure!(shown == 1, "{shown} cases show the rule {rule:?}");
    }
    for case in cases {
        anyhow::ensure!(rules.iter().any(|rule| is_about(case, rule)), "no rule is {case:?}");
    }
    Ok(())
}
