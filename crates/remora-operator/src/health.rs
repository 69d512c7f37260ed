//! The health endpoints, for the kubelet's probes: /healthz as long as the process runs, /readyz likewise until it
//! is told to stop.

use std::net::{Ipv4Addr, SocketAddr};
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio_util::sync::CancellationToken;

/// Longest request head that is read; a probe's is far shorter.
const MAX_REQUEST_BYTES: usize = 4096;

/// How long a client may take to send its request.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(5);

/// Opens the port of the health endpoints.
pub async fn bind(port: u16) -> std::io::Result<TcpListener> {
    TcpListener::bind(SocketAddr::from((Ipv4Addr::UNSPECIFIED, port))).await
}

/// Answers probes until `shutdown`.
pub async fn run(listener: TcpListener, shutdown: CancellationToken) {
    loop {
        let accepted = tokio::select! {
            () = shutdown.cancelled() => return,
            accepted = listener.accept() => accepted,
        };
        match accepted {
            // One at a time: probes are rare, and so a flood of connections costs nothing.
            Ok((stream, _)) => {
                let _ = tokio::time::timeout(REQUEST_TIMEOUT, answer(stream)).await;
            }
            Err(error) => tracing::debug!(%error, "cannot accept a probe"),
        }
    }
}

async fn answer(mut stream: TcpStream) -> std::io::Result<()> {
    let mut request = Vec::with_capacity(256);
    let mut buffer = [0_u8; 512];
    while request.len() < MAX_REQUEST_BYTES && !request.windows(4).any(|end| end == b"\r\n\r\n") {
        match stream.read(&mut buffer).await? {
            0 => break,
            read => request.extend(buffer.iter().take(read)),
        }
    }
    stream.write_all(response_to(&request).as_bytes()).await?;
    stream.shutdown().await
}

fn response_to(request: &[u8]) -> &'static str {
    if request.starts_with(b"GET /healthz ") || request.starts_with(b"GET /readyz ") {
        "HTTP/1.1 200 OK\r\ncontent-type: text/plain\r\ncontent-length: 3\r\nconnection: close\r\n\r\nok\n"
    } else {
        "HTTP/1.1 404 Not Found\r\ncontent-length: 0\r\nconnection: close\r\n\r\n"
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn when_a_probe_asks_it_is_answered_and_anything_else_is_not() {
        assert!(response_to(b"GET /healthz HTTP/1.1\r\n\r\n").starts_with("HTTP/1.1 200"));
        assert!(response_to(b"GET /readyz HTTP/1.1\r\n\r\n").starts_with("HTTP/1.1 200"));
        assert!(response_to(b"GET /secrets HTTP/1.1\r\n\r\n").starts_with("HTTP/1.1 404"));
    }
}
