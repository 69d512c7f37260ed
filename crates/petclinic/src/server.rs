//! The ports: accepting, answering, and ending without cutting an answer.

use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;
use tokio::time::timeout;
use tokio_rustls::TlsAcceptor;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::http::{Head, answer, bad_request, read_head};

/// How long one connection may take from its first to its last byte.
const CONNECTION_DEADLINE: Duration = Duration::from_secs(20);
/// Pause after a failed accept (such as "too many open files"), so that the loop does not spin.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);
/// Connections answered at once; others wait in the kernel's queue.
const CONNECTIONS_AT_ONCE: usize = 256;

/// What a port speaks.
#[derive(Clone)]
pub(crate) enum Door {
    /// HTTP.
    Plain,
    /// HTTP inside TLS.
    Tls(TlsAcceptor),
}

/// The open ports and the connections being answered.
pub(crate) struct Server {
    tasks: TaskTracker,
    closing: CancellationToken,
    permits: Arc<Semaphore>,
    served_by: Arc<str>,
}

impl Server {
    /// A server without a port.
    pub(crate) fn new() -> Self {
        // Kubernetes sets HOSTNAME to the pod's name.
        let served_by = std::env::var("HOSTNAME").unwrap_or_default();
        Self {
            tasks: TaskTracker::new(),
            closing: CancellationToken::new(),
            permits: Arc::new(Semaphore::new(CONNECTIONS_AT_ONCE)),
            served_by: served_by.into(),
        }
    }

    /// Starts answering on a port.
    pub(crate) fn open(&mut self, listener: TcpListener, door: Door) {
        let tasks = self.tasks.clone();
        let closing = self.closing.clone();
        let permits = self.permits.clone();
        let served_by = self.served_by.clone();
        self.tasks.spawn(async move {
            loop {
                let (stream, client) = tokio::select! {
                    () = closing.cancelled() => return,
                    accepted = listener.accept() => match accepted {
                        Ok((stream, client)) => (stream, client.ip()),
                        Err(_) => {
                            tokio::time::sleep(ACCEPT_PAUSE).await;
                            continue;
                        }
                    },
                };
                let Ok(permit) = permits.clone().acquire_owned().await else { return };
                let (door, served_by) = (door.clone(), served_by.clone());
                tasks.spawn(async move {
                    let _permit = permit;
                    // A client that goes away or is slow is its own affair: nothing to report.
                    let _ =
                        timeout(CONNECTION_DEADLINE, converse((stream, client), door, &served_by))
                            .await;
                });
            }
        });
    }

    /// Answers until the token is cancelled, then closes the ports and waits for open answers, `drain` at most.
    pub(crate) async fn serve_until(self, end: CancellationToken, drain: Duration) {
        end.cancelled().await;
        self.closing.cancel();
        self.tasks.close();
        if timeout(drain, self.tasks.wait()).await.is_err() {
            eprintln!("petclinic: gave up on connections still open after {} s", drain.as_secs());
        }
    }
}

async fn converse(
    (stream, client): (TcpStream, IpAddr),
    door: Door,
    served_by: &str,
) -> std::io::Result<()> {
    match door {
        Door::Plain => respond(stream, client, served_by).await,
        Door::Tls(acceptor) => respond(acceptor.accept(stream).await?, client, served_by).await,
    }
}

async fn respond<S>(mut stream: S, client: IpAddr, served_by: &str) -> std::io::Result<()>
where
    S: AsyncRead + AsyncWrite + Unpin,
{
    let mut bytes = Vec::new();
    let bytes = loop {
        match read_head(&bytes) {
            Head::Whole(request) => break answer(&request, client, served_by),
            Head::Refused => break bad_request(),
            Head::Unfinished => {}
        }
        if stream.read_buf(&mut bytes).await? == 0 {
            return Ok(());
        }
    };
    stream.write_all(&bytes).await?;
    stream.shutdown().await
}

#[cfg(test)]
mod tests {
    use std::net::{Ipv4Addr, SocketAddr};

    use rustls::pki_types::ServerName;
    use tokio::task::JoinHandle;
    use tokio_rustls::TlsConnector;

    use super::*;
    use crate::page::PICTURE;

    /// Catches a hang; an answer takes milliseconds.
    const DEADLINE: Duration = Duration::from_secs(30);

    async fn serve(door: Door) -> (SocketAddr, CancellationToken, JoinHandle<()>) {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
        let address = listener.local_addr().unwrap();
        let mut server = Server::new();
        server.open(listener, door);
        let end = CancellationToken::new();
        let task = tokio::spawn(server.serve_until(end.clone(), DEADLINE));
        (address, end, task)
    }

