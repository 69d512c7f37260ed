use std::collections::BTreeSet;

use k8s_openapi::api::core::v1::{Pod, Service};
use k8s_openapi::api::discovery::v1::EndpointSlice;
use k8s_openapi::jiff::Timestamp;
use proptest::prelude::*;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use super::*;
use crate::expose::{SeenSlice, ServiceNodes, VmPod, correction, stale_slices};

const UID: &str = "2f6b1c9e-7d34-4a58-b0e1-93c5d7f8a6b2";

fn read<T: DeserializeOwned>(value: Value) -> T {
    serde_json::from_value(value).unwrap()
}

fn merged(mut base: Value, patch: &Value) -> Value {
    fn merge(base: &mut Value, patch: &Value) {
        match (base, patch) {
            (Value::Object(base), Value::Object(patch)) => {
                for (key, value) in patch {
                    merge(base.entry(key).or_insert(Value::Null), value);
                }
            }
            (base, patch) => *base = patch.clone(),
        }
    }
    merge(&mut base, patch);
    base
}

fn cluster() -> Cluster {
    Cluster {
        control_plane_namespace: "clusters-cluster1".to_owned(),
        infra_id: "cluster1-x7k2p".to_owned(),
        is_disabled: false,
    }
}

/// A hosted Service with a single port, changed by a patch.
fn hosted(patch: &Value) -> Service {
    let base = json!({
        "metadata": { "namespace": "petclinic", "name": "web", "uid": UID },
        "spec": {
            "type": "LoadBalancer",
            "externalTrafficPolicy": "Cluster",
            "ports": [{ "name": "http", "port": 80, "protocol": "TCP", "nodePort": 30001 }],
        },
    });
    read(merged(base, patch))
}

fn marked(patch: &Value) -> Service {
    let fields = [json!({ "manager": HOSTED_FIELD_MANAGER, "operation": "Apply" })];
    hosted(&merged(json!({ "metadata": { "managedFields": fields } }), patch))
}

fn served(hosted: &Service) -> Service {
    match decide(&cluster(), hosted, None) {
        Decision::Serve { service, problem: None } => *service,
        other => panic!("not served: {other:?}"),
    }
}

#[test]
fn the_hosting_service_has_everything_that_matters_and_nothing_that_is_not_the_tenants() {
    let hosted = hosted(&json!({
        "metadata": { "annotations": {
            "metallb.io/address-pool": "blue",
            "metallb.universe.tf/loadBalancerIPs": "192.168.123.201",
            "external-dns.alpha.kubernetes.io/hostname": "bank.example",
            "metallb.io.example/address-pool": "stolen",
            "service.beta.kubernetes.io/aws-load-balancer-internal": "true",
        } },
        "spec": {
            "selector": { "app": "petclinic" },
            "clusterIP": "172.31.0.9",
            "externalIPs": ["192.0.2.1"],
            "loadBalancerClass": "remora.dev/hosting",
            "loadBalancerIP": "192.168.123.202",
            "loadBalancerSourceRanges": ["192.168.123.0/24", "203.0.113.0/24"],
            "sessionAffinity": "ClientIP",
            "sessionAffinityConfig": { "clientIP": { "timeoutSeconds": 600 } },
            "ipFamilies": ["IPv4"],
            "ipFamilyPolicy": "SingleStack",
            "internalTrafficPolicy": "Local",
            "healthCheckNodePort": 32000,
            "ports": [
                { "name": "dns", "port": 53, "protocol": "TCP", "targetPort": "dns", "nodePort": 30053 },
                { "name": "dns-udp", "port": 53, "protocol": "UDP", "targetPort": "dns", "nodePort": 30054 },
                { "name": "web", "port": 443, "protocol": "TCP", "appProtocol": "https", "nodePort": 30001 },
                { "name": "phone", "port": 5060, "protocol": "SCTP", "nodePort": 30002 },
            ],
        },
    }));
    insta::assert_yaml_snapshot!(served(&hosted));
}

