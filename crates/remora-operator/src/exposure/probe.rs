//! Connecting to endpoints, from where the operator runs.

use std::io::ErrorKind;
use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

use futures::{StreamExt, stream};
use remora_api::service_exposure::{ExposureEndpoint, Protocol};
use remora_core::exposure_status::Probe;
use tokio::net::TcpStream;

/// How long an endpoint may take to accept a connection.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(2);
/// Connections tried at once for one exposure.
const AT_ONCE: usize = 64;

/// Connects to every endpoint with TCP and closes again; the results are in the endpoints' order.
pub(super) async fn connect_to_all(endpoints: &[ExposureEndpoint]) -> Vec<Probe> {
    let mut tried = endpoints.to_vec();
    tried.retain(|endpoint| endpoint.protocol == Protocol::Tcp);
    stream::iter(tried)
        .map(|endpoint| async move {
            let failure = connect(&endpoint).await.err();
            Probe { endpoint, failure }
        })
        .buffered(AT_ONCE)
        .collect()
        .await
}

async fn connect(endpoint: &ExposureEndpoint) -> Result<(), String> {
    let ip: IpAddr = endpoint.address.parse().map_err(|_| "no IP address".to_owned())?;
    let port = u16::try_from(endpoint.port).map_err(|_| "no port number".to_owned())?;
    let connecting = TcpStream::connect(SocketAddr::new(ip, port));
    match tokio::time::timeout(CONNECT_TIMEOUT, connecting).await {
        Ok(Ok(_)) => Ok(()),
        Ok(Err(error)) => Err(told(&error)),
        Err(_) => Err(format!("no answer within {} s", CONNECT_TIMEOUT.as_secs())),
    }
}

/// The usual failures in words without numbers, so that a condition's message is steady.
fn told(error: &std::io::Error) -> String {
    match error.kind() {
        ErrorKind::ConnectionRefused => "connection refused".to_owned(),
        ErrorKind::ConnectionReset => "connection reset".to_owned(),
        ErrorKind::HostUnreachable => "no route to host".to_owned(),
        ErrorKind::NetworkUnreachable => "network unreachable".to_owned(),
        _ => error.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use tokio::net::TcpListener;

    use super::*;

    fn endpoint(port: u16, protocol: Protocol) -> ExposureEndpoint {
        ExposureEndpoint {
            address: "127.0.0.1".to_owned(),
            port: port.into(),
            service_port: 80,
            target_port: 30001,
            protocol,
            name: None,
        }
    }

    #[tokio::test]
    async fn an_open_port_answers_a_closed_one_is_refused_and_udp_is_not_tried() {
        let open = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let closed = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let ports = [&open, &closed].map(|listener| listener.local_addr().unwrap().port());
        drop(closed);
        let probes = connect_to_all(&[
            endpoint(ports[0], Protocol::Tcp),
            endpoint(ports[1], Protocol::Tcp),
            endpoint(ports[0], Protocol::Udp),
        ])
        .await;
        let failures: Vec<Option<String>> = probes.into_iter().map(|probe| probe.failure).collect();
        assert_eq!(failures, [None, Some("connection refused".to_owned())]);
    }
}
