//! Waiting for something to become true.

use std::time::Duration;

use anyhow::Context as _;
use tokio::time::Instant;

/// Pause between two looks: short beside what is waited for, long beside what a look costs.
const PAUSE: Duration = Duration::from_millis(50);

/// Calls `probe` until it succeeds, and gives up after `deadline` with what it said last.
///
/// The probe has to look at the present state, not at events. The deadline is there to end a test
/// that hangs: ten times what was measured, never a judgement of speed.
///
/// # Errors
/// When the deadline passes: the last error of the probe.
pub async fn eventually<T>(
    what: &str,
    deadline: Duration,
    mut probe: impl AsyncFnMut() -> anyhow::Result<T>,
) -> anyhow::Result<T> {
    let end = Instant::now() + deadline;
    let mut last = None;
    while Instant::now() < end {
        match tokio::time::timeout_at(end, probe()).await {
            Ok(Ok(value)) => return Ok(value),
            Ok(Err(error)) => last = Some(error),
            Err(_) => break,
        }
        tokio::time::sleep(PAUSE).await;
    }
    let last = last.unwrap_or_else(|| anyhow::anyhow!("the first look did not end"));
    Err(last).with_context(|| format!("{what}: not within {deadline:?}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn the_last_error_is_told_when_the_deadline_passes() {
        let mut looks = 0;
        let result: anyhow::Result<()> =
            eventually("the moon", Duration::from_secs(2), async || {
                looks += 1;
                anyhow::bail!("it is day, look {looks}")
            })
            .await;
        let message = format!("{:#}", result.unwrap_err());
        assert!(message.starts_with("the moon: not within 2s: it is day, look "), "{message}");
        assert!(looks > 1);
    }

    #[tokio::test]
    async fn a_probe_that_hangs_is_ended() {
        let result: anyhow::Result<()> =
            eventually("the moon", Duration::from_millis(20), async || {
                std::future::pending().await
            })
            .await;
        let message = format!("{:#}", result.unwrap_err());
        assert_eq!(message, "the moon: not within 20ms: the first look did not end");
    }
}
