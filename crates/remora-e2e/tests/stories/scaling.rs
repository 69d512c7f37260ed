//! A pool grows and shrinks; the application's page stays.

use anyhow::ensure;
use kube::ResourceExt;

use crate::support::lab::WORKERS;
use crate::support::page::shows_the_picture;
use crate::support::wait::{BOOT, SOON, seen, until};
use crate::support::{Hosted, story};

#[tokio::test(flavor = "multi_thread")]
async fn a_pool_goes_to_three_nodes_and_down_to_one() -> anyhow::Result<()> {
    story(|lab| async move {
        let hosted = Hosted::demo(&lab).await?;
        scale(&hosted, 2).await?;
        scale(&hosted, 3).await?;
        let nodes = hosted.ready_nodes(3).await?;
        for node in &nodes {
            let name = node.name_any();
            let provider = node.spec.as_ref().and_then(|spec| spec.provider_id.clone());
            ensure!(
                provider == Some(format!("kubevirt://{name}")),
                "{name}: providerID {provider:?}"
            );
        }

        scale(&hosted, 1).await?;
        hosted.ready_nodes(1).await?;
        until("one machine is left", BOOT, || async {
            let left = hosted.machines().await?.len();
            Ok(seen(left == 1, || format!("{left} machines")))
        })
        .await?;
        for worker in WORKERS {
            shows_the_picture(&format!("http://{worker}:30001"), SOON).await?;
        }
        scale(&hosted, 2).await
    })
    .await
}

/// Through the scale subresource, as `kubectl scale` and autoscalers do it.
async fn scale(hosted: &Hosted, replicas: u32) -> anyhow::Result<()> {
    hosted
        .lab
        .kubectl(&[
            "scale",
            "nodepool",
            &hosted.name,
            "-n",
            &hosted.namespace,
            &format!("--replicas={replicas}"),
        ])
        .await?;
    hosted.pool_settled(replicas.into()).await
}
