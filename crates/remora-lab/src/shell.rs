//! A shell, or one command, on a host of the lab.

use std::process::{Command, ExitStatus};

use crate::error::LabError;
use crate::host::config::CONTAINERD_SOCKET;
use crate::host::status::HostStatus;
use crate::paths::Paths;
use crate::plan::Plan;

/// Runs a command on a host, with the terminal of this process; a shell when none is given.
pub fn shell(paths: &Paths, host: &str, command: &[String]) -> Result<ExitStatus, LabError> {
    let plan = Plan::require(paths)?;
    let host = plan.topology.host(host)?;
    let Some(status) = HostStatus::of(paths, host) else {
        return Err(LabError::Refused(format!(
            "host {} does not run: see `remora lab status`",
            host.name
        )));
    };
    let target = status.init.pid.to_string();
    let path = std::env::var("PATH").unwrap_or_default();
    let mut nsenter = Command::new("nsenter");
    nsenter
        .args(["--target", &target, "--mount", "--uts", "--net", "--pid", "--wd=/", "--"])
        .env("PATH", format!("{}:{path}", paths.bin().display()))
        .env("KUBECONFIG", paths.kubeconfig())
        .env("CONTAINERD_ADDRESS", CONTAINERD_SOCKET)
        .env("CONTAINERD_NAMESPACE", "k8s.io");
    if command.is_empty() {
        nsenter.arg("bash");
    } else {
        nsenter.args(command);
    }
    nsenter.status().map_err(|source| LabError::Start { program: "nsenter".to_owned(), source })
}
