//! Removes the lab: every process, namespace, link, mount, cgroup and file of it.
//!
//! It relies on no record: whatever a killed run left is found by what it is.

use std::fs;
use std::time::Duration;

use crate::cgroup::{self, Groups};
use crate::error::LabError;
use crate::paths::Paths;
use crate::process::{self, ProcessId};
use crate::progress::{Outcome, Progress, Step};
use crate::supervisor::{self, Record};
use crate::{files, lock, mounts, network};

/// How long the kernel may take to end killed processes, guests among them.
const KILL_DEADLINE: Duration = Duration::from_secs(60);

/// Removes the lab. Safe to repeat, and on a machine without a lab.
pub fn down(paths: &Paths, progress: &dyn Progress) -> Result<(), LabError> {
    let _lock = lock::for_change(&paths.change_lock())?;
    step(progress, "processes", || kill_everything(paths))?;
    step(progress, "network", || network::remove(&paths.saved_forwarding()))?;
    step(progress, "mounts", || mounts::unmount_below(paths.lab()))?;
    step(progress, "cgroups", || cgroup::remove(Groups::All))?;
    step(progress, "files", || match fs::remove_dir_all(paths.lab()) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
            Err(LabError::file("remove", paths.lab())(error))
        }
        Ok(()) | Err(_) => Ok(()),
    })
}

fn step(
    progress: &dyn Progress,
    name: &str,
    work: impl FnOnce() -> Result<(), LabError>,
) -> Result<(), LabError> {
    let step = Step::start(progress, name);
    work()?;
    step.finish(Outcome::Done);
    Ok(())
}

fn kill_everything(paths: &Paths) -> Result<(), LabError> {
    // The supervisor first, or it starts again what is killed after it.
    process::kill_all(|| supervisors(paths), KILL_DEADLINE)?;
    process::kill_all(|| everything(paths), KILL_DEADLINE)
}

fn supervisors(paths: &Paths) -> Vec<ProcessId> {
    let found = process::supervisors().into_iter().filter(|(_, lab)| lab == paths.lab());
    supervisor::running(paths).into_iter().chain(found.map(|(process, _)| process)).collect()
}

fn everything(paths: &Paths) -> Vec<ProcessId> {
    let mut processes = recorded(paths);
    processes.extend(process::of_lab(paths.lab()));
    processes.extend(process::in_network_namespaces(&network::namespace_inodes()));
    processes.extend(cgroup::members(Groups::All));
    processes.sort_unstable_by_key(|process| process.pid);
    processes.dedup();
    processes
}

/// The processes on record that still run.
fn recorded(paths: &Paths) -> Vec<ProcessId> {
    let records = paths.record("any");
    let entries = records.parent().and_then(|directory| fs::read_dir(directory).ok());
    let record = |entry: fs::DirEntry| files::read_json::<Record>(&entry.path()).ok().flatten();
    let processes = entries.into_iter().flatten().flatten().filter_map(record);
    processes.map(|record| record.process).filter(|process| process.is_alive()).collect()
}
