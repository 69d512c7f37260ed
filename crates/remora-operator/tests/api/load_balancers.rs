//! Services of type LoadBalancer: the hosting Service, the address on its way back, nothing left behind.

use std::sync::LazyLock;

use anyhow::Context as _;
use k8s_openapi::api::core::v1::Service;
use k8s_openapi::api::discovery::v1::EndpointSlice;
use k8s_openapi::api::events::v1::Event;
use kube::api::{DeleteParams, DynamicObject, ListParams, Patch, PatchParams, PostParams};
use kube::{Api, Client, ResourceExt};
use remora_testkit::{ApiServer, eventually};
use serde_json::{Value, json};
use tokio::sync::OnceCell;

use crate::cluster::{INFRA_ID, Reef, control_plane};
use crate::stand_ins::machine_pod;
use crate::world::{DEADLINE, World, api, apply, apply_status, condition, wait_until_gone};

/// Every Service of a hosted cluster gets one load balancer: these two clusters are shared with no other test.
static SERVERS: LazyLock<Result<[ApiServer; 2], String>> = LazyLock::new(|| {
    let start = || ApiServer::start().map_err(|error| format!("{error:#}"));
    Ok([start()?, start()?])
});
static REEFS: OnceCell<()> = OnceCell::const_new();

const FIRST: &str = "spread";
const SECOND: &str = "spread-too";
const CONDITION: &str = "remora.dev/LoadBalancer";
const FINALIZER: &str = "service.kubernetes.io/load-balancer-cleanup";

/// One of the two clusters, with a namespace inside it for one test.
struct Inside {
    reef: Reef,
    namespace: &'static str,
}

impl Inside {
    async fn first(namespace: &'static str) -> anyhow::Result<Self> {
        Self::of(FIRST, namespace).await
    }

    async fn of(cluster: &'static str, namespace: &'static str) -> anyhow::Result<Self> {
        let servers = SERVERS.as_ref().map_err(|error| anyhow::anyhow!("{error}"))?;
        let [first, second] = servers;
        let make = async || {
            Reef::with_api_server(FIRST, first).await?;
            Reef::with_api_server(SECOND, second).await?;
            anyhow::Ok(())
        };
        REEFS.get_or_try_init(make).await?;
        let server = if cluster == FIRST { first } else { second };
        let hosting = World::shared().await?.client().await?;
        let hosted = server.client().await?;
        let inside =
            json!({ "apiVersion": "v1", "kind": "Namespace", "metadata": { "name": namespace } });
        apply(&hosted, &inside).await?;
        let release = String::new();
        let reef = Reef { hosting, hosted, server, namespace: cluster, release };
        Ok(Self { reef, namespace })
    }

    /// Applies the hosted Service `web`.
    async fn web(&self, metadata: Value, spec: Value) -> anyhow::Result<()> {
        let mut service = json!({
            "apiVersion": "v1",
            "kind": "Service",
            "metadata": { "name": "web", "namespace": self.namespace },
            "spec": { "type": "LoadBalancer", "ports": [{ "name": "http", "port": 80 }] },
        });
        service = remora_testkit::manifest::patched(service, &json!({ "metadata": metadata }));
        service = remora_testkit::manifest::patched(service, &json!({ "spec": spec }));
        apply(&self.reef.hosted, &service).await.map(drop)
    }

    fn hosted(&self) -> Api<Service> {
        Api::namespaced(self.reef.hosted.clone(), self.namespace)
    }

    fn hosted_objects(&self) -> Api<DynamicObject> {
        api(&self.reef.hosted, "v1", "Service", self.namespace)
    }

    fn hosting(&self) -> Api<Service> {
        Api::namespaced(self.reef.hosting.clone(), &self.reef.control_plane())
    }

    fn hosting_objects(&self) -> Api<DynamicObject> {
        self.reef.inside("v1", "Service")
    }

    fn slices(&self) -> Api<EndpointSlice> {
        Api::namespaced(self.reef.hosting.clone(), &self.reef.control_plane())
    }

    fn selector(&self) -> ListParams {
        ListParams::default()
            .labels(&format!("cluster.x-k8s.io/tenant-service-namespace={}", self.namespace))
    }

    /// The hosting Services of this test's namespace.
    async fn made(&self) -> anyhow::Result<Vec<Service>> {
        Ok(self.hosting().list(&self.selector()).await?.items)
    }

