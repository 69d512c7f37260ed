//! A hosted cluster of a story.

use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Context, ensure};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use k8s_openapi::api::core::v1::{Node, Secret};
use kube::api::{DynamicObject, ListParams};
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::{Api, Client, Config};
use serde_json::Value;

use super::Lab;
use super::lab::{REGISTRY, WORKERS, remora};
use super::wait::{BOOT, Look, SOON, seen, until};

/// The first release, as `remora lab up` publishes it.
pub(crate) fn release_image() -> String {
    format!("{REGISTRY}/remora/release:1.35.4")
}

/// A HostedCluster and the NodePool of the same name.
#[derive(Clone)]
pub(crate) struct Hosted {
    pub(crate) lab: Lab,
    /// Of the HostedCluster.
    pub(crate) namespace: String,
    pub(crate) name: String,
}

impl Hosted {
    /// The cluster of the demo, made by `remora lab demo` if it is not there.
    pub(crate) async fn demo(lab: &Lab) -> anyhow::Result<Self> {
        let demo = Self::named(lab, "clusters", "cluster1");
        if demo.hosted_cluster().await?.is_none() {
            remora(&["lab", "demo"], Duration::from_secs(3600)).await?;
        }
        Ok(demo)
    }

    /// A handle; nothing is made.
    pub(crate) fn named(lab: &Lab, namespace: &str, name: &str) -> Self {
        Self { lab: lab.clone(), namespace: namespace.to_owned(), name: name.to_owned() }
    }

    /// The namespace of the control plane and of the virtual machines.
    pub(crate) fn control_plane_namespace(&self) -> String {
        remora_api::names::control_plane_namespace(&self.namespace, &self.name)
    }

    /// Applies namespace, pull secret and HostedCluster; again does no harm.
    pub(crate) async fn apply(&self) -> anyhow::Result<()> {
        let manifest = format!("{}---\n{}", self.namespace_manifest(), self.manifest());
        self.lab.apply(&manifest).await.map(drop)
    }

    /// The manifest of namespace and pull secret.
    pub(crate) fn namespace_manifest(&self) -> String {
        let Self { namespace, name, .. } = self;
        format!(
            r#"apiVersion: v1
kind: Namespace
metadata: {{name: {namespace}}}
---
apiVersion: v1
kind: Secret
metadata: {{name: {name}-pull-secret, namespace: {namespace}}}
type: kubernetes.io/dockerconfigjson
stringData: {{.dockerconfigjson: '{{"auths":{{}}}}'}}
"#
        )
    }

    /// The manifest of the HostedCluster: a single replica, published by NodePort.
    pub(crate) fn manifest(&self) -> String {
        let Self { namespace, name, .. } = self;
        let address = WORKERS[0];
        let services: String = ["APIServer", "OAuthServer", "Konnectivity", "Ignition"]
            .map(|service| {
                format!(
                    "  - service: {service}\n    servicePublishingStrategy: {{type: NodePort, nodePort: {{address: {address}}}}}\n"
                )
            })
            .concat();
        let release = release_image();
        format!(
            r#"apiVersion: hypershift.openshift.io/v1beta1
kind: HostedCluster
metadata: {{name: {name}, namespace: {namespace}}}
spec:
  release: {{image: "{release}"}}
  pullSecret: {{name: {name}-pull-secret}}
  sshKey: {{}}
  controllerAvailabilityPolicy: SingleReplica
  platform: {{type: KubeVirt, kubevirt: {{}}}}
  etcd: {{managementType: Managed, managed: {{storage: {{type: PersistentVolume, persistentVolume: {{size: 1Gi}}}}}}}}
  services:
{services}"#
        )
    }

    /// Applies a NodePool of the cluster's name with small machines.
    pub(crate) async fn apply_pool(&self, replicas: u32) -> anyhow::Result<()> {
        let Self { namespace, name, .. } = self;
        let release = release_image();
        let manifest = format!(
            r#"apiVersion: hypershift.openshift.io/v1beta1
kind: NodePool
metadata: {{name: {name}, namespace: {namespace}}}
spec:
  clusterName: {name}
  replicas: {replicas}
  release: {{image: "{release}"}}
  management: {{upgradeType: Replace}}
  platform:
    type: KubeVirt
    kubevirt: {{compute: {{cores: 1, memory: 1Gi}}}}
"#
        );
        self.lab.apply(&manifest).await.map(drop)
    }

