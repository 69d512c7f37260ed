//! Processes known by pid *and* start time, so that a reused pid is never taken for them.

use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal};
use serde::{Deserialize, Serialize};

use crate::error::LabError;

/// A process of this boot of the machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ProcessId {
    /// Its process id.
    pub pid: i32,
    /// When it started, in clock ticks after the machine's boot.
    pub start_ticks: u64,
}

impl ProcessId {
    /// The process that has this pid now.
    pub fn of(pid: i32) -> Option<Self> {
        let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
        let (state, start_ticks) = parse_stat(&stat)?;
        (state != 'Z' && state != 'X').then_some(Self { pid, start_ticks })
    }

    /// Whether it still runs.
    pub fn is_alive(self) -> bool {
        Self::of(self.pid) == Some(self)
    }

    /// Whether it runs this very file, and not one that had the same name before.
    pub(crate) fn runs(self, program: &Path) -> bool {
        let identity = |path: &Path| fs::metadata(path).ok().map(|file| (file.dev(), file.ino()));
        let own = identity(Path::new(&format!("/proc/{}/exe", self.pid)));
        own.is_some() && own == identity(program)
    }

    /// Sends it a signal, and never to another process that got its pid.
    pub(crate) fn signal(self, signal: Signal) {
        let Some(pid) = Pid::from_raw(self.pid) else { return };
        let Ok(handle) = pidfd_open(pid, PidfdFlags::empty()) else { return };
        // The handle keeps naming one process: if that is ours now, the signal reaches ours.
        if self.is_alive() {
            // It may end between the look and the signal, which is what a signal is for.
            let _ = pidfd_send_signal(&handle, signal);
        }
    }
}

/// State and start time out of `/proc/<pid>/stat`; the name in parentheses may hold anything.
fn parse_stat(stat: &str) -> Option<(char, u64)> {
    let (_, fields) = stat.rsplit_once(')')?;
    let mut fields = fields.split_ascii_whitespace();
    let state = fields.next()?.chars().next()?;
    // Fields 3 (state) and 22 (starttime) of proc_pid_stat(5).
    let start_ticks = fields.nth(18)?.parse().ok()?;
    Some((state, start_ticks))
}

/// The id of this process as the mounted `/proc` numbers it.
pub(crate) fn own_process() -> Result<ProcessId, LabError> {
    let link = fs::read_link("/proc/self").map_err(LabError::file("read link", "/proc/self"))?;
    let pid = link.to_str().and_then(|pid| pid.parse().ok());
    pid.and_then(ProcessId::of).ok_or_else(|| LabError::Malformed {
        path: PathBuf::from("/proc/self"),
        reason: "it does not name a process".to_owned(),
    })
}

/// Every process of the machine.
fn all_pids() -> Vec<i32> {
    let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
    entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok()).collect()
}

/// The processes in one of these network namespaces, known by their inodes.
pub(crate) fn in_network_namespaces(inodes: &BTreeSet<u64>) -> Vec<ProcessId> {
    let is_inside = |pid: &i32| {
        fs::metadata(format!("/proc/{pid}/ns/net"))
            .is_ok_and(|namespace| inodes.contains(&namespace.ino()))
    };
    all_pids().into_iter().filter(is_inside).filter_map(ProcessId::of).collect()
}

/// The processes of a lab that run on the machine itself: its supervisor, and its registry, which
/// is the machine's program with the lab's configuration. This process is left out.
pub(crate) fn of_lab(lab: &Path) -> Vec<ProcessId> {
    let own = std::process::id();
    let belongs = |pid: &i32| {
        let Ok(exe) = fs::read_link(format!("/proc/{pid}/exe")) else { return false };
        let command = fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
        u32::try_from(*pid) != Ok(own) && is_of_lab(lab, &exe, &command)
    };
    all_pids().into_iter().filter(belongs).filter_map(ProcessId::of).collect()
}

