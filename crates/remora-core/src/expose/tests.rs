use serde::de::DeserializeOwned;

use super::*;

fn yaml<T: DeserializeOwned>(text: &str) -> T {
    serde_saphyr::from_str(text).unwrap()
}

fn exposure(name: &str, created: &str, more: &str) -> ServiceExposure {
    yaml(&format!(
        "
apiVersion: remora.dev/v1alpha1
kind: ServiceExposure
metadata: {{ namespace: clusters, name: {name}, uid: uid-{name}, creationTimestamp: '2026-01-01T00:00:{created}Z' }}
spec:
  clusterName: cluster1
  service: {{ namespace: petclinic, name: petclinic-np }}
  {more}
"
    ))
}

fn hosted_service() -> HostedService {
    let service: Service = yaml(
        "
metadata: { namespace: petclinic, name: petclinic-np }
spec:
  type: NodePort
  sessionAffinity: ClientIP
  sessionAffinityConfig: { clientIP: { timeoutSeconds: 600 } }
  ports:
  - { name: http, port: 8080, nodePort: 30001, appProtocol: http }
  - { name: https, port: 8443, nodePort: 30002 }
  - { port: 8778, nodePort: 30003, protocol: UDP }
",
    );
    HostedService::of(&service).unwrap()
}

fn cluster() -> ClusterView {
    ClusterView {
        infra_id: "cluster1-x7k2p".to_owned(),
        control_plane_namespace: "clusters-cluster1".to_owned(),
        is_deleting: false,
        node_pools: ["big", "small"].map(str::to_owned).into(),
    }
}

fn shop() -> Service {
    yaml(
        "
metadata: { namespace: shop, name: web }
spec: { type: NodePort, ports: [{ port: 80, nodePort: 30002 }] }
",
    )
}

/// Decides one exposure that is alone.
fn decide_one(
    exposure: &ServiceExposure,
    hosted: HostedView<'_>,
    own: Option<&Service>,
    others: &[Service],
) -> Decision {
    let cluster = cluster();
    let candidate = Candidate { exposure, cluster: Some(&cluster), hosted, nodes: None, own };
    decide(&[candidate], others.iter().chain(own)).remove(&rank(exposure)).unwrap()
}

fn served(decision: Decision) -> Served {
    match decision {
        Decision::Served(served) => *served,
        other => panic!("not served: {other:?}"),
    }
}

#[test]
fn the_hosting_service_selects_the_vms_and_targets_the_hosted_node_ports() {
    let hosted = hosted_service();
    let exposure = exposure("petclinic", "10", "");
    let served = served(decide_one(&exposure, HostedView::Present(&hosted), None, &[]));
    insta::assert_yaml_snapshot!(served.service);
}

#[test]
fn a_pool_and_ports_narrow_the_service_and_a_taken_port_is_left_to_the_api_server() {
    let hosted = hosted_service();
    let exposure = exposure(
        "petclinic",
        "10",
        "nodePools: [big]\n  ports: [{ port: https }, { port: 8080, nodePort: 31001 }]",
    );
    let served = served(decide_one(&exposure, HostedView::Present(&hosted), None, &[shop()]));
    insta::assert_yaml_snapshot!(served.service);
    assert_eq!(
        served.ports.into_iter().map(|(_, choice)| choice).collect::<Vec<_>>(),
        [
            Choice::Asked(31001),
            Choice::Substitute {
                kept: None,
                cause: Cause::InUse { holder: Some("Service shop/web".to_owned()) }
            }
        ]
    );
}

fn pod(name: &str, pool: &str, address: &str, is_ready: bool) -> VmPod {
    VmPod {
        namespace: "clusters-cluster1".to_owned(),
        name: name.to_owned(),
        uid: format!("uid-{name}"),
        machine: format!("vm-{name}"),
        node: Some("worker-2".to_owned()),
        infra_id: "cluster1-x7k2p".to_owned(),
        node_pool: pool.to_owned(),
        addresses: vec![address.to_owned()],
        is_ready,
        is_terminating: false,
    }
}