    /// The HostedCluster, if it is there.
    pub(crate) async fn hosted_cluster(&self) -> anyhow::Result<Option<DynamicObject>> {
        let api =
            self.lab.objects("hypershift.openshift.io/v1beta1", "HostedCluster", &self.namespace);
        Ok(api.get_opt(&self.name).await?)
    }

    /// Waits until a condition of the HostedCluster has a status (and a reason, where one is named).
    pub(crate) async fn condition(
        &self,
        kind: &str,
        status: &str,
        reason: Option<&str>,
        deadline: Duration,
    ) -> anyhow::Result<String> {
        let what = format!("{}/{} {kind}={status}", self.namespace, self.name);
        until(&what, deadline, || async {
            let object = self.hosted_cluster().await?.context("no HostedCluster")?;
            Ok(condition_is(&object, kind, status, reason))
        })
        .await
    }

    /// Waits until the API can be used.
    pub(crate) async fn available(&self) -> anyhow::Result<()> {
        self.condition("Available", "True", None, SOON).await.map(drop)
    }

    /// The content of the kubeconfig Secret, as it is, in a file of its own.
    pub(crate) async fn kubeconfig(&self) -> anyhow::Result<PathBuf> {
        let secrets: Api<Secret> = Api::namespaced(self.lab.client.clone(), &self.namespace);
        let name = remora_api::names::admin_kubeconfig_secret(&self.name);
        let secret = secrets.get(&name).await?;
        let content = secret
            .data
            .and_then(|mut data| data.remove("kubeconfig"))
            .with_context(|| format!("Secret {name} has no key kubeconfig"))?;
        self.lab.write_kubeconfig(&format!("{}-{}", self.namespace, self.name), &content.0)
    }

    /// A client to the hosted API with that kubeconfig.
    pub(crate) async fn client(&self) -> anyhow::Result<Client> {
        let kubeconfig = Kubeconfig::read_from(self.kubeconfig().await?)?;
        let mut config =
            Config::from_custom_kubeconfig(kubeconfig, &KubeConfigOptions::default()).await?;
        config.proxy_url = None;
        Ok(Client::try_from(config)?)
    }

    /// kubectl on the hosted cluster, from the bastion.
    pub(crate) async fn kubectl(&self, arguments: &[&str]) -> anyhow::Result<String> {
        self.lab.kubectl_with(&self.kubeconfig().await?, arguments, None).await
    }

    /// `kubectl apply` on the hosted cluster.
    pub(crate) async fn apply_inside(&self, manifest: &str) -> anyhow::Result<()> {
        let kubeconfig = self.kubeconfig().await?;
        self.lab.kubectl_with(&kubeconfig, &["apply", "-f", "-"], Some(manifest)).await.map(drop)
    }

    /// Waits for exactly this many Nodes, all Ready, and returns them.
    pub(crate) async fn ready_nodes(&self, count: usize) -> anyhow::Result<Vec<Node>> {
        let nodes: Api<Node> = Api::all(self.client().await?);
        let what = format!("{}/{}: {count} nodes Ready", self.namespace, self.name);
        until(&what, BOOT, || async {
            let listed = nodes.list(&ListParams::default()).await?.items;
            let ready = listed.iter().filter(|node| is_ready(node)).count();
            if ready == count && listed.len() == count {
                return Ok(Look::Seen(listed));
            }
            Ok(Look::NotYet(format!("{ready} of {} nodes are ready", listed.len())))
        })
        .await
    }

    /// Waits until the pool's status says what is so.
    pub(crate) async fn pool_settled(&self, replicas: i64) -> anyhow::Result<()> {
        let pools =
            self.lab.objects("hypershift.openshift.io/v1beta1", "NodePool", &self.namespace);
        until(&format!("NodePool {} settled at {replicas}", self.name), BOOT, || async {
            let pool = pools.get(&self.name).await?;
            let counted = pool.data.pointer("/status/replicas").and_then(Value::as_i64);
            match condition_is(&pool, "Ready", "True", None) {
                Look::Seen(_) => Ok(seen(counted == Some(replicas), || {
                    format!("status.replicas is {counted:?}")
                })),
                Look::NotYet(why) => Ok(Look::NotYet(why)),
            }
        })
        .await
    }

    /// The VirtualMachineInstances of the cluster.
    pub(crate) async fn machines(&self) -> anyhow::Result<Vec<DynamicObject>> {
        let api = self.lab.objects(
            "kubevirt.io/v1",
            "VirtualMachineInstance",
            &self.control_plane_namespace(),
        );
        Ok(api.list(&ListParams::default()).await?.items)
    }

