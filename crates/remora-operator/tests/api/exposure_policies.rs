//! ExposurePolicies: what they mean is exposed, who asks is answered, and nothing stays when they go.

use anyhow::Context as _;
use kube::Api;
use kube::api::{DeleteParams, DynamicObject, ListParams};
use remora_testkit::eventually;
use remora_testkit::manifest::{EXPOSURE_POLICY, SERVICE_EXPOSURE};
use serde_json::{Value, json};

use crate::cluster::Reef;
use crate::stand_ins::host;
use crate::world::{
    DEADLINE, World, api, apply, apply_patched, wait_for_condition, wait_for_count,
};

impl Reef {
    /// A NodePort Service of the hosted cluster, in the namespace that has the test's name.
    async fn shop(&self, name: &str, node_port: u16, metadata: &Value) -> anyhow::Result<()> {
        let namespace = json!({ "apiVersion": "v1", "kind": "Namespace", "metadata": { "name": self.namespace } });
        apply(&self.hosted, &namespace).await?;
        let service = json!({
            "apiVersion": "v1",
            "kind": "Service",
            "metadata": { "name": name, "namespace": self.namespace },
            "spec": { "type": "NodePort", "ports": [{ "name": "http", "port": 80, "nodePort": node_port }] },
        });
        let service = remora_testkit::manifest::patched(service, &json!({ "metadata": metadata }));
        apply(&self.hosted, &service).await?;
        Ok(())
    }

    async fn policy(&self, spec: Value) -> anyhow::Result<Api<DynamicObject>> {
        let patch = json!({ "metadata": { "namespace": self.namespace }, "spec": spec });
        apply_patched(&self.hosting, EXPOSURE_POLICY, &patch).await?;
        Ok(self.beside("remora.dev/v1alpha1", "ExposurePolicy"))
    }

    fn exposures(&self) -> Api<DynamicObject> {
        self.beside("remora.dev/v1alpha1", "ServiceExposure")
    }

    fn shops(&self) -> Api<DynamicObject> {
        api(&self.hosted, "v1", "Service", self.namespace)
    }

    /// Waits until the Service has an annotation that contains a text; an empty one: until it has none.
    async fn told(&self, name: &str, annotation: &str, text: &str) -> anyhow::Result<()> {
        eventually(&format!("{name}: {annotation} with {text:?}"), DEADLINE, async || {
            let service = self.shops().get(name).await?;
            let annotations = service.metadata.annotations.unwrap_or_default();
            let said = annotations.get(annotation);
            let is_so = match said {
                Some(said) => !text.is_empty() && said.contains(text),
                None => text.is_empty(),
            };
            anyhow::ensure!(is_so, "it says {said:?}");
            Ok(())
        })
        .await
    }
}

const OF_POLICY: &str = "remora.dev/exposure-policy=shops";

#[tokio::test]
async fn a_policy_of_a_missing_cluster_says_so() -> anyhow::Result<()> {
    let world = World::shared().await?;
    let client = world.client().await?;
    world.namespace("policy-alone").await?;
    let metadata = json!({ "metadata": { "namespace": "policy-alone" } });
    apply_patched(&client, EXPOSURE_POLICY, &metadata).await?;
    let api = api(&client, "remora.dev/v1alpha1", "ExposurePolicy", "policy-alone");
    let message =
        wait_for_condition(&api, "shops", ("Accepted", "False", "HostedClusterNotFound")).await?;
    assert_eq!(
        message,
        "spec.clusterName: HostedCluster policy-alone/reef does not exist; create it, or delete the policy"
    );
    Ok(())
}

