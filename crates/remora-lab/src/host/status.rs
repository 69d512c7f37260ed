//! How a host's programs fare, as its first process writes it down for `remora lab status`.

use serde::{Deserialize, Serialize};

use crate::files;
use crate::paths::Paths;
use crate::process::ProcessId;
use crate::topology::Host;

/// A host and its programs.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct HostStatus {
    /// The host's first process, as the machine numbers it.
    pub init: ProcessId,
    /// When it began, in seconds of Unix time.
    #[serde(default)]
    pub began: i64,
    /// Tells what it was started with; unknown of a host that an older build started.
    #[serde(default)]
    pub fingerprint: String,
    /// Its programs, in the order in which they are started.
    pub programs: Vec<ProgramStatus>,
}

impl HostStatus {
    /// What a running host says of itself.
    pub(crate) fn of(paths: &Paths, host: &Host) -> Option<Self> {
        // A damaged report is no report; a running host writes another one soon.
        let status: Option<Self> =
            files::read_json(&paths.host(&host.name).status()).unwrap_or_default();
        status.filter(|status| status.init.is_alive())
    }
}

/// One program of a host.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ProgramStatus {
    /// Its name.
    pub name: String,
    /// What it does now.
    pub state: ProgramState,
    /// How often it was started again after it had ended.
    pub restarts: u32,
    /// How often it ended in a row without having run for a minute.
    #[serde(default)]
    pub failures: u32,
    /// Why it ended last, when it did.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub last_exit: Option<String>,
    /// What it said last before it ended.
    #[serde(skip_serializing_if = "Vec::is_empty", default)]
    pub last_lines: Vec<String>,
}

/// What a program does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ProgramState {
    /// Another program has to answer first.
    Waiting,
    /// It runs.
    Running,
    /// It ended and is started again after a pause.
    Restarting,
}
