//! The command line: remora.

mod cli;
mod cluster_objects;
mod connect;
mod create;
mod demo;
mod describe;
mod destroy;
mod dump;
mod expose;
mod failure;
mod get;
mod hosted;
mod install;
mod lab;
mod manifest;
mod output;
mod pool_options;
mod progress;
mod render;
mod wait;

use std::io::IsTerminal;
use std::process::ExitCode;

use clap::Parser;
use tracing_subscriber::EnvFilter;

use crate::cli::Cli;
use crate::failure::Failure;

#[tokio::main]
async fn main() -> ExitCode {
    let filter = EnvFilter::try_from_default_env()
        .unwrap_or_else(|_| EnvFilter::new("info,kube_client=off,kube_runtime=off"));
    tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_writer(std::io::stderr)
        .with_ansi(std::io::stderr().is_terminal())
        .init();
    let cli = Cli::parse();
    let result = match rustls::crypto::ring::default_provider().install_default() {
        Ok(()) => cli.run().await,
        Err(_) => Err(Failure::Tls),
    };
    match result {
        Ok(code) => code,
        Err(failure) => {
            output::failure(failure);
            ExitCode::FAILURE
        }
    }
}