fn is_of_lab(lab: &Path, exe: &Path, command: &[u8]) -> bool {
    let names_lab = || {
        let mut words = command.split(|byte| *byte == 0);
        words.any(|word| Path::new(OsStr::from_bytes(word)).starts_with(lab))
    };
    exe.starts_with(lab) || (exe.ends_with("docker-registry") && names_lab())
}

/// The supervisors of labs, with the directory of each lab.
pub(crate) fn supervisors() -> Vec<(ProcessId, PathBuf)> {
    let supervisor = |pid: i32| {
        let command = fs::read(format!("/proc/{pid}/cmdline")).ok()?;
        let words: Vec<&[u8]> = command.split(|byte| *byte == 0).collect();
        let is_supervisor = matches!(words.as_slice(), [_, b"lab", b"supervise", ..]);
        let exe = fs::read_link(format!("/proc/{pid}/exe")).ok()?;
        // The supervisor runs from <lab>/bin/remora.
        let lab = exe.parent()?.parent()?.to_path_buf();
        if is_supervisor { Some((ProcessId::of(pid)?, lab)) } else { None }
    };
    all_pids().into_iter().filter_map(supervisor).collect()
}

/// Kills processes and waits until none is left. `find` is asked again each time, since a process
/// may fork while the list is walked.
pub(crate) fn kill_all(
    find: impl Fn() -> Vec<ProcessId>,
    deadline: Duration,
) -> Result<(), LabError> {
    let start = Instant::now();
    loop {
        let left = find();
        if left.is_empty() {
            return Ok(());
        }
        if start.elapsed() > deadline {
            let pids: Vec<_> = left.iter().map(|process| process.pid.to_string()).collect();
            return Err(LabError::Deadline {
                awaited: "the end of killed processes".to_owned(),
                after: deadline,
                state: format!("still there: {}", pids.join(", ")),
            });
        }
        left.iter().for_each(|process| process.signal(Signal::KILL));
        std::thread::sleep(Duration::from_millis(20));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn when_a_process_name_holds_parentheses_the_fields_are_still_found() {
        let stat = "42 (a) b) c) S 1 42 42 0 -1 4194560 1 0 0 0 1 2 3 4 20 0 1 0 987654 1 1";
        assert_eq!(parse_stat(stat), Some(('S', 987_654)));
        assert_eq!(parse_stat("42 (cut"), None);
    }

    #[test]
    fn when_a_pid_is_reused_it_is_another_process() {
        let own = own_process().unwrap();
        assert!(own.is_alive());
        assert!(!ProcessId { start_ticks: own.start_ticks + 1, ..own }.is_alive());
    }

    #[test]
    fn when_a_process_only_reads_the_lab_it_is_not_of_it() {
        let lab = Path::new("/cache/lab");
        let registry = b"docker-registry\0serve\0/cache/lab/registry/config.yml\0";
        assert!(is_of_lab(lab, Path::new("/usr/bin/docker-registry"), registry));
        assert!(!is_of_lab(
            lab,
            Path::new("/usr/bin/docker-registry"),
            b"docker-registry\0serve\0/etc/r.yml\0"
        ));
        assert!(is_of_lab(lab, Path::new("/cache/lab/bin/remora"), b"remora\0lab\0supervise\0"));
        assert!(!is_of_lab(
            lab,
            Path::new("/usr/bin/tail"),
            b"tail\0/cache/lab/logs/registry.log\0"
        ));
        assert!(!is_of_lab(lab, Path::new("/cache/laboratory/x"), b"x\0"));
    }

    #[test]
    fn when_processes_are_killed_the_call_returns_after_their_end() {
        let mut child = std::process::Command::new("sleep").arg("600").spawn().unwrap();
        let id = ProcessId::of(i32::try_from(child.id()).unwrap()).unwrap();
        kill_all(
            || Some(id).filter(|id| id.is_alive()).into_iter().collect(),
            Duration::from_secs(60),
        )
        .unwrap();
        assert!(!child.wait().unwrap().success());
    }
}
