//! The operator dies half-way, again and again: whatever was begun is brought to its end.

use anyhow::ensure;

use crate::support::wait::{Look, SOON, until};
use crate::support::{Hosted, Lab, story};

#[tokio::test(flavor = "multi_thread")]
async fn creation_and_deletion_survive_the_operator_being_killed() -> anyhow::Result<()> {
    story(|lab| async move {
        let hosted = Hosted::named(&lab, "e2e-interruption", "halfway").cleared().await?;
        hosted.apply().await?;
        seen(&lab, &hosted, "namespace", &hosted.control_plane_namespace()).await?;
        kill_operator(&lab).await?;
        seen(&lab, &hosted, "deployment", "kube-apiserver").await?;
        kill_operator(&lab).await?;
        hosted.available().await?;

        hosted.apply_pool(1).await?;
        until("the first machine exists", SOON, || async {
            let machines = hosted.machines().await?;
            Ok(if machines.is_empty() { Look::NotYet("none".to_owned()) } else { Look::Seen(()) })
        })
        .await?;
        kill_operator(&lab).await?;
        hosted.ready_nodes(1).await?;
        ensure!(
            hosted.machines().await?.len() == 1,
            "the restarts made more machines than asked for"
        );

        let namespace = hosted.namespace.clone();
        lab.kubectl(&["delete", "hostedcluster", "halfway", "-n", &namespace, "--wait=false"])
            .await?;
        kill_operator(&lab).await?;
        until("the machines are being deleted", SOON, || async {
            let pools = lab.kubectl(&["get", "nodepool", "-n", &namespace, "-o", "name"]).await?;
            let machines = hosted.machines().await?;
            let going = pools.is_empty()
                || machines.iter().all(|machine| machine.metadata.deletion_timestamp.is_some());
            Ok(if going { Look::Seen(()) } else { Look::NotYet(pools) })
        })
        .await?;
        kill_operator(&lab).await?;
        hosted.gone().await?;
        lab.kubectl(&["delete", "namespace", &namespace]).await.map(drop)
    })
    .await
}

/// Without a grace period: the process gets no chance to finish anything.
async fn kill_operator(lab: &Lab) -> anyhow::Result<()> {
    lab.kubectl(&[
        "delete",
        "pod",
        "-n",
        "remora",
        "--all",
        "--grace-period=0",
        "--force",
        "--wait=false",
    ])
    .await
    .map(drop)
}

async fn seen(lab: &Lab, hosted: &Hosted, kind: &str, name: &str) -> anyhow::Result<()> {
    let namespace = hosted.control_plane_namespace();
    until(&format!("{kind} {name} exists"), SOON, || async {
        lab.kubectl(&["get", kind, name, "-n", &namespace, "-o", "name"]).await.map(Look::Seen)
    })
    .await
    .map(drop)
}
