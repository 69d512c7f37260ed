use k8s_openapi::api::core::v1::{Node, Pod, Service};
use remora_api::HostedCluster;
use remora_core::expose::VmPod;
use serde::de::DeserializeOwned;

use super::path::Description;
use super::read::{Facts, Hosted, Machine};
use super::*;
use crate::manifest;

fn yaml<T: DeserializeOwned>(text: &str) -> T {
    serde_saphyr::from_str(text).unwrap()
}

fn exposure(status: &str) -> ServiceExposure {
    yaml(&format!(
        "
apiVersion: remora.dev/v1alpha1
kind: ServiceExposure
metadata: {{ namespace: clusters, name: pets, generation: 4 }}
spec:
  clusterName: cluster1
  service: {{ namespace: petclinic, name: petclinic-np }}
  nodePools: [big]
status:
{status}
"
    ))
}

/// A condition of the exposure, in YAML.
fn verdict(type_: &str, status: &str, reason: &str, message: &str) -> String {
    format!(
        "  - {{ type: {type_}, status: '{status}', reason: {reason}, message: '{message}', observedGeneration: 4, \
         lastTransitionTime: '2026-01-01T00:00:00Z' }}"
    )
}

/// An exposure that is served at two nodes; what came of connecting is the test's.
fn served(reachable: &str) -> ServiceExposure {
    exposure(&format!(
        "
  endpoints:
  - {{ address: 192.168.123.104, port: 31080, servicePort: 80, targetPort: 30001, protocol: TCP, name: http }}
  - {{ address: 192.168.123.105, port: 31080, servicePort: 80, targetPort: 30001, protocol: TCP, name: http }}
  conditions:
{}
{}
{reachable}",
        verdict("Accepted", "True", "AsExpected", "it can be exposed"),
        verdict("Programmed", "True", "AsExpected", "it is served"),
    ))
}

fn all_answer() -> String {
    verdict("Reachable", "True", "AsExpected", "connected to all 2 endpoints")
}

fn one_fails() -> String {
    verdict(
        "Reachable",
        "False",
        "ConnectionFailed",
        "1 of 2 endpoints do not answer: 192.168.123.105:31080 (connection refused); 1 of 2 VMs serve; see why",
    )
}

fn cluster() -> HostedCluster {
    let text = include_str!("../../../../deploy/examples/cluster1/hostedcluster.yaml");
    let mut objects = manifest::from_yaml(text).unwrap().into_iter();
    let is_cluster = |object: &kube::core::DynamicObject| {
        object.types.as_ref().is_some_and(|types| types.kind == "HostedCluster")
    };
    let mut cluster: HostedCluster = objects.find(is_cluster).unwrap().try_parse().unwrap();
    cluster.spec.infra_id = Some("cluster1-x7k2p".to_owned());
    cluster
}

fn hosting_service() -> Service {
    yaml(
        "
metadata: { namespace: clusters-cluster1, name: expose-pets }
spec: { type: NodePort, ports: [{ name: http, port: 80, targetPort: 30001, nodePort: 31080 }] }
",
    )
}

fn machine(name: &str, pool: &str, ready: &str) -> Machine {
    let pod: Pod = yaml(&format!(
        "
metadata:
  namespace: clusters-cluster1
  name: virt-launcher-{name}
  labels:
    cluster.x-k8s.io/role: worker
    cluster.x-k8s.io/cluster-name: cluster1-x7k2p
    hypershift.openshift.io/nodepool-name: {pool}
spec: {{ nodeName: worker-1, containers: [] }}
status:
  phase: Running
  podIPs: [{{ ip: 10.244.1.7 }}]
  conditions: [{{ type: Ready, status: '{ready}' }}]
"
    ));
    Machine { pod: VmPod::of(&pod).unwrap(), name: name.to_owned() }
}

fn node(name: &str, ready: &str) -> Node {
    yaml(&format!(
        "
metadata: {{ name: {name} }}
status: {{ conditions: [{{ type: Ready, status: '{ready}' }}] }}
"
    ))
}

fn hosted_service(type_: &str) -> Service {
    yaml(&format!(
        "
metadata: {{ namespace: petclinic, name: petclinic-np }}
spec:
  type: {type_}
  selector: {{ app: petclinic, tier: web }}
  ports: [{{ name: http, port: 80, nodePort: 30001 }}]
"
    ))
}

fn ready_pod(name: &str) -> Pod {
    yaml(&format!(
        "
metadata: {{ namespace: petclinic, name: {name} }}
status: {{ phase: Running, conditions: [{{ type: Ready, status: 'True' }}] }}
"
    ))
}

