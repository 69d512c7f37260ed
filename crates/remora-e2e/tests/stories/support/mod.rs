//! What the stories share: the lab, hosted clusters in it, and the evidence when something hangs.

pub(crate) mod cluster;
pub(crate) mod evidence;
pub(crate) mod lab;
pub(crate) mod page;
pub(crate) mod probe;
pub(crate) mod wait;

use std::future::Future;

pub(crate) use cluster::Hosted;
pub(crate) use lab::Lab;

/// Runs a story in the lab; when it fails, prints the evidence before the error.
pub(crate) async fn story<F>(tell: impl FnOnce(Lab) -> F) -> anyhow::Result<()>
where
    F: Future<Output = anyhow::Result<()>>,
{
    let lab = Lab::ready().await?;
    let told = tell(lab.clone()).await;
    if let Err(error) = &told {
        eprintln!("the story failed: {error:#}");
        evidence::print(&lab).await;
    }
    told
}
