//! ServiceExposures: they follow the hosted Service for life, and say why when they cannot work.

use anyhow::{Context, ensure};
use serde_json::{Value, json};

use crate::support::cluster::condition_is;
use crate::support::lab::{BASTION, WORKERS};
use crate::support::page::{self, shows_the_picture};
use crate::support::wait::{Look, SOON, seen, until};
use crate::support::{Hosted, story};

/// A Service of this story over the sample application's pods.
fn service(kind: &str, node_port: Option<u16>) -> String {
    let port = node_port.map_or_else(String::new, |port| format!(", nodePort: {port}"));
    format!(
        r#"apiVersion: v1
kind: Service
metadata: {{name: e2e-followed, namespace: petclinic}}
spec:
  type: {kind}
  selector: {{app: petclinic}}
  ports: [{{name: page, port: 80, targetPort: 8080{port}}}]
"#
    )
}

fn exposure(hosted: &Hosted, name: &str, service: &str, ports: &str) -> String {
    format!(
        r#"apiVersion: remora.dev/v1alpha1
kind: ServiceExposure
metadata: {{name: {name}, namespace: {namespace}}}
spec:
  clusterName: {cluster}
  service: {{namespace: petclinic, name: {service}}}
  via: NodePort
{ports}"#,
        namespace = hosted.namespace,
        cluster = hosted.name,
    )
}

#[tokio::test(flavor = "multi_thread")]
async fn an_exposure_follows_its_service_for_life() -> anyhow::Result<()> {
    story(|lab| async move {
        let hosted = Hosted::demo(&lab).await?;
        hosted.apply_inside(&service("NodePort", Some(31234))).await?;
        lab.apply(&exposure(&hosted, "e2e-followed", "e2e-followed", "")).await?;
        let port = endpoint_port(&hosted, "e2e-followed", |port| port == 31234).await?;
        ensure!(port == 31234, "the hosted nodePort was free and is not the hosting one: {port}");
        everywhere(port).await?;

        // The hosted side moves to another nodePort: the hosting side follows, prefers the same again.
        hosted.apply_inside(&service("NodePort", Some(31235))).await?;
        let port = endpoint_port(&hosted, "e2e-followed", |port| port == 31235).await?;
        everywhere(port).await?;

        // It stops being a NodePort Service, and is one again.
        hosted.kubectl(&["delete", "service", "-n", "petclinic", "e2e-followed"]).await?;
        hosted.apply_inside(&service("ClusterIP", None)).await?;
        says(&hosted, "e2e-followed", "Accepted", "False", "NodePort").await?;
        no_hosting_service(&hosted, "e2e-followed").await?;
        hosted.kubectl(&["delete", "service", "-n", "petclinic", "e2e-followed"]).await?;
        says(&hosted, "e2e-followed", "Accepted", "False", "petclinic/e2e-followed").await?;
        hosted.apply_inside(&service("NodePort", Some(31236))).await?;
        let port = endpoint_port(&hosted, "e2e-followed", |port| port == 31236).await?;
        everywhere(port).await?;

        lab.kubectl(&["delete", "serviceexposure", "e2e-followed", "-n", &hosted.namespace])
            .await?;
        no_hosting_service(&hosted, "e2e-followed").await?;
        hosted.kubectl(&["delete", "service", "-n", "petclinic", "e2e-followed"]).await.map(drop)
    })
    .await
}

