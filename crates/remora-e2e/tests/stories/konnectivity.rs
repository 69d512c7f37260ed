//! What the hosted API server does towards nodes and pods: all of it goes through konnectivity.

use std::process::Stdio;

use anyhow::{Context, ensure};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use tokio::io::{AsyncBufReadExt, BufReader};

use crate::support::page::{IMAGE_LINE, shows_the_picture};
use crate::support::probe;
use crate::support::wait::{Look, SOON, until};
use crate::support::{Hosted, story};

/// Namespace of this story in the hosted cluster.
const NAMESPACE: &str = "e2e-konnectivity";

#[tokio::test(flavor = "multi_thread")]
async fn pods_resolve_names_and_logs_exec_port_forward_and_webhooks_work() -> anyhow::Result<()> {
    story(|lab| async move {
        let hosted = Hosted::demo(&lab).await?;
        // What a story that was killed left would answer for this one.
        let configuration = ["validatingwebhookconfiguration", "gatekeeper"];
        for left in [configuration, ["namespace", NAMESPACE]] {
            hosted.kubectl(&["delete", left[0], left[1], "--ignore-not-found"]).await?;
        }
        probe::waiting_pod(&hosted, NAMESPACE).await?;

        // exec into the pod; there a name, a Service and the network between the nodes.
        let page =
            probe::fetch(&hosted, NAMESPACE, "http://petclinic-np.petclinic.svc:8080/").await?;
        ensure!(page.contains(IMAGE_LINE), "through Service and name came: {page}");
        let logs = hosted.kubectl(&["logs", "-n", NAMESPACE, "probe"]).await?;
        ensure!(logs.contains("e2e-probe: waiting"), "logs of the probe: {logs}");

        port_forward(&hosted).await?;
        admission_webhook(&hosted).await?;
        hosted.kubectl(&["delete", "namespace", NAMESPACE]).await.map(drop)
    })
    .await
}

async fn port_forward(hosted: &Hosted) -> anyhow::Result<()> {
    let mut child = hosted
        .lab
        .kubectl_command(&hosted.kubeconfig().await?)
        .args(["port-forward", "-n", "petclinic", "deployment/petclinic", ":8080"])
        .stdout(Stdio::piped())
        .spawn()?;
    // Kept until the end: kubectl tells of every connection, and dies when nobody listens.
    let mut lines = BufReader::new(child.stdout.take().context("no standard output")?).lines();
    let said = tokio::time::timeout(SOON, lines.next_line())
        .await
        .context("kubectl port-forward said nothing")??
        .unwrap_or_default();
    // Forwarding from 127.0.0.1:36261 -> 8080
    let port = said
        .split(':')
        .nth(1)
        .and_then(|rest| rest.split_whitespace().next())
        .with_context(|| format!("kubectl port-forward said {said:?}"))?;
    shows_the_picture(&format!("http://127.0.0.1:{port}"), SOON).await?;
    child.kill().await?;
    Ok(())
}

/// The API server asks a webhook that a hosted pod serves.
async fn admission_webhook(hosted: &Hosted) -> anyhow::Result<()> {
    let service = format!("gatekeeper.{NAMESPACE}.svc");
    let issued = rcgen::generate_simple_self_signed(vec![service])?;
    let certificate = issued.cert.pem();
    let key = issued.signing_key.serialize_pem();
    let image = probe::image().await?;
    let bundle = STANDARD.encode(&certificate);
    let manifest = format!(
        r#"apiVersion: v1
kind: Secret
metadata: {{name: gatekeeper, namespace: {NAMESPACE}}}
type: kubernetes.io/tls
data: {{tls.crt: {bundle}, tls.key: {}}}
---
apiVersion: v1
kind: Pod
metadata: {{name: gatekeeper, namespace: {NAMESPACE}, labels: {{app: gatekeeper}}}}
spec:
  terminationGracePeriodSeconds: 1
  containers:
  - name: gatekeeper
    image: "{image}"
    command: [e2e-probe, webhook, --certificate, /tls/tls.crt, --key, /tls/tls.key]
    volumeMounts: [{{name: tls, mountPath: /tls}}]
  volumes: [{{name: tls, secret: {{secretName: gatekeeper}}}}]
---
apiVersion: v1
kind: Service
metadata: {{name: gatekeeper, namespace: {NAMESPACE}}}
spec: {{selector: {{app: gatekeeper}}, ports: [{{port: 443, targetPort: 8443}}]}}
---
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingWebhookConfiguration
metadata: {{name: gatekeeper}}
webhooks:
- name: gatekeeper.e2e.remora.dev
  admissionReviewVersions: [v1]
  sideEffects: None
  failurePolicy: Fail
  namespaceSelector: {{matchLabels: {{kubernetes.io/metadata.name: {NAMESPACE}}}}}
  rules: [{{apiGroups: [""], apiVersions: [v1], operations: [CREATE], resources: [configmaps]}}]
  clientConfig: {{caBundle: {bundle}, service: {{name: gatekeeper, namespace: {NAMESPACE}}}}}
"#,
        STANDARD.encode(&key)
    );
    hosted.apply_inside(&manifest).await?;
    probe::running(hosted, NAMESPACE, "gatekeeper").await?;
    let config_map = |pet: &str| {
        format!(
            "apiVersion: v1\nkind: ConfigMap\nmetadata: {{name: {pet}, namespace: {NAMESPACE}, labels: {{pet: {pet}}}}}\n"
        )
    };
    until("the webhook lets a cat in", SOON, || async {
        hosted.apply_inside(&config_map("cat")).await.map(Look::Seen)
    })
    .await?;
    let refused = hosted.apply_inside(&config_map("dragon")).await;
    let said = refused.map_or_else(|error| format!("{error:#}"), |()| "it was let in".to_owned());
    ensure!(said.contains("the clinic takes no dragons"), "the dragon: {said}");
    hosted.kubectl(&["delete", "validatingwebhookconfiguration", "gatekeeper"]).await.map(drop)
}
