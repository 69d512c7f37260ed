//! ServiceExposures: refusals that name field and remedy, Services that follow, nothing left behind.

use k8s_openapi::api::core::v1::Service;
use kube::api::DeleteParams;
use kube::core::DynamicObject;
use kube::{Api, Client};
use remora_testkit::eventually;
use remora_testkit::manifest::SERVICE_EXPOSURE;
use serde_json::{Value, json};
use tokio::net::TcpListener;

use crate::cluster::{INFRA_ID, Reef, control_plane};
use crate::stand_ins::{host, machine_pod};
use crate::world::{
    DEADLINE, World, api, apply, apply_patched, hosted, wait_for_condition, wait_until_gone,
};

impl Reef {
    /// A Service of the hosted cluster, in the namespace that has the test's name.
    pub(crate) async fn hosted_service(&self, spec: Value) -> anyhow::Result<()> {
        let namespace = json!({ "apiVersion": "v1", "kind": "Namespace", "metadata": { "name": self.namespace } });
        apply(&self.hosted, &namespace).await?;
        let service = json!({
            "apiVersion": "v1",
            "kind": "Service",
            "metadata": { "name": "web", "namespace": self.namespace },
            "spec": spec,
        });
        apply(&self.hosted, &service).await?;
        Ok(())
    }

    pub(crate) async fn expose(
        &self,
        name: &str,
        spec: Value,
    ) -> anyhow::Result<Api<DynamicObject>> {
        let mut patch = json!({
            "metadata": { "name": name, "namespace": self.namespace },
            "spec": { "service": { "namespace": self.namespace, "name": "web" } },
        });
        patch = remora_testkit::manifest::patched(patch, &json!({ "spec": spec }));
        apply_patched(&self.hosting, SERVICE_EXPOSURE, &patch).await?;
        Ok(self.beside("remora.dev/v1alpha1", "ServiceExposure"))
    }

    fn services(&self) -> Api<Service> {
        Api::namespaced(self.hosting.clone(), &self.control_plane())
    }

    /// The node ports of the Service that an exposure has.
    async fn node_ports(&self, exposure: &str) -> anyhow::Result<Vec<(i32, Option<i32>)>> {
        let service = self.services().get(&format!("expose-{exposure}")).await?;
        let ports = service.spec.and_then(|spec| spec.ports).unwrap_or_default();
        Ok(ports.iter().map(|port| (port.port, port.node_port)).collect())
    }
}

fn exposures(client: &Client, namespace: &str) -> Api<DynamicObject> {
    api(client, "remora.dev/v1alpha1", "ServiceExposure", namespace)
}

pub(crate) fn node_ports(ports: &[(&str, i32, i32)]) -> Value {
    let ports: Vec<_> = ports
        .iter()
        .map(|(name, port, node_port)| json!({ "name": name, "port": port, "nodePort": node_port }))
        .collect();
    json!({ "type": "NodePort", "ports": ports })
}

#[tokio::test]
async fn an_exposure_of_a_missing_cluster_says_so() -> anyhow::Result<()> {
    let world = World::shared().await?;
    let client = world.client().await?;
    world.namespace("no-cluster").await?;
    let exposure = json!({ "metadata": { "namespace": "no-cluster" } });
    apply_patched(&client, SERVICE_EXPOSURE, &exposure).await?;
    let api = exposures(&client, "no-cluster");
    let message =
        wait_for_condition(&api, "shop", ("Accepted", "False", "HostedClusterNotFound")).await?;
    assert_eq!(
        message,
        "spec.clusterName: HostedCluster no-cluster/reef does not exist; create it, or name another \
         one in namespace no-cluster"
    );
    Ok(())
}

#[tokio::test]
async fn an_exposure_waits_for_the_api_server_of_its_cluster() -> anyhow::Result<()> {
    let world = World::shared().await?;
    let client = world.client().await?;
    Reef::without_session("early", hosted()?, "registry.test/release:1").await?;
    apply_patched(&client, SERVICE_EXPOSURE, &json!({ "metadata": { "namespace": "early" } }))
        .await?;
    let expected = ("Accepted", "Unknown", "HostedClusterNotAvailable");
    wait_for_condition(&exposures(&client, "early"), "shop", expected).await?;
    Ok(())
}