#[tokio::test(flavor = "multi_thread")]
async fn an_exposure_that_cannot_work_says_why_and_the_others_go_on() -> anyhow::Result<()> {
    story(|lab| async move {
        let hosted = Hosted::demo(&lab).await?;
        let cases = [
            ("e2e-absent", "no-such-service", "", "petclinic/no-such-service"),
            ("e2e-unlisted", "petclinic-np", "  ports: [{port: 9999}]\n", "9999"),
            ("e2e-taken", "petclinic-np", "  ports: [{port: 8080, nodePort: 30001}]\n", "30001"),
        ];
        for (name, service, ports, _) in cases {
            lab.apply(&exposure(&hosted, name, service, ports)).await?;
        }
        for (name, _, _, says_this) in cases {
            until(&format!("exposure {name} is refused"), SOON, || async {
                let object = get(&hosted, name).await?;
                let refused =
                    ["Accepted", "Programmed"].iter().find_map(|kind| {
                        match condition_is(&object, kind, "False", None) {
                            Look::Seen(message) => Some(message),
                            Look::NotYet(_) => None,
                        }
                    });
                Ok(match refused {
                    Some(message) if message.contains(says_this) => Look::Seen(()),
                    other => Look::NotYet(format!("{other:?}")),
                })
            })
            .await?;
        }
        everywhere(30001).await?;
        for (name, ..) in cases {
            lab.kubectl(&["delete", "serviceexposure", name, "-n", &hosted.namespace]).await?;
        }
        Ok(())
    })
    .await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_hosted_user_asks_from_inside_and_the_policy_decides() -> anyhow::Result<()> {
    story(|lab| async move {
        let hosted = Hosted::demo(&lab).await?;
        hosted.apply_inside(ASKING).await?;
        told(&hosted, "exposure-problem", "no ExposurePolicy of this cluster allows").await?;

        let Hosted { namespace, name, .. } = &hosted;
        lab.apply(&format!(
            r#"apiVersion: remora.dev/v1alpha1
kind: ExposurePolicy
metadata: {{name: e2e-asked, namespace: {namespace}}}
spec:
  clusterName: {name}
  allow: [{{namespaces: [petclinic], via: [NodePort], nodePortRange: {{first: 31250, last: 31259}}}}]
"#
        ))
        .await?;
        told(&hosted, "exposed-at", &format!("{}:31250", WORKERS[0])).await?;
        everywhere(31250).await?;
        told(&hosted, "exposure-problem", "").await?;

        lab.kubectl(&["delete", "exposurepolicy", "e2e-asked", "-n", namespace]).await?;
        told(&hosted, "exposed-at", "").await?;
        let exposures = ["get", "serviceexposures", "-n", namespace, "-o", "name"];
        let selector = ["-l", "remora.dev/exposure-policy=e2e-asked"];
        until("the policy's exposure is gone", SOON, || async {
            let left = lab.kubectl(&[&exposures[..], &selector[..]].concat()).await?;
            Ok(if left.trim().is_empty() { Look::Seen(()) } else { Look::NotYet(left) })
        })
        .await?;
        hosted.kubectl(&["delete", "service", "-n", "petclinic", "e2e-asked"]).await.map(drop)
    })
    .await
}

#[tokio::test(flavor = "multi_thread")]
async fn with_policy_local_pods_see_the_client_where_their_machines_are() -> anyhow::Result<()> {
    story(|lab| async move {
        let hosted = Hosted::demo(&lab).await?;
        hosted.apply_inside(&keeping_to_pods("Local")).await?;
        lab.apply(&exposure(&hosted, "e2e-local", "e2e-local", "")).await?;
        pods_see_the_bastion(&hosted, "e2e-local").await?;

        hosted.apply_inside(&keeping_to_pods("Cluster")).await?;
        let port = endpoint_port(&hosted, "e2e-local", |port| port == 31238).await?;
        everywhere(port).await?;
        hosted.apply_inside(&keeping_to_pods("Local")).await?;
        pods_see_the_bastion(&hosted, "e2e-local").await?;

        lab.kubectl(&["delete", "serviceexposure", "e2e-local", "-n", &hosted.namespace]).await?;
        no_hosting_service(&hosted, "e2e-local").await?;
        hosted.kubectl(&["delete", "service", "-n", "petclinic", "e2e-local"]).await.map(drop)
    })
    .await
}

/// A Service over the sample application's pods, with an `externalTrafficPolicy`.
fn keeping_to_pods(policy: &str) -> String {
    format!(
        r#"apiVersion: v1
kind: Service
metadata: {{name: e2e-local, namespace: petclinic}}
spec:
  type: NodePort
  externalTrafficPolicy: {policy}
  selector: {{app: petclinic}}
  ports: [{{name: page, port: 80, targetPort: 8080, nodePort: 31238}}]
"#
    )
}

/// Waits until an exposure lists some of the workers and not all, and the pods behind each of these see the machine that the
/// story runs on.
async fn pods_see_the_bastion(hosted: &Hosted, name: &str) -> anyhow::Result<()> {
    until(&format!("the pods behind exposure {name} see {BASTION}"), SOON, || async {
        let object = get(hosted, name).await?;
        let endpoints = object.data.pointer("/status/endpoints").and_then(Value::as_array);
        let endpoints = endpoints.cloned().unwrap_or_default();
        if endpoints.is_empty() || endpoints.len() >= WORKERS.len() {
            return Ok(Look::NotYet(format!("it lists {endpoints:?}")));
        }
        for endpoint in &endpoints {
            let address = endpoint["address"].as_str().unwrap_or_default();
            let url = format!("http://{address}:{}/client", endpoint["port"]);
            match page::get(&url).await {
                Ok(client) if String::from_utf8_lossy(&client).trim() == BASTION => {}
                other => return Ok(Look::NotYet(format!("{url}: {other:?}"))),
            }
        }
        Ok(Look::Seen(()))
    })
    .await
}

/// A Service of the sample application whose user asks for it to be exposed.
const ASKING: &str = "apiVersion: v1
kind: Service
metadata: {name: e2e-asked, namespace: petclinic, annotations: {remora.dev/expose: NodePort}}
spec:
  type: NodePort
  selector: {app: petclinic}
  ports: [{name: page, port: 80, targetPort: 8080, nodePort: 31237}]
";

/// Waits until the annotation `remora.dev/<key>` of the Service that asks contains a text; an empty one: until it is gone.
async fn told(hosted: &Hosted, key: &str, text: &str) -> anyhow::Result<()> {
    let path = format!("jsonpath={{.metadata.annotations.remora\\.dev/{key}}}");
    until(&format!("remora.dev/{key} says {text:?}"), SOON, || async {
        let said = hosted
            .kubectl(&["get", "service", "-n", "petclinic", "e2e-asked", "-o", &path])
            .await?;
        let is_so = if text.is_empty() { said.is_empty() } else { said.contains(text) };
        Ok(if is_so { Look::Seen(()) } else { Look::NotYet(format!("it says {said:?}")) })
    })
    .await
}

async fn everywhere(port: u16) -> anyhow::Result<()> {
    for worker in WORKERS {
        shows_the_picture(&format!("http://{worker}:{port}"), SOON).await?;
    }
    Ok(())
}

async fn get(hosted: &Hosted, name: &str) -> anyhow::Result<kube::api::DynamicObject> {
    let api = hosted.lab.objects("remora.dev/v1alpha1", "ServiceExposure", &hosted.namespace);
    Ok(api.get(name).await?)
}

/// Waits until the exposure is reachable at every worker on one port that fits, and returns it.
async fn endpoint_port(
    hosted: &Hosted,
    name: &str,
    fits: impl Fn(u16) -> bool,
) -> anyhow::Result<u16> {
    until(&format!("exposure {name} is reachable"), SOON, || async {
        let object = get(hosted, name).await?;
        if let Look::NotYet(why) = condition_is(&object, "Reachable", "True", None) {
            return Ok(Look::NotYet(why));
        }
        let endpoints = object.data.pointer("/status/endpoints").cloned().unwrap_or_default();
        let on = |worker: &str| {
            endpoints.as_array().and_then(|all| {
                let found = all.iter().find(|one| one["address"] == json!(worker))?;
                found["port"].as_u64().and_then(|port| u16::try_from(port).ok())
            })
        };
        let ports: Vec<Option<u16>> = WORKERS.into_iter().map(on).collect();
        match ports.first().copied().flatten() {
            Some(port) if ports.iter().all(|other| *other == Some(port)) && fits(port) => {
                Ok(Look::Seen(port))
            }
            _ => Ok(Look::NotYet(Value::to_string(&endpoints))),
        }
    })
    .await
}

async fn says(
    hosted: &Hosted,
    name: &str,
    kind: &str,
    status: &str,
    message: &str,
) -> anyhow::Result<()> {
    until(&format!("exposure {name} says {kind}={status} about {message}"), SOON, || async {
        Ok(match condition_is(&get(hosted, name).await?, kind, status, None) {
            Look::Seen(said) if said.contains(message) => Look::Seen(()),
            Look::Seen(said) | Look::NotYet(said) => Look::NotYet(said),
        })
    })
    .await
}

async fn no_hosting_service(hosted: &Hosted, exposure: &str) -> anyhow::Result<()> {
    let namespace = hosted.control_plane_namespace();
    let selector = format!("{}={exposure}", remora_api::labels::EXPOSURE_NAME);
    until(&format!("no hosting Service of exposure {exposure}"), SOON, || async {
        let left = hosted
            .lab
            .kubectl(&["get", "services", "-n", &namespace, "-l", &selector, "-o", "name"])
            .await
            .context("cannot list the hosting Services")?;
        Ok(seen(left.is_empty(), || left.clone()))
    })
    .await
}
