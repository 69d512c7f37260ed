//! The demo's last steps: the application, its exposure, and its page from outside.

use std::time::{Duration, Instant};

use futures::StreamExt;
use futures::stream::FuturesOrdered;
use k8s_openapi::api::apps::v1::Deployment;
use kube::Client;
use kube::core::DynamicObject;
use remora_api::conditions::ExposureConditionType;
use serde_json::json;
use tokio::process::Command;

use super::cluster::Tell;
use super::{EXPOSURE, NAMESPACE};
use crate::failure::Failure;
use crate::manifest;
use crate::wait::{Look, until, until_condition};

/// The line of the page that shows the picture.
const IMAGE_LINE: &str = r#"<img class="img-responsive" src="/resources/images/pets.png"/>"#;
/// The application's ports on the hosting nodes.
const PAGES: [(&str, u16); 3] = [("http", 30001), ("https", 30002), ("http", 30003)];
/// First bytes of every PNG.
const PNG: &[u8] = b"\x89PNG\r\n\x1a\n";
/// Limits that catch a hang.
const APPLICATION: Duration = Duration::from_secs(900);
const REACHABLE: Duration = Duration::from_secs(600);
const ANSWER: Duration = Duration::from_secs(15);
const SETTLED: Duration = Duration::from_secs(120);
/// Pause between two attempts.
const PAUSE: Duration = Duration::from_millis(500);

/// Applies the application in the hosted cluster, waits for it, and reads its page through the hosted API server.
pub(super) async fn application(
    hosted: &Client,
    manifests: &[&str],
    tell: Tell<'_>,
) -> Result<String, Failure> {
    // The service account of a new namespace takes a moment, which the Deployment waits for by itself.
    for text in manifests {
        manifest::apply(hosted, &manifest::from_yaml(text)?).await?;
    }
    let deployment = manifest::from_json(json!({
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"namespace": "petclinic", "name": "petclinic"},
    }))?;
    until(hosted, &deployment, "application available", APPLICATION, tell, is_rolled_out).await?;
    tell("reading the page through the hosted API server");
    patiently(async || {
        let service = "/api/v1/namespaces/petclinic/services/petclinic-np:http/proxy";
        let page = read_through_api(hosted, &format!("{service}/")).await?;
        let picture = format!("{service}/resources/images/pets.png");
        // The API server's proxy turns the links of a page into links through itself.
        if !page.contains(&format!(r#"src="{picture}""#)) {
            let problem = format!("the page lacks the picture; it is {page:?}");
            return Err(Failure::Page { place: service.to_owned(), problem });
        }
        read_through_api(hosted, &picture).await
    })
    .await?;
    Ok("   page and picture are served inside the hosted cluster\n".to_owned())
}

fn is_rolled_out(found: Option<&DynamicObject>) -> Look {
    let parsed = found.and_then(|found| found.clone().try_parse::<Deployment>().ok());
    let Some(deployment) = parsed else { return Look::NotYet("it does not exist".to_owned()) };
    let wanted = deployment.spec.and_then(|spec| spec.replicas).unwrap_or(1);
    let status = deployment.status.unwrap_or_default();
    let available = status.available_replicas.unwrap_or_default();
    let is_current = status.observed_generation == deployment.metadata.generation;
    if is_current && available >= wanted && status.updated_replicas == Some(wanted) {
        Look::Done
    } else {
        Look::NotYet(format!("{available} of {wanted} pods are available"))
    }
}

