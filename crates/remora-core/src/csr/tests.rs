//! Requests that are approved, and one refused request per rule.

use k8s_openapi::ByteString;
use k8s_openapi::api::certificates::v1::{
    CertificateSigningRequestCondition, CertificateSigningRequestSpec,
    CertificateSigningRequestStatus,
};
use kube::core::ObjectMeta;
use rcgen::{CertificateParams, DnType, KeyPair, SanType};

use super::*;

const NODE: &str = "pool-b-x7k2p";
const TOKEN_USER: &str = "system:bootstrap:abcdef";
const TOKEN_GROUPS: &[&str] = &["system:bootstrappers", "system:bootstrappers:pool-b"];
const NODE_USER: &str = "system:node:pool-b-x7k2p";
const NODE_GROUPS: &[&str] = &["system:nodes", "system:authenticated"];
const ADDRESS: &str = "10.128.4.7";

struct Asked<'a> {
    signer: &'a str,
    user: &'a str,
    groups: &'a [&'a str],
    common_name: &'a str,
    organization: &'a str,
    names: Vec<SanType>,
}

fn client() -> Asked<'static> {
    Asked {
        signer: CLIENT_SIGNER,
        user: TOKEN_USER,
        groups: TOKEN_GROUPS,
        common_name: NODE_USER,
        organization: "system:nodes",
        names: vec![],
    }
}

fn serving() -> Asked<'static> {
    Asked {
        signer: SERVING_SIGNER,
        user: NODE_USER,
        groups: NODE_GROUPS,
        names: vec![dns(NODE), ip(ADDRESS)],
        ..client()
    }
}

fn dns(name: &str) -> SanType {
    SanType::DnsName(name.try_into().unwrap())
}

fn ip(address: &str) -> SanType {
    SanType::IpAddress(address.parse().unwrap())
}

fn request(asked: &Asked<'_>) -> CertificateSigningRequest {
    let mut params = CertificateParams::default();
    params.distinguished_name.remove(DnType::CommonName);
    params.distinguished_name.push(DnType::CommonName, asked.common_name);
    params.distinguished_name.push(DnType::OrganizationName, asked.organization);
    params.subject_alt_names = asked.names.clone();
    let pem = params.serialize_request(&KeyPair::generate().unwrap()).unwrap().pem().unwrap();
    let purpose = if asked.signer == SERVING_SIGNER { "server auth" } else { "client auth" };
    CertificateSigningRequest {
        metadata: ObjectMeta {
            name: Some("csr-1".to_owned()),
            uid: Some("request-1".to_owned()),
            ..ObjectMeta::default()
        },
        spec: CertificateSigningRequestSpec {
            signer_name: asked.signer.to_owned(),
            username: Some(asked.user.to_owned()),
            groups: Some(asked.groups.iter().map(|group| (*group).to_owned()).collect()),
            usages: Some(vec!["digital signature".to_owned(), purpose.to_owned()]),
            request: ByteString(pem.into_bytes()),
            ..CertificateSigningRequestSpec::default()
        },
        status: None,
    }
}

fn machine() -> MachineIdentity {
    MachineIdentity {
        name: NODE.to_owned(),
        node_pool: "pool-b".to_owned(),
        instance: Some(RunningInstance {
            uid: "instance-1".to_owned(),
            addresses: [ADDRESS.parse().unwrap()].into(),
        }),
        issued: None,
    }
}

fn verdict(asked: &Asked<'_>, machine: &MachineIdentity) -> Verdict {
    decide(&request(asked), |name| (name == machine.name).then(|| machine.clone()))
}

