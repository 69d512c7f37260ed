use std::collections::BTreeMap;

use clap::Parser;

use super::directory::{Overwriting, files, write};
use super::*;
use crate::cluster_objects::ClusterObjects;
use crate::manifest;

fn objects(text: &str) -> Vec<DynamicObject> {
    manifest::from_yaml(text).unwrap()
}

fn object(text: &str) -> DynamicObject {
    objects(text).remove(0)
}

/// As the API server gives it, with what it and the operator wrote.
fn hosted_cluster() -> DynamicObject {
    object(
        r#"
apiVersion: hypershift.openshift.io/v1beta1
kind: HostedCluster
metadata:
  namespace: clusters
  name: cluster1
  uid: 3c7e
  resourceVersion: "77"
  generation: 3
  creationTimestamp: "2026-01-01T00:00:00Z"
  finalizers: [hypershift.openshift.io/finalizer]
  managedFields: [{ manager: remora-cli, operation: Apply }]
  annotations:
    kubectl.kubernetes.io/last-applied-configuration: "{}"
    remora.dev/load-balancers: Disabled
spec:
  infraID: cluster1-x7k2p
  release: { image: "registry.example/release:1" }
  pullSecret: { name: cluster1-pull-secret }
  sshKey: { name: cluster1-ssh-key }
  configuration:
    apiServer:
      servingCerts:
        namedCertificates: [{ names: [api.example], servingCertificate: { name: api-certificate } }]
  services: []
status: { conditions: [] }
"#,
    )
}

fn live() -> ClusterObjects {
    let pool = "
apiVersion: hypershift.openshift.io/v1beta1
kind: NodePool
metadata:
  namespace: clusters
  name: big
  labels: { team: a }
  ownerReferences: [{ apiVersion: v1, kind: HostedCluster, name: cluster1, uid: 3c7e }]
spec: { clusterName: cluster1, replicas: 2 }
status: { replicas: 2 }
";
    let going = "
apiVersion: hypershift.openshift.io/v1beta1
kind: NodePool
metadata: { namespace: clusters, name: old, deletionTimestamp: '2026-01-01T00:00:00Z' }
spec: { clusterName: cluster1 }
";
    let exposures = "
apiVersion: remora.dev/v1alpha1
kind: ServiceExposure
metadata: { namespace: clusters, name: pets, finalizers: [remora.dev/finalizer] }
spec: { clusterName: cluster1, service: { namespace: petclinic, name: web } }
---
apiVersion: remora.dev/v1alpha1
kind: ServiceExposure
metadata: { namespace: clusters, name: web-1a2b, labels: { remora.dev/exposure-policy: shops } }
spec: { clusterName: cluster1, service: { namespace: shop, name: web } }
";
    let policy = "
apiVersion: remora.dev/v1alpha1
kind: ExposurePolicy
metadata: { namespace: clusters, name: shops }
spec: { clusterName: cluster1, expose: [{ namespaces: [shop] }] }
";
    ClusterObjects {
        hosted_cluster: hosted_cluster(),
        node_pools: vec![object(pool), object(going)],
        exposures: objects(exposures),
        policies: objects(policy),
    }
}

/// The files one after another.
fn told(files: &BTreeMap<String, String>) -> String {
    files.iter().map(|(name, text)| format!("=== {name}\n{text}")).collect()
}

#[test]
fn a_live_cluster_is_written_as_a_user_would_have_written_it() {
    let exported = export::of_cluster(live()).unwrap();
    insta::assert_snapshot!(told(&files(&exported.objects).unwrap()));
    insta::assert_yaml_snapshot!(exported.left_out);
}

#[derive(Parser)]
struct Command {
    #[command(flatten)]
    render: RenderCommand,
}

fn command(words: &[&str]) -> RenderCommand {
    Command::try_parse_from(["test"].iter().chain(words)).unwrap().render
}