#[test]
fn where_both_families_are_preferred_the_hosting_cluster_chooses() {
    let spec = json!({ "spec": {
        "ipFamilies": ["IPv4", "IPv6"], "ipFamilyPolicy": "PreferDualStack",
    } });
    let spec = served(&hosted(&spec)).spec.unwrap();
    assert_eq!(
        (spec.ip_families, spec.ip_family_policy),
        (None, Some("PreferDualStack".to_owned()))
    );
    let spec = json!({ "spec": {
        "ipFamilies": ["IPv6", "IPv4"], "ipFamilyPolicy": "RequireDualStack",
    } });
    let spec = served(&hosted(&spec)).spec.unwrap();
    assert_eq!(spec.ip_families, Some(vec!["IPv6".to_owned(), "IPv4".to_owned()]));
}

#[test]
fn a_port_without_node_port_is_never_targeted_and_the_others_are_served() {
    let ports = json!({ "spec": { "allocateLoadBalancerNodePorts": false, "ports": [
        { "name": "http", "port": 80, "protocol": "TCP", "nodePort": 30001 },
        { "name": "https", "port": 443, "protocol": "TCP", "nodePort": 0 },
        { "port": 53, "protocol": "UDP" },
    ] } });
    let Decision::Serve { service, problem: Some(problem) } =
        decide(&cluster(), &hosted(&ports), None)
    else {
        panic!("not served in part")
    };
    let targets: Vec<_> = service
        .spec
        .iter()
        .flat_map(|spec| spec.ports.iter().flatten())
        .map(|port| (port.port, port.target_port.clone()))
        .collect();
    assert_eq!(
        targets,
        [(80, Some(k8s_openapi::apimachinery::pkg::util::intstr::IntOrString::Int(30001)))]
    );
    insta::assert_snapshot!(problem);

    let ports = json!({ "spec": { "ports": [{ "port": 443, "protocol": "TCP" }] } });
    let decision = decide(&cluster(), &hosted(&ports), None);
    assert!(
        matches!(&decision, Decision::Withdraw(Some(Problem::NodePortMissing { .. }))),
        "{decision:?}"
    );
}

#[test]
fn what_asks_for_no_load_balancer_of_ours_is_left_alone_or_let_go() {
    let off = Cluster { is_disabled: true, ..cluster() };
    let cases = [
        (cluster(), json!({ "spec": { "type": "NodePort" } })),
        (cluster(), json!({ "spec": { "loadBalancerClass": "metallb.example/inside" } })),
        (cluster(), json!({ "metadata": { "deletionTimestamp": "2026-12-01T00:00:00Z" } })),
        (off, json!({})),
    ];
    for (cluster, patch) in cases {
        let own = served(&hosted(&json!({})));
        assert_eq!(decide(&cluster, &hosted(&patch), None), Decision::Leave, "{patch}");
        assert_eq!(
            decide(&cluster, &hosted(&patch), Some(&own)),
            Decision::Withdraw(None),
            "{patch}"
        );
        assert_eq!(decide(&cluster, &marked(&patch), None), Decision::Withdraw(None), "{patch}");
        assert!(is_concerned(&marked(&patch)), "{patch}");
    }
    assert!(!is_concerned(&hosted(&json!({ "spec": { "type": "NodePort" } }))));
    assert!(!is_concerned(&hosted(&json!({ "spec": { "loadBalancerClass": "other" } }))));
}

#[test]
fn only_services_that_remora_made_for_this_cluster_are_its_own() {
    let own = served(&hosted(&json!({})));
    assert!(is_made_here(&cluster(), &own));
    let other = Cluster { infra_id: "cluster2-b3d4f".to_owned(), ..cluster() };
    assert!(!is_made_here(&other, &own));
    let other = Cluster { control_plane_namespace: "clusters-cluster2".to_owned(), ..cluster() };
    assert!(!is_made_here(&other, &own));
    let mut foreign = own.clone();
    foreign.metadata.labels.as_mut().unwrap().remove(labels::MANAGED_BY);
    assert!(!is_made_here(&cluster(), &foreign));
}