    async fn read_all<S: AsyncRead + Unpin>(mut stream: S) -> Vec<u8> {
        let mut bytes = Vec::new();
        timeout(DEADLINE, stream.read_to_end(&mut bytes)).await.unwrap().unwrap();
        bytes
    }

    #[tokio::test]
    async fn the_picture_is_served_whole() {
        let (address, _end, _task) = serve(Door::Plain).await;
        let mut stream = TcpStream::connect(address).await.unwrap();
        stream.write_all(b"GET /resources/images/pets.png HTTP/1.1\r\n\r\n").await.unwrap();
        assert!(read_all(stream).await.ends_with(PICTURE));
    }

    #[tokio::test]
    async fn the_tls_port_answers_with_the_certificate_made_at_start() {
        let acceptor = crate::tls::self_signed().unwrap();
        let (address, _end, _task) = serve(Door::Tls(acceptor)).await;
        let connector = TlsConnector::from(Arc::new(trusting_anyone()));
        let stream = TcpStream::connect(address).await.unwrap();
        let name = ServerName::try_from("petclinic").unwrap();
        let mut stream = connector.connect(name, stream).await.unwrap();
        stream.write_all(b"GET /healthz HTTP/1.1\r\n\r\n").await.unwrap();
        let answer = String::from_utf8(read_all(stream).await).unwrap();
        assert!(answer.ends_with("\r\n\r\nok\n"), "{answer}");
    }

    #[tokio::test]
    async fn an_answer_under_way_at_the_end_is_finished_and_new_connections_are_not_taken() {
        let (address, end, task) = serve(Door::Plain).await;
        let mut stream = TcpStream::connect(address).await.unwrap();
        stream.write_all(b"GET /healthz HT").await.unwrap();
        // A second connection's answer shows that the first one has been accepted before it.
        let mut second = TcpStream::connect(address).await.unwrap();
        second.write_all(b"GET /healthz HTTP/1.1\r\n\r\n").await.unwrap();
        read_all(second).await;

        end.cancel();
        stream.write_all(b"TP/1.1\r\n\r\n").await.unwrap();
        assert!(read_all(stream).await.ends_with(b"ok\n"));
        timeout(DEADLINE, task).await.unwrap().unwrap();
        assert!(TcpStream::connect(address).await.is_err());
    }

    fn trusting_anyone() -> rustls::ClientConfig {
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        rustls::ClientConfig::builder_with_provider(provider.clone())
            .with_safe_default_protocol_versions()
            .unwrap()
            .dangerous()
            .with_custom_certificate_verifier(Arc::new(Anyone(provider)))
            .with_no_client_auth()
    }

    #[derive(Debug)]
    struct Anyone(Arc<rustls::crypto::CryptoProvider>);

    impl rustls::client::danger::ServerCertVerifier for Anyone {
        fn verify_server_cert(
            &self,
            _: &rustls::pki_types::CertificateDer<'_>,
            _: &[rustls::pki_types::CertificateDer<'_>],
            _: &ServerName<'_>,
            _: &[u8],
            _: rustls::pki_types::UnixTime,
        ) -> Result<rustls::client::danger::ServerCertVerified, rustls::Error> {
            Ok(rustls::client::danger::ServerCertVerified::assertion())
        }

        fn verify_tls12_signature(
            &self,
            message: &[u8],
            certificate: &rustls::pki_types::CertificateDer<'_>,
            signed: &rustls::DigitallySignedStruct,
        ) -> Result<rustls::client::danger::HandshakeSignatureValid, rustls::Error> {
            let algorithms = &self.0.signature_verification_algorithms;
            rustls::crypto::verify_tls12_signature(message, certificate, signed, algorithms)
        }

        fn verify_tls13_signature(
            &self,
            message: &[u8],
            certificate: &rustls::pki_types::CertificateDer<'_>,
            signed: &rustls::DigitallySignedStruct,
        ) -> Result<rustls::client::danger::HandshakeSignatureValid, rustls::Error> {
            let algorithms = &self.0.signature_verification_algorithms;
            rustls::crypto::verify_tls13_signature(message, certificate, signed, algorithms)
        }

        fn supported_verify_schemes(&self) -> Vec<rustls::SignatureScheme> {
            self.0.signature_verification_algorithms.supported_schemes()
        }
    }
}
