//! Forwards a host's own port to an API server that answers.
//!
//! Every host reaches the API this way, with one master or three, so that a host does not depend
//! on the master it happened to start with.

use std::net::{Ipv4Addr, SocketAddr};
use std::time::Duration;

use tokio::io::copy_bidirectional;
use tokio::net::{TcpListener, TcpStream};
use tokio::time::timeout;

use crate::error::LabError;
use crate::topology::FORWARDER_PORT;

const CONNECT_TIMEOUT: Duration = Duration::from_secs(1);
/// How long to rest when a connection cannot be taken, as when files run out.
const REST: Duration = Duration::from_millis(200);

/// Forwards from a thread of its own for as long as the process lives.
pub(crate) fn start(servers: Vec<SocketAddr>) -> Result<(), LabError> {
    let action = "start the forwarder";
    let address = (Ipv4Addr::LOCALHOST, FORWARDER_PORT);
    let listener = std::net::TcpListener::bind(address)
        .map_err(LabError::system(format!("listen on 127.0.0.1:{FORWARDER_PORT}")))?;
    listener.set_nonblocking(true).map_err(LabError::system(action))?;
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(LabError::system(action))?;
    let serve = async move {
        match TcpListener::from_std(listener) {
            Ok(listener) => forward(listener, servers).await,
            Err(error) => tracing::error!(%error, "cannot forward to the API servers"),
        }
    };
    std::thread::Builder::new()
        .name("forwarder".to_owned())
        .spawn(move || runtime.block_on(serve))
        .map_err(LabError::system(action))?;
    Ok(())
}

async fn forward(listener: TcpListener, mut servers: Vec<SocketAddr>) {
    loop {
        let Ok((client, _)) = listener.accept().await else {
            tokio::time::sleep(REST).await;
            continue;
        };
        if let Some(server) = connect(&mut servers).await {
            tokio::spawn(relay(client, server));
        }
    }
}

/// Connects to the first server that answers and remembers it as the first to ask next time.
async fn connect(servers: &mut [SocketAddr]) -> Option<TcpStream> {
    for index in 0..servers.len() {
        let Some(server) = servers.get(index) else { break };
        if let Ok(Ok(connection)) = timeout(CONNECT_TIMEOUT, TcpStream::connect(server)).await {
            servers.rotate_left(index);
            return Some(connection);
        }
    }
    None
}

async fn relay(mut client: TcpStream, mut server: TcpStream) {
    // Either side may end at any time; both learn it by the end of their connection.
    let _ = client.set_nodelay(true);
    let _ = server.set_nodelay(true);
    let _ = copy_bidirectional(&mut client, &mut server).await;
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The first of the reserved ports: nobody is given it by chance.
    const DEAD: SocketAddr = SocketAddr::new(std::net::IpAddr::V4(Ipv4Addr::LOCALHOST), 1);

    #[tokio::test]
    async fn when_the_first_server_is_dead_the_next_is_asked_and_stays_first() {
        let live = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let live_at = live.local_addr().unwrap();
        let mut servers = vec![DEAD, live_at];
        let connection = connect(&mut servers).await.unwrap();
        assert_eq!(connection.peer_addr().unwrap(), live_at);
        assert_eq!(servers, [live_at, DEAD]);
    }

    #[tokio::test]
    async fn when_no_server_answers_there_is_no_connection() {
        assert!(connect(&mut [DEAD]).await.is_none());
    }
}
