//! Asks for a page.

use std::io::Write;
use std::time::Duration;

use anyhow::{Context, ensure};
use http_body_util::{BodyExt, Empty};
use hyper::body::Bytes;
use hyper::header::HOST;
use hyper::{Request, Uri};
use hyper_util::rt::TokioIo;
use tokio::net::TcpStream;

/// Catches a hang; a page in the cluster takes milliseconds.
const DEADLINE: Duration = Duration::from_secs(30);

/// Prints the body of a page; an answer other than 2xx is an error.
pub(crate) async fn print(url: Uri) -> anyhow::Result<()> {
    let body = tokio::time::timeout(DEADLINE, body_of(&url))
        .await
        .with_context(|| format!("{url} did not answer in {} s", DEADLINE.as_secs()))??;
    std::io::stdout().write_all(&body).context("cannot write the page")
}

async fn body_of(url: &Uri) -> anyhow::Result<Bytes> {
    ensure!(url.scheme_str() == Some("http"), "{url}: only http:// pages can be asked for");
    let host = url.host().with_context(|| format!("{url} names no host"))?;
    let port = url.port_u16().unwrap_or(80);
    let stream = TcpStream::connect((host, port))
        .await
        .with_context(|| format!("cannot connect to {host}:{port}"))?;
    let (mut sender, connection) =
        hyper::client::conn::http1::handshake(TokioIo::new(stream)).await?;
    let driver = tokio::spawn(connection);
    let request = Request::get(url.path_and_query().map_or("/", |path| path.as_str()))
        .header(HOST, format!("{host}:{port}"))
        .body(Empty::<Bytes>::new())?;
    let answer = sender.send_request(request).await.with_context(|| format!("cannot get {url}"))?;
    ensure!(answer.status().is_success(), "{url} answered {}", answer.status());
    let body = answer.into_body().collect().await?.to_bytes();
    driver.abort();
    Ok(body)
}
