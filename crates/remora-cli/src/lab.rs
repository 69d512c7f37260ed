//! `remora lab`: the hosting cluster on this machine.

use std::io::ErrorKind;
use std::process::ExitCode;
use std::sync::Arc;

use clap::{Args, Subcommand, ValueEnum};
use remora_lab::paths::Paths;
use remora_lab::progress::Progress;
use remora_lab::{HostReport, LabError, LabStatus, LogsOptions, ProgramState, UpOptions};

use crate::failure::Failure;
use crate::output;
use crate::progress::Console;

/// Runs a hosting cluster with KubeVirt on this machine.
///
/// Its hosts are network namespaces on 192.168.123.0/24; this machine is .1, the bastion. All of
/// its files are under REMORA_LAB_DIR (~/.cache/remora/lab); what it builds from upstream sources
/// is kept under REMORA_CACHE_DIR (~/.cache/remora) for the next time.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  remora lab up                         one master, three workers
  remora lab up --masters 3 --workers 2
  export KUBECONFIG=~/.cache/remora/lab/kubeconfig
  remora lab status -o json
  remora lab logs worker-1/kubelet --follow
  remora lab shell worker-1 -- ctr containers list
  remora lab demo                       everything: operator, hosted cluster, application
  remora lab down")]
pub(crate) struct LabCommand {
    #[command(subcommand)]
    verb: LabVerb,
}

#[derive(Debug, Subcommand)]
enum LabVerb {
    /// Brings the lab up, or mends what is broken of it.
    #[command(after_help = "Examples:\n  remora lab up\n  remora lab up --masters 3 --workers 1")]
    Up {
        /// How many masters: 1 or 3 [default: what the lab has, or 1].
        #[arg(long)]
        masters: Option<u8>,
        /// How many workers [default: what the lab has, or 3].
        #[arg(long)]
        workers: Option<u8>,
    },
    /// Shows everything, from nothing to an application's page on every worker.
    Demo(crate::demo::DemoCommand),
    /// Removes the lab: processes, namespaces, links, mounts, cgroups and files.
    #[command(after_help = "Example:\n  remora lab down")]
    Down,
    /// Shows each part of the lab and its health; fails when a part is not healthy.
    #[command(after_help = "Examples:\n  remora lab status\n  remora lab status -o json")]
    Status {
        /// How to show it.
        #[arg(short, long, value_enum, default_value_t)]
        output: Output,
    },
    /// Shows what a part says; without a name, which parts there are.
    #[command(after_help = "Examples:
  remora lab logs
  remora lab logs supervisor
  remora lab logs master-1/kube-apiserver --lines 200
  remora lab logs worker-1/kubelet --follow")]
    Logs {
        /// The part, such as `registry` or `worker-1/kubelet`.
        name: Option<String>,
        /// How many of the last lines to show.
        #[arg(long, default_value_t = 50)]
        lines: usize,
        /// Goes on showing what is added.
        #[arg(short, long)]
        follow: bool,
    },
    /// Runs a shell or one command on a host.
    #[command(after_help = "Examples:
  remora lab shell worker-1
  remora lab shell worker-1 -- ctr containers list
  remora lab shell master-1 -- kubectl get nodes")]
    Shell {
        /// The host, such as `worker-1`.
        host: String,
        /// The command; a shell when there is none.
        #[arg(last = true)]
        command: Vec<String>,
    },
    /// Installs what the machine lacks; `up` does so too.
    #[command(hide = true)]
    Packages,
    /// Keeps the lab's parts alive; started by `up`.
    #[command(hide = true)]
    Supervise,
    /// Becomes the first process of a host; started by `supervise`.
    #[command(hide = true)]
    HostInit {
        /// The host.
        host: String,
    },
}

/// How a report is shown.
#[derive(Clone, Copy, Debug, Default, ValueEnum)]
enum Output {
    /// For people.
    #[default]
    Text,
    /// For programs.
    Json,
}

