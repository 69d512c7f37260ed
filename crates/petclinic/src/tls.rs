//! The certificate of the HTTPS port: self-signed, made at every start, never stored.

use std::sync::Arc;

use anyhow::Context as _;
use rustls::ServerConfig;
use rustls::pki_types::PrivateKeyDer;
use tokio_rustls::TlsAcceptor;

/// Makes a key and a certificate for `localhost` and `petclinic`, and what accepts TLS with them.
pub(crate) fn self_signed() -> anyhow::Result<TlsAcceptor> {
    let names = ["localhost".to_owned(), "petclinic".to_owned()];
    let made = rcgen::generate_simple_self_signed(names).context("cannot make a certificate")?;
    let key = PrivateKeyDer::try_from(made.signing_key.serialize_der())
        .map_err(|reason| anyhow::anyhow!("cannot read the key just made: {reason}"))?;
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .context("cannot choose TLS versions")?
        .with_no_client_auth()
        .with_single_cert(vec![made.cert.der().clone()], key)
        .context("cannot use the certificate just made")?;
    Ok(TlsAcceptor::from(Arc::new(config)))
}
