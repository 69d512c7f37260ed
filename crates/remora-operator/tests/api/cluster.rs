//! A HostedCluster whose API server answers, though it has no control plane of its own.

use k8s_openapi::ByteString;
use kube::api::{Patch, PatchParams};
use kube::core::DynamicObject;
use kube::{Api, Client};
use remora_api::{labels, names};
use remora_testkit::ApiServer;
use remora_testkit::manifest::HOSTED_CLUSTER;
use serde_json::{Value, json};

use crate::world::{World, api, apply, apply_patched, apply_status, hosted};

/// infraID of every such cluster.
pub(crate) const INFRA_ID: &str = "reef-x7k2p";

/// A HostedCluster `reef` in a namespace of its own.
pub(crate) struct Reef {
    /// Client of the hosting cluster's administrator.
    pub(crate) hosting: Client,
    /// Client of the hosted cluster's administrator.
    pub(crate) hosted: Client,
    /// The hosted API server.
    pub(crate) server: &'static ApiServer,
    /// The namespace.
    pub(crate) namespace: &'static str,
    /// The release that the cluster runs.
    pub(crate) release: String,
}

impl Reef {
    /// Makes it. The HostedCluster asks for something unsupported, so that the operator makes no control plane for it: that
    /// is stood in for.
    pub(crate) async fn make(namespace: &'static str) -> anyhow::Result<Self> {
        Self::with_api_server(namespace, hosted()?).await
    }

    /// Makes it with an API server that may be its own.
    pub(crate) async fn with_api_server(
        namespace: &'static str,
        server: &'static ApiServer,
    ) -> anyhow::Result<Self> {
        let world = World::shared().await?;
        let release = world.registry.push_release("1.35.4").await?;
        let reef = Self::without_session(namespace, server, &release).await?;
        world.open_session((namespace, "reef"), INFRA_ID, server).await?;
        Ok(reef)
    }

    /// Makes it without that the operator knows of an API server that answers.
    pub(crate) async fn without_session(
        namespace: &'static str,
        server: &'static ApiServer,
        release: &str,
    ) -> anyhow::Result<Self> {
        let world = World::shared().await?;
        let hosting = world.client().await?;
        world.namespace(namespace).await?;
        let owned = json!({
            "apiVersion": "v1",
            "kind": "Namespace",
            "metadata": {
                "name": control_plane(namespace),
                "annotations": { labels::HOSTED_CLUSTER: format!("{namespace}/reef") },
            },
        });
        apply(&hosting, &owned).await?;
        pull_secret(&hosting, namespace).await?;
        let cluster = json!({
            "metadata": { "namespace": namespace },
            "spec": { "infraID": INFRA_ID, "fips": true, "release": { "image": release } },
        });
        apply_patched(&hosting, HOSTED_CLUSTER, &cluster).await?;
        let hosted = server.client().await?;
        let reef = Self { hosting, hosted, server, namespace, release: release.to_owned() };
        reef.stand_in_for_the_control_plane(server.kubeconfig()).await?;
        Ok(reef)
    }

    async fn stand_in_for_the_control_plane(&self, kubeconfig: &str) -> anyhow::Result<()> {
        let text = |text: &str| ByteString(text.as_bytes().to_vec());
        for (name, key, content) in [
            (names::SERVICE_NETWORK_ADMIN_KUBECONFIG, names::KUBECONFIG_KEY, kubeconfig),
            ("root-ca", "ca.crt", "the hosted cluster's root certificate"),
        ] {
            let secret = json!({
                "apiVersion": "v1",
                "kind": "Secret",
                "metadata": { "name": name, "namespace": self.control_plane() },
                "data": { key: text(content) },
            });
            apply(&self.hosting, &secret).await?;
        }
        let published = json!({
            "apiVersion": "hypershift.openshift.io/v1beta1",
            "kind": "HostedCluster",
            "metadata": { "name": "reef", "namespace": self.namespace },
            "status": {
                "controlPlaneEndpoint": { "host": "192.0.2.101", "port": 30443 },
                "version": {
                    "desired": { "version": "1.35.4", "image": self.release },
                    "history": [{
                        "state": "Completed", "version": "1.35.4", "image": self.release,
                        "startedTime": "2026-11-30T22:40:00Z", "completionTime": "2026-11-30T22:41:00Z",
                    }],
                },
            },
        });
        apply_status(&self.hosting, &published).await?;
        Ok(())
    }

    /// Pauses the HostedCluster, or with `null` lets it go on.
    pub(crate) async fn pause(&self, until: Value) -> anyhow::Result<()> {
        let clusters = self.beside("hypershift.openshift.io/v1beta1", "HostedCluster");
        let patch = Patch::Merge(json!({ "spec": { "pausedUntil": until } }));
        clusters.patch("reef", &PatchParams::default(), &patch).await?;
        Ok(())
    }

    /// Namespace of the control plane and of the VMs.
    pub(crate) fn control_plane(&self) -> String {
        control_plane(self.namespace)
    }

    /// The API of a kind beside the HostedCluster.
    pub(crate) fn beside(&self, api_version: &str, kind: &str) -> Api<DynamicObject> {
        api(&self.hosting, api_version, kind, self.namespace)
    }

    /// The API of a kind in the control plane's namespace.
    pub(crate) fn inside(&self, api_version: &str, kind: &str) -> Api<DynamicObject> {
        api(&self.hosting, api_version, kind, &self.control_plane())
    }
}

/// Namespace of the control plane of the HostedCluster `reef` in a namespace.
pub(crate) fn control_plane(namespace: &str) -> String {
    names::control_plane_namespace(namespace, "reef")
}

/// The pull secret that the minimal HostedCluster names; it knows no registry.
pub(crate) async fn pull_secret(client: &Client, namespace: &str) -> anyhow::Result<()> {
    let secret = json!({
        "apiVersion": "v1",
        "kind": "Secret",
        "type": "kubernetes.io/dockerconfigjson",
        "metadata": { "name": "reef-pull-secret", "namespace": namespace },
        "data": { ".dockerconfigjson": ByteString(br#"{"auths":{}}"#.to_vec()) },
    });
    apply(client, &secret).await?;
    Ok(())
}