fn denial(asked: &Asked<'_>, machine: &MachineIdentity) -> &'static str {
    match verdict(asked, machine) {
        Verdict::Deny(explanation) => explanation.reason,
        other => panic!("not denied: {other:?}"),
    }
}

fn issued(instance: &str, request: &str) -> MachineIdentity {
    let issued = Issued { instance_uid: instance.to_owned(), request_uid: request.to_owned() };
    MachineIdentity { issued: Some(issued), ..machine() }
}

#[test]
fn when_a_running_machine_joins_its_request_is_approved_and_noted() {
    let Verdict::Approve { explanation, issue } = verdict(&client(), &machine()) else {
        panic!("not approved");
    };
    assert_eq!(
        explanation.message,
        "VirtualMachine pool-b-x7k2p of NodePool pool-b runs and joins for the first time"
    );
    assert_eq!(issue.unwrap().note(), "instance-1/request-1");
}

#[test]
fn when_the_note_was_written_but_not_the_approval_the_same_request_is_approved() {
    let verdict = verdict(&client(), &issued("instance-1", "request-1"));
    assert!(matches!(verdict, Verdict::Approve { .. }), "{verdict:?}");
}

#[test]
fn when_another_request_has_the_identity_of_the_running_instance_it_is_denied() {
    assert_eq!(denial(&client(), &issued("instance-1", "request-0")), "AlreadyJoined");
}

#[test]
fn when_the_machine_was_started_again_it_may_join_again() {
    let verdict = verdict(&client(), &issued("instance-0", "request-0"));
    assert!(matches!(verdict, Verdict::Approve { .. }), "{verdict:?}");
}

#[test]
fn when_a_note_is_read_back_it_is_the_same() {
    let note = Issued { instance_uid: "i".to_owned(), request_uid: "r".to_owned() };
    let annotations = [(labels::IDENTITY_ISSUED.to_owned(), note.note())].into();
    assert_eq!(Issued::read(&annotations), Some(note));
}

#[test]
fn when_the_machine_does_not_run_the_request_waits() {
    let machine = MachineIdentity { instance: None, ..machine() };
    for asked in [client(), serving()] {
        let verdict = verdict(&asked, &machine);
        assert!(matches!(verdict, Verdict::Wait(_)), "{verdict:?}");
    }
}

#[test]
fn when_a_node_renews_its_own_certificates_they_are_approved() {
    let renewal = Asked { user: NODE_USER, groups: NODE_GROUPS, ..client() };
    for asked in [renewal, serving()] {
        let verdict = verdict(&asked, &issued("instance-1", "request-0"));
        assert!(matches!(verdict, Verdict::Approve { issue: None, .. }), "{verdict:?}");
    }
}

#[test]
fn when_the_machine_reports_no_address_a_serving_request_waits() {
    let mut machine = machine();
    machine.instance.as_mut().unwrap().addresses.clear();
    assert!(matches!(verdict(&serving(), &machine), Verdict::Wait(_)));
}

#[test]
fn when_a_client_request_is_not_the_machines_own_it_is_denied() {
    let other_pool = &["system:bootstrappers", "system:bootstrappers:pool-c"];
    let machine = machine();
    let cases = [
        (Asked { groups: other_pool, ..client() }, "WrongPool"),
        (Asked { common_name: "system:node:stranger", ..client() }, "NoSuchMachine"),
        (Asked { user: "system:node:pool-b-other", groups: NODE_GROUPS, ..client() }, "WrongUser"),
        (Asked { user: "mallory", groups: &["system:masters"], ..client() }, "WrongUser"),
        (Asked { user: NODE_USER, groups: &["users"], ..client() }, "WrongUser"),
        (Asked { common_name: "system:masters", ..client() }, "InvalidRequest"),
        (Asked { organization: "system:masters", ..client() }, "InvalidRequest"),
        (Asked { names: vec![dns(NODE)], ..client() }, "InvalidRequest"),
    ];
    for (asked, reason) in cases {
        assert_eq!(denial(&asked, &machine), reason, "{} as {}", asked.common_name, asked.user);
    }
}

#[test]
fn when_a_serving_request_names_what_is_not_the_machines_it_is_denied() {
    let machine = machine();
    let cases = [
        (vec![dns("kubernetes.default"), ip(ADDRESS)], "ForeignName"),
        (vec![dns(NODE), ip("10.128.4.8")], "ForeignAddress"),
        (vec![dns(NODE)], "NoAddress"),
        (vec![SanType::Rfc822Name("a@b".try_into().unwrap())], "InvalidRequest"),
    ];
    for (names, reason) in cases {
        assert_eq!(denial(&Asked { names, ..serving() }, &machine), reason);
    }
    let by_token = Asked { user: TOKEN_USER, groups: TOKEN_GROUPS, ..serving() };
    assert_eq!(denial(&by_token, &machine), "WrongUser");
}

#[test]
fn when_usages_go_beyond_the_purpose_the_request_is_denied() {
    let mut request = request(&client());
    request.spec.usages = Some(vec!["client auth".to_owned(), "server auth".to_owned()]);
    let machine = machine();
    let verdict = decide(&request, |_| Some(machine));
    assert!(matches!(verdict, Verdict::Deny(Explanation { reason: "InvalidRequest", .. })));
}

#[test]
fn when_a_request_is_decided_or_for_another_signer_it_is_left_alone() {
    let machine = machine();
    let other = Asked { signer: "example.com/signer", ..client() };
    assert_eq!(verdict(&other, &machine), Verdict::NotOurs);
    let mut denied = request(&client());
    denied.status = Some(CertificateSigningRequestStatus {
        conditions: Some(vec![CertificateSigningRequestCondition {
            type_: "Denied".to_owned(),
            ..CertificateSigningRequestCondition::default()
        }]),
        ..CertificateSigningRequestStatus::default()
    });
    assert_eq!(decide(&denied, |_| Some(machine)), Verdict::NotOurs);
}

#[test]
fn when_the_request_is_no_request_it_is_denied() {
    let mut broken = request(&client());
    broken.spec.request = ByteString(b"no PEM".to_vec());
    let verdict = decide(&broken, |_| None);
    assert!(matches!(verdict, Verdict::Deny(Explanation { reason: "InvalidRequest", .. })));
}