async fn read_through_api(client: &Client, path: &str) -> Result<String, Failure> {
    let unreadable = |source: http::Error| Failure::Unreadable {
        object: path.to_owned(),
        source: Box::new(source),
    };
    let request = http::Request::get(path).body(Vec::new()).map_err(unreadable)?;
    let mut body = client.send(request.map(kube::client::Body::from)).await;
    let response = body.as_mut().map_err(|_| ()).map(|response| response.status());
    let answer = body.map_err(Failure::request("read", path))?;
    if response.is_ok_and(|status| !status.is_success()) {
        return Err(Failure::Page { place: path.to_owned(), problem: answer.status().to_string() });
    }
    let bytes = answer.into_body().collect_bytes().await;
    let bytes = bytes.map_err(Failure::request("read", path))?;
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

/// Applies the exposure and waits until the operator has connected to every endpoint.
pub(super) async fn exposed(
    hosting: &Client,
    text: &str,
    tell: Tell<'_>,
) -> Result<String, Failure> {
    let objects = manifest::from_yaml(text)?;
    manifest::apply(hosting, &objects).await?;
    let reachable = ExposureConditionType::Reachable.as_str();
    for object in &objects {
        until_condition(hosting, object, reachable, REACHABLE, tell).await?;
    }
    Ok(format!("   ServiceExposure {NAMESPACE}/{EXPOSURE} is reachable\n"))
}

/// Fetches the page and the picture from every worker's three ports, as anyone outside would.
pub(super) async fn seen_on(workers: &[String], tell: Tell<'_>) -> Result<String, Failure> {
    let mut shown = String::new();
    for worker in workers {
        tell(worker);
        let mut fetched: FuturesOrdered<_> =
            PAGES.iter().map(|(scheme, port)| patiently(|| see(scheme, worker, *port))).collect();
        while let Some(lines) = fetched.next().await {
            shown.push_str(&lines?);
        }
    }
    Ok(shown)
}

/// Tries again for a while: the machines' kube-proxies do not learn of a new Service all at once.
async fn patiently<T>(work: impl AsyncFn() -> Result<T, Failure>) -> Result<T, Failure> {
    let start = Instant::now();
    let mut pause = tokio::time::interval(PAUSE);
    loop {
        pause.tick().await;
        match work().await {
            Err(_) if start.elapsed() < SETTLED => {}
            result => return result,
        }
    }
}

async fn see(scheme: &str, worker: &str, port: u16) -> Result<String, Failure> {
    let url = format!("{scheme}://{worker}:{port}");
    let page = curl(&url).await?;
    let page = String::from_utf8_lossy(&page).into_owned();
    require_line(&page, &url)?;
    let picture = curl(&format!("{url}/resources/images/pets.png")).await?;
    if !picture.starts_with(PNG) {
        let problem = "what is served as the picture is no PNG".to_owned();
        return Err(Failure::Page { place: url, problem });
    }
    let found: Vec<&str> = page.lines().filter(|line| line.contains("pet")).collect();
    let insecure = if scheme == "https" { "k" } else { "" };
    Ok(format!("   $ curl -s{insecure} {url} | grep pet\n   {}\n", found.join("\n   ")))
}

async fn curl(url: &str) -> Result<Vec<u8>, Failure> {
    let problem = |problem: String| Failure::Page { place: url.to_owned(), problem };
    // The application's certificate is its own: -k.
    let limit = ANSWER.as_secs().to_string();
    let output = Command::new("curl")
        .args(["--silent", "--show-error", "--fail", "--insecure", "--noproxy", "*"])
        .args(["--max-time", &limit, url])
        .kill_on_drop(true)
        .output()
        .await
        .map_err(|error| problem(format!("cannot run curl: {error}")))?;
    if output.status.success() {
        Ok(output.stdout)
    } else {
        Err(problem(String::from_utf8_lossy(&output.stderr).trim().to_owned()))
    }
}

fn require_line(page: &str, place: &str) -> Result<(), Failure> {
    if page.lines().any(|line| line == IMAGE_LINE) {
        return Ok(());
    }
    let problem = format!("the page lacks the picture's line; it is {page:?}");
    Err(Failure::Page { place: place.to_owned(), problem })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_without_the_picture_is_told_apart() {
        assert!(require_line(&format!("<p>\n{IMAGE_LINE}\n"), "a").is_ok());
        assert!(require_line("<img src=\"/resources/images/pets.png\"/>", "a").is_err());
    }
}
