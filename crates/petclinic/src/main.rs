//! The sample application: one page with a picture, on three ports.
//!
//! Plain HTTP on 8080 and 8778, HTTPS on 8443 with a certificate that is made at every start. SIGTERM
//! closes the ports, lets open answers finish and ends the program with success, so that a rolling
//! update loses no request.

mod http;
mod page;
#[cfg(test)]
mod picture;
mod server;
mod tls;

use std::net::{Ipv6Addr, SocketAddr};
use std::time::Duration;

use anyhow::Context as _;
use tokio::net::TcpListener;
use tokio::signal::unix::{SignalKind, signal};
use tokio_util::sync::CancellationToken;

use crate::server::{Door, Server};

/// Ports with plain HTTP.
const HTTP_PORTS: [u16; 2] = [8080, 8778];
/// Port with HTTPS.
const HTTPS_PORT: u16 = 8443;
/// How long open answers may take after SIGTERM; less than a pod's default grace of 30 s.
const DRAIN: Duration = Duration::from_secs(10);

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    let acceptor = tls::self_signed()?;
    let mut server = Server::new();
    for port in HTTP_PORTS {
        server.open(listen(port).await?, Door::Plain);
    }
    server.open(listen(HTTPS_PORT).await?, Door::Tls(acceptor));
    println!("petclinic answers on {HTTP_PORTS:?} (HTTP) and {HTTPS_PORT} (HTTPS)");

    server.serve_until(terminated()?, DRAIN).await;
    println!("petclinic ended");
    Ok(())
}

/// Listens on both address families where the machine has IPv6, else on IPv4.
async fn listen(port: u16) -> anyhow::Result<TcpListener> {
    if let Ok(listener) = TcpListener::bind((Ipv6Addr::UNSPECIFIED, port)).await {
        return Ok(listener);
    }
    let address = SocketAddr::from(([0, 0, 0, 0], port));
    TcpListener::bind(address).await.with_context(|| format!("cannot listen on {address}"))
}

/// A token that SIGTERM or SIGINT cancels.
fn terminated() -> anyhow::Result<CancellationToken> {
    let mut term = signal(SignalKind::terminate()).context("cannot handle SIGTERM")?;
    let mut interrupt = signal(SignalKind::interrupt()).context("cannot handle SIGINT")?;
    let token = CancellationToken::new();
    let cancelled = token.clone();
    tokio::spawn(async move {
        tokio::select! {
            _ = term.recv() => {}
            _ = interrupt.recv() => {}
        }
        cancelled.cancel();
    });
    Ok(token)
}