    /// Waits for the one hosting Service, until it is as it shall be.
    async fn made_so(&self, check: impl Fn(&Service) -> bool) -> anyhow::Result<Service> {
        eventually("the hosting Service", DEADLINE, async || {
            let made = self.made().await?;
            let [service] = made.as_slice() else { anyhow::bail!("there are {}", made.len()) };
            anyhow::ensure!(check(service), "it is {}", json!(service));
            Ok(service.clone())
        })
        .await
    }

    async fn nothing_is_made(&self) -> anyhow::Result<()> {
        eventually("no hosting Service", DEADLINE, async || {
            let made = self.made().await?;
            anyhow::ensure!(made.is_empty(), "there is {}", json!(made));
            Ok(())
        })
        .await
    }

    /// Does what the hosting cluster's load balancer does.
    async fn give_address(&self, service: &Service, ingress: Value) -> anyhow::Result<()> {
        let status = json!({
            "apiVersion": "v1",
            "kind": "Service",
            "metadata": { "name": service.name_any(), "namespace": service.namespace() },
            "status": { "loadBalancer": { "ingress": ingress } },
        });
        apply_status(&self.reef.hosting, &status).await.map(drop)
    }

    /// Waits for the condition's reason, and gives its message.
    async fn says(&self, reason: &str) -> anyhow::Result<String> {
        eventually(&format!("web says {reason}"), DEADLINE, async || {
            let object = self.hosted_objects().get("web").await?;
            let (_, seen, message) =
                condition(&object, CONDITION).with_context(|| format!("{}", object.data))?;
            anyhow::ensure!(seen == reason, "it says {seen}: {message}");
            Ok(message)
        })
        .await
    }

    async fn ingress(&self) -> anyhow::Result<Value> {
        let service = self.hosted_objects().get("web").await?;
        Ok(service.data.pointer("/status/loadBalancer/ingress").cloned().unwrap_or(Value::Null))
    }

    /// Reasons of the Events about `web`, in order.
    async fn events(&self) -> anyhow::Result<Vec<String>> {
        let events: Api<Event> = Api::namespaced(self.reef.hosted.clone(), self.namespace);
        let mut events = events.list(&ListParams::default()).await?.items;
        events.sort_by(|a, b| a.event_time.cmp(&b.event_time));
        Ok(events.into_iter().filter_map(|event| event.reason).collect())
    }
}

fn ports(service: &Service) -> Vec<(i32, Option<String>, Value)> {
    let ports = service.spec.iter().flat_map(|spec| spec.ports.iter().flatten());
    ports.map(|port| (port.port, port.protocol.clone(), json!(port.target_port))).collect()
}

/// What the hosting ports have to be for a hosted Service.
fn expected_ports(hosted: &Service) -> Vec<(i32, Option<String>, Value)> {
    let ports = hosted.spec.iter().flat_map(|spec| spec.ports.iter().flatten());
    ports.map(|port| (port.port, port.protocol.clone(), json!(port.node_port))).collect()
}

#[tokio::test]
async fn a_load_balancer_is_made_and_its_address_flows_back() -> anyhow::Result<()> {
    let inside = Inside::first("flows-back").await?;
    inside.web(json!({}), json!({})).await?;
    let made = inside.made_so(|_| true).await?;
    let hosted = inside.hosted().get("web").await?;
    let uid: String = hosted.uid().unwrap_or_default().chars().filter(|c| *c != '-').collect();
    assert_eq!(made.name_any(), format!("a{}", &uid[..31]));
    assert_eq!(ports(&made), expected_ports(&hosted));
    assert_eq!(
        json!(made.spec.as_ref().and_then(|spec| spec.selector.clone())),
        json!({ "cluster.x-k8s.io/cluster-name": INFRA_ID, "cluster.x-k8s.io/role": "worker" })
    );
    inside.says("Pending").await?;
    assert_eq!(inside.hosted().get("web").await?.finalizers(), [FINALIZER]);

    for address in ["192.0.2.200", "192.0.2.201"] {
        inside.give_address(&made, json!([{ "ip": address, "ipMode": "VIP" }])).await?;
        eventually("the address inside", DEADLINE, async || {
            let ingress = inside.ingress().await?;
            anyhow::ensure!(ingress == json!([{ "ip": address, "ipMode": "VIP" }]), "{ingress}");
            Ok(())
        })
        .await?;
        let message = inside.says("Ensured").await?;
        assert_eq!(message, format!("reached from outside at {address}"));
    }
    eventually("each change told once", DEADLINE, async || {
        let events = inside.events().await?;
        anyhow::ensure!(
            events == ["EnsuringLoadBalancer", "EnsuredLoadBalancer", "EnsuredLoadBalancer"],
            "{events:?}"
        );
        Ok(())
    })
    .await
}

