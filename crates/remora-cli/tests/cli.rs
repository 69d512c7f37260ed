//! The command line against a real API server, as a user runs it: the program itself, its output, its exit code.

use std::process::{Command, Output};

use anyhow::{Context as _, ensure};
use kube::api::{Patch, PatchParams};
use kube::core::{ApiResource, DynamicObject, GroupVersionKind};
use kube::{Api, Client};
use remora_testkit::{ApiServer, manifest};
use serde_json::{Value, json};

const IMAGE: &str = "registry.example/remora/operator:9";

/// The program, talking to the API server of the tests.
struct Remora<'a> {
    server: &'a ApiServer,
}

impl Remora<'_> {
    fn output(&self, arguments: &[&str]) -> anyhow::Result<Output> {
        let mut command = Command::new(env!("CARGO_BIN_EXE_remora"));
        command.arg("--kubeconfig").arg(self.server.kubeconfig_path()).args(arguments);
        command.env("REMORA_LAB_DIR", "/nowhere").env("NO_COLOR", "1");
        command.output().context("cannot run remora")
    }

    fn ok(&self, arguments: &[&str]) -> anyhow::Result<String> {
        let output = self.output(arguments)?;
        let errors = String::from_utf8_lossy(&output.stderr);
        ensure!(output.status.success(), "remora {}: {errors}", arguments.join(" "));
        Ok(String::from_utf8(output.stdout)?)
    }

    fn fails(&self, arguments: &[&str]) -> anyhow::Result<String> {
        let output = self.output(arguments)?;
        ensure!(!output.status.success(), "remora {} succeeded", arguments.join(" "));
        // Lines are broken and framed for people.
        let text = String::from_utf8_lossy(&output.stderr).replace('│', " ");
        Ok(text.split_whitespace().collect::<Vec<_>>().join(" "))
    }

    fn json(&self, kind: &str) -> anyhow::Result<Vec<Value>> {
        let list: Value = serde_json::from_str(&self.ok(&["get", kind, "-o", "json"])?)?;
        Ok(list.pointer("/items").and_then(Value::as_array).cloned().unwrap_or_default())
    }
}

#[test]
fn what_a_user_creates_is_there_is_shown_and_is_destroyed() -> anyhow::Result<()> {
    let server = ApiServer::start()?;
    let remora = Remora { server: &server };

    let before = remora.fails(&["get", "clusters"])?;
    ensure!(before.contains("remora install"), "no remedy: {before}");
    remora.ok(&["install", "--image", IMAGE])?;
    remora.ok(&["install", "--image", IMAGE]).context("a second time")?;
    ensure!(remora.ok(&["get", "clusters"])?.is_empty());

    let create = [
        "create",
        "cluster",
        "kubevirt",
        "--name=reef",
        "--release-image=registry.example/release:1",
        "--node-pool-replicas=2",
    ];
    remora.ok(&create)?;
    let again = remora.fails(&create[..create.len() - 1])?;
    ensure!(again.contains("HostedCluster clusters/reef exists already"), "{again}");
    let create_pool = ["create", "nodepool", "kubevirt", "--cluster-name=reef", "--name=big"];
    remora.ok(&create_pool)?;
    let again = remora.fails(&create_pool)?;
    ensure!(again.contains("NodePool clusters/big exists already"), "{again}");
    let pools = remora.json("nodepools")?;
    ensure!(pools.len() == 2, "{pools:?}");
    let replicas = pools.iter().filter_map(|pool| pool.pointer("/spec/replicas")?.as_i64());
    ensure!(replicas.max() == Some(2), "creating again changed the pool: {pools:?}");
    let is_of_cluster = |pool: &Value| {
        pool.pointer("/spec/release/image").and_then(Value::as_str)
            == Some("registry.example/release:1")
    };
    ensure!(pools.iter().all(is_of_cluster), "the pool did not get its cluster's release");
    let table = remora.ok(&["get", "clusters", "-o", "wide"])?;
    ensure!(table.starts_with("NAME") && table.contains("registry.example/release:1"), "{table}");

    remora.ok(&[
        "expose",
        "--cluster-name=reef",
        "--service=petclinic/web",
        "--port=http:31080",
    ])?;
    let exposures = remora.json("exposures")?;
    let first = exposures.first().context("no exposure")?;
    ensure!(first.pointer("/spec/ports/0/nodePort").and_then(Value::as_i64) == Some(31080));

    for gone in [
        ["destroy", "exposure", "--name=web"],
        ["destroy", "nodepool", "--name=big"],
        ["destroy", "cluster", "--name=reef"],
    ] {
        remora.ok(&gone)?;
    }
    ensure!(remora.json("exposures")?.is_empty() && remora.json("clusters")?.is_empty());
    let again = remora.fails(&["destroy", "cluster", "--name=reef"])?;
    ensure!(again.contains("HostedCluster clusters/reef"), "{again}");
    Ok(())
}

