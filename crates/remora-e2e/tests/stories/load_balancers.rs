//! A hosted Service of type LoadBalancer: an address of the hosting cluster, for as long as the Service is there.

use std::net::Ipv4Addr;

use anyhow::{Context, ensure};
use remora_api::labels;

use crate::support::lab::BASTION;
use crate::support::page::{get, shows_the_picture};
use crate::support::wait::{Look, SOON, seen, until};
use crate::support::{Hosted, story};

/// The pool that the lab's load balancer gives addresses from.
const POOL: std::ops::RangeInclusive<Ipv4Addr> =
    Ipv4Addr::new(192, 168, 123, 200)..=Ipv4Addr::new(192, 168, 123, 229);
const NAME: &str = "e2e-balanced";

/// The story's Service over the sample application's pods.
fn service(port: u16, policy: &str) -> String {
    format!(
        r#"apiVersion: v1
kind: Service
metadata: {{name: {NAME}, namespace: petclinic}}
spec:
  type: LoadBalancer
  externalTrafficPolicy: {policy}
  selector: {{app: petclinic}}
  ports: [{{name: page, port: {port}, targetPort: 8080}}]
"#
    )
}

#[tokio::test(flavor = "multi_thread")]
async fn a_load_balancer_answers_outside_and_follows_its_service_for_life() -> anyhow::Result<()> {
    story(|lab| async move {
        let hosted = Hosted::demo(&lab).await?;
        hosted.apply_inside(&service(80, "Cluster")).await?;
        let address = address(&hosted).await?;
        ensure!(POOL.contains(&address), "{address} is not of the pool");
        shows_the_picture(&format!("http://{address}"), SOON).await?;
        says(&hosted, &address.to_string()).await?;

        hosted.apply_inside(&service(8081, "Cluster")).await?;
        shows_the_picture(&format!("http://{address}:8081"), SOON).await?;

        // The pods see who asks, and only nodes with pods are asked.
        hosted.apply_inside(&service(8081, "Local")).await?;
        sees_the_bastion(address).await?;
        hosted.apply_inside(&service(8081, "Cluster")).await?;
        shows_the_picture(&format!("http://{address}:8081"), SOON).await?;

        // It ends when nothing of it is left outside.
        hosted.kubectl(&["delete", "service", "-n", "petclinic", NAME]).await?;
        let left = hosting_services(&hosted).await?;
        ensure!(left.is_empty(), "the hosted Service went before {left}");
        until(&format!("{address} answers no more"), SOON, || async {
            let answer = get(&format!("http://{address}:8081")).await;
            Ok(seen(answer.is_err(), || "it answers".to_owned()))
        })
        .await
    })
    .await
}

/// Waits for the address that the hosted Service was given.
async fn address(hosted: &Hosted) -> anyhow::Result<Ipv4Addr> {
    until(&format!("Service {NAME} has an address"), SOON, || async {
        let path = "-o=jsonpath={.status.loadBalancer.ingress[*].ip}";
        let given = hosted.kubectl(&["get", "service", "-n", "petclinic", NAME, path]).await?;
        match given.parse() {
            Ok(address) => Ok(Look::Seen(address)),
            Err(_) => Ok(Look::NotYet(format!(
                "it has {given:?}; outside there is {}",
                hosting_services(hosted).await?
            ))),
        }
    })
    .await
}

async fn says(hosted: &Hosted, words: &str) -> anyhow::Result<()> {
    until(&format!("Service {NAME} says {words}"), SOON, || async {
        let path =
            r#"-o=jsonpath={.status.conditions[?(@.type=="remora.dev/LoadBalancer")].message}"#;
        let said = hosted.kubectl(&["get", "service", "-n", "petclinic", NAME, path]).await?;
        Ok(seen(said.contains(words), || said.clone()))
    })
    .await
}

async fn sees_the_bastion(address: Ipv4Addr) -> anyhow::Result<()> {
    until(&format!("the pods behind {address} see {BASTION}"), SOON, || async {
        let client = String::from_utf8(get(&format!("http://{address}:8081/client")).await?)?;
        Ok(seen(client.trim() == BASTION, || format!("they see {client}")))
    })
    .await
}

/// The hosting Services of the story's Service, by name and address.
async fn hosting_services(hosted: &Hosted) -> anyhow::Result<String> {
    let namespace = hosted.control_plane_namespace();
    let selector = format!("{}={NAME}", labels::TENANT_SERVICE_NAME);
    let shown = "-o=jsonpath={range .items[*]}{.metadata.name} {.status.loadBalancer}{end}";
    hosted
        .lab
        .kubectl(&["get", "services", "-n", &namespace, "-l", &selector, shown])
        .await
        .context("cannot list the hosting Services")
}
