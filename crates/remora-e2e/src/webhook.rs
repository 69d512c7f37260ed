//! An admission webhook with one rule.

use std::convert::Infallible;
use std::net::Ipv4Addr;
use std::path::Path;
use std::sync::Arc;

use anyhow::Context;
use http_body_util::{BodyExt, Full};
use hyper::body::{Bytes, Incoming};
use hyper::service::service_fn;
use hyper::{Request, Response, StatusCode};
use hyper_util::rt::TokioIo;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use serde_json::{Value, json};
use tokio::net::TcpListener;
use tokio_rustls::TlsAcceptor;

/// Port of the webhook.
const PORT: u16 = 8443;

/// Serves until the process ends.
pub(crate) async fn serve(certificate: &Path, key: &Path) -> anyhow::Result<()> {
    let acceptor = acceptor(certificate, key)?;
    let listener = TcpListener::bind((Ipv4Addr::UNSPECIFIED, PORT)).await?;
    println!("e2e-probe: webhook on port {PORT}");
    loop {
        let (stream, _) = listener.accept().await?;
        let acceptor = acceptor.clone();
        tokio::spawn(async move {
            // A client that breaks off is its own affair.
            let Ok(stream) = acceptor.accept(stream).await else { return };
            let _ = hyper::server::conn::http1::Builder::new()
                .serve_connection(TokioIo::new(stream), service_fn(answer))
                .await;
        });
    }
}

fn acceptor(certificate: &Path, key: &Path) -> anyhow::Result<TlsAcceptor> {
    let chain = CertificateDer::pem_file_iter(certificate)
        .and_then(Iterator::collect::<Result<Vec<_>, _>>)
        .with_context(|| format!("cannot read {}", certificate.display()))?;
    let key = PrivateKeyDer::from_pem_file(key)
        .with_context(|| format!("cannot read {}", key.display()))?;
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = rustls::ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()?
        .with_no_client_auth()
        .with_single_cert(chain, key)?;
    Ok(TlsAcceptor::from(Arc::new(config)))
}

async fn answer(request: Request<Incoming>) -> Result<Response<Full<Bytes>>, Infallible> {
    let body = request.into_body().collect().await.map(|body| body.to_bytes()).unwrap_or_default();
    let (status, text) = match serde_json::from_slice::<Value>(&body) {
        Ok(review) => (StatusCode::OK, verdict(&review).to_string()),
        Err(_) => (StatusCode::BAD_REQUEST, "no AdmissionReview\n".to_owned()),
    };
    let mut response = Response::new(Full::from(text));
    *response.status_mut() = status;
    Ok(response)
}

/// The AdmissionReview that answers one.
fn verdict(review: &Value) -> Value {
    let is_dragon = review.pointer("/request/object/metadata/labels/pet") == Some(&json!("dragon"));
    json!({
        "apiVersion": "admission.k8s.io/v1",
        "kind": "AdmissionReview",
        "response": {
            "uid": review.pointer("/request/uid"),
            "allowed": !is_dragon,
            "status": { "message": "the clinic takes no dragons" },
        },
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_dragons_are_refused() {
        let review = |pet: &str| json!({"request": {"uid": "u-1", "object": {"metadata": {"labels": {"pet": pet}}}}});
        assert_eq!(verdict(&review("dragon"))["response"]["allowed"], json!(false));
        assert_eq!(verdict(&review("cat"))["response"]["allowed"], json!(true));
        assert_eq!(verdict(&review("cat"))["response"]["uid"], json!("u-1"));
    }
}