fn waiting_pod(name: &str) -> Pod {
    yaml(&format!(
        "
metadata: {{ namespace: petclinic, name: {name} }}
status:
  phase: Pending
  conditions: [{{ type: Ready, status: 'False' }}]
  containerStatuses:
  - name: app
    image: registry.example/app:1
    imageID: ''
    ready: false
    restartCount: 0
    state: {{ waiting: {{ reason: ImagePullBackOff }} }}
"
    ))
}

/// Everything is as it should be; machines of another pool serve nothing.
fn well() -> Facts {
    Facts {
        exposure: served(&all_answer()),
        cluster: Ok(Some(cluster())),
        service: Ok(Some(hosting_service())),
        machines: Ok(vec![
            machine("big-b", "big", "True"),
            machine("small-a", "small", "False"),
            machine("big-a", "big", "True"),
        ]),
        hosted: Ok(Hosted {
            nodes: ["big-a", "big-b"].map(|name| node(name, "True")).into(),
            service: Some(hosted_service("NodePort")),
            pods: ["web-1", "web-2"].map(ready_pod).into(),
        }),
    }
}

fn drawn(facts: &Facts) -> String {
    view::text(&path::describe(facts))
}

fn remedies(description: &Description) -> Vec<&str> {
    description.path.iter().filter_map(|hop| hop.remedy.as_deref()).collect()
}

#[test]
fn when_all_is_well_every_hop_is_drawn_and_nothing_is_advised() {
    insta::assert_snapshot!(drawn(&well()));
    assert!(remedies(&path::describe(&well())).is_empty());
}

#[test]
fn hops_that_are_broken_say_what_to_do() {
    let facts = Facts {
        exposure: served(&one_fails()),
        machines: Ok(vec![machine("big-a", "big", "True"), machine("big-b", "big", "False")]),
        hosted: Ok(Hosted {
            nodes: vec![node("big-a", "False")],
            service: Some(hosted_service("NodePort")),
            pods: vec![waiting_pod("web-1"), ready_pod("web-2")],
        }),
        ..well()
    };
    insta::assert_snapshot!(drawn(&facts));
}

#[test]
fn when_only_an_endpoint_fails_the_advice_is_about_its_node() {
    let facts = Facts { exposure: served(&one_fails()), ..well() };
    insta::assert_yaml_snapshot!(remedies(&path::describe(&facts)));
}

#[test]
fn when_the_hosted_api_cannot_be_read_the_rest_is_shown_and_the_gap_is_told() {
    let why = "Secret clusters/cluster1-admin-kubeconfig does not exist".to_owned();
    let facts = Facts { hosted: Err(why), ..well() };
    insta::assert_snapshot!(drawn(&facts));
}

#[test]
fn when_the_exposure_is_refused_the_hop_behind_it_and_its_message_say_why() {
    let message = "spec.service: it has no node ports; set its spec.type to NodePort";
    let conditions = [
        verdict("Accepted", "False", "ServiceNotNodePort", message),
        verdict("Programmed", "False", "Blocked", "nothing is programmed"),
        verdict("Reachable", "Unknown", "Pending", "nothing is programmed"),
    ];
    let hosted = Hosted {
        nodes: vec![node("big-a", "True")],
        service: Some(hosted_service("ClusterIP")),
        pods: Vec::new(),
    };
    let facts = Facts {
        exposure: exposure(&format!("  conditions:\n{}", conditions.join("\n"))),
        service: Ok(None),
        machines: Ok(vec![machine("big-a", "big", "True")]),
        hosted: Ok(hosted),
        ..well()
    };
    insta::assert_snapshot!(drawn(&facts));
}

#[test]
fn when_nothing_is_there_every_hop_says_what_is_missing() {
    let facts = Facts {
        exposure: exposure(""),
        cluster: Ok(None),
        service: Ok(None),
        machines: Ok(Vec::new()),
        hosted: Ok(Hosted { nodes: Vec::new(), service: None, pods: Vec::new() }),
    };
    insta::assert_snapshot!(drawn(&facts));
}

#[test]
fn a_verdict_on_an_older_spec_says_nothing_about_an_endpoint() {
    let mut facts = well();
    facts.exposure.metadata.generation = Some(5);
    let description = path::describe(&facts);
    let first = description.path.first().unwrap();
    assert!(first.items.iter().all(|item| item.health == path::Health::Unknown), "{first:?}");
}

#[test]
fn as_data_it_is_the_same_description() {
    let facts = Facts { hosted: Err("no answer".to_owned()), ..well() };
    insta::assert_json_snapshot!(path::describe(&facts));
}
