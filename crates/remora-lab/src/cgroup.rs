//! The lab's control groups: one per host in every hierarchy that the machine has mounted.
//!
//! kubelet's `cgroupRoot` names that group, so everything a host's pods start is below it. Nothing
//! in it outlives the host: whoever is found in it when no host runs is a stray.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use crate::error::LabError;
use crate::mounts;
use crate::process::ProcessId;
use crate::topology::{Host, PREFIX};

/// The share of the processors that a host has as a whole, against 1024 for any single thread of
/// the machine: a host is many.
const CPU_SHARES: &str = "8192";

/// How long removed processes may take to leave their group.
const REMOVAL_DEADLINE: Duration = Duration::from_secs(10);

/// The root directories of the mounted hierarchies.
pub(crate) fn hierarchies() -> Result<Vec<PathBuf>, LabError> {
    let is_cgroup = |mount: &mounts::Mount| mount.kind == "cgroup" || mount.kind == "cgroup2";
    Ok(mounts::list()?.into_iter().filter(is_cgroup).map(|mount| mount.target).collect())
}

/// Makes a host's group in every hierarchy.
pub(crate) fn create(host: &Host) -> Result<(), LabError> {
    for hierarchy in hierarchies()? {
        let group = hierarchy.join(host.scope());
        match fs::create_dir(&group) {
            Err(error) if error.kind() != std::io::ErrorKind::AlreadyExists => {
                return Err(LabError::file("create cgroup", &group)(error));
            }
            Ok(()) | Err(_) => {}
        }
        // A new cpuset is empty and takes no process before it has been filled.
        for file in ["cpuset.cpus", "cpuset.mems"] {
            if hierarchy.join(file).exists() {
                copy(&hierarchy.join(file), &group.join(file))?;
            }
        }
        let shares = group.join("cpu.shares");
        if shares.exists() {
            fs::write(&shares, CPU_SHARES).map_err(LabError::file("write", &shares))?;
        }
    }
    Ok(())
}

fn copy(from: &Path, to: &Path) -> Result<(), LabError> {
    let value = fs::read_to_string(from).map_err(LabError::file("read", from))?;
    fs::write(to, value.trim()).map_err(LabError::file("write", to))
}

/// Whose groups are meant.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Groups<'a> {
    /// Those of every host, of labs whose record is lost too.
    All,
    /// Those of one host.
    Of(&'a Host),
}

impl Groups<'_> {
    fn include(self, name: &str) -> bool {
        match self {
            Self::All => name.starts_with(PREFIX),
            Self::Of(host) => name == host.scope(),
        }
    }
}

/// The groups that exist, in every hierarchy.
pub(crate) fn existing(groups: Groups<'_>) -> Result<Vec<PathBuf>, LabError> {
    let mut found = Vec::new();
    for hierarchy in hierarchies()? {
        let entries = fs::read_dir(&hierarchy).map_err(LabError::file("list", &hierarchy))?;
        let is_ours = |entry: &fs::DirEntry| {
            entry.file_name().to_str().is_some_and(|name| groups.include(name))
                && entry.file_type().is_ok_and(|kind| kind.is_dir())
        };
        found.extend(entries.flatten().filter(is_ours).map(|entry| entry.path()));
    }
    Ok(found)
}

/// The processes in the groups and below.
pub(crate) fn members(groups: Groups<'_>) -> Vec<ProcessId> {
    let groups = existing(groups).unwrap_or_default();
    let mut pids: Vec<i32> = Vec::new();
    for group in groups.iter().flat_map(|group| with_descendants(group)) {
        let members = fs::read_to_string(group.join("cgroup.procs")).unwrap_or_default();
        pids.extend(members.lines().filter_map(|line| line.parse::<i32>().ok()));
    }
    pids.sort_unstable();
    pids.dedup();
    pids.into_iter().filter_map(ProcessId::of).collect()
}

/// A group and all below it, children before their parents.
fn with_descendants(group: &Path) -> Vec<PathBuf> {
    let mut groups = Vec::new();
    for entry in fs::read_dir(group).into_iter().flatten().flatten() {
        if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
            groups.extend(with_descendants(&entry.path()));
        }
    }
    groups.push(group.to_path_buf());
    groups
}

/// Removes groups that have no process any more, with all below them.
pub(crate) fn remove(groups: Groups<'_>) -> Result<(), LabError> {
    let start = Instant::now();
    loop {
        let mut last = None;
        for group in existing(groups)?.iter().flat_map(|group| with_descendants(group)) {
            match fs::remove_dir(&group) {
                Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
                    last = Some(LabError::file("remove cgroup", &group)(error));
                }
                Ok(()) | Err(_) => {}
            }
        }
        match last {
            None => return Ok(()),
            Some(error) if start.elapsed() > REMOVAL_DEADLINE => return Err(error),
            Some(_) => std::thread::sleep(Duration::from_millis(50)),
        }
    }
}

/// The controllers in whose hierarchies a host's programs are in the host's group.
///
/// `pids` lets `down` find them and all they start. `cpu` lets them share the processors with the
/// host's own pods and not with every host's: the API server must not starve beside busy guests.
const JOINED: [&str; 3] = ["pids", "cpu", "cpuacct"];

/// Moves the calling process into a host's group.
pub(crate) fn join(host: &Host) -> Result<(), LabError> {
    for hierarchy in hierarchies()?.iter().filter(|hierarchy| is_joined(hierarchy)) {
        let file = hierarchy.join(host.scope()).join("cgroup.procs");
        // Zero stands for the writer, whatever its number in this PID namespace.
        fs::write(&file, "0").map_err(LabError::file("write", &file))?;
    }
    Ok(())
}

/// Controllers may be mounted together, as `cpu,cpuacct`.
fn is_joined(hierarchy: &Path) -> bool {
    let name = hierarchy.file_name().and_then(|name| name.to_str()).unwrap_or_default();
    name.split(',').any(|controller| JOINED.contains(&controller))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::topology::Topology;

    #[test]
    fn when_a_host_is_named_groups_of_hosts_with_longer_names_are_not_meant() {
        let topology = Topology::new(1, 11).unwrap();
        let groups = Groups::Of(topology.host("worker-1").unwrap());
        assert!(groups.include("rmr-worker-1"));
        assert!(!groups.include("rmr-worker-11"));
        assert!(Groups::All.include("rmr-worker-11"));
        assert!(!Groups::All.include("kubepods"));
    }

    #[test]
    fn when_controllers_are_mounted_together_the_hierarchy_is_joined() {
        assert!(is_joined(Path::new("/sys/fs/cgroup/cpu,cpuacct")));
        assert!(is_joined(Path::new("/sys/fs/cgroup/pids")));
        assert!(!is_joined(Path::new("/sys/fs/cgroup/cpuset")));
        assert!(!is_joined(Path::new("/sys/fs/cgroup/memory")));
    }

    #[test]
    fn when_groups_are_nested_children_come_before_their_parents() {
        let dir = tempfile::tempdir().unwrap();
        fs::create_dir_all(dir.path().join("pods/one")).unwrap();
        fs::create_dir_all(dir.path().join("pods/two")).unwrap();
        fs::write(dir.path().join("pods/cgroup.procs"), "").unwrap();
        let groups = with_descendants(dir.path());
        let at = |name: &str| groups.iter().position(|group| group.ends_with(name)).unwrap();
        assert_eq!(groups.len(), 4);
        assert!(at("pods/one") < at("pods") && at("pods/two") < at("pods"));
        assert_eq!(groups.last().unwrap(), dir.path());
    }
}
