use remora_api::service_exposure::Protocol;
use serde::de::DeserializeOwned;

use super::*;
use crate::expose::{Refusal, Selected};

fn yaml<T: DeserializeOwned>(text: &str) -> T {
    serde_saphyr::from_str(text).unwrap()
}

fn live_service() -> Service {
    yaml(
        "
metadata: { namespace: clusters-cluster1, name: expose-petclinic }
spec:
  type: NodePort
  ipFamilies: [IPv4]
  ports:
  - { name: http, port: 8080, protocol: TCP, targetPort: 30001, nodePort: 31234 }
  - { name: dns, port: 53, protocol: UDP, targetPort: 30053, nodePort: 30053 }
",
    )
}

fn nodes() -> Vec<HostingNode> {
    [("worker-2", "192.168.123.105"), ("worker-1", "192.168.123.104")]
        .map(|(name, address)| HostingNode {
            name: name.to_owned(),
            addresses: vec![address.parse().unwrap(), "fd00::1".parse().unwrap()],
        })
        .into()
}

fn served() -> Decision {
    let hosted: Service = yaml(
        "
metadata: { namespace: petclinic, name: petclinic-np }
spec: { type: NodePort, ports: [{ name: http, port: 8080, nodePort: 30001 }, { name: dns, port: 53, nodePort: 30053, protocol: UDP }] }
",
    );
    let hosted = crate::expose::HostedService::of(&hosted).unwrap();
    let holder = Some("Service shop/web".to_owned());
    let choices = [
        Choice::Substitute { kept: None, cause: Cause::InUse { holder } },
        Choice::Preferred(30053),
    ];
    let select = |port: &crate::expose::HostedPort| Selected {
        hosted: port.clone(),
        target: port.node_port.unwrap(),
        asked: None,
    };
    let ports = hosted.ports.iter().map(select).zip(choices).collect();
    Decision::Served(Box::new(Served { service: live_service(), ports }))
}

fn at(second: i64) -> Timestamp {
    Timestamp::from_second(1_800_000_000 + second).unwrap()
}

fn probing(failure: Option<&str>, serving: usize) -> Probing {
    let probes = endpoints(&live_service(), &nodes(), &[])
        .into_iter()
        .filter(|endpoint| endpoint.protocol.as_str() == "TCP")
        .map(|endpoint| Probe { endpoint, failure: failure.map(str::to_owned) })
        .collect();
    Probing::Tried { probes, machines: 2, serving }
}

#[test]
fn every_address_of_every_hosting_node_is_an_endpoint_of_every_port() {
    let told: Vec<String> = endpoints(&live_service(), &nodes(), &[]).iter().map(told).collect();
    assert_eq!(
        told,
        [
            "192.168.123.104:31234",
            "192.168.123.104:30053",
            "192.168.123.105:31234",
            "192.168.123.105:30053"
        ]
    );
}

fn machine(node: &str, is_ready: bool) -> VmPod {
    VmPod {
        namespace: "clusters-cluster1".to_owned(),
        name: format!("virt-launcher-on-{node}"),
        uid: format!("uid-on-{node}"),
        machine: format!("vm-on-{node}"),
        node: Some(node.to_owned()),
        infra_id: "cluster1-x7k2p".to_owned(),
        node_pool: "big".to_owned(),
        addresses: Vec::new(),
        is_ready,
        is_terminating: false,
    }
}

#[test]
fn with_policy_local_only_hosting_nodes_with_a_serving_vm_are_endpoints() {
    let mut service = live_service();
    service.spec.as_mut().unwrap().external_traffic_policy = Some("Local".to_owned());
    let machines = [machine("worker-1", false), machine("worker-2", true)];
    let found: Vec<String> = endpoints(&service, &nodes(), &machines).iter().map(told).collect();
    assert_eq!(found, ["192.168.123.105:31234", "192.168.123.105:30053"]);

    let unready = &machines[..1];
    assert_eq!(endpoints(&service, &nodes(), unready), []);
    let probing = Probing::Tried { probes: Vec::new(), machines: 1, serving: 0 };
    let verdict = reachable(Some(&service), &[], &probing);
    assert_eq!((verdict.status, verdict.reason), ("False", Reason::NoEndpoints));
    insta::assert_snapshot!(verdict.message);
}

#[test]
fn an_exposure_that_is_reachable_says_where_and_why_its_port_differs() {
    let service = live_service();
    let endpoints = endpoints(&service, &nodes(), &[]);
    let status = status(
        7,
        None,
        &served(),
        &Programming::Done(Box::new(service.clone())),
        (endpoints, &probing(None, 2)),
        at(1),
    );
    insta::assert_yaml_snapshot!(status);
}

#[test]
fn a_refused_exposure_has_no_endpoint() {
    let refusal =
        Refusal::NodePortTaken { index: 0, port: 31001, holder: "Service shop/web".to_owned() };
    let decision = Decision::Refused(refusal);
    let nothing = (Vec::new(), &Probing::NotTried);
    let status = status(7, None, &decision, &Programming::Absent, nothing, at(1));
    insta::assert_yaml_snapshot!(status);
}

#[test]
fn endpoints_that_do_not_answer_are_named_with_how_many_vms_serve() {
    let told = |probing: &Probing| {
        let verdict =
            reachable(Some(&live_service()), &endpoints(&live_service(), &nodes(), &[]), probing);
        (verdict.status, verdict.reason.as_str(), verdict.message)
    };
    insta::assert_yaml_snapshot!([
        told(&probing(Some("connection refused"), 0)),
        told(&probing(Some("no answer within 2 s"), 1)),
        told(&Probing::Tried { probes: Vec::new(), machines: 2, serving: 2 }),
    ]);
}