#[test]
fn what_others_add_to_a_hosting_service_is_taken_away_and_what_the_api_server_adds_stays() {
    let desired = served(&hosted(&json!({})));
    let mut live = desired.clone();
    let spec = live.spec.as_mut().unwrap();
    spec.cluster_ip = Some("10.96.0.9".to_owned());
    spec.ports.as_mut().unwrap()[0].node_port = Some(31234);
    assert_eq!(correction(&desired, &live), None);

    let spec = live.spec.as_mut().unwrap();
    spec.ports
        .as_mut()
        .unwrap()
        .push(read(json!({ "name": "more", "port": 80, "protocol": "UDP", "targetPort": 53 })));
    spec.external_ips = Some(vec!["192.0.2.66".to_owned()]);
    spec.load_balancer_ip = Some("192.0.2.67".to_owned());
    spec.load_balancer_source_ranges = Some(vec!["0.0.0.0/0".to_owned()]);
    assert_eq!(
        correction(&desired, &live),
        Some(json!({ "spec": {
            "externalIPs": null,
            "loadBalancerIP": null,
            "loadBalancerSourceRanges": null,
            "ports": [{
                "name": "http", "port": 80, "protocol": "TCP", "targetPort": 30001, "nodePort": 31234,
            }],
        } }))
    );
    assert_eq!(correction(&local(), &desired), Some(json!({ "spec": { "selector": null } })));

    let mut narrowed = desired.clone();
    let selector = narrowed.spec.as_mut().unwrap().selector.as_mut().unwrap();
    selector.insert("zone".to_owned(), "a".to_owned());
    assert_eq!(
        correction(&desired, &narrowed),
        Some(json!({ "spec": { "selector": { "zone": null } } }))
    );
}

fn machine(name: &str, pool: &str, addresses: &[&str], is_ready: bool) -> VmPod {
    let pod: Pod = read(json!({
        "metadata": {
            "namespace": "clusters-cluster1",
            "name": format!("virt-launcher-{name}-abcde"),
            "uid": format!("uid-{name}"),
            "labels": {
                labels::CAPI_ROLE: labels::CAPI_ROLE_WORKER,
                labels::CAPI_CLUSTER_NAME: "cluster1-x7k2p",
                labels::CAPK_MACHINE_NAME: name,
                labels::NODE_POOL_NAME: pool,
            },
        },
        "spec": { "nodeName": "worker-2", "containers": [] },
        "status": {
            "phase": "Running",
            "podIPs": addresses.iter().map(|ip| json!({ "ip": ip })).collect::<Vec<_>>(),
            "conditions": [{ "type": "Ready", "status": if is_ready { "True" } else { "False" } }],
        },
    }));
    VmPod::of(&pod).unwrap()
}

fn local() -> Service {
    let mut service = served(&hosted(&json!({ "spec": { "externalTrafficPolicy": "Local" } })));
    service.metadata.uid = Some("uid-of-the-hosting-service".to_owned());
    service
}

#[test]
fn with_policy_local_only_vms_with_ready_pods_serve() {
    let slices_inside: Vec<EndpointSlice> = [
        json!([
            { "addresses": ["10.132.0.2"], "nodeName": "vm-a", "conditions": { "ready": true } },
            { "addresses": ["10.132.0.3"], "nodeName": "vm-a", "conditions": { "ready": false } },
            { "addresses": ["10.132.1.2"], "nodeName": "vm-b", "conditions": { "ready": false } },
            { "addresses": ["192.0.2.7"], "conditions": { "ready": true } },
        ]),
        json!([{ "addresses": ["10.132.2.2"], "nodeName": "vm-c" }]),
    ]
    .into_iter()
    .map(|endpoints| {
        read(json!({
            "metadata": { "namespace": "petclinic", "name": "web-1", "labels": { "kubernetes.io/service-name": "web" } },
            "addressType": "IPv4",
            "endpoints": endpoints,
        }))
    })
    .collect();
    let seen: Vec<ServiceNodes> = slices_inside.iter().filter_map(ServiceNodes::of).collect();
    let nodes: BTreeSet<String> = seen.into_iter().flat_map(|seen| seen.nodes).collect();
    assert_eq!(nodes, ["vm-a", "vm-c"].map(str::to_owned).into());

    let machines = [
        machine("vm-a", "small", &["fe80::1", "169.254.1.1", "10.1.0.7", "2001:db8::7"], true),
        machine("vm-b", "small", &["10.1.0.8"], true),
        machine("vm-c", "big", &["10.1.0.9"], false),
        machine("vm-d", "big", &["10.1.0.10"], true),
    ];
    let service = local();
    assert_eq!(service.spec.as_ref().unwrap().selector, None);
    insta::assert_yaml_snapshot!(slices(&cluster(), &service, &nodes, &machines));

    let by_label = served(&hosted(&json!({})));
    assert_eq!(slices(&cluster(), &by_label, &nodes, &machines), []);
}

