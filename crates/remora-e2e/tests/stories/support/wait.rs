//! Waiting with a deadline.

use std::future::Future;
use std::time::{Duration, Instant};

use anyhow::bail;

/// Between two looks.
const PAUSE: Duration = Duration::from_millis(500);
/// For what takes a control plane seconds.
pub(crate) const SOON: Duration = Duration::from_secs(120);
/// For what takes a virtual machine's boot under emulation, on a loaded machine.
pub(crate) const BOOT: Duration = Duration::from_secs(600);

/// What a look at the world found.
pub(crate) enum Look<T> {
    /// What was waited for.
    Seen(T),
    /// Not yet; why, for the error.
    NotYet(String),
}

/// Looks again and again until it is there; the error names what was waited for and the last look.
///
/// A look that fails counts as "not yet": API servers come and go in these stories.
pub(crate) async fn until<T, F>(
    what: &str,
    deadline: Duration,
    mut look: impl FnMut() -> F,
) -> anyhow::Result<T>
where
    F: Future<Output = anyhow::Result<Look<T>>>,
{
    let start = Instant::now();
    let mut ticks = tokio::time::interval(PAUSE);
    loop {
        ticks.tick().await;
        let last = match tokio::time::timeout(deadline, look()).await {
            Ok(Ok(Look::Seen(seen))) => {
                println!("  {:6.1} s  {what}", start.elapsed().as_secs_f64());
                return Ok(seen);
            }
            Ok(Ok(Look::NotYet(why))) => why,
            Ok(Err(error)) => format!("{error:#}"),
            Err(_) => "the look itself hung".to_owned(),
        };
        if start.elapsed() > deadline {
            bail!("{what}: not within {} s; last seen: {last}", deadline.as_secs());
        }
    }
}

/// A look that is a claim.
pub(crate) fn seen(claim: bool, otherwise: impl FnOnce() -> String) -> Look<()> {
    if claim { Look::Seen(()) } else { Look::NotYet(otherwise()) }
}