#[test]
fn several_pools_get_endpoint_slices_of_their_vms() {
    let hosted = hosted_service();
    let exposure = exposure("petclinic", "10", "nodePools: [big, small]");
    let served = served(decide_one(&exposure, HostedView::Present(&hosted), None, &[]));
    let other_cluster = VmPod { infra_id: "other".to_owned(), ..pod("d", "big", "10.1.0.9", true) };
    let pods = [
        pod("b", "small", "10.1.0.8", false),
        pod("a", "big", "10.1.0.7", true),
        pod("c", "third", "10.1.0.6", true),
        other_cluster,
    ];
    let backends = backends(&exposure, &cluster(), None, &pods);
    insta::assert_yaml_snapshot!((
        &served.service.spec.as_ref().unwrap().selector,
        slices(&served.service, &backends)
    ));
}

/// Decides one exposure of a Service with `externalTrafficPolicy: Local`.
fn decide_local(exposure: &ServiceExposure, nodes: Option<&BTreeSet<String>>) -> Decision {
    let hosted = HostedService { is_local: true, ..hosted_service() };
    let cluster = cluster();
    let hosted = HostedView::Present(&hosted);
    let candidate = Candidate { exposure, cluster: Some(&cluster), hosted, nodes, own: None };
    decide(&[candidate], []).remove(&rank(exposure)).unwrap()
}

#[test]
fn with_policy_local_the_vms_with_ready_pods_serve_and_the_clients_address_is_kept() {
    let nodes: BTreeSet<String> = ["vm-a", "vm-c", "vm-e"].map(str::to_owned).into();
    let exposure = exposure("petclinic", "10", "nodePools: [big]");
    let served = served(decide_local(&exposure, Some(&nodes)));
    let spec = served.service.spec.clone().unwrap();
    assert_eq!(spec.external_traffic_policy.as_deref(), Some("Local"));
    assert_eq!(spec.selector, None);
    let pods = [
        pod("a", "big", "10.1.0.7", true),
        pod("b", "big", "10.1.0.8", true),
        pod("c", "small", "10.1.0.9", true),
        pod("e", "big", "10.1.0.10", false),
    ];
    let backends = backends(&exposure, &cluster(), Some(&nodes), &pods);
    let slices = slices(&served.service, &backends);
    let told = slices.iter().flat_map(|slice| &slice.endpoints).map(|endpoint| {
        let is_ready = endpoint.conditions.as_ref().and_then(|conditions| conditions.ready);
        (endpoint.addresses.join(","), is_ready, endpoint.node_name.clone())
    });
    let worker = Some("worker-2".to_owned());
    assert_eq!(
        told.collect::<Vec<_>>(),
        [
            ("10.1.0.7".to_owned(), Some(true), worker.clone()),
            ("10.1.0.10".to_owned(), Some(false), worker)
        ]
    );
}

#[test]
fn with_policy_local_nothing_is_decided_before_the_hosted_slices_are_known() {
    let exposure = exposure("petclinic", "10", "");
    let decision = decide_local(&exposure, None);
    let Decision::Waiting { reason, message } = decision else { panic!("{decision:?}") };
    assert_eq!(reason, Reason::HostedClusterNotAvailable);
    insta::assert_snapshot!(message);
    assert!(matches!(decide_local(&exposure, Some(&BTreeSet::new())), Decision::Served(_)));
}

#[test]
fn what_the_service_has_is_kept_when_everything_is_seen_again() {
    let hosted = hosted_service();
    let exposure = exposure("petclinic", "10", "");
    let view = HostedView::Present(&hosted);
    let mut live = served(decide_one(&exposure, view, None, &[shop()])).service;
    live.spec.as_mut().unwrap().ports.as_mut().unwrap()[1].node_port = Some(31234);

    let again = served(decide_one(&exposure, view, Some(&live), &[shop()]));
    assert_eq!(again.service, live);
    let after_the_shop_closed = served(decide_one(&exposure, view, Some(&live), &[]));
    assert_eq!(after_the_shop_closed.service, live);
}

#[test]
fn when_the_hosted_node_port_changes_the_hosting_one_follows() {
    let mut hosted = hosted_service();
    let exposure = exposure("petclinic", "10", "ports: [{ port: http }]");
    let live = served(decide_one(&exposure, HostedView::Present(&hosted), None, &[])).service;
    hosted.ports[0].node_port = Some(30009);
    let next = served(decide_one(&exposure, HostedView::Present(&hosted), Some(&live), &[]));
    let port = next.service.spec.unwrap().ports.unwrap().remove(0);
    assert_eq!(port.node_port, Some(30009));
    assert_eq!(serde_json::to_value(port.target_port).unwrap(), 30009);
}