impl LabCommand {
    /// Runs the command.
    pub(crate) async fn run(self) -> Result<ExitCode, Failure> {
        let paths = Paths::from_environment()?;
        match self.verb {
            LabVerb::Demo(demo) => demo.run(paths).await,
            LabVerb::Up { masters, workers } => up(&paths, UpOptions { masters, workers }).await,
            LabVerb::Down => {
                remora_lab::down(&paths, &Console::new())?;
                Ok(ExitCode::SUCCESS)
            }
            LabVerb::Packages => {
                remora_lab::install_packages(&Console::new())?;
                Ok(ExitCode::SUCCESS)
            }
            LabVerb::Status { output } => status(&paths, output).await,
            LabVerb::Logs { name, lines, follow } => {
                logs(&paths, name.as_deref(), LogsOptions { lines, follow })
            }
            LabVerb::Shell { host, command } => Ok(shell(&paths, &host, &command)?),
            LabVerb::Supervise => {
                remora_lab::supervise(&paths).await?;
                Ok(ExitCode::SUCCESS)
            }
            LabVerb::HostInit { host } => match remora_lab::host_init(&paths, &host)? {},
        }
    }
}

async fn up(paths: &Paths, options: UpOptions) -> Result<ExitCode, Failure> {
    let progress: Arc<dyn Progress> = Arc::new(Console::new());
    let lab = remora_lab::up(paths, &options, &progress).await?;
    let kubeconfig = lab.paths.kubeconfig();
    let kubectl = lab.paths.bin().join("kubectl");
    output::text(&format!(
        "\nThe lab is up: {} hosts. Go on with\n  export KUBECONFIG={}\n  {} get nodes -o wide\n",
        lab.topology.hosts.len(),
        kubeconfig.display(),
        kubectl.display()
    ))?;
    Ok(ExitCode::SUCCESS)
}

async fn status(paths: &Paths, format: Output) -> Result<ExitCode, Failure> {
    let status = remora_lab::status(paths).await?;
    let text = match format {
        Output::Text => as_text(&status),
        Output::Json => serde_json::to_string_pretty(&status)
            .map_err(|error| LabError::Refused(error.to_string()))?,
    };
    output::text(&format!("{}\n", text.trim_end()))?;
    Ok(if status.healthy { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

fn as_text(status: &LabStatus) -> String {
    let mut lines = vec![format!("lab {}", status.directory.display())];
    for part in &status.parts {
        lines.push(format!("  {} {:<12} {}", mark(part.healthy), part.name, part.detail));
    }
    for host in &status.hosts {
        lines.extend(host_lines(host));
    }
    lines.extend(status.leftovers.iter().map(|left| format!("  ✗ left over: {left}")));
    lines.join("\n")
}

fn host_lines(report: &HostReport) -> Vec<String> {
    let host = &report.host;
    let name = format!("{} {}", host.name, host.address);
    let mut lines =
        vec![format!("  {} {name:<28} {:<7} {}", mark(report.healthy), report.role(), report.node)];
    for program in &report.programs {
        let state = match program.state {
            ProgramState::Running => "runs",
            ProgramState::Waiting => "waits for what it needs",
            ProgramState::Restarting => "is started again",
        };
        let again = match program.restarts {
            0 => String::new(),
            times => format!(", started again {times} times"),
        };
        let exit = program.last_exit.as_deref().map(|how| format!(", last {how}"));
        lines.push(format!(
            "      {:<24} {state}{again}{}",
            program.name,
            exit.unwrap_or_default()
        ));
        if program.state != ProgramState::Running {
            lines.extend(program.last_lines.iter().map(|line| format!("        | {line}")));
        }
    }
    lines
}

fn mark(is_healthy: bool) -> char {
    if is_healthy { '✓' } else { '✗' }
}

fn logs(paths: &Paths, name: Option<&str>, options: LogsOptions) -> Result<ExitCode, Failure> {
    match name {
        Some(name) => match remora_lab::logs(paths, name, options, &mut std::io::stdout()) {
            // The reader has seen enough.
            Err(LabError::System { source, .. }) if source.kind() == ErrorKind::BrokenPipe => {}
            done => done?,
        },
        None => output::text(&format!("{}\n", remora_lab::log_names(paths)?.join("\n")))?,
    }
    Ok(ExitCode::SUCCESS)
}

fn shell(paths: &Paths, host: &str, command: &[String]) -> Result<ExitCode, LabError> {
    let status = remora_lab::shell(paths, host, command)?;
    let code = status.code().and_then(|code| u8::try_from(code).ok());
    Ok(code.map_or(ExitCode::FAILURE, ExitCode::from))
}
