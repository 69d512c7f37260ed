//! Which certificate requests of kubelets are approved, asked by the users that kubelets are.

use anyhow::Context as _;
use k8s_openapi::ByteString;
use k8s_openapi::api::certificates::v1::CertificateSigningRequest;
use kube::api::PostParams;
use kube::{Api, Client, ResourceExt};
use rcgen::{CertificateParams, DnType, KeyPair, SanType};
use remora_testkit::{ApiServer, eventually};
use serde_json::json;

use crate::cluster::Reef;
use crate::node_pools::of_pool;
use crate::stand_ins::run;
use crate::world::{DEADLINE, apply, wait_for_count};

const CLIENT: &str = "kubernetes.io/kube-apiserver-client-kubelet";
const SERVING: &str = "kubernetes.io/kubelet-serving";

/// A pool of one machine, whose kubelet the test is.
async fn machine(reef: &Reef, pool: &str, address: &str) -> anyhow::Result<String> {
    reef.pool(pool, json!({ "replicas": 1 })).await?;
    let machines = wait_for_count(&reef.machines(), &of_pool(pool), 1).await?;
    let machine = machines.first().context("no machine")?;
    run(&reef.hosting, machine, address).await?;
    Ok(machine.name_any())
}

/// Lets bootstrap tokens ask, as the operator does when it makes the control plane.
async fn let_bootstrappers_ask(reef: &Reef) -> anyhow::Result<()> {
    let group = "rbac.authorization.k8s.io";
    let binding = json!({
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": "ClusterRoleBinding",
        "metadata": { "name": "bootstrappers" },
        "roleRef": { "apiGroup": group, "kind": "ClusterRole", "name": "system:node-bootstrapper" },
        "subjects": [{ "apiGroup": group, "kind": "Group", "name": "system:bootstrappers" }],
    });
    apply(&reef.hosted, &binding).await?;
    Ok(())
}

/// A client that has a bootstrap token of a pool.
async fn bootstrapper(reef: &Reef, pool: &str) -> anyhow::Result<Client> {
    let group = format!("system:bootstrappers:{pool}");
    let groups = ["system:bootstrappers", &group, "system:authenticated"];
    reef.server.client_as("system:bootstrap:abcdef", &groups).await
}

/// A client that has the certificate of a node.
async fn kubelet(reef: &Reef, node: &str) -> anyhow::Result<Client> {
    let groups = ["system:nodes", "system:authenticated"];
    reef.server.client_as(&format!("system:node:{node}"), &groups).await
}

/// Asks for a certificate of a node, and gives the answer: `Approved` or `Denied`, and the reason.
async fn ask(
    client: &Client,
    node: &str,
    (signer, purpose): (&str, &str),
    names: Vec<SanType>,
) -> anyhow::Result<(String, String)> {
    let mut params = CertificateParams::default();
    params.distinguished_name.push(DnType::CommonName, format!("system:node:{node}"));
    params.distinguished_name.push(DnType::OrganizationName, "system:nodes");
    params.subject_alt_names = names;
    let request = params.serialize_request(&KeyPair::generate()?)?.pem()?;
    let request: CertificateSigningRequest = serde_json::from_value(json!({
        "metadata": { "generateName": "csr-" },
        "spec": {
            "request": ByteString(request.into_bytes()),
            "signerName": signer,
            "usages": ["digital signature", purpose],
        },
    }))?;
    let api: Api<CertificateSigningRequest> = Api::all(client.clone());
    let name = api.create(&PostParams::default(), &request).await?.name_any();
    eventually("the answer", DEADLINE, async || {
        let request = api.get(&name).await?;
        let conditions = request.status.and_then(|status| status.conditions).unwrap_or_default();
        let answer = conditions.first().context("there is none")?;
        Ok((answer.type_.clone(), answer.reason.clone().unwrap_or_default()))
    })
    .await
}

fn answer(type_: &str, reason: &str) -> (String, String) {
    (type_.to_owned(), reason.to_owned())
}

/// One test, since the requests of one API server are decided by one HostedCluster's session.
#[tokio::test]
async fn requests_are_decided_by_what_the_hosting_cluster_knows() -> anyhow::Result<()> {
    let server = Box::leak(Box::new(ApiServer::start()?));
    let reef = Reef::with_api_server("signs", server).await?;
    let_bootstrappers_ask(&reef).await?;
    let machine = machine(&reef, "signs", "10.128.20.3").await?;
    a_machine_joins_once_with_the_token_of_its_pool(&reef, &machine).await?;
    a_token_makes_no_node_without_machine(&reef).await?;
    a_node_serves_under_its_own_name_and_address_only(&reef, &machine).await
}

async fn a_machine_joins_once_with_the_token_of_its_pool(
    reef: &Reef,
    machine: &str,
) -> anyhow::Result<()> {
    let client = (CLIENT, "client auth");
    let stranger = bootstrapper(reef, "another-pool").await?;
    assert_eq!(ask(&stranger, machine, client, vec![]).await?, answer("Denied", "WrongPool"));
    let own = bootstrapper(reef, "signs").await?;
    let approved = answer("Approved", "VirtualMachineMatches");
    assert_eq!(ask(&own, machine, client, vec![]).await?, approved);
    // Whoever has the token too cannot become the same node.
    assert_eq!(ask(&own, machine, client, vec![]).await?, answer("Denied", "AlreadyJoined"));
    // The node itself may renew.
    assert_eq!(ask(&kubelet(reef, machine).await?, machine, client, vec![]).await?, approved);
    Ok(())
}

async fn a_token_makes_no_node_without_machine(reef: &Reef) -> anyhow::Result<()> {
    let client = bootstrapper(reef, "signs").await?;
    let answered = ask(&client, "signs-none", (CLIENT, "client auth"), vec![]).await?;
    assert_eq!(answered, answer("Denied", "NoSuchMachine"));
    Ok(())
}

async fn a_node_serves_under_its_own_name_and_address_only(
    reef: &Reef,
    machine: &str,
) -> anyhow::Result<()> {
    let client = kubelet(reef, machine).await?;
    let name = |text: &str| anyhow::Ok(SanType::DnsName(text.try_into()?));
    let address = |text: &str| anyhow::Ok(SanType::IpAddress(text.parse()?));
    let (own_name, own_address) = (name(machine)?, address("10.128.20.3")?);
    for (names, expected) in [
        (vec![own_name.clone(), own_address.clone()], answer("Approved", "VirtualMachineMatches")),
        (vec![own_name, address("10.128.20.4")?], answer("Denied", "ForeignAddress")),
        (vec![name("kubernetes.default.svc")?, own_address], answer("Denied", "ForeignName")),
    ] {
        assert_eq!(ask(&client, machine, (SERVING, "server auth"), names).await?, expected);
    }
    Ok(())
}