#[tokio::test]
async fn what_changes_on_either_side_is_put_right_on_the_other() -> anyhow::Result<()> {
    let inside = Inside::first("follows-for-life").await?;
    let pool = json!({ "annotations": { "metallb.io/address-pool": "blue", "team": "a" } });
    inside
        .web(
            pool,
            json!({ "loadBalancerSourceRanges": ["192.0.2.0/24"], "sessionAffinity": "ClientIP" }),
        )
        .await?;
    let made = inside.made_so(|_| true).await?;
    let spec = made.spec.clone().unwrap_or_default();
    assert_eq!(spec.load_balancer_source_ranges, Some(vec!["192.0.2.0/24".to_owned()]));
    assert_eq!(spec.session_affinity.as_deref(), Some("ClientIP"));
    assert_eq!(made.annotations().get("metallb.io/address-pool").map(String::as_str), Some("blue"));
    assert!(!made.annotations().contains_key("team"));

    // Everything at once: what is taken back inside goes outside too.
    let two = json!([
        { "name": "http", "port": 8080 }, { "name": "dns", "port": 53, "protocol": "UDP" },
    ]);
    inside.web(json!({}), json!({ "ports": two, "externalTrafficPolicy": "Cluster" })).await?;
    let made = inside.made_so(|made| ports(made).len() == 2).await?;
    assert_eq!(ports(&made), expected_ports(&inside.hosted().get("web").await?));
    let spec = made.spec.clone().unwrap_or_default();
    assert_eq!(spec.load_balancer_source_ranges, None);
    assert_eq!(spec.session_affinity.as_deref(), Some("None"));
    assert!(!made.annotations().contains_key("metallb.io/address-pool"));

    // By hand: another selector, a port more and addresses; then no Service at all.
    let mut more = json!(spec.ports);
    more.as_array_mut().context("no ports")?.push(json!({ "name": "more", "port": 2379 }));
    let stolen = json!({ "spec": {
        "selector": { "app": "etcd" }, "externalIPs": ["192.0.2.66"], "ports": more,
    } });
    let params = PatchParams::default();
    inside.hosting().patch(&made.name_any(), &params, &Patch::Merge(&stolen)).await?;
    inside
        .made_so(|made| {
            made.spec.as_ref().is_some_and(|found| {
                found.selector == spec.selector
                    && found.ports == spec.ports
                    && found.external_ips.is_none()
            })
        })
        .await?;
    inside.give_address(&made, json!([{ "ip": "192.0.2.202", "ipMode": "VIP" }])).await?;
    inside.says("Ensured").await?;
    inside.hosting().delete(&made.name_any(), &DeleteParams::default()).await?;
    inside.made_so(|again| again.uid() != made.uid()).await?;
    inside.says("Pending").await?;
    assert_eq!(inside.ingress().await?, Value::Null);
    Ok(())
}

#[tokio::test]
async fn a_hosted_service_goes_after_its_load_balancer() -> anyhow::Result<()> {
    let inside = Inside::first("goes").await?;
    inside.web(json!({}), json!({})).await?;
    let made = inside.made_so(|_| true).await?;
    inside.says("Pending").await?;
    // The hosting cluster's load balancer has to clear up first.
    let held = |finalizers: Value| json!({ "metadata": { "finalizers": finalizers } });
    let (hosting, params) = (inside.hosting(), PatchParams::default());
    let patch = held(json!(["example.com/cleanup"]));
    hosting.patch(&made.name_any(), &params, &Patch::Merge(&patch)).await?;
    inside.hosted().delete("web", &DeleteParams::default()).await?;
    inside.made_so(|made| made.metadata.deletion_timestamp.is_some()).await?;
    assert_eq!(inside.hosted().get("web").await?.finalizers(), [FINALIZER]);

    hosting.patch(&made.name_any(), &params, &Patch::Merge(&held(Value::Null))).await?;
    wait_until_gone(&inside.hosted_objects(), "web").await?;
    inside.nothing_is_made().await
}

