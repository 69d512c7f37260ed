//! The process that keeps the lab's parts alive: the registry and the hosts.
//!
//! It records every part that it starts. A supervisor that comes after a killed one finds the
//! parts by these records and keeps them instead of starting them a second time.

use std::fs::OpenOptions;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::{Duration, Instant};

use rustix::process::Signal;
use serde::{Deserialize, Serialize};
use tokio::process::Command;
use tokio::signal::unix::{SignalKind, signal};
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use crate::cgroup::{self, Groups};
use crate::cluster::storage;
use crate::error::{LabError, with_causes};
use crate::files;
use crate::host::fingerprint::fingerprint;
use crate::host::init;
use crate::host::programs::Layout;
use crate::host::status::HostStatus;
use crate::paths::Paths;
use crate::plan::Plan;
use crate::process::{self, ProcessId, own_process};
use crate::topology::Host;
use crate::{lock, network, registry};

/// The supervisor's own record.
pub(crate) const SUPERVISOR: &str = "supervisor";

/// The environment's names of proxies, as Go's and curl's clients read them.
const PROXIES: [&str; 6] =
    ["http_proxy", "HTTP_PROXY", "https_proxy", "HTTPS_PROXY", "all_proxy", "ALL_PROXY"];

/// How often a part that an earlier supervisor started is looked at.
const LOOK: Duration = Duration::from_millis(500);
const SHORTEST_PAUSE: Duration = Duration::from_millis(500);
const LONGEST_PAUSE: Duration = Duration::from_secs(15);
const SETTLED: Duration = Duration::from_secs(60);
/// How long the kernel may take to end the killed processes of a host.
const KILL_DEADLINE: Duration = Duration::from_secs(20);

/// A running part, as it is written down.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Record {
    /// Its process.
    pub(crate) process: ProcessId,
    /// The network namespace it was started in, where that is not the machine's.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub(crate) namespace: Option<u64>,
}

/// Something the supervisor keeps alive.
#[derive(Clone, Debug)]
enum Part {
    Registry,
    Host(Host),
}

impl Part {
    fn name(&self) -> &str {
        match self {
            Self::Registry => registry::NAME,
            Self::Host(host) => &host.name,
        }
    }

    fn namespace(&self) -> Option<u64> {
        match self {
            Self::Registry => None,
            Self::Host(host) => network::namespace_inode(host),
        }
    }

    fn command(&self, paths: &Paths) -> Vec<String> {
        match self {
            Self::Registry => registry::command(paths),
            Self::Host(host) => init::command(paths, host),
        }
    }

    /// Takes away what an earlier life of the part left.
    fn prepare(&self) -> Result<(), LabError> {
        let Self::Host(host) = self else { return Ok(()) };
        process::kill_all(|| cgroup::members(Groups::Of(host)), KILL_DEADLINE)?;
        cgroup::remove(Groups::Of(host))?;
        cgroup::create(host)
    }
}

/// Keeps the lab until it is told to end by SIGTERM; then everything it keeps ends too.
pub async fn supervise(paths: &Paths) -> Result<(), LabError> {
    // A session of its own: the end of the terminal that started the lab does not reach it.
    // Refused when it already leads a session, as when started by hand from a shell.
    let _ = rustix::process::setsid();
    let Some(_lock) = lock::try_lock(&paths.supervisor_lock())? else {
        return Err(LabError::Refused("the lab already has a supervisor".to_owned()));
    };
    let plan = Plan::require(paths)?;
    let record = Record { process: own_process()?, namespace: None };
    files::write_json(&paths.record(SUPERVISOR), &record)?;

    let stop = CancellationToken::new();
    let mut tasks = JoinSet::new();
    let hosts = plan.topology.hosts.iter().cloned().map(Part::Host);
    for part in std::iter::once(Part::Registry).chain(hosts) {
        tasks.spawn(keep(part, paths.clone(), stop.clone()));
    }
    tasks.spawn(storage::recycle(paths.clone(), stop.clone()));

    let mut terminate =
        signal(SignalKind::terminate()).map_err(LabError::system("listen to SIGTERM"))?;
    terminate.recv().await;
    stop.cancel();
    while tasks.join_next().await.is_some() {}
    Ok(())
}

/// Keeps one part alive until the token is cancelled.
async fn keep(part: Part, paths: Paths, stop: CancellationToken) {
    let name = part.name().to_owned();
    let mut pause = SHORTEST_PAUSE;
    if matches!(part, Part::Host(_)) {
        images_published(&paths, &stop).await;
    }
    while !stop.is_cancelled() {
        let began = Instant::now();
        match run(&part, &paths, &stop).await {
            Ok(how) => tracing::warn!(part = %name, %how, "it ended"),
            Err(error) => {
                tracing::error!(part = %name, error = %with_causes(&error), "cannot start");
            }
        }
        if began.elapsed() >= SETTLED {
            pause = SHORTEST_PAUSE;
        }
        tokio::select! {
            () = stop.cancelled() => {}
            () = tokio::time::sleep(pause) => {}
        }
        pause = (pause * 2).min(LONGEST_PAUSE);
    }
}

/// Waits until the images that hosts need at once are in the registry.
async fn images_published(paths: &Paths, stop: &CancellationToken) {
    let has_image = || matches!(Plan::read(paths), Ok(Some(Plan { pause_image: Some(_), .. })));
    while !stop.is_cancelled() && !has_image() {
        tokio::select! {
            () = stop.cancelled() => {}
            () = tokio::time::sleep(LOOK) => {}
        }
    }
}

