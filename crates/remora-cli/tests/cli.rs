//! The command line against a real API server, as a user runs it: the program itself, its output, its exit code.

use std::process::{Command, Output};

use anyhow::{Context as _, ensure};
use remora_testkit::ApiServer;
use serde_json::Value;

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
