use k8s_openapi::api::core::v1::Service;
use proptest::prelude::*;
use serde::de::DeserializeOwned;

use super::*;

fn yaml<T: DeserializeOwned>(text: &str) -> T {
    serde_saphyr::from_str(text).unwrap()
}

fn policy(name: &str, second: u8, more: &str) -> ExposurePolicy {
    yaml(&format!(
        "
apiVersion: remora.dev/v1alpha1
kind: ExposurePolicy
metadata: {{ namespace: clusters, name: {name}, uid: uid-{name}, creationTimestamp: '2026-01-01T00:00:{second:02}Z' }}
spec:
  clusterName: cluster1
  {more}
"
    ))
}

fn service(namespace: &str, name: &str, more: &str) -> HostedService {
    let service: Service = yaml(&format!(
        "
metadata: {{ namespace: {namespace}, name: {name}, uid: uid-{name}, {more} }}
spec: {{ type: NodePort, ports: [{{ port: 80, nodePort: 30001 }}] }}
"
    ));
    HostedService::of(&service).unwrap()
}

fn asking(namespace: &str, annotations: &str) -> HostedService {
    service(namespace, "web", &format!("annotations: {{ {annotations} }}"))
}

fn verdict_of(policies: &[ExposurePolicy], service: &HostedService) -> Option<Verdict> {
    let read: Vec<Policy<'_>> =
        policies.iter().map(|policy| Policy::read(policy).unwrap()).collect();
    let read: Vec<&Policy<'_>> = read.iter().collect();
    decide(&read, [service], &[]).into_values().next()
}

fn refusal(verdict: Option<Verdict>) -> String {
    match verdict {
        Some(Verdict::Refused(refusal)) => refusal.to_string(),
        other => panic!("not refused: {other:?}"),
    }
}

fn by_policy(verdict: Option<Verdict>) -> String {
    match verdict {
        Some(Verdict::Exposed { policy, .. }) => policy,
        other => panic!("not exposed: {other:?}"),
    }
}

#[test]
fn a_rule_exposes_what_it_means_and_leaves_the_rest() {
    let rule = "expose: [{ namespaces: [shop], selector: { matchLabels: { tier: web } }, nodePools: [big], nodePortRange: { first: 30000, last: 30099 } }]";
    let policies = [policy("web", 1, rule)];
    let meant = service("shop", "front", "labels: { tier: web }");
    let Some(Verdict::Exposed { exposure, .. }) = verdict_of(&policies, &meant) else {
        panic!("not exposed");
    };
    insta::assert_yaml_snapshot!(exposure);
    assert_eq!(verdict_of(&policies, &service("shop", "front", "labels: { tier: db }")), None);
    assert_eq!(verdict_of(&policies, &service("bank", "front", "labels: { tier: web }")), None);
    let mut without_ports = meant;
    without_ports.type_ = "ClusterIP".to_owned();
    assert_eq!(verdict_of(&policies, &without_ports), None);
}

#[test]
fn nothing_that_is_asked_for_is_given_without_a_policy() {
    let asked = asking("shop", "remora.dev/expose: NodePort");
    assert_eq!(
        refusal(verdict_of(&[], &asked)),
        "annotation remora.dev/expose: no ExposurePolicy of this cluster allows Services of namespace shop to be exposed by \
         NodePort; ask whoever runs the hosting cluster for one"
    );
    let elsewhere = policy("bank", 1, "allow: [{ namespaces: [bank], via: [NodePort] }]");
    refusal(verdict_of(&[elsewhere], &asked));
}

#[test]
fn what_is_asked_for_is_given_within_the_range() {
    let allow = "allow: [{ namespaces: [shop], via: [NodePort], nodePortRange: { first: 31000, last: 31009 } }]";
    let policies = [policy("shop", 1, allow)];
    let ports = |ports: &str| {
        asking(
            "shop",
            &format!("remora.dev/expose: NodePort, remora.dev/expose-node-ports: '{ports}'"),
        )
    };
    let Some(Verdict::Exposed { exposure, .. }) = verdict_of(&policies, &ports("80=31005")) else {
        panic!("not exposed");
    };
    insta::assert_yaml_snapshot!(exposure.spec);
    assert_eq!(
        refusal(verdict_of(&policies, &ports("80=32000"))),
        "annotation remora.dev/expose-node-ports: node port 32000 may not be taken, those from 31000-31009 may; ask for one of \
         them, or leave the annotation out to be given one"
    );
}

#[test]
fn a_refused_wish_does_not_take_away_what_a_rule_gives() {
    let policies = [policy("all", 1, "expose: [{}]")];
    let asked = asking("shop", "remora.dev/expose: Telepathy");
    assert_eq!(by_policy(verdict_of(&policies, &asked)), "all");
}

#[test]
fn the_oldest_policy_decides_and_an_exposure_written_by_hand_before_all() {
    let policies = [policy("b", 1, "expose: [{}]"), policy("a", 2, "expose: [{}]")];
    let web = service("shop", "web", "");
    assert_eq!(by_policy(verdict_of(&policies, &web)), "b");

    let read: Vec<Policy<'_>> =
        policies.iter().map(|policy| Policy::read(policy).unwrap()).collect();
    let read: Vec<&Policy<'_>> = read.iter().collect();
    let by_hand = Existing {
        name: "mine".to_owned(),
        service_namespace: "shop".to_owned(),
        service_name: "web".to_owned(),
        is_of_policy: false,
    };
    let made = Existing { is_of_policy: true, ..by_hand.clone() };
    let left = Verdict::Left { exposure: "mine".to_owned() };
    assert_eq!(decide(&read, [&web], &[by_hand]).into_values().next(), Some(left));
    assert_eq!(by_policy(decide(&read, [&web], &[made]).into_values().next()), "b");
}

#[test]
fn a_selector_that_means_nothing_is_refused() {
    let rule = "expose: [{}, { selector: { matchExpressions: [{ key: tier, operator: Near }] } }]";
    let policy = policy("web", 1, rule);
    let error = Policy::read(&policy).err().unwrap();
    assert!(error.to_string().starts_with("spec.expose[1].selector: "), "{error}");
}

proptest! {
    #[test]
    fn two_services_have_one_exposure_only_when_they_are_the_same(
        one in ("[a-z]{1,4}", "[a-z]{1,4}", "[a-z][-a-z]{0,70}[a-z]"),
        other in ("[a-z]{1,4}", "[a-z]{1,4}", "[a-z][-a-z]{0,70}[a-z]"),
    ) {
        let name = |(cluster, namespace, name): &(String, String, String)| {
            let mut service = service("shop", "web", "");
            (service.namespace, service.name) = (namespace.clone(), name.clone());
            exposure_name(cluster, &service)
        };
        prop_assert!(name(&one).len() <= 63);
        prop_assert_eq!(name(&one) == name(&other), one == other);
    }
}
