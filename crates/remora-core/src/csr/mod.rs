//! Which certificate signing requests of a hosted cluster's nodes are signed.
//!
//! A node asks twice. First with the bootstrap token of its NodePool for the client certificate that makes it
//! `system:node:<name>`, then as that user for the certificate it serves its own API with. Whoever holds a token could
//! ask for any name, so a request is approved only when the hosting cluster agrees: the VirtualMachine exists in the
//! control plane namespace, belongs to the token's pool, runs, and its identity was not given out before.
//!
//! ```text
//!                     signer                         user
//!  request ──┬─ kube-apiserver-client-kubelet ─┬─ system:bootstrap:<id> ── first_client
//!            │                                 └─ system:node:<name> ───── renewed_client
//!            ├─ kubelet-serving ───────────────── system:node:<name> ───── serving
//!            └─ any other ──────────────────────────────────────────────── not ours
//! ```

mod subject;

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;

use k8s_openapi::api::certificates::v1::CertificateSigningRequest;
use remora_api::labels;

use crate::bootstrap::BOOTSTRAP_GROUP_PREFIX;
use subject::{NodeRequest, parse};

/// Signer of the certificate with which a kubelet talks to the API server.
pub const CLIENT_SIGNER: &str = "kubernetes.io/kube-apiserver-client-kubelet";
/// Signer of the certificate with which a kubelet serves its own API.
pub const SERVING_SIGNER: &str = "kubernetes.io/kubelet-serving";
/// What precedes the node's name in the user of a node.
pub const NODE_USER_PREFIX: &str = "system:node:";
/// Group of all nodes, the only organization a node's certificate may carry.
const NODES_GROUP: &str = "system:nodes";
/// What precedes the token's id in the user of a bootstrap token.
const BOOTSTRAP_USER_PREFIX: &str = "system:bootstrap:";

/// What is known of a machine when a certificate for its node is asked for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MachineIdentity {
    /// Name of the VirtualMachine, its instance and its node.
    pub name: String,
    /// NodePool the machine belongs to.
    pub node_pool: String,
    /// The running instance, if there is one.
    pub instance: Option<RunningInstance>,
    /// To whom the machine's identity was given last.
    pub issued: Option<Issued>,
}

/// A running VirtualMachineInstance.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RunningInstance {
    /// UID, new with every start of the machine.
    pub uid: String,
    /// Addresses of all its interfaces.
    pub addresses: BTreeSet<IpAddr>,
}

/// To whom a machine's identity was given: which instance, by which request.
///
/// It is written on the VirtualMachine before the request is approved, where no one in the hosted cluster can change
/// it. A restart of the operator in between finds its own note and approves the same request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Issued {
    /// UID of the instance.
    pub instance_uid: String,
    /// UID of the request.
    pub request_uid: String,
}

impl Issued {
    /// Reads the note from the annotations of a VirtualMachine.
    pub fn read(annotations: &BTreeMap<String, String>) -> Option<Self> {
        let (instance_uid, request_uid) =
            annotations.get(labels::IDENTITY_ISSUED)?.split_once('/')?;
        Some(Self { instance_uid: instance_uid.to_owned(), request_uid: request_uid.to_owned() })
    }

    /// The note as the value of its annotation.
    pub fn note(&self) -> String {
        format!("{}/{}", self.instance_uid, self.request_uid)
    }
}

/// What becomes of a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// The request is approved; `issue` has to be written on the VirtualMachine before.
    Approve {
        /// Why.
        explanation: Explanation,
        /// To whom the machine's identity is given hereby.
        issue: Option<Issued>,
    },
    /// The request is denied for good; the node may send another one.
    Deny(Explanation),
    /// Something that is watched has to happen first.
    Wait(String),
    /// The request is decided already or is for another signer.
    NotOurs,
}

/// Why a request is approved or denied.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Explanation {
    /// A word from a closed set.
    pub reason: &'static str,
    /// A sentence that names the machine.
    pub message: String,
}

/// Decides one request.
///
/// `machine` looks a machine of the cluster up by name.
pub fn decide(
    request: &CertificateSigningRequest,
    machine: impl FnOnce(&str) -> Option<MachineIdentity>,
) -> Verdict {
    let signer = request.spec.signer_name.as_str();
    if is_decided(request) || !matches!(signer, CLIENT_SIGNER | SERVING_SIGNER) {
        return Verdict::NotOurs;
    }
    let node_request = match parse(request) {
        Ok(node_request) => node_request,
        Err(message) => return deny("InvalidRequest", message),
    };
    let Some(machine) = machine(&node_request.node_name) else {
        return deny(
            "NoSuchMachine",
            format!(
                "there is no VirtualMachine {} in this cluster's control plane namespace",
                node_request.node_name
            ),
        );
    };
    let user = request.spec.username.as_deref().unwrap_or_default();
    let own_user = user == format!("{NODE_USER_PREFIX}{}", machine.name)
        && groups(request).contains(&NODES_GROUP);
    match (signer, user.starts_with(BOOTSTRAP_USER_PREFIX), own_user) {
        (SERVING_SIGNER, _, true) => serving(&node_request, &machine),
        (CLIENT_SIGNER, _, true) => renewed_client(&node_request, &machine),
        (CLIENT_SIGNER, true, _) => first_client(request, &node_request, &machine),
        _ => deny(
            "WrongUser",
            format!("user {user:?} may not ask for a certificate of node {}", machine.name),
        ),
    }
}