#[tokio::test]
async fn a_rule_exposes_what_it_means_and_takes_it_back() -> anyhow::Result<()> {
    let reef = Reef::make("policy-rule").await?;
    reef.shop("front", 31301, &json!({ "labels": { "tier": "web" } })).await?;
    reef.shop("back", 31302, &json!({ "labels": { "tier": "db" } })).await?;
    let rule = json!({ "expose": [{
        "selector": { "matchLabels": { "tier": "web" } },
        "nodePortRange": { "first": 31310, "last": 31319 },
    }] });
    let policies = reef.policy(rule).await?;
    let made = wait_for_count(&reef.exposures(), OF_POLICY, 1).await?;
    let [made] = made.as_slice() else { anyhow::bail!("{made:?}") };
    assert_eq!(made.data.pointer("/spec/service/name"), Some(&json!("front")));
    let name = made.metadata.name.clone().context("no name")?;
    wait_for_condition(&reef.exposures(), &name, ("Programmed", "True", "NodePortReassigned"))
        .await?;
    let serving = format!("expose-{name}");
    let service = reef.inside("v1", "Service").get(&serving).await?;
    assert_eq!(service.data.pointer("/spec/ports/0/nodePort"), Some(&json!(31310)));
    let message =
        wait_for_condition(&policies, "shops", ("Accepted", "True", "AsExpected")).await?;
    assert_eq!(message, "1 Services are exposed by it");

    // The rule means another one now: what it meant before goes.
    let other = json!({ "expose": [{ "selector": { "matchLabels": { "tier": "db" } } }] });
    reef.policy(other).await?;
    eventually("the other Service", DEADLINE, async || {
        let made = reef.exposures().list(&ListParams::default().labels(OF_POLICY)).await?.items;
        let names: Vec<_> =
            made.iter().map(|made| made.data.pointer("/spec/service/name")).collect();
        anyhow::ensure!(names == [Some(&json!("back"))], "{names:?}");
        anyhow::ensure!(reef.inside("v1", "Service").get_opt(&serving).await?.is_none());
        Ok(())
    })
    .await?;

    // One written by hand comes before the policy's.
    let by_hand = json!({
        "metadata": { "name": "mine", "namespace": reef.namespace },
        "spec": { "service": { "namespace": reef.namespace, "name": "back" } },
    });
    apply_patched(&reef.hosting, SERVICE_EXPOSURE, &by_hand).await?;
    wait_for_count(&reef.exposures(), OF_POLICY, 0).await?;
    reef.exposures().delete("mine", &DeleteParams::default()).await?;
    wait_for_count(&reef.exposures(), OF_POLICY, 1).await?;

    policies.delete("shops", &DeleteParams::default()).await?;
    wait_for_count(&reef.exposures(), OF_POLICY, 0).await?;
    Ok(())
}

#[tokio::test]
async fn a_hosted_user_asks_and_is_answered() -> anyhow::Result<()> {
    let reef = Reef::make("policy-ask").await?;
    host(&reef.hosting, "policy-ask-1", "127.0.0.1").await?;
    let asks = json!({ "annotations": { "remora.dev/expose": "NodePort" } });
    reef.shop("web", 31321, &asks).await?;
    let problem = "remora.dev/exposure-problem";
    reef.told(
        "web",
        problem,
        "no ExposurePolicy of this cluster allows Services of namespace policy-ask",
    )
    .await?;
    assert!(reef.exposures().list(&ListParams::default()).await?.items.is_empty());

    let allow = json!({ "allow": [{ "namespaces": ["policy-ask"], "nodePortRange": { "first": 31321, "last": 31329 } }] });
    reef.policy(allow).await?;
    reef.told("web", "remora.dev/exposed-at", "127.0.0.1:31321").await?;
    // There is no VM, so that it is not reached yet.
    reef.told("web", problem, "VMs serve").await?;
    let events = api(&reef.hosted, "v1", "Event", reef.namespace);
    let about = ListParams::default().fields("involvedObject.name=web,reason=NotExposed");
    anyhow::ensure!(!events.list(&about).await?.items.is_empty(), "no event tells it");

    // Somebody else's port.
    let asks = json!({ "annotations": {
        "remora.dev/expose": "NodePort", "remora.dev/expose-node-ports": "http=31330",
    } });
    reef.shop("web", 31321, &asks).await?;
    reef.told("web", problem, "node port 31330 may not be taken, those from 31321-31329 may")
        .await?;
    reef.told("web", "remora.dev/exposed-at", "").await?;
    wait_for_count(&reef.exposures(), OF_POLICY, 0).await?;

    // Nothing is asked any more.
    reef.shop("web", 31321, &json!({})).await?;
    reef.told("web", problem, "").await?;
    Ok(())
}
