//! `make demo`: from nothing to the application's page on every hosting worker, and again.

use std::collections::BTreeMap;
use std::time::Duration;

use anyhow::{Context, ensure};
use k8s_openapi::api::core::v1::{Node, Pod};
use kube::api::ListParams;
use kube::{Api, ResourceExt};

use crate::support::lab::{WORKERS, remora};
use crate::support::page::{IMAGE_LINE, get, shows_the_picture};
use crate::support::wait::SOON;
use crate::support::{Hosted, story};

/// The demo on a running lab takes two minutes.
const DEMO: Duration = Duration::from_secs(1800);
/// Scheme and hosting port of each port of the application.
const DOORS: [(&str, u16); 3] = [("http", 30001), ("https", 30002), ("http", 30003)];

#[tokio::test(flavor = "multi_thread")]
async fn the_demo_shows_the_page_on_every_worker_and_again_changes_nothing() -> anyhow::Result<()> {
    story(|lab| async move {
        let said = remora(&["lab", "demo"], DEMO).await?;
        let lines = said.lines().filter(|line| line.contains(IMAGE_LINE)).count();
        ensure!(
            lines >= WORKERS.len() * DOORS.len(),
            "the demo printed {lines} image lines:\n{said}"
        );
        the_page_is_outside().await?;

        let hosted = Hosted::demo(&lab).await?;
        node_addresses_are_those_of_the_machines(&hosted).await?;
        let before = identities(&hosted).await?;

        remora(&["lab", "demo"], DEMO).await?;
        ensure!(before == identities(&hosted).await?, "the second demo made things anew");
        the_page_is_outside().await
    })
    .await
}

async fn the_page_is_outside() -> anyhow::Result<()> {
    for worker in WORKERS {
        for (scheme, port) in DOORS {
            let page = format!("{scheme}://{worker}:{port}");
            shows_the_picture(&page, SOON).await?;
            let picture = get(&format!("{page}/resources/images/pets.png")).await?;
            ensure!(picture.starts_with(b"\x89PNG\r\n\x1a\n"), "{page} serves no PNG");
        }
    }
    Ok(())
}

/// InternalIP of the Node = IP of the VM = IP of its virt-launcher pod.
async fn node_addresses_are_those_of_the_machines(hosted: &Hosted) -> anyhow::Result<()> {
    let of_nodes: BTreeMap<String, String> = hosted
        .ready_nodes(2)
        .await?
        .iter()
        .map(|node| Ok((node.name_any(), internal_ip(node)?)))
        .collect::<anyhow::Result<_>>()?;
    let of_machines: BTreeMap<String, String> = hosted
        .machines()
        .await?
        .iter()
        .map(|machine| {
            let address = machine.data.pointer("/status/interfaces/0/ipAddress");
            let address = address.and_then(|address| address.as_str()).unwrap_or_default();
            (machine.name_any(), address.to_owned())
        })
        .collect();
    let pods: Api<Pod> =
        Api::namespaced(hosted.lab.client.clone(), &hosted.control_plane_namespace());
    let launchers = pods.list(&ListParams::default().labels("kubevirt.io=virt-launcher")).await?;
    let of_pods: BTreeMap<String, String> = launchers
        .iter()
        .map(|pod| {
            let name = pod.labels().get("kubevirt.io/vm").cloned().unwrap_or_default();
            let ip = pod.status.as_ref().and_then(|status| status.pod_ip.clone());
            (name, ip.unwrap_or_default())
        })
        .collect();
    ensure!(
        of_nodes == of_machines && of_nodes == of_pods,
        "addresses differ: nodes {of_nodes:?}, machines {of_machines:?}, pods {of_pods:?}"
    );
    Ok(())
}

fn internal_ip(node: &Node) -> anyhow::Result<String> {
    let addresses = node.status.as_ref().and_then(|status| status.addresses.as_ref());
    addresses
        .and_then(|addresses| addresses.iter().find(|address| address.type_ == "InternalIP"))
        .map(|address| address.address.clone())
        .with_context(|| format!("node {} has no InternalIP", node.name_any()))
}

/// UIDs of what must survive a second run.
async fn identities(hosted: &Hosted) -> anyhow::Result<BTreeMap<String, Option<String>>> {
    let mut found = BTreeMap::new();
    for machine in hosted.machines().await? {
        found.insert(machine.name_any(), machine.uid());
    }
    let cluster = hosted.hosted_cluster().await?.context("no HostedCluster")?;
    found.insert("HostedCluster".to_owned(), cluster.uid());
    Ok(found)
}