/// The node that a well-formed request of a node is about.
pub fn requested_node(request: &CertificateSigningRequest) -> Option<String> {
    parse(request).ok().map(|node_request| node_request.node_name)
}

/// Tells whether a request was approved, denied or given up.
pub fn is_decided(request: &CertificateSigningRequest) -> bool {
    conditions(request).any(|type_| matches!(type_, "Approved" | "Denied" | "Failed"))
}

fn conditions(request: &CertificateSigningRequest) -> impl Iterator<Item = &str> {
    let status = request.status.as_ref();
    status
        .and_then(|status| status.conditions.as_deref())
        .unwrap_or_default()
        .iter()
        .map(|condition| condition.type_.as_str())
}

fn groups(request: &CertificateSigningRequest) -> Vec<&str> {
    request.spec.groups.iter().flatten().map(String::as_str).collect()
}

fn first_client(
    request: &CertificateSigningRequest,
    node_request: &NodeRequest,
    machine: &MachineIdentity,
) -> Verdict {
    let name = &machine.name;
    if let Some(refusal) = names_beside_subject(node_request) {
        return refusal;
    }
    let wanted = format!("{BOOTSTRAP_GROUP_PREFIX}{}", machine.node_pool);
    if !groups(request).contains(&wanted.as_str()) {
        return deny(
            "WrongPool",
            format!(
                "VirtualMachine {name} belongs to NodePool {}, whose bootstrap token this is not",
                machine.node_pool
            ),
        );
    }
    let Some(instance) = &machine.instance else {
        return Verdict::Wait(format!("VirtualMachine {name} is not running"));
    };
    let issue = Issued {
        instance_uid: instance.uid.clone(),
        request_uid: request.metadata.uid.clone().unwrap_or_default(),
    };
    match &machine.issued {
        Some(issued) if issued.instance_uid == issue.instance_uid && *issued != issue => deny(
            "AlreadyJoined",
            format!(
                "the running instance of VirtualMachine {name} was given its node identity already; \
                 restart the VirtualMachine to let it join anew"
            ),
        ),
        _ => Verdict::Approve {
            explanation: matches(format!(
                "VirtualMachine {name} of NodePool {} runs and joins for the first time",
                machine.node_pool
            )),
            issue: Some(issue),
        },
    }
}

fn renewed_client(node_request: &NodeRequest, machine: &MachineIdentity) -> Verdict {
    names_beside_subject(node_request).unwrap_or_else(|| {
        approve(format!("node {} renews its own client certificate", machine.name))
    })
}

fn serving(node_request: &NodeRequest, machine: &MachineIdentity) -> Verdict {
    let name = &machine.name;
    let Some(instance) = &machine.instance else {
        return Verdict::Wait(format!("VirtualMachine {name} is not running"));
    };
    if let Some(foreign) = node_request.dns_names.iter().find(|dns_name| *dns_name != name) {
        return deny(
            "ForeignName",
            format!("node {name} may serve under its own name only, not {foreign:?}"),
        );
    }
    if node_request.addresses.is_empty() {
        return deny("NoAddress", format!("node {name} names no address to serve on"));
    }
    if instance.addresses.is_empty() {
        return Verdict::Wait(format!("VirtualMachine {name} reports no address yet"));
    }
    match node_request.addresses.difference(&instance.addresses).next() {
        Some(foreign) => deny(
            "ForeignAddress",
            format!(
                "node {name} asks for address {foreign}, which VirtualMachine {name} does not have"
            ),
        ),
        None => approve(format!("name and addresses are those of VirtualMachine {name}")),
    }
}

fn names_beside_subject(node_request: &NodeRequest) -> Option<Verdict> {
    if node_request.dns_names.is_empty() && node_request.addresses.is_empty() {
        return None;
    }
    Some(deny(
        "InvalidRequest",
        format!("a client certificate of node {} may not carry names", node_request.node_name),
    ))
}

fn approve(message: String) -> Verdict {
    Verdict::Approve { explanation: matches(message), issue: None }
}

fn matches(message: String) -> Explanation {
    Explanation { reason: "VirtualMachineMatches", message }
}

fn deny(reason: &'static str, message: String) -> Verdict {
    Verdict::Deny(Explanation { reason, message })
}

#[cfg(test)]
mod tests;