#[tokio::test]
async fn a_service_of_another_type_or_class_is_let_go_with_what_others_put_on_it()
-> anyhow::Result<()> {
    let inside = Inside::first("turns").await?;
    let own = json!({ "finalizers": ["example.com/of-a-user"] });
    inside.web(own.clone(), json!({})).await?;
    let made = inside.made_so(|_| true).await?;
    inside.give_address(&made, json!([{ "ip": "192.0.2.203", "ipMode": "VIP" }])).await?;
    inside.says("Ensured").await?;

    inside.web(own.clone(), json!({ "type": "ClusterIP" })).await?;
    inside.nothing_is_made().await?;
    eventually("nothing of Remora's on it", DEADLINE, async || {
        let service = inside.hosted().get("web").await?;
        anyhow::ensure!(service.finalizers() == ["example.com/of-a-user"], "{service:?}");
        let status = inside.hosted_objects().get("web").await?.data["status"].clone();
        anyhow::ensure!(!status.to_string().contains("remora"), "{status}");
        Ok(())
    })
    .await?;

    // Another class is somebody else's. What is looked at after it has come shows that it was left alone.
    inside.web(own, json!({ "loadBalancerClass": "example.com/other" })).await?;
    let later = json!({
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": { "name": "later", "namespace": inside.namespace },
        "spec": {
            "type": "LoadBalancer", "loadBalancerClass": "remora.dev/hosting", "ports": [{ "port": 80 }],
        },
    });
    apply(&inside.reef.hosted, &later).await?;
    let made = inside.made_so(|_| true).await?;
    assert_eq!(
        made.labels().get("cluster.x-k8s.io/tenant-service-name").map(String::as_str),
        Some("later")
    );
    assert_eq!(made.spec.and_then(|spec| spec.load_balancer_class), None);
    assert_eq!(inside.hosted().get("web").await?.finalizers(), ["example.com/of-a-user"]);
    Ok(())
}

/// An EndpointSlice as the controllers of a cluster write it.
fn slice(namespace: &str, name: &str, labels: &Value, node: &str, is_ready: bool) -> Value {
    json!({
        "apiVersion": "discovery.k8s.io/v1",
        "kind": "EndpointSlice",
        "metadata": { "namespace": namespace, "name": name, "labels": labels },
        "addressType": "IPv4",
        "endpoints": [{
            "addresses": ["10.132.0.9"], "nodeName": node, "conditions": { "ready": is_ready },
        }],
        "ports": [],
    })
}

impl Inside {
    async fn pod_on(&self, slice_name: &str, node: &str, is_ready: bool) -> anyhow::Result<()> {
        let labels = json!({ "kubernetes.io/service-name": "web" });
        let slice = slice(self.namespace, slice_name, &labels, node, is_ready);
        apply(&self.reef.hosted, &slice).await.map(drop)
    }

    /// A VM of the cluster that serves, on a hosting node.
    async fn machine(&self, name: &str) -> anyhow::Result<()> {
        machine_pod(&self.reef.hosting, (&control_plane(FIRST), name), (INFRA_ID, "shallows"))
            .await?;
        let label = json!({ "metadata": { "labels": {
            "capk.cluster.x-k8s.io/kubevirt-machine-name": name,
        } } });
        let pods = self.reef.inside("v1", "Pod");
        pods.patch(name, &PatchParams::default(), &Patch::Merge(&label)).await?;
        Ok(())
    }

    /// Waits until the hosting slices name exactly these VMs.
    async fn backends(&self, expected: &[&str]) -> anyhow::Result<()> {
        eventually(&format!("the backends {expected:?}"), DEADLINE, async || {
            let slices = self.slices().list(&self.selector()).await?.items;
            let endpoints = slices.iter().flat_map(|slice| &slice.endpoints);
            let mut names: Vec<String> =
                endpoints.filter_map(|endpoint| endpoint.target_ref.clone()?.name).collect();
            names.sort();
            anyhow::ensure!(names == expected, "they are {names:?}");
            Ok(())
        })
        .await
    }
}

