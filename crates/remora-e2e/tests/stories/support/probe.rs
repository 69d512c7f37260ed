//! The small program that stories run in hosted pods, as an image in the lab's registry.

use std::time::Duration;

use super::Hosted;
use super::lab::{REGISTRY, program};
use super::wait::{BOOT, Look, until};

/// Publishes the probe's image and returns its reference by digest.
pub(crate) async fn image() -> anyhow::Result<String> {
    let path = program("e2e-probe")?;
    Ok(remora_lab::images::publish_program(REGISTRY, "e2e-probe", &path).await?)
}

/// A pod that waits, to run `fetch` in.
pub(crate) async fn waiting_pod(hosted: &Hosted, namespace: &str) -> anyhow::Result<()> {
    let image = image().await?;
    let manifest = format!(
        r#"apiVersion: v1
kind: Namespace
metadata: {{name: {namespace}}}
---
apiVersion: v1
kind: Pod
metadata: {{name: probe, namespace: {namespace}}}
spec:
  terminationGracePeriodSeconds: 1
  containers:
  - {{name: probe, image: "{image}", command: [e2e-probe, wait]}}
"#
    );
    hosted.apply_inside(&manifest).await?;
    running(hosted, namespace, "probe").await
}

/// Waits until a pod runs.
pub(crate) async fn running(hosted: &Hosted, namespace: &str, pod: &str) -> anyhow::Result<()> {
    until(&format!("pod {namespace}/{pod} runs"), BOOT, || async {
        let ready = "-o=jsonpath={.status.phase} {.status.conditions[?(@.type=='Ready')].status}";
        let state = hosted.kubectl(&["get", "pod", pod, "-n", namespace, ready]).await?;
        Ok(if state == "Running True" { Look::Seen(()) } else { Look::NotYet(state) })
    })
    .await
}

/// A page as the waiting pod gets it.
pub(crate) async fn fetch(hosted: &Hosted, namespace: &str, url: &str) -> anyhow::Result<String> {
    until(&format!("{url} answers in pod {namespace}/probe"), Duration::from_secs(300), || async {
        let page = hosted
            .kubectl(&["exec", "-n", namespace, "probe", "--", "e2e-probe", "fetch", url])
            .await?;
        Ok(Look::Seen(page))
    })
    .await
}