/// Watches a part that runs, or starts it; returns when it has ended, saying how.
async fn run(part: &Part, paths: &Paths, stop: &CancellationToken) -> Result<String, LabError> {
    let record = paths.record(part.name());
    if let Some(found) = files::read_json::<Record>(&record).unwrap_or_default() {
        if found.process.is_alive() && found.namespace == part.namespace() {
            tracing::info!(part = %part.name(), pid = found.process.pid, "keeping what runs");
            return Ok(watch(found.process, stop).await);
        }
        found.process.signal(Signal::KILL);
    }
    let blocking = part.clone();
    tokio::task::spawn_blocking(move || blocking.prepare())
        .await
        .map_err(|error| LabError::Refused(error.to_string()))??;
    start(part, paths, &record, stop).await
}

/// Waits for the end of a process that is no child of this one.
async fn watch(process: ProcessId, stop: &CancellationToken) -> String {
    while process.is_alive() {
        tokio::select! {
            () = stop.cancelled() => process.signal(Signal::KILL),
            () = tokio::time::sleep(LOOK) => {}
        }
    }
    "seen from afar".to_owned()
}

async fn start(
    part: &Part,
    paths: &Paths,
    record: &Path,
    stop: &CancellationToken,
) -> Result<String, LabError> {
    let words = part.command(paths);
    let (program, arguments) = words
        .split_first()
        .ok_or_else(|| LabError::Refused(format!("part {} has no command", part.name())))?;
    let log = open_log(&paths.log(part.name()))?;
    let errors = log.try_clone().map_err(LabError::system("share a log"))?;
    let mut command = Command::new(program);
    // The lab is on this machine, whatever proxy leads out of it.
    for name in PROXIES {
        command.env_remove(name);
    }
    let mut child = command
        .args(arguments)
        .env("PATH", search_path(paths))
        .env("REMORA_LAB_DIR", paths.lab())
        .env("REMORA_CACHE_DIR", paths.cache())
        .stdin(Stdio::null())
        .stdout(log)
        .stderr(errors)
        .process_group(0)
        .spawn()
        .map_err(|source| LabError::Start { program: program.clone(), source })?;
    let process = child.id().and_then(|pid| i32::try_from(pid).ok()).and_then(ProcessId::of);
    if let Some(process) = process {
        files::write_json(record, &Record { process, namespace: part.namespace() })?;
        tracing::info!(part = %part.name(), pid = process.pid, "started");
    }
    let status = tokio::select! {
        status = child.wait() => status,
        () = stop.cancelled() => {
            // It may have ended by itself; either way it is waited for.
            let _ = child.start_kill();
            child.wait().await
        }
    };
    Ok(match status {
        Ok(status) => status.to_string(),
        Err(error) => format!("unknown: {error}"),
    })
}

fn open_log(path: &PathBuf) -> Result<std::fs::File, LabError> {
    if let Some(parent) = path.parent() {
        files::create_dir(parent)?;
    }
    OpenOptions::new().create(true).append(true).open(path).map_err(LabError::file("open", path))
}

/// The lab's programs before the machine's own; containerd looks for its shim in it.
fn search_path(paths: &Paths) -> String {
    format!(
        "{}:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
        paths.bin().display()
    )
}

/// Ends a host that runs with another configuration than the lab would give it now; the supervisor
/// starts it again. Returns whether it did.
pub(crate) fn end_if_outdated(paths: &Paths, plan: &Plan, host: &Host) -> Result<bool, LabError> {
    let Some(status) = HostStatus::of(paths, host) else { return Ok(false) };
    let is_known = !status.fingerprint.is_empty();
    if !is_known || status.fingerprint == fingerprint(&Layout::new(paths, plan, host)) {
        return Ok(false);
    }
    let alive = || Some(status.init).filter(|process| process.is_alive()).into_iter().collect();
    process::kill_all(alive, KILL_DEADLINE)?;
    Ok(true)
}

/// The supervisor of the lab, when it runs.
pub(crate) fn running(paths: &Paths) -> Option<ProcessId> {
    let record: Option<Record> = files::read_json(&paths.record(SUPERVISOR)).unwrap_or_default();
    record.map(|record| record.process).filter(|process| process.is_alive())
}

/// Starts a supervisor unless one of this build runs. Returns whether it was started.
pub(crate) fn ensure(paths: &Paths, deadline: Duration) -> Result<bool, LabError> {
    let remora = paths.bin().join("remora");
    if let Some(process) = running(paths) {
        if process.runs(&remora) {
            return Ok(false);
        }
        // Another build's: it is replaced, and the parts stay for the new one to find.
        let alive = || Some(process).filter(|process| process.is_alive()).into_iter().collect();
        process::kill_all(alive, deadline)?;
    }
    let log_path = paths.log(SUPERVISOR);
    let log = open_log(&log_path)?;
    let errors = log.try_clone().map_err(LabError::system("share a log"))?;
    std::process::Command::new(&remora)
        .args(["lab", "supervise"])
        .env("REMORA_LAB_DIR", paths.lab())
        .env("REMORA_CACHE_DIR", paths.cache())
        .current_dir("/")
        .stdin(Stdio::null())
        .stdout(log)
        .stderr(errors)
        .spawn()
        .map_err(|source| LabError::Start { program: remora.display().to_string(), source })?;
    let began = Instant::now();
    while running(paths).is_none() {
        if began.elapsed() > deadline {
            return Err(LabError::Deadline {
                awaited: "the lab's supervisor".to_owned(),
                after: deadline,
                state: format!("see {}", log_path.display()),
            });
        }
        std::thread::sleep(Duration::from_millis(20));
    }
    Ok(true)
}