#[tokio::test]
async fn with_policy_local_the_vms_that_run_ready_pods_serve_and_no_others() -> anyhow::Result<()> {
    let inside = Inside::first("keeps-addresses").await?;
    for name in ["local-1", "local-2", "local-3"] {
        inside.machine(name).await?;
    }
    inside.pod_on("web-1", "local-1", true).await?;
    inside.pod_on("web-2", "local-2", false).await?;
    inside.web(json!({}), json!({})).await?;
    let made = inside.made_so(|_| true).await?;
    // What the endpoints controllers of a hosting cluster make of the selector; nobody clears it up when that goes.
    let by_selector = slice(
        &inside.reef.control_plane(),
        &format!("{}-k8s9f", made.name_any()),
        &slice_labels(&made, "endpointslice-controller.k8s.io"),
        "worker-1",
        true,
    );
    apply(&inside.reef.hosting, &by_selector).await?;

    inside.web(json!({}), json!({ "externalTrafficPolicy": "Local" })).await?;
    let is_local = |made: &Service| {
        made.spec.as_ref().is_some_and(|spec| {
            spec.external_traffic_policy.as_deref() == Some("Local") && spec.selector.is_none()
        })
    };
    inside.made_so(is_local).await?;
    inside.backends(&["local-1"]).await?;
    let slice = eventually("one slice, the controllers' being gone", DEADLINE, async || {
        let slices = inside.slices().list(&inside.selector()).await?.items;
        let [slice] = slices.as_slice() else { anyhow::bail!("{slices:?}") };
        Ok(slice.clone())
    })
    .await?;
    let port = slice.ports.iter().flatten().next().and_then(|port| port.port);
    let hosted = inside.hosted().get("web").await?;
    assert_eq!(json!(port), expected_ports(&hosted)[0].2);

    // Pods come and go inside; somebody removes a slice by hand.
    inside.pod_on("web-2", "local-2", true).await?;
    inside.backends(&["local-1", "local-2"]).await?;
    inside.pod_on("web-1", "local-3", true).await?;
    inside.backends(&["local-2", "local-3"]).await?;
    inside.slices().delete(&slice.name_any(), &DeleteParams::default()).await?;
    inside.backends(&["local-2", "local-3"]).await?;
    inside
        .reef
        .inside("v1", "Pod")
        .delete("local-3", &DeleteParams::default().grace_period(0))
        .await?;
    inside.backends(&["local-2"]).await?;

    // Back: the own slices serve until the selector has some.
    inside.web(json!({}), json!({ "externalTrafficPolicy": "Cluster" })).await?;
    inside.made_so(|made| !is_local(made)).await?;
    inside.backends(&["local-2"]).await?;
    apply(&inside.reef.hosting, &by_selector).await?;
    inside.backends(&[]).await
}

fn slice_labels(service: &Service, manager: &str) -> Value {
    let mut labels = service.labels().clone();
    labels.insert("kubernetes.io/service-name".to_owned(), service.name_any());
    labels.insert("endpointslice.kubernetes.io/managed-by".to_owned(), manager.to_owned());
    json!(labels)
}

#[tokio::test]
async fn a_service_without_node_ports_is_told_what_to_do() -> anyhow::Result<()> {
    let inside = Inside::first("no-node-ports").await?;
    inside.web(json!({}), json!({ "allocateLoadBalancerNodePorts": false })).await?;
    let message = inside.says("NodePortMissing").await?;
    assert_eq!(
        message,
        "spec.ports: there is no nodePort, by which a load balancer reaches a port, for http (80/TCP); set \
         spec.allocateLoadBalancerNodePorts to true, or give each a nodePort"
    );
    inside.nothing_is_made().await?;
    assert_eq!(inside.hosted().get("web").await?.finalizers(), Vec::<String>::new());
    eventually("the Event", DEADLINE, async || {
        let events = inside.events().await?;
        anyhow::ensure!(events == ["SyncLoadBalancerFailed"], "{events:?}");
        Ok(())
    })
    .await?;

    inside.web(json!({}), json!({ "allocateLoadBalancerNodePorts": true })).await?;
    inside.says("Pending").await?;
    let made = inside.made_so(|_| true).await?;
    assert_eq!(ports(&made), expected_ports(&inside.hosted().get("web").await?));
    Ok(())
}

#[tokio::test]
async fn two_clusters_never_meet_and_one_can_be_switched_off() -> anyhow::Result<()> {
    let first = Inside::of(FIRST, "twins").await?;
    let second = Inside::of(SECOND, "twins").await?;
    for (inside, address) in [(&first, "192.0.2.210"), (&second, "192.0.2.211")] {
        inside.web(json!({}), json!({})).await?;
        let made = inside.made_so(|_| true).await?;
        inside.give_address(&made, json!([{ "ip": address, "ipMode": "VIP" }])).await?;
    }
    for (inside, address) in [(&first, "192.0.2.210"), (&second, "192.0.2.211")] {
        assert_eq!(inside.says("Ensured").await?, format!("reached from outside at {address}"));
    }

    let clusters = second.reef.beside("hypershift.openshift.io/v1beta1", "HostedCluster");
    let switch = |value: Value| json!({ "metadata": { "annotations": { "remora.dev/load-balancers": value } } });
    let params = PatchParams::default();
    clusters.patch("reef", &params, &Patch::Merge(&switch(json!("Disabled")))).await?;
    second.nothing_is_made().await?;
    eventually("the hosted Service let go", DEADLINE, async || {
        let service = second.hosted_objects().get("web").await?;
        anyhow::ensure!(service.finalizers().is_empty(), "{:?}", service.metadata);
        let status = &service.data["status"];
        anyhow::ensure!(*status == json!({ "loadBalancer": {} }), "{status}");
        Ok(())
    })
    .await?;
    assert_eq!(first.made().await?.len(), 1);
    assert_eq!(first.says("Ensured").await?, "reached from outside at 192.0.2.210");

    clusters.patch("reef", &params, &Patch::Merge(&switch(Value::Null))).await?;
    second.made_so(|_| true).await?;
    Ok(())
}