#[test]
fn when_the_hosted_api_does_not_answer_nothing_is_decided() {
    let exposure = exposure("petclinic", "10", "");
    let decision = decide_one(&exposure, HostedView::Unknown, None, &[]);
    let Decision::Waiting { reason, message } = decision else { panic!("{decision:?}") };
    assert_eq!(reason, Reason::HostedClusterNotAvailable);
    insta::assert_snapshot!(message);
}

#[test]
fn of_two_that_want_one_port_the_older_has_it_and_the_younger_is_told_by_whom() {
    let hosted = hosted_service();
    let cluster = cluster();
    let ports = "ports: [{ port: http, nodePort: 31001 }]";
    let (young, old) = (exposure("young", "20", ports), exposure("old", "10", ports));
    let candidate = |exposure| Candidate {
        exposure,
        cluster: Some(&cluster),
        hosted: HostedView::Present(&hosted),
        nodes: None,
        own: None,
    };
    let decisions = decide(&[candidate(&young), candidate(&old)], []);
    assert!(matches!(decisions[&rank(&old)], Decision::Served(_)));
    let Decision::Refused(refusal) = &decisions[&rank(&young)] else { panic!("{decisions:?}") };
    insta::assert_snapshot!(refusal);
}

#[test]
fn refusals_name_object_field_and_remedy() {
    let hosted = hosted_service();
    let cluster_ip = HostedService { type_: "ClusterIP".to_owned(), ..hosted.clone() };
    let plain = exposure("petclinic", "10", "");
    let present = HostedView::Present(&hosted);
    let gone = ClusterView { is_deleting: true, ..cluster() };
    let without = |cluster| {
        let candidate =
            Candidate { exposure: &plain, cluster, hosted: present, nodes: None, own: None };
        decide(&[candidate], []).remove(&rank(&plain)).unwrap()
    };
    let decisions = [
        without(None),
        without(Some(&gone)),
        decide_one(&exposure("e", "10", "nodePools: [big, huge]"), present, None, &[]),
        decide_one(&plain, HostedView::Absent, None, &[]),
        decide_one(&plain, HostedView::Present(&cluster_ip), None, &[]),
        decide_one(&exposure("e", "10", "ports: [{ port: 9090 }]"), present, None, &[]),
        decide_one(
            &exposure("e", "10", "ports: [{ port: http, nodePort: 30002 }]"),
            present,
            None,
            &[shop()],
        ),
    ];
    let told: Vec<(String, String)> = decisions
        .into_iter()
        .map(|decision| match decision {
            Decision::Refused(refusal) => (refusal.reason().to_string(), refusal.to_string()),
            other => panic!("not refused: {other:?}"),
        })
        .collect();
    insta::assert_yaml_snapshot!(told);
}

#[test]
fn a_service_that_is_being_deleted_counts_as_absent() {
    let service: Service = yaml(
        "
metadata: { namespace: a, name: b, deletionTimestamp: '2026-01-01T00:00:00Z' }
spec: { type: NodePort, ports: [{ port: 80, nodePort: 30001 }] }
",
    );
    assert_eq!(HostedService::of(&service), None);
}

#[test]
fn a_pod_is_a_backend_when_it_is_a_workers_vm_and_runs() {
    let pod = |role: &str, phase: &str| -> Pod {
        yaml(&format!(
            "
metadata:
  namespace: clusters-cluster1
  name: virt-launcher-a
  uid: u
  labels: {{ cluster.x-k8s.io/role: {role}, cluster.x-k8s.io/cluster-name: i, hypershift.openshift.io/nodepool-name: big, capk.cluster.x-k8s.io/kubevirt-machine-name: vm-a }}
spec: {{ nodeName: worker-1, containers: [] }}
status: {{ phase: {phase}, podIPs: [{{ ip: 10.1.0.7 }}], conditions: [{{ type: Ready, status: 'True' }}] }}
"
        ))
    };
    let found = VmPod::of(&pod("worker", "Running")).unwrap();
    assert!(found.is_serving());
    assert_eq!(found.machine, "vm-a");
    assert_eq!((found.node_pool.as_str(), found.addresses), ("big", vec!["10.1.0.7".to_owned()]));
    assert_eq!(VmPod::of(&pod("worker", "Succeeded")), None);
    assert_eq!(VmPod::of(&pod("control-plane", "Running")), None);
}