#[test]
fn what_each_endpoint_answered_can_be_read_back() {
    let endpoint = |last: u8| ExposureEndpoint {
        address: format!("192.168.123.{last}"),
        port: 31080,
        service_port: 80,
        target_port: 30001,
        protocol: Protocol::Tcp,
        name: None,
    };
    let endpoints: Vec<ExposureEndpoint> = (1..=6).map(endpoint).collect();
    let read_back = |failures: &[Option<&str>]| -> Vec<Answer> {
        let tried = endpoints.iter().zip(failures);
        let probes = tried.map(|(endpoint, failure)| Probe {
            endpoint: endpoint.clone(),
            failure: failure.map(str::to_owned),
        });
        let probing = Probing::Tried { probes: probes.collect(), machines: 2, serving: 2 };
        let verdict = reachable(None, &endpoints, &probing);
        let written = condition(ExposureConditionType::Reachable, &verdict, 7, &[], at(1));
        endpoints.iter().map(|endpoint| answer(&written, endpoint)).collect()
    };
    let no = |why: &str| Answer::No(why.to_owned());
    let slow = "Connection timed out (os error 110)";
    assert_eq!(read_back(&[None; 6]), [const { Answer::Yes }; 6]);
    assert_eq!(
        read_back(&[None, Some(slow), None, Some("connection refused"), None, None]),
        [Answer::Yes, no(slow), Answer::Yes, no("connection refused"), Answer::Yes, Answer::Yes]
    );
    assert_eq!(
        read_back(&[
            Some("connection reset"),
            None,
            Some(slow),
            Some("no IP address"),
            None,
            Some(slow)
        ]),
        [
            no("connection reset"),
            Answer::Unknown,
            no(slow),
            no("no IP address"),
            Answer::Unknown,
            Answer::Unknown
        ]
    );

    let udp = ExposureEndpoint { protocol: Protocol::Udp, ..endpoint(1) };
    let verdict = Verdict::yes(Reason::AsExpected, "connected to all 6 endpoints");
    let written = condition(ExposureConditionType::Reachable, &verdict, 7, &[], at(1));
    assert_eq!(answer(&written, &udp), Answer::Unknown);
    let verdict = Verdict::unknown(Reason::Pending, "nothing is programmed");
    let written = condition(ExposureConditionType::Reachable, &verdict, 7, &[], at(1));
    assert_eq!(answer(&written, &endpoint(1)), Answer::Unknown);
}

#[test]
fn the_transition_time_moves_only_with_the_status() {
    let service = live_service();
    let seen = |last: Option<&ServiceExposureStatus>, failure, second| {
        let endpoints = endpoints(&service, &nodes(), &[]);
        let seen = (endpoints, &probing(failure, 2));
        status(7, last, &served(), &Programming::Done(Box::new(service.clone())), seen, at(second))
    };
    let first = seen(None, Some("connection refused"), 1);
    let second = seen(Some(&first), Some("no answer within 2 s"), 2);
    let third = seen(Some(&second), None, 3);
    let times = |status: &ServiceExposureStatus| {
        status.conditions.iter().map(|c| c.last_transition_time.0).collect::<Vec<_>>()
    };
    assert_eq!(times(&second), [at(1), at(1), at(1)]);
    assert_eq!(times(&third), [at(1), at(1), at(3)]);
}

#[test]
fn when_nothing_can_be_decided_what_is_there_stays_and_says_so() {
    let service = live_service();
    let decision = Decision::Waiting {
        reason: Reason::HostedClusterNotAvailable,
        message: "the API server does not answer yet".to_owned(),
    };
    let endpoints = endpoints(&service, &nodes(), &[]);
    let kept = Programming::Kept(Box::new(service.clone()));
    let status = status(7, None, &decision, &kept, (endpoints, &probing(None, 2)), at(1));
    insta::assert_yaml_snapshot!(status.conditions);
}

#[test]
fn verdicts_on_this_spec_hold_while_nothing_can_be_decided() {
    let service = live_service();
    let done = Programming::Done(Box::new(service.clone()));
    let seen = || (endpoints(&service, &nodes(), &[]), probing(None, 2));
    let waiting = Decision::Waiting {
        reason: Reason::HostedClusterNotAvailable,
        message: "the API server does not answer yet".to_owned(),
    };
    let kept = Programming::Kept(Box::new(service.clone()));
    let (found, probed) = seen();
    let before = status(7, None, &served(), &done, (found, &probed), at(1));
    let (found, probed) = seen();
    assert_eq!(status(7, Some(&before), &waiting, &kept, (found, &probed), at(2)), before);
    let (found, probed) = seen();
    let of_newer_spec = status(8, Some(&before), &waiting, &kept, (found, &probed), at(2));
    assert_eq!(of_newer_spec.conditions.first().unwrap().status, "Unknown");
}

#[test]
fn a_node_counts_when_it_is_ready_and_not_kept_out() {
    let node = |ready: &str, label: &str| -> Node {
        yaml(&format!(
            "
metadata: {{ name: worker-1, labels: {{ {label}: '' }} }}
status:
  conditions: [{{ type: Ready, status: '{ready}' }}]
  addresses:
  - {{ type: Hostname, address: worker-1 }}
  - {{ type: InternalIP, address: 192.168.123.104 }}
  - {{ type: ExternalIP, address: 192.168.123.104 }}
"
        ))
    };
    let found = HostingNode::of(&node("True", "a")).unwrap();
    assert_eq!(found.addresses, ["192.168.123.104".parse::<IpAddr>().unwrap()]);
    assert_eq!(HostingNode::of(&node("Unknown", "a")), None);
    assert_eq!(HostingNode::of(&node("True", EXCLUDE_NODE)), None);
}