#[tokio::test]
async fn a_load_balancer_without_hosted_service_is_removed_and_a_foreign_one_stays()
-> anyhow::Result<()> {
    let inside = Inside::first("orphans").await?;
    let service = |name: &str, manager: &str| {
        json!({
            "apiVersion": "v1",
            "kind": "Service",
            "metadata": { "name": name, "namespace": inside.reef.control_plane(), "labels": {
                "app.kubernetes.io/managed-by": manager,
                "cluster.x-k8s.io/cluster-name": INFRA_ID,
                "cluster.x-k8s.io/tenant-service-namespace": "orphans",
                "cluster.x-k8s.io/tenant-service-name": "web",
            } },
            "spec": { "ports": [{ "port": 80 }] },
        })
    };
    apply(&inside.reef.hosting, &service("of-somebody-else", "helm")).await?;
    apply(&inside.reef.hosting, &service("a0123456789abcdef0123456789abcde", "remora")).await?;
    wait_until_gone(&inside.hosting_objects(), "a0123456789abcdef0123456789abcde").await?;
    assert_eq!(inside.made().await?.len(), 1);
    Ok(())
}

/// Lets the hosting API server refuse Services with an annotation.
async fn forbid_a_pool(hosting: &Client) -> anyhow::Result<()> {
    let registration = "admissionregistration.k8s.io/v1";
    let policy = json!({
        "apiVersion": registration,
        "kind": "ValidatingAdmissionPolicy",
        "metadata": { "name": "forbidden-pool" },
        "spec": {
            "matchConstraints": { "resourceRules": [{
                "apiGroups": [""], "apiVersions": ["v1"], "resources": ["services"],
                "operations": ["CREATE", "UPDATE"],
            }] },
            "validations": [{
                "expression": "!has(object.metadata.annotations) || !('metallb.io/forbidden' in object.metadata.annotations)",
                "message": "this pool is for others",
            }],
        },
    });
    apply(hosting, &policy).await?;
    let binding = json!({
        "apiVersion": registration,
        "kind": "ValidatingAdmissionPolicyBinding",
        "metadata": { "name": "forbidden-pool" },
        "spec": { "policyName": "forbidden-pool", "validationActions": ["Deny"] },
    });
    apply(hosting, &binding).await?;
    let services: Api<Service> = Api::namespaced(hosting.clone(), "default");
    let probe: Service = serde_json::from_value(json!({
        "metadata": { "name": "probe", "annotations": { "metallb.io/forbidden": "" } },
        "spec": { "ports": [{ "port": 80 }] },
    }))?;
    let dry_run = PostParams { dry_run: true, ..PostParams::default() };
    eventually("the policy in force", DEADLINE, async || {
        let created = services.create(&dry_run, &probe).await;
        anyhow::ensure!(created.is_err(), "it was let through");
        Ok(())
    })
    .await
}

#[tokio::test]
async fn a_refusal_is_told_inside_and_delays_no_other_service() -> anyhow::Result<()> {
    let refused = Inside::first("refused").await?;
    forbid_a_pool(&refused.reef.hosting).await?;
    refused.web(json!({ "annotations": { "metallb.io/forbidden": "yes" } }), json!({})).await?;
    let message = refused.says("Refused").await?;
    assert!(message.contains("this pool is for others"), "{message}");

    let other = Inside::first("not-refused").await?;
    other.web(json!({}), json!({})).await?;
    other.says("Pending").await?;
    refused.web(json!({}), json!({})).await?;
    refused.says("Pending").await?;
    refused.made_so(|_| true).await?;
    Ok(())
}