    /// Deletes the HostedCluster with all that belongs to it and waits for the end.
    pub(crate) async fn destroy(&self) -> anyhow::Result<()> {
        self.lab
            .kubectl(&[
                "delete",
                "hostedcluster",
                &self.name,
                "-n",
                &self.namespace,
                "--wait=false",
            ])
            .await?;
        self.gone().await
    }

    /// Removes what a story that was killed left of this cluster.
    pub(crate) async fn cleared(self) -> anyhow::Result<Self> {
        let delete = ["delete", "namespace", &self.namespace, "--ignore-not-found", "--wait=false"];
        self.lab.kubectl(&delete).await?;
        self.gone().await?;
        until(&format!("namespace {} gone", self.namespace), BOOT, || async {
            let get = ["get", "namespace", &self.namespace, "--ignore-not-found", "-o", "name"];
            let left = self.lab.kubectl(&get).await?;
            Ok(seen(left.is_empty(), || left))
        })
        .await?;
        Ok(self)
    }

    /// Waits until nothing of the cluster is left, to the last object.
    pub(crate) async fn gone(&self) -> anyhow::Result<()> {
        let namespace = self.control_plane_namespace();
        until(&format!("{namespace} and all in it gone"), BOOT, || async {
            let left = self.left_over().await?;
            Ok(seen(left.is_empty(), || left.join(", ")))
        })
        .await?;
        let namespaces = self.lab.kubectl(&["get", "namespaces", "-o", "name"]).await?;
        ensure!(!namespaces.contains(&namespace), "{namespace} is back");
        Ok(())
    }

    async fn left_over(&self) -> anyhow::Result<Vec<String>> {
        let mut left = Vec::new();
        let namespace = self.control_plane_namespace();
        let everywhere = self
            .lab
            .kubectl(&[
                "get",
                "namespaces,persistentvolumeclaims,virtualmachines,virtualmachineinstances,services",
                "-A",
                "--no-headers",
                "-o=custom-columns=KIND:.kind,NAMESPACE:.metadata.namespace,NAME:.metadata.name",
            ])
            .await?;
        left.extend(
            everywhere
                .lines()
                .filter(|line| line.split_whitespace().any(|word| word == namespace))
                .map(str::to_owned),
        );
        let volumes = self
            .lab
            .kubectl(&[
                "get",
                "persistentvolumes",
                "-o=jsonpath={.items[*].spec.claimRef.namespace}",
            ])
            .await?;
        if volumes.split_whitespace().any(|claimed| claimed == namespace) {
            left.push("a PersistentVolume".to_owned());
        }
        for kind in ["hostedcluster", "nodepool", "secret"] {
            let names =
                self.lab.kubectl(&["get", kind, "-n", &self.namespace, "-o", "name"]).await?;
            let own = remora_api::names::admin_kubeconfig_secret(&self.name);
            left.extend(
                names
                    .lines()
                    .filter(|name| {
                        name.rsplit('/').next().is_some_and(|name| name == self.name || name == own)
                    })
                    .map(str::to_owned),
            );
        }
        Ok(left)
    }
}

/// Whether a condition of an object has a status; returns its message.
pub(crate) fn condition_is(
    object: &DynamicObject,
    kind: &str,
    status: &str,
    reason: Option<&str>,
) -> Look<String> {
    let conditions = object.data.pointer("/status/conditions").and_then(Value::as_array);
    let found = conditions
        .and_then(|conditions| conditions.iter().find(|condition| condition["type"] == kind));
    match found {
        Some(condition)
            if condition["status"] == status
                && reason.is_none_or(|reason| condition["reason"] == reason) =>
        {
            Look::Seen(condition["message"].as_str().unwrap_or_default().to_owned())
        }
        Some(condition) => Look::NotYet(condition.to_string()),
        None => Look::NotYet(format!("no condition {kind}")),
    }
}

fn is_ready(node: &Node) -> bool {
    node.status.as_ref().and_then(|status| status.conditions.as_ref()).is_some_and(|conditions| {
        conditions.iter().any(|condition| condition.type_ == "Ready" && condition.status == "True")
    })
}

/// A kubeconfig's certificate authority: two clusters have two.
pub(crate) fn authority_of(kubeconfig: &Kubeconfig) -> anyhow::Result<Vec<u8>> {
    let data = kubeconfig
        .clusters
        .first()
        .and_then(|cluster| cluster.cluster.as_ref())
        .and_then(|cluster| cluster.certificate_authority_data.clone())
        .context("the kubeconfig names no certificate authority")?;
    Ok(STANDARD.decode(data)?)
}