/// Applies an object, its status too, as the administrator.
async fn apply(client: &Client, value: Value) -> anyhow::Result<()> {
    let status = value.get("status").cloned();
    let object = manifest::object(value)?;
    let types = object.types.clone().context("no kind")?;
    let resource = ApiResource::from_gvk(&GroupVersionKind::try_from(&types)?);
    let name = object.metadata.name.clone().context("no name")?;
    let api: Api<DynamicObject> = match &object.metadata.namespace {
        Some(namespace) => Api::namespaced_with(client.clone(), namespace, &resource),
        None => Api::all_with(client.clone(), &resource),
    };
    api.patch(&name, &PatchParams::apply("test").force(), &Patch::Apply(&object)).await?;
    if let Some(status) = status {
        let patch = Patch::Merge(json!({"status": status}));
        api.patch_status(&name, &PatchParams::default(), &patch).await?;
    }
    Ok(())
}

/// A hosted cluster whose API is the hosting one, so that both sides are real, and an exposure in it.
async fn exposed(server: &ApiServer) -> anyhow::Result<()> {
    let client = server.client().await?;
    let kubeconfig = server.kubeconfig();
    let named = |namespace: &str, name: &str| json!({"namespace": namespace, "name": name});
    for namespace in ["clusters", "clusters-reef", "petclinic"] {
        let metadata = json!({"name": namespace});
        apply(&client, json!({"apiVersion": "v1", "kind": "Namespace", "metadata": metadata}))
            .await?;
    }
    let mut cluster = manifest::yaml(manifest::HOSTED_CLUSTER)?;
    cluster["metadata"] = named("clusters", "reef");
    cluster["spec"]["infraID"] = json!("reef-x7k2p");
    let mut exposure = manifest::yaml(manifest::SERVICE_EXPOSURE)?;
    exposure["metadata"] = named("clusters", "shop");
    let ready = json!([{"type": "Ready", "status": "True"}]);
    let container = json!([{"name": "app", "image": "registry.example/app:1"}]);
    let machine_labels = json!({
        "cluster.x-k8s.io/role": "worker",
        "cluster.x-k8s.io/cluster-name": "reef-x7k2p",
        "hypershift.openshift.io/nodepool-name": "shallows",
        "kubevirt.io/vm": "shallows-1",
    });
    let secret = json!({
        "apiVersion": "v1", "kind": "Secret", "metadata": named("clusters", "reef-admin-kubeconfig"),
        "stringData": {"kubeconfig": kubeconfig},
    });
    let pod = |namespace: &str, name: &str, labels: &Value| {
        json!({
            "apiVersion": "v1", "kind": "Pod",
            "metadata": {"namespace": namespace, "name": name, "labels": labels},
            "spec": {"containers": container},
            "status": {"phase": "Running", "conditions": ready, "podIP": "192.0.2.7", "podIPs": [{"ip": "192.0.2.7"}]},
        })
    };
    let service = |namespace: &str, name: &str, spec: Value| {
        let metadata = named(namespace, name);
        json!({"apiVersion": "v1", "kind": "Service", "metadata": metadata, "spec": spec})
    };
    let shop = json!({"app": "shop"});
    let inside = json!({
        "type": "NodePort", "selector": shop,
        "ports": [{"name": "http", "port": 80, "nodePort": 30001}],
    });
    let outside = json!({
        "type": "NodePort", "selector": machine_labels,
        "ports": [{"name": "http", "port": 80, "targetPort": 30001, "nodePort": 31080}],
    });
    let node = json!({
        "apiVersion": "v1", "kind": "Node", "metadata": {"name": "shallows-1"},
        "status": {"conditions": ready},
    });
    let objects = [
        cluster,
        exposure,
        secret,
        pod("clusters-reef", "virt-launcher-shallows-1", &machine_labels),
        pod("petclinic", "shop-1", &shop),
        service("petclinic", "petclinic-np", inside),
        service("clusters-reef", "expose-shop", outside),
        node,
    ];
    for object in objects {
        let told = object["metadata"]["name"].clone();
        apply(&client, object).await.with_context(|| format!("cannot apply {told}"))?;
    }
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn an_exposure_is_described_from_both_sides() -> anyhow::Result<()> {
    let server = ApiServer::start()?;
    let remora = Remora { server: &server };
    remora.ok(&["install", "--image", IMAGE])?;
    exposed(&server).await?;

    let text = remora.ok(&["describe", "exposure", "shop"])?;
    for line in [
        "✓ clusters-reef/expose-shop   http: 31080 -> 30001",
        "✓ virt-launcher-shallows-1   ready, NodePool shallows, on no node yet, 192.0.2.7",
        "✓ shallows-1:30001   Ready",
        "✓ petclinic/petclinic-np   NodePort, http: 30001 -> 80",
        "✓ 1/1 ready   app=shop",
        "No condition is reported yet.",
    ] {
        ensure!(text.contains(line), "no line {line:?}: {text}");
    }

    let client = server.client().await?;
    let secrets: Api<k8s_openapi::api::core::v1::Secret> = Api::namespaced(client, "clusters");
    secrets.delete("reef-admin-kubeconfig", &kube::api::DeleteParams::default()).await?;
    let data: Value =
        serde_json::from_str(&remora.ok(&["describe", "exposure", "shop", "-o", "json"])?)?;
    let gap = data.pointer("/path/5/gap").and_then(Value::as_str).unwrap_or_default();
    ensure!(gap.contains("clusters/reef-admin-kubeconfig does not exist"), "{data}");
    ensure!(data.pointer("/path/1/items/0/health") == Some(&json!("Well")), "{data}");

    let missing = remora.fails(&["describe", "exposure", "none"])?;
    ensure!(missing.contains("ServiceExposure clusters/none"), "{missing}");
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_rendered_cluster_applies_on_top_of_itself_without_a_change() -> anyhow::Result<()> {
    let server = ApiServer::start()?;
    let remora = Remora { server: &server };
    remora.ok(&["install", "--image", IMAGE])?;
    exposed(&server).await?;
    let before = (remora.json("clusters")?, remora.json("exposures")?);

    let folder = tempfile::tempdir()?;
    let directory = folder.path().to_str().context("no text")?;
    remora.ok(&["render", directory, "--name=reef", "--force"])?;
    let applied = Command::new(server.hyperkube())
        .args(["kubectl", "apply", "--server-side", "--field-manager=test", "-k", directory])
        .env("KUBECONFIG", server.kubeconfig_path())
        .output()?;
    ensure!(applied.status.success(), "{}", String::from_utf8_lossy(&applied.stderr));
    let after = (remora.json("clusters")?, remora.json("exposures")?);
    let told = |objects: &[Value]| -> Vec<String> {
        let told =
            |object: &Value| format!("{}\n{}", object["metadata"]["generation"], object["spec"]);
        objects.iter().map(told).collect()
    };
    ensure!(told(&before.0) == told(&after.0), "{before:?} {after:?}");
    ensure!(told(&before.1) == told(&after.1), "{before:?} {after:?}");

    let again = remora.fails(&["render", directory, "--name=reef"])?;
    ensure!(again.contains("hostedcluster-reef.yaml") && again.contains("--force"), "{again}");
    Ok(())
}

/// Every file below a directory, with its text; archives are left out.
fn texts(directory: &std::path::Path) -> anyhow::Result<Vec<(String, String)>> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(directory)? {
        let path = entry?.path();
        if path.is_dir() {
            found.extend(texts(&path)?);
        } else if path.extension().is_none_or(|extension| extension != "gz") {
            found.push((path.display().to_string(), std::fs::read_to_string(&path)?));
        }
    }
    Ok(found)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_dump_has_objects_of_both_sides_and_no_secret() -> anyhow::Result<()> {
    let server = ApiServer::start()?;
    let remora = Remora { server: &server };
    remora.ok(&["install", "--image", IMAGE])?;
    exposed(&server).await?;
    let metadata = json!({"namespace": "clusters-reef", "name": "token"});
    let secret = json!({
        "apiVersion": "v1", "kind": "Secret", "metadata": metadata,
        "stringData": {"token": "confidential"},
    });
    apply(&server.client().await?, secret).await?;

    let folder = tempfile::tempdir()?;
    let directory = folder.path().to_str().context("no text")?;
    remora.ok(&["dump", "cluster", "--name=reef", "--artifact-dir", directory])?;
    let texts = texts(folder.path())?;
    let named = |name: &str| {
        let found = texts.iter().find(|(path, _)| path.ends_with(name));
        found.map(|(_, text)| text.as_str()).with_context(|| format!("no {name}"))
    };
    for (file, content) in [
        ("namespaces/clusters/hypershift.openshift.io/hostedclusters.yaml", "name: reef"),
        ("namespaces/clusters/remora.dev/serviceexposures.yaml", "name: shop"),
        ("namespaces/clusters-reef/core/services.yaml", "name: expose-shop"),
        ("namespaces/clusters-reef/core/secrets.yaml", "token: (left out)"),
        ("hostedcluster-reef/core/nodes.yaml", "name: shallows-1"),
        ("hostedcluster-reef/core/pods.yaml", "name: shop-1"),
    ] {
        ensure!(named(file)?.contains(content), "no {content:?} in {file}: {}", named(file)?);
    }
    // As it is, and as the API server gives it.
    for confidential in ["confidential", "Y29uZmlkZW50aWFs"] {
        let found = texts.iter().find(|(_, text)| text.contains(confidential));
        ensure!(found.is_none(), "{found:?}");
    }
    ensure!(folder.path().join("hypershift-dump.tar.gz").is_file());

    let missing = remora.fails(&["dump", "cluster", "--name=none", "--artifact-dir", directory])?;
    ensure!(missing.contains("HostedCluster clusters/none does not exist"), "{missing}");
    Ok(())
}

#[test]
fn wrong_input_is_refused_with_field_and_remedy() -> anyhow::Result<()> {
    let server = ApiServer::start()?;
    let remora = Remora { server: &server };
    remora.ok(&["install", "--image", IMAGE])?;

    let without = remora.fails(&["install"])?;
    ensure!(without.contains("--image") && without.contains("help"), "{without}");
    let missing = remora.fails(&["create", "kubeconfig", "--name=reef"])?;
    ensure!(missing.contains("clusters/reef-admin-kubeconfig"), "{missing}");
    let no_cluster = ["create", "nodepool", "kubevirt", "--cluster-name=reef", "--name=big"];
    let no_cluster = remora.fails(&no_cluster)?;
    ensure!(no_cluster.contains("HostedCluster clusters/reef does not exist"), "{no_cluster}");
    let overlapping = remora.fails(&[
        "create",
        "cluster",
        "kubevirt",
        "--release-image=registry.example/release:1",
        "--service-cidr=10.1.0.0/16",
        "--cluster-cidr=10.1.0.0/16",
    ])?;
    ensure!(overlapping.contains("spec.networking"), "{overlapping}");
    Ok(())
}