async fn new_cluster(flags: &[&str]) -> BTreeMap<String, String> {
    let fixed = [
        "dir",
        "cluster",
        "kubevirt",
        "--name=cluster2",
        "--release-image=registry.example/release:1",
    ];
    let words: Vec<&str> = fixed.iter().chain(flags).copied().collect();
    let Some(New::Cluster(Platform::Kubevirt(options))) = command(&words).new else {
        panic!("no new cluster");
    };
    let objects = options.manifests(&connection()).await.unwrap();
    files(&export::publishable(objects)).unwrap()
}

/// Leads nowhere; nothing is asked of it.
fn connection() -> Connection {
    #[derive(Parser)]
    struct Connecting {
        #[command(flatten)]
        connection: Connection,
    }
    Connecting::try_parse_from(["test", "--kubeconfig=/nowhere"]).unwrap().connection
}

#[tokio::test]
async fn a_new_cluster_whose_registries_ask_for_nothing_is_complete() {
    let files = new_cluster(&["--node-pool-replicas=2"]).await;
    let names: Vec<&String> = files.keys().collect();
    assert_eq!(
        names,
        [
            "00-namespace.yaml",
            "hostedcluster-cluster2.yaml",
            "kustomization.yaml",
            "nodepool-cluster2.yaml",
            "secret-cluster2-pull-secret.yaml",
        ]
    );
    insta::assert_snapshot!(files["kustomization.yaml"]);
}

#[tokio::test]
async fn what_a_secret_says_is_never_written() {
    let folder = tempfile::tempdir().unwrap();
    let pull_secret = folder.path().join("pull-secret");
    let ssh_key = folder.path().join("key");
    std::fs::write(&pull_secret, r#"{"auths":{"registry.example":{"auth":"confidential"}}}"#)
        .unwrap();
    std::fs::write(&ssh_key, "ssh-ed25519 confidential").unwrap();
    let flags = [
        format!("--pull-secret={}", pull_secret.display()),
        format!("--ssh-key={}", ssh_key.display()),
    ];
    let flags: Vec<&str> = flags.iter().map(String::as_str).collect();
    let files = new_cluster(&flags).await;
    assert!(!told(&files).contains("confidential"));
    let templates: Vec<&String> = files.keys().filter(|name| name.ends_with("template")).collect();
    assert_eq!(
        templates,
        ["secret-cluster2-pull-secret.yaml.template", "secret-cluster2-ssh-key.yaml.template"]
    );
    assert!(!files["kustomization.yaml"].contains("secret"));
}

#[test]
fn files_that_are_there_are_kept_unless_asked_otherwise() {
    let folder = tempfile::tempdir().unwrap();
    let directory = folder.path().join("git/ops");
    let files = |text: &str| {
        BTreeMap::from(["a.yaml", "b.yaml"].map(|name| (name.to_owned(), text.to_owned())))
    };
    write(&directory, &files("first"), Overwriting::No).unwrap();
    std::fs::remove_file(directory.join("a.yaml")).unwrap();

    let refused = write(&directory, &files("second"), Overwriting::No).unwrap_err();
    assert_eq!(refused.to_string(), format!("--force: {} has b.yaml already", directory.display()));
    assert!(!directory.join("a.yaml").exists());
    assert_eq!(std::fs::read_to_string(directory.join("b.yaml")).unwrap(), "first");

    write(&directory, &files("third"), Overwriting::Yes).unwrap();
    for name in ["a.yaml", "b.yaml"] {
        assert_eq!(std::fs::read_to_string(directory.join(name)).unwrap(), "third");
    }
}

#[tokio::test]
async fn a_live_cluster_and_a_new_one_exclude_each_other() {
    for words in
        [&["dir"][..], &["dir", "--name=cluster1", "cluster", "kubevirt", "--release-image=a"]]
    {
        let failure = command(words).run(&connection()).await.unwrap_err();
        assert!(failure.to_string().starts_with("--name: "), "{failure}");
    }
}