#[tokio::test]
async fn an_exposure_of_a_missing_service_is_refused_until_the_service_comes() -> anyhow::Result<()>
{
    let reef = Reef::make("no-service").await?;
    let api = reef.expose("shop", json!({})).await?;
    let message =
        wait_for_condition(&api, "shop", ("Accepted", "False", "ServiceNotFound")).await?;
    assert!(
        message.starts_with("spec.service: Service no-service/web does not exist in "),
        "{message}"
    );

    reef.hosted_service(json!({ "ports": [{ "name": "http", "port": 8080 }] })).await?;
    let message =
        wait_for_condition(&api, "shop", ("Accepted", "False", "ServiceNotNodePort")).await?;
    assert!(
        message.ends_with("which has no node ports; set its spec.type to NodePort"),
        "{message}"
    );

    reef.hosted_service(node_ports(&[("http", 8080, 30001)])).await?;
    wait_for_condition(&api, "shop", ("Accepted", "True", "AsExpected")).await?;
    Ok(())
}

#[tokio::test]
async fn a_port_that_the_service_lacks_is_refused() -> anyhow::Result<()> {
    let reef = Reef::make("no-port").await?;
    reef.hosted_service(node_ports(&[("http", 8080, 30011), ("https", 8443, 30012)])).await?;
    let api =
        reef.expose("shop", json!({ "ports": [{ "port": "http" }, { "port": 9090 }] })).await?;
    let message = wait_for_condition(&api, "shop", ("Accepted", "False", "PortNotFound")).await?;
    assert!(
        message.starts_with("spec.ports[1].port: Service no-port/web lists no port 9090"),
        "{message}"
    );
    assert!(message.contains("8080") && message.contains("8443"), "{message}");
    assert!(reef.services().get_opt("expose-shop").await?.is_none());
    Ok(())
}

#[tokio::test]
async fn a_taken_node_port_is_refused_by_number_and_replaced_by_preference() -> anyhow::Result<()> {
    let reef = Reef::make("port-taken").await?;
    reef.hosted_service(node_ports(&[("http", 8080, 30021)])).await?;
    let other = json!({
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": { "name": "other", "namespace": "port-taken" },
        "spec": { "type": "NodePort", "ports": [{ "port": 80, "nodePort": 30021 }] },
    });
    apply(&reef.hosting, &other).await?;

    let ports = json!({ "ports": [{ "port": 8080, "nodePort": 30021 }] });
    let api = reef.expose("strict", ports).await?;
    let message =
        wait_for_condition(&api, "strict", ("Accepted", "False", "NodePortTaken")).await?;
    assert!(
        message.starts_with(
            "spec.ports[0].nodePort: node port 30021 of the hosting cluster is in use by Service port-taken/other"
        ),
        "{message}"
    );

    let api = reef.expose("easy", json!({})).await?;
    eventually("a substitute", DEADLINE, async || {
        let ports = reef.node_ports("easy").await?;
        anyhow::ensure!(ports.len() == 1, "{ports:?}");
        assert!(ports.iter().all(|(port, node_port)| *port == 8080 && *node_port != Some(30021)));
        Ok(())
    })
    .await?;
    wait_for_condition(&api, "easy", ("Programmed", "True", "NodePortReassigned")).await?;

    // The one that asked for the number gets it as soon as it is free.
    let services: Api<Service> = Api::namespaced(reef.hosting.clone(), "port-taken");
    services.delete("other", &DeleteParams::default()).await?;
    wait_for_condition(&api, "strict", ("Programmed", "True", "AsExpected")).await?;
    assert_eq!(reef.node_ports("strict").await?, [(8080, Some(30021))]);
    Ok(())
}

#[tokio::test]
async fn a_node_port_out_of_range_is_refused() -> anyhow::Result<()> {
    let reef = Reef::make("out-of-range").await?;
    reef.hosted_service(node_ports(&[("http", 8080, 30031)])).await?;
    let ports = json!({ "ports": [{ "port": 8080, "nodePort": 8080 }] });
    let api = reef.expose("shop", ports).await?;
    let message =
        wait_for_condition(&api, "shop", ("Accepted", "False", "NodePortOutOfRange")).await?;
    assert!(message.contains("30000-32767"), "{message}");
    Ok(())
}

