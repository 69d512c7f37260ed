//! A paused HostedCluster: its own objects stay as they are, inside and outside, and so do the machines of its NodePools;
//! its exposures go on, after a restart of the operator as before.

use k8s_openapi::ByteString;
use kube::api::{ListParams, Patch, PatchParams, PostParams};
use remora_testkit::manifest::{HOSTED_CLUSTER, SERVICE_EXPOSURE};
use remora_testkit::{ApiServer, Registry, eventually};
use serde_json::json;

use crate::cluster::pull_secret;
use crate::operator::{self, Operator};
use crate::stand_ins::report_ready;
use crate::world::{DEADLINE, api, apply, apply_patched, hosted, wait_for_condition};

#[tokio::test]
async fn a_paused_cluster_is_served_after_a_restart_and_nothing_of_it_is_changed()
-> anyhow::Result<()> {
    let server: &'static ApiServer = Box::leak(Box::new(ApiServer::start()?));
    operator::install(server).await?;
    let registry = Registry::shared().await?;
    let client = server.client().await?;
    let namespace = serde_json::from_value(json!({
        "apiVersion": "v1", "kind": "Namespace", "metadata": { "name": "paused" },
    }))?;
    api(&client, "v1", "Namespace", "").create(&PostParams::default(), &namespace).await?;
    pull_secret(&client, "paused").await?;
    let release = registry.push_release("1.35.4").await?;
    let cluster = json!({
        "metadata": { "namespace": "paused" },
        "spec": { "release": { "image": release }, "controllerAvailabilityPolicy": "SingleReplica" },
    });
    apply_patched(&client, HOSTED_CLUSTER, &cluster).await?;
    let first = Operator::start(server, registry).await?;
    for (kind, name) in [
        ("StatefulSet", "etcd"),
        ("Deployment", "kube-apiserver"),
        ("Deployment", "kube-controller-manager"),
        ("Deployment", "kube-scheduler"),
    ] {
        let workloads = api(&client, "apps/v1", kind, "paused-reef");
        let made = eventually(name, DEADLINE, async || Ok(workloads.get(name).await?)).await?;
        report_ready(&client, &made).await?;
    }
    let clusters = api(&client, "hypershift.openshift.io/v1beta1", "HostedCluster", "paused");
    wait_for_condition(&clusters, "reef", ("Progressing", "False", "AsExpected")).await?;
    let pause = Patch::Merge(json!({ "spec": { "pausedUntil": "true" } }));
    clusters.patch("reef", &PatchParams::default(), &pause).await?;
    let paused = ("ReconciliationActive", "False", "ReconciliationPaused");
    wait_for_condition(&clusters, "reef", paused).await?;
    assert!(first.context.sessions.is_of("paused-reef", "paused", "reef"));
    first.kill();

    // An API server that answers, in the stead of the one that runs nowhere here.
    let secrets = api(&client, "v1", "Secret", "paused-reef");
    let kubeconfig = ByteString(hosted()?.kubeconfig().as_bytes().to_vec());
    let elsewhere = Patch::Merge(json!({ "data": { "kubeconfig": kubeconfig } }));
    let name = "service-network-admin-kubeconfig";
    secrets.patch(name, &PatchParams::default(), &elsewhere).await?;
    let deployments = api(&client, "apps/v1", "Deployment", "paused-reef");
    let smaller = Patch::Merge(json!({ "spec": { "replicas": 0 } }));
    deployments.patch("kube-scheduler", &PatchParams::default(), &smaller).await?;
    let inside = hosted()?.client().await?;
    let service = json!({
        "apiVersion": "v1", "kind": "Service",
        "metadata": { "name": "paused-web", "namespace": "default" },
        "spec": { "type": "NodePort", "ports": [{ "name": "http", "port": 8080, "nodePort": 30062 }] },
    });
    apply(&inside, &service).await?;

    let second = Operator::start(server, registry).await?;
    let exposure = json!({
        "metadata": { "namespace": "paused" },
        "spec": { "service": { "namespace": "default", "name": "paused-web" } },
    });
    apply_patched(&client, SERVICE_EXPOSURE, &exposure).await?;
    let exposures = api(&client, "remora.dev/v1alpha1", "ServiceExposure", "paused");
    wait_for_condition(&exposures, "shop", ("Programmed", "True", "AsExpected")).await?;
    assert!(second.context.sessions.is_of("paused-reef", "paused", "reef"));
    let scheduler = deployments.get("kube-scheduler").await?;
    assert_eq!(scheduler.data.pointer("/spec/replicas"), Some(&json!(0)));
    let own = ListParams::default().labels("app.kubernetes.io/managed-by=remora");
    let addons = api(&inside, "apps/v1", "DaemonSet", "").list(&own).await?;
    assert!(addons.items.is_empty(), "{:?}", addons.items);
    second.kill();
    Ok(())
}