#[test]
fn a_slice_without_a_service_and_a_pod_that_is_no_vm_say_nothing() {
    let slice = json!({
        "metadata": { "namespace": "petclinic", "name": "by-hand" },
        "addressType": "IPv4",
        "endpoints": [{ "addresses": ["10.132.0.2"], "nodeName": "vm-a" }],
    });
    assert_eq!(ServiceNodes::of(&read(slice)), None);
    let pod =
        json!({ "metadata": { "namespace": "n", "name": "web", "labels": { "app": "web" } } });
    assert_eq!(VmPod::of(&read(pod)), None);
}

#[test]
fn slices_of_a_lost_selector_go_and_own_ones_stay_until_a_selector_has_replaced_them() {
    let seen = |name: &str, is_own| SeenSlice {
        namespace: "clusters-cluster1".to_owned(),
        name: name.to_owned(),
        service: "a1".to_owned(),
        is_own,
        resource_version: None,
    };
    let names = |stale: Vec<&SeenSlice>| {
        stale.into_iter().map(|slice| slice.name.clone()).collect::<Vec<_>>()
    };
    let service = local();
    let nodes = ["vm-a".to_owned()].into();
    let wanted = slices(&cluster(), &service, &nodes, &[machine("vm-a", "p", &["10.1.0.7"], true)]);
    let kept = wanted[0].metadata.name.clone().unwrap();
    let all = [seen(&kept, true), seen("a1-ipv4-1", true), seen("a1-k8s9f", false)];
    assert_eq!(names(stale_slices(&service, &wanted, &all)), ["a1-ipv4-1", "a1-k8s9f"]);

    let by_label = served(&hosted(&json!({})));
    assert_eq!(names(stale_slices(&by_label, &[], &all[..2])), Vec::<String>::new());
    assert_eq!(names(stale_slices(&by_label, &[], &all)), [kept.as_str(), "a1-ipv4-1"]);
}

fn at(second: i64) -> Timestamp {
    Timestamp::from_second(1_780_000_000 + second).unwrap()
}

fn with_address(ingress: &Value) -> Service {
    let mut service = served(&hosted(&json!({})));
    service.status = read(json!({ "loadBalancer": { "ingress": ingress } }));
    service
}

/// What the API server makes of a report.
fn told(service: &mut Service, report: &Report) {
    let status = json!({
        "loadBalancer": report.patch["status"]["loadBalancer"],
        "conditions": report.patch["status"]["conditions"],
    });
    service.status = read(status);
}

#[test]
fn the_address_flows_back_and_each_change_is_told_once() {
    let mut service = hosted(&json!({}));
    let refused = Problem::Refused {
        service: service_name(UID),
        message: "spec.ipFamilies[0]: IPv6 is not configured on this cluster".to_owned(),
    };
    let address = json!([{ "ip": "192.168.123.200", "ipMode": "VIP", "ports": [{ "port": 80, "protocol": "TCP" }] }]);
    let steps = [
        (None, None),
        (Some(with_address(&json!([]))), None),
        (Some(with_address(&address)), None),
        (
            Some(with_address(
                &json!([{ "hostname": "lb.example" }, { "ip": "192.168.123.201", "ipMode": "VIP" }]),
            )),
            None,
        ),
        (Some(with_address(&address)), Some(&refused)),
        (None, None),
    ];
    let mut seen = Vec::new();
    for (second, (own, problem)) in (0..).zip(steps) {
        let written = report(&service, own.as_ref(), problem, at(second));
        if let Some(report) = &written {
            told(&mut service, report);
        }
        assert_eq!(report(&service, own.as_ref(), problem, at(100)), None, "told again");
        seen.push(written.map(|report| {
            let news = report.news.map(|news| (news.is_warning, news.reason, news.note));
            (report.patch, news)
        }));
    }
    insta::assert_yaml_snapshot!(seen);
}

