//! The operator's program: options, logs, signals; the work is in the library.

use clap::Parser;
use kube::Client;
use remora_operator::context::Context;
use remora_operator::options::{LogFormat, Options};
use remora_operator::session::Sessions;
use remora_operator::{error, exposure, health, hosted_cluster, node_pool};
use tokio::signal::unix::{SignalKind, signal};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use tracing_subscriber::EnvFilter;

/// Why the operator could not run.
#[derive(Debug, thiserror::Error)]
enum StartError {
    #[error("cannot install the TLS provider")]
    Tls,
    #[error("cannot listen on the health port {port}")]
    Health {
        port: u16,
        #[source]
        source: std::io::Error,
    },
    #[error("cannot find the hosting cluster")]
    Config(#[source] kube::config::InferConfigError),
    #[error("cannot make a client to the hosting cluster")]
    Client(#[source] Box<kube::Error>),
    #[error("cannot listen for signals")]
    Signals(#[source] std::io::Error),
}

#[tokio::main]
async fn main() -> std::process::ExitCode {
    let options = Options::parse();
    start_logs(options.log_format);
    match run(options).await {
        Ok(()) => std::process::ExitCode::SUCCESS,
        Err(failure) => {
            tracing::error!(error = %error::chain(&failure), "cannot start");
            std::process::ExitCode::FAILURE
        }
    }
}

fn start_logs(format: LogFormat) {
    // The client's own lines repeat what the controllers say with the object in it.
    let filter = EnvFilter::try_from_default_env()
        .unwrap_or_else(|_| EnvFilter::new("info,kube_client=off,kube_runtime=error"));
    let builder = tracing_subscriber::fmt().with_env_filter(filter).with_writer(std::io::stderr);
    match format {
        LogFormat::Json => builder.json().flatten_event(true).init(),
        LogFormat::Text => builder.init(),
    }
}

async fn run(options: Options) -> Result<(), StartError> {
    rustls::crypto::ring::default_provider().install_default().map_err(|_| StartError::Tls)?;
    let port = options.health_port;
    let listener =
        health::bind(port).await.map_err(|source| StartError::Health { port, source })?;
    let config = kube::Config::infer().await.map_err(StartError::Config)?;
    let client = Client::try_from(config).map_err(|error| StartError::Client(Box::new(error)))?;

    let shutdown = CancellationToken::new();
    let tracker = TaskTracker::new();
    let sessions = Sessions::new(shutdown.clone(), tracker.clone());
    let context = Context::new(client, options, sessions);

    tracker.spawn(health::run(listener, shutdown.clone()));
    tracker.spawn(hosted_cluster::controller::run(context.clone(), shutdown.clone()));
    tracker.spawn(node_pool::controller::run(context.clone(), shutdown.clone()));
    tracker.spawn(exposure::controller::run(context.clone(), shutdown.clone()));
    tracker.spawn(exposure::policy::controller::run(context.clone(), shutdown.clone()));

    tracing::info!(version = env!("CARGO_PKG_VERSION"), "operator started");
    stop_signal().await.map_err(StartError::Signals)?;
    tracing::info!("operator stops");
    shutdown.cancel();
    tracker.close();
    tracker.wait().await;
    Ok(())
}

/// Ends when the process is asked to stop.
async fn stop_signal() -> std::io::Result<()> {
    let mut terminate = signal(SignalKind::terminate())?;
    let mut interrupt = signal(SignalKind::interrupt())?;
    tokio::select! {
        _ = terminate.recv() => Ok(()),
        _ = interrupt.recv() => Ok(()),
    }
}
