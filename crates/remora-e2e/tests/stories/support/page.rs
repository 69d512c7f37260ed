//! The application's page, asked for from outside: from the machine itself, the lab's bastion.

use std::time::Duration;

use anyhow::ensure;
use tokio::process::Command;

use super::wait::{Look, until};

/// The line of the page that the sample application is known by.
pub(crate) const IMAGE_LINE: &str =
    r#"<img class="img-responsive" src="/resources/images/pets.png"/>"#;
/// Seconds that one request may take.
const REQUEST_SECONDS: &str = "10";

/// One GET, the way a user does it; `-k` because the application's certificate is its own.
pub(crate) async fn get(url: &str) -> anyhow::Result<Vec<u8>> {
    let output = Command::new("curl")
        .args(["-sSk", "--noproxy", "*", "--fail", "--max-time", REQUEST_SECONDS, url])
        .kill_on_drop(true)
        .output()
        .await?;
    ensure!(output.status.success(), "{url}: {}", String::from_utf8_lossy(&output.stderr).trim());
    Ok(output.stdout)
}

/// Waits until a page holds the image line.
pub(crate) async fn shows_the_picture(url: &str, deadline: Duration) -> anyhow::Result<()> {
    until(&format!("{url} shows the picture"), deadline, || async {
        let page = String::from_utf8(get(url).await?)?;
        Ok(if page.contains(IMAGE_LINE) { Look::Seen(()) } else { Look::NotYet(page) })
    })
    .await
}