#[test]
fn a_service_that_is_let_go_loses_what_remora_wrote_and_nothing_else() {
    let status = json!({ "status": {
        "loadBalancer": { "ingress": [{ "ip": "192.168.123.200" }] },
        "conditions": [{
            "type": CONDITION, "status": "True", "reason": "Ensured", "message": "",
            "lastTransitionTime": "2026-12-01T00:00:00Z",
        }],
    } });
    let release_patch =
        |service: &Service| release(service).map(|report| report.patch["status"].clone());
    let removed = json!({ "type": CONDITION, "$patch": "delete" });
    assert_eq!(
        release_patch(&hosted(&status)),
        Some(json!({ "loadBalancer": { "ingress": null }, "conditions": [removed] }))
    );
    // Another controller serves it now: the address is its own.
    let class = merged(json!({ "spec": { "loadBalancerClass": "other" } }), &status);
    assert_eq!(release_patch(&hosted(&class)), Some(json!({ "conditions": [removed] })));
    assert_eq!(release_patch(&hosted(&json!({}))), None);
    let going =
        merged(json!({ "metadata": { "deletionTimestamp": "2026-12-01T00:00:00Z" } }), &status);
    assert_eq!(release_patch(&hosted(&going)), None);
}

fn is_label_value(value: &str) -> bool {
    let is_end = |c: char| c.is_ascii_alphanumeric();
    value.len() <= 63 && value.starts_with(is_end) && value.ends_with(is_end)
}

proptest! {
    #[test]
    fn names_and_labels_stay_within_limits_and_services_never_meet(
        one in "[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}",
        other in "[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}",
        name in "[a-z]([-a-z0-9]{0,100}[a-z0-9])?",
    ) {
        let service = |uid: &str| served(&hosted(&json!({ "metadata": { "name": name, "uid": uid } })));
        let (first, second) = (service(&one), service(&other));
        let first_name = first.metadata.name.clone().unwrap();
        prop_assert_eq!(first_name.len(), 32);
        prop_assert!(first_name.starts_with('a') && first_name.chars().all(|c| c.is_ascii_hexdigit()));
        // The last digit of the UID does not fit.
        prop_assert_eq!(first_name == second.metadata.name.unwrap(), one[..35] == other[..35]);
        for value in first.metadata.labels.unwrap().values() {
            prop_assert!(is_label_value(value), "{value}");
        }
        prop_assert_eq!(
            &first.metadata.annotations.unwrap()[labels::HOSTED_SERVICE],
            &format!("petclinic/{name}")
        );
    }

    #[test]
    fn every_serving_vm_of_this_cluster_is_in_one_slice_and_no_other_vm_is_in_any(
        mine in 0_usize..260,
        others in 0_usize..20,
    ) {
        let machines: Vec<VmPod> = (0..mine + others)
            .map(|number| {
                let address = format!("10.1.{}.{}", number / 250, number % 250 + 1);
                let mut machine = machine(&format!("vm-{number}"), "p", &[&address], true);
                if number >= mine {
                    // Another cluster's VM of the same name.
                    let VmPod { namespace, infra_id, .. } = &mut machine;
                    if number % 2 == 0 {
                        *infra_id = "cluster2-b3d4f".to_owned();
                    } else {
                        *namespace = "clusters-cluster2".to_owned();
                    }
                }
                machine
            })
            .collect();
        let nodes = machines.iter().map(|machine| machine.machine.clone()).collect();
        let slices = slices(&cluster(), &local(), &nodes, &machines);
        let mut served: Vec<String> = slices
            .iter()
            .flat_map(|slice| slice.endpoints.iter().flat_map(|endpoint| endpoint.addresses.clone()))
            .collect();
        let mut expected: Vec<String> =
            machines[..mine].iter().flat_map(|machine| machine.addresses.clone()).collect();
        served.sort();
        expected.sort();
        prop_assert_eq!(served, expected);
        prop_assert!(slices.iter().all(|slice| slice.endpoints.len() <= 100));
        let names: BTreeSet<_> = slices.iter().map(|slice| slice.metadata.name.clone()).collect();
        prop_assert_eq!(names.len(), slices.len());
    }
}
