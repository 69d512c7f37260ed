//! What the operator is told when it is started.

use clap::{Parser, ValueEnum};

/// Runs hosted control planes: reconciles HostedClusters, NodePools and ServiceExposures.
#[derive(Clone, Debug, Parser)]
#[command(name = "remora-operator", version)]
pub struct Options {
    /// Registry (host:port) to talk to over plain HTTP; repeatable.
    #[arg(long = "insecure-registry", value_name = "HOST:PORT")]
    pub insecure_registries: Vec<String>,

    /// Namespace the operator runs in.
    #[arg(long, env = "POD_NAMESPACE", default_value = "remora")]
    pub namespace: String,

    /// Name under which this process reports events.
    #[arg(long, env = "POD_NAME", default_value = "remora-operator")]
    pub instance: String,

    /// Form of the log lines.
    #[arg(long, value_enum, default_value_t = LogFormat::Json)]
    pub log_format: LogFormat,

    /// Port of the health endpoints /healthz and /readyz.
    #[arg(long, default_value_t = 8080)]
    pub health_port: u16,
}

/// Form of the log lines.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum LogFormat {
    /// One JSON object per line.
    Json,
    /// For people.
    Text,
}
