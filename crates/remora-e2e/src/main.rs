//! `e2e-probe`: what the stories run in pods of a hosted cluster.
//!
//! One small static program, so that a story needs no image with a shell in it: it asks for a page as a pod sees
//! it (names, Services, the network between nodes), and it serves an admission webhook.

mod fetch;
mod webhook;

use std::path::PathBuf;

use clap::{Parser, Subcommand};

/// Runs inside a pod of a hosted cluster and does one thing there.
#[derive(Parser)]
#[command(name = "e2e-probe")]
struct Arguments {
    #[command(subcommand)]
    task: Task,
}

#[derive(Subcommand)]
enum Task {
    /// Prints the body of an http:// page.
    Fetch {
        /// Address, for example http://petclinic-np.petclinic.svc:8080/.
        url: hyper::Uri,
    },
    /// Serves an admission webhook on 0.0.0.0:8443 that refuses objects labelled `pet: dragon`.
    Webhook {
        /// Serving certificate, PEM.
        #[arg(long)]
        certificate: PathBuf,
        /// Its key, PEM.
        #[arg(long)]
        key: PathBuf,
    },
    /// Waits to be ended; a story then runs `fetch` in this pod.
    Wait,
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> anyhow::Result<()> {
    match Arguments::parse().task {
        Task::Fetch { url } => fetch::print(url).await,
        Task::Webhook { certificate, key } => {
            tokio::select! {
                served = webhook::serve(&certificate, &key) => served,
                ended = ended() => ended,
            }
        }
        Task::Wait => {
            println!("e2e-probe: waiting");
            ended().await
        }
    }
}

/// Process 1 of a container has no default handlers: without this, deleting the pod takes its whole grace period.
async fn ended() -> anyhow::Result<()> {
    let mut terminate = tokio::signal::unix::signal(tokio::signal::unix::SignalKind::terminate())?;
    terminate.recv().await;
    Ok(())
}