#[tokio::test]
async fn an_exposure_of_a_missing_node_pool_is_refused() -> anyhow::Result<()> {
    let reef = Reef::make("no-pool").await?;
    reef.hosted_service(node_ports(&[("http", 8080, 30041)])).await?;
    let api = reef.expose("shop", json!({ "nodePools": ["depths"] })).await?;
    let message =
        wait_for_condition(&api, "shop", ("Accepted", "False", "NodePoolNotFound")).await?;
    assert_eq!(
        message,
        "spec.nodePools: HostedCluster reef has no NodePool depths; create it, or remove it from the list"
    );
    Ok(())
}

#[tokio::test]
async fn an_exposure_selects_the_machines_and_lists_every_address() -> anyhow::Result<()> {
    let reef = Reef::make("reached").await?;
    host(&reef.hosting, "reached-1", "127.0.0.1").await?;
    reef.hosted_service(node_ports(&[("http", 8080, 30051)])).await?;
    let api = reef.expose("shop", json!({})).await?;
    wait_for_condition(&api, "shop", ("Programmed", "True", "AsExpected")).await?;
    let message = wait_for_condition(&api, "shop", ("Reachable", "False", "NoEndpoints")).await?;
    assert!(!message.is_empty());

    let service = reef.services().get("expose-shop").await?;
    let spec = service.spec.clone().unwrap_or_default();
    assert_eq!(spec.type_.as_deref(), Some("NodePort"));
    assert_eq!(
        json!(spec.selector),
        json!({ "cluster.x-k8s.io/cluster-name": INFRA_ID, "cluster.x-k8s.io/role": "worker" })
    );
    assert_eq!(reef.node_ports("shop").await?, [(8080, Some(30051))]);

    // What kube-proxy would do with connections to the node port, this listener does.
    let listener = TcpListener::bind("127.0.0.1:30051").await?;
    let answering = tokio::spawn(async move {
        while let Ok((connection, _)) = listener.accept().await {
            drop(connection);
        }
    });
    machine_pod(&reef.hosting, (&control_plane("reached"), "vm-1"), (INFRA_ID, "shallows")).await?;
    wait_for_condition(&api, "shop", ("Reachable", "True", "AsExpected")).await?;
    answering.abort();

    let exposure = api.get("shop").await?;
    let endpoints = exposure.data.pointer("/status/endpoints").and_then(Value::as_array).cloned();
    let own = endpoints
        .into_iter()
        .flatten()
        .find(|found| found.get("address") == Some(&json!("127.0.0.1")));
    assert_eq!(
        own,
        Some(json!({
            "address": "127.0.0.1", "port": 30051, "servicePort": 8080, "targetPort": 30051,
            "protocol": "TCP", "name": "http",
        }))
    );
    Ok(())
}

#[tokio::test]
async fn an_exposure_follows_its_service_and_leaves_nothing() -> anyhow::Result<()> {
    let reef = Reef::make("follows").await?;
    reef.hosted_service(node_ports(&[("http", 8080, 30071)])).await?;
    let api = reef.expose("shop", json!({})).await?;
    wait_for_condition(&api, "shop", ("Programmed", "True", "AsExpected")).await?;
    assert_eq!(reef.node_ports("shop").await?, [(8080, Some(30071))]);

    reef.hosted_service(node_ports(&[("http", 8080, 30071), ("https", 8443, 30072)])).await?;
    eventually("the second port", DEADLINE, async || {
        let ports = reef.node_ports("shop").await?;
        anyhow::ensure!(ports == [(8080, Some(30071)), (8443, Some(30072))], "{ports:?}");
        Ok(())
    })
    .await?;

    // What somebody else removes comes back.
    reef.services().delete("expose-shop", &DeleteParams::default()).await?;
    eventually("the Service again", DEADLINE, async || {
        reef.node_ports("shop").await?;
        Ok(())
    })
    .await?;

    api.delete("shop", &DeleteParams::default()).await?;
    wait_until_gone(&api, "shop").await?;
    assert!(reef.services().get_opt("expose-shop").await?.is_none());
    Ok(())
}
