//! What the hosting API server refuses: told with the object, while the rest goes on.

use k8s_openapi::api::events::v1::Event;
use kube::api::{DeleteParams, ListParams, PostParams};
use kube::{Api, Client};
use remora_testkit::eventually;
use serde_json::{Value, json};

use crate::cluster::control_plane;
use crate::hosted_clusters::Made;
use crate::world::{DEADLINE, World, api, apply, wait_for_condition, wait_until_gone};

const ADMISSION: &str = "admissionregistration.k8s.io/v1";

/// Refuses a request about the Deployment kube-scheduler of a control plane, until it is lifted.
struct Refusal {
    client: Client,
    name: &'static str,
}

impl Refusal {
    async fn of(
        name: &'static str,
        operation: &str,
        subject: &str,
        namespace: &str,
    ) -> anyhow::Result<Self> {
        let client = World::shared().await?.client().await?;
        let expression = format!(
            "!({subject}.metadata.name in ['kube-scheduler', 'probe']) || {subject}.metadata.namespace != '{namespace}'"
        );
        let policy = json!({
            "apiVersion": ADMISSION,
            "kind": "ValidatingAdmissionPolicy",
            "metadata": { "name": name },
            "spec": {
                "failurePolicy": "Fail",
                "matchConstraints": { "resourceRules": [{
                    "apiGroups": ["apps"], "apiVersions": ["v1"],
                    "operations": [operation], "resources": ["deployments"],
                }] },
                "validations": [{ "expression": expression, "message": "not today" }],
            },
        });
        apply(&client, &policy).await?;
        let binding = json!({
            "apiVersion": ADMISSION,
            "kind": "ValidatingAdmissionPolicyBinding",
            "metadata": { "name": name },
            "spec": { "policyName": name, "validationActions": ["Deny"] },
        });
        apply(&client, &binding).await?;
        Ok(Self { client, name })
    }

    async fn lift(self) -> anyhow::Result<()> {
        api(&self.client, ADMISSION, "ValidatingAdmissionPolicyBinding", "")
            .delete(self.name, &DeleteParams::default())
            .await?;
        Ok(())
    }
}

fn deployment(name: &str) -> Value {
    let labels = json!({ "app": name });
    json!({
        "apiVersion": "apps/v1", "kind": "Deployment", "metadata": { "name": name },
        "spec": {
            "replicas": 0,
            "selector": { "matchLabels": labels },
            "template": {
                "metadata": { "labels": labels },
                "spec": { "containers": [{ "name": "a", "image": "registry.test/a" }] },
            },
        },
    })
}

#[tokio::test]
async fn a_refused_object_is_named_and_the_others_are_made() -> anyhow::Result<()> {
    let namespace = control_plane("failing");
    let refusal = Refusal::of("no-scheduler", "CREATE", "object", &namespace).await?;
    let made = Made::make("failing", json!({})).await?;
    // A policy holds a moment after it is made; the scheduler comes only once the API server is said to serve.
    let deployments = made.inside("apps/v1", "Deployment");
    let dry_run = PostParams { dry_run: true, ..PostParams::default() };
    let probe = serde_json::from_value(deployment("probe"))?;
    eventually("the refusal", DEADLINE, async || {
        match deployments.create(&dry_run, &probe).await {
            Err(error) if error.to_string().contains("not today") => Ok(()),
            other => anyhow::bail!("{other:?}"),
        }
    })
    .await?;
    made.stand_in_for(&["etcd", "kube-apiserver", "kube-controller-manager"]).await?;
    wait_for_condition(&made.clusters, "reef", ("Degraded", "True", "ReconcileError")).await?;
    let failed = ("ReconciliationSucceeded", "False", "ReconcileError");
    let message = wait_for_condition(&made.clusters, "reef", failed).await?;
    let object = format!("Deployment {namespace}/kube-scheduler");
    assert!(message.contains(&object) && message.contains("not today"), "{message}");
    wait_for_condition(&made.clusters, "reef", ("Available", "True", "AsExpected")).await?;
    let events: Api<Event> = Api::namespaced(made.client.clone(), "failing");
    eventually("a warning", DEADLINE, async || {
        let events = events.list(&ListParams::default()).await?;
        let is_told = events.items.iter().any(|event| {
            event.type_.as_deref() == Some("Warning")
                && event.reason.as_deref() == Some("ReconcileError")
                && event.note.as_deref().is_some_and(|note| note.contains(&object))
        });
        anyhow::ensure!(is_told, "there is none: {:?}", events.items);
        Ok(())
    })
    .await?;
    refusal.lift().await?;
    let well = ("ReconciliationSucceeded", "True", "AsExpected");
    wait_for_condition(&made.clusters, "reef", well).await?;
    wait_for_condition(&made.clusters, "reef", ("Degraded", "False", "AsExpected")).await?;
    Ok(())
}

#[tokio::test]
async fn a_deletion_that_is_refused_is_told_and_goes_on_with_the_rest() -> anyhow::Result<()> {
    let made = Made::make("undeletable", json!({})).await?;
    made.stand_in_for_pods().await?;
    wait_for_condition(&made.clusters, "reef", ("Available", "True", "AsExpected")).await?;
    let namespace = control_plane("undeletable");
    let refusal = Refusal::of("no-deletion", "DELETE", "oldObject", &namespace).await?;
    let deployments = made.inside("apps/v1", "Deployment");
    deployments
        .create(&PostParams::default(), &serde_json::from_value(deployment("probe"))?)
        .await?;
    let dry_run = DeleteParams { dry_run: true, ..DeleteParams::default() };
    eventually("the refusal", DEADLINE, async || {
        match deployments.delete("probe", &dry_run).await {
            Err(error) if error.to_string().contains("not today") => Ok(()),
            other => anyhow::bail!("{other:?}"),
        }
    })
    .await?;
    made.clusters.delete("reef", &DeleteParams::default()).await?;
    let failed = ("ReconciliationSucceeded", "False", "ReconcileError");
    let message = wait_for_condition(&made.clusters, "reef", failed).await?;
    let object = format!("Deployment {namespace}/kube-scheduler");
    assert!(message.contains(&object) && message.contains("not today"), "{message}");
    wait_for_condition(&made.clusters, "reef", ("Progressing", "True", "Deleting")).await?;
    wait_for_condition(&made.clusters, "reef", ("Degraded", "True", "ReconcileError")).await?;
    wait_until_gone(&deployments, "kube-apiserver").await?;
    wait_until_gone(&made.inside("apps/v1", "StatefulSet"), "etcd").await?;
    refusal.lift().await?;
    wait_until_gone(&made.clusters, "reef").await
}
