//! Two hosted clusters side by side: each works, neither sees the other.

use std::collections::BTreeSet;

use anyhow::ensure;
use kube::ResourceExt;
use kube::config::Kubeconfig;

use crate::support::cluster::authority_of;
use crate::support::lab::WORKERS;
use crate::support::page::shows_the_picture;
use crate::support::wait::SOON;
use crate::support::{Hosted, story};

#[tokio::test(flavor = "multi_thread")]
async fn a_second_cluster_works_beside_the_first_and_neither_sees_the_other() -> anyhow::Result<()>
{
    story(|lab| async move {
        let first = Hosted::demo(&lab).await?;
        let second = Hosted::named(&lab, "e2e-tenants", "second").cleared().await?;
        second.apply().await?;
        second.apply_pool(1).await?;
        second.available().await?;

        let of_second = names(&second.ready_nodes(1).await?);
        let of_first = names(&first.machines().await?);
        ensure!(of_first.is_disjoint(&of_second), "{of_first:?} and {of_second:?} share nodes");
        ensure!(
            names(&second.machines().await?) == of_second,
            "the second cluster runs other machines"
        );

        credentials_are_not_shared(&first, &second).await?;
        let inside = second.kubectl(&["get", "services,secrets", "-A", "-o", "name"]).await?;
        ensure!(
            !inside.contains("petclinic"),
            "the second cluster sees the first's Services:\n{inside}"
        );
        shows_the_picture(&format!("http://{}:30001", WORKERS[1]), SOON).await?;

        second.destroy().await?;
        shows_the_picture(&format!("http://{}:30001", WORKERS[2]), SOON).await?;
        lab.kubectl(&["delete", "namespace", &second.namespace]).await.map(drop)
    })
    .await
}

fn names<K: ResourceExt>(objects: &[K]) -> BTreeSet<String> {
    objects.iter().map(ResourceExt::name_any).collect()
}

/// The administrator of one cluster is a stranger to the other.
async fn credentials_are_not_shared(first: &Hosted, second: &Hosted) -> anyhow::Result<()> {
    let mut mixed = Kubeconfig::read_from(first.kubeconfig().await?)?;
    let of_second = Kubeconfig::read_from(second.kubeconfig().await?)?;
    ensure!(authority_of(&mixed)? != authority_of(&of_second)?, "two clusters share an authority");
    mixed.clusters = of_second.clusters;
    if let Some(context) = mixed.contexts.first_mut().and_then(|named| named.context.as_mut()) {
        context.cluster =
            mixed.clusters.first().map(|named| named.name.clone()).unwrap_or_default();
    }
    let path = first.lab.write_kubeconfig("mixed", &serde_json::to_vec(&mixed)?)?;
    let refused = first.lab.kubectl_with(&path, &["get", "nodes"], None).await;
    let said = refused.unwrap_or_else(|error| format!("{error:#}"));
    ensure!(
        said.contains("Unauthorized") || said.contains("must be logged in"),
        "the first cluster's administrator got into the second: {said}"
    );
    Ok(())
}
