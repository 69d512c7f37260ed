//! Keeps a host's programs running and writes down how they fare.
//!
//! ```text
//!  Waiting ──(what it needs answers)──▶ Running ──(it ends)──▶ Restarting ──(pause over)──▶ Waiting
//! ```

use std::fs::{self, File, OpenOptions};
use std::net::{SocketAddr, TcpStream};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use time::OffsetDateTime;

use crate::command::tail;
use crate::error::LabError;
use crate::files;
use crate::host::programs::Program;
use crate::host::reaper::{Exit, Reaper};
use crate::host::status::{HostStatus, ProgramState, ProgramStatus};
use crate::paths::HostPaths;
use crate::process::ProcessId;

/// How often preconditions are looked at.
const TICK: Duration = Duration::from_millis(200);
const CONNECT_TIMEOUT: Duration = Duration::from_millis(300);
const SHORTEST_PAUSE: Duration = Duration::from_millis(500);
const LONGEST_PAUSE: Duration = Duration::from_secs(15);
/// A program that ran so long had not failed to start.
const SETTLED: Duration = Duration::from_secs(60);
/// A log larger than this is put aside when its program starts anew.
const LOG_BYTES: u64 = 32 << 20;
const QUOTED_LINES: usize = 5;
const QUOTED_BYTES: usize = 2000;

enum State {
    Waiting,
    Running { pid: u32, since: Instant },
    Restarting { due: Instant },
}

struct Kept {
    program: Program,
    state: State,
    /// How long the next pause will be.
    pause: Duration,
    restarts: u32,
    failures: u32,
    last_exit: Option<String>,
    last_lines: Vec<String>,
}

/// Keeps programs running for as long as the host lives.
pub(crate) struct Watchman {
    init: ProcessId,
    /// In seconds of Unix time.
    began: i64,
    fingerprint: String,
    bin: PathBuf,
    own: HostPaths,
    reaper: Reaper,
    kept: Vec<Kept>,
}

impl Watchman {
    /// A watchman over these programs, none of which runs yet.
    pub(crate) fn new(
        init: ProcessId,
        fingerprint: String,
        bin: PathBuf,
        own: HostPaths,
        programs: Vec<Program>,
    ) -> Result<Self, LabError> {
        let keep = |program| Kept {
            program,
            state: State::Waiting,
            pause: SHORTEST_PAUSE,
            restarts: 0,
            failures: 0,
            last_exit: None,
            last_lines: Vec::new(),
        };
        let kept = programs.into_iter().map(keep).collect();
        let began = OffsetDateTime::now_utc().unix_timestamp();
        Ok(Self { init, began, fingerprint, bin, own, reaper: Reaper::start()?, kept })
    }

    /// Watches for ever.
    pub(crate) fn watch(mut self) -> ! {
        loop {
            let now = Instant::now();
            for kept in &mut self.kept {
                if kept.is_ready(now) {
                    start(kept, &self.reaper, &self.bin, &self.own);
                }
            }
            self.report();
            let mut patience = TICK;
            while let Some(exit) = self.reaper.next(patience) {
                self.note_exit(&exit);
                patience = Duration::ZERO;
            }
        }
    }

    fn note_exit(&mut self, exit: &Exit) {
        let ended = self
            .kept
            .iter_mut()
            .find(|kept| matches!(kept.state, State::Running { pid, .. } if pid == exit.pid));
        // Others are orphans of the host, collected and forgotten.
        let Some(kept) = ended else { return };
        let lines = last_lines(&self.own.log(kept.program.name));
        kept.note_end(exit.how.clone(), lines, Instant::now());
    }

    fn report(&self) {
        let status = HostStatus {
            init: self.init,
            began: self.began,
            fingerprint: self.fingerprint.clone(),
            programs: self.kept.iter().map(Kept::status).collect(),
        };
        // A full disk must not end the host; the next change is written again.
        if let Err(error) = files::write_json(&self.own.status(), &status) {
            tracing::warn!(%error, "cannot report");
        }
    }
}

impl Kept {
    fn is_ready(&mut self, now: Instant) -> bool {
        match self.state {
            State::Running { .. } => false,
            State::Restarting { due } if now < due => false,
            State::Waiting | State::Restarting { .. } => {
                self.state = State::Waiting;
                self.program.after.is_empty() || self.program.after.iter().any(answers)
            }
        }
    }

    fn note_end(&mut self, how: String, lines: Vec<String>, now: Instant) {
        if let State::Running { since, .. } = self.state
            && now.duration_since(since) >= SETTLED
        {
            self.pause = SHORTEST_PAUSE;
            self.failures = 0;
        }
        self.failures = self.failures.saturating_add(1);
        self.state = State::Restarting { due: now + self.pause };
        self.pause = (self.pause * 2).min(LONGEST_PAUSE);
        self.restarts = self.restarts.saturating_add(1);
        self.last_exit = Some(how);
        self.last_lines = lines;
    }

    fn status(&self) -> ProgramStatus {
        ProgramStatus {
            name: self.program.name.to_owned(),
            state: match self.state {
                State::Waiting => ProgramState::Waiting,
                State::Running { .. } => ProgramState::Running,
                State::Restarting { .. } => ProgramState::Restarting,
            },
            restarts: self.restarts,
            failures: self.failures,
            last_exit: self.last_exit.clone(),
            last_lines: self.last_lines.clone(),
        }
    }
}

fn start(kept: &mut Kept, reaper: &Reaper, bin: &Path, own: &HostPaths) {
    let name = kept.program.name;
    let now = Instant::now();
    let started = open_log(&own.log(name)).and_then(|log| {
        let errors = log.try_clone()?;
        let mut command = Command::new(bin.join(name));
        command.args(&kept.program.arguments).stdin(Stdio::null()).stdout(log).stderr(errors);
        reaper.spawn(&mut command)
    });
    match started {
        Ok(child) => kept.state = State::Running { pid: child.id(), since: now },
        Err(error) => kept.note_end(format!("cannot be started: {error}"), Vec::new(), now),
    }
}

fn answers(address: &SocketAddr) -> bool {
    TcpStream::connect_timeout(address, CONNECT_TIMEOUT).is_ok()
}

fn open_log(path: &Path) -> std::io::Result<File> {
    if let Some(parent) = path.parent() {
        fs::create_dir_all(parent)?;
    }
    if fs::metadata(path).is_ok_and(|log| log.size() > LOG_BYTES) {
        fs::rename(path, path.with_extension("log.1"))?;
    }
    OpenOptions::new().create(true).append(true).open(path)
}

fn last_lines(log: &Path) -> Vec<String> {
    let text = fs::read(log).unwrap_or_default();
    let text = String::from_utf8_lossy(&text);
    let lines: Vec<_> = tail(&text, QUOTED_BYTES).lines().map(str::to_owned).collect();
    lines.into_iter().rev().take(QUOTED_LINES).rev().collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn kept() -> Kept {
        Kept {
            program: Program { name: "etcd", arguments: Vec::new(), after: Vec::new() },
            state: State::Waiting,
            pause: SHORTEST_PAUSE,
            restarts: 0,
            failures: 0,
            last_exit: None,
            last_lines: Vec::new(),
        }
    }

    #[test]
    fn when_a_program_keeps_ending_its_pauses_grow_to_a_limit() {
        let mut kept = kept();
        let now = Instant::now();
        let mut pauses = Vec::new();
        for _ in 0..7 {
            kept.state = State::Running { pid: 7, since: now };
            kept.note_end("ended with status 1".to_owned(), Vec::new(), now);
            let State::Restarting { due } = kept.state else { panic!("it does not restart") };
            pauses.push(due.duration_since(now).as_millis());
        }
        assert_eq!(pauses, [500, 1000, 2000, 4000, 8000, 15_000, 15_000]);
        assert_eq!((kept.status().restarts, kept.status().failures), (7, 7));
    }

    #[test]
    fn when_a_program_ran_long_its_pause_is_short_again() {
        let mut kept = kept();
        let now = Instant::now();
        kept.pause = LONGEST_PAUSE;
        kept.state = State::Running { pid: 7, since: now };
        let later = now + SETTLED;
        kept.note_end("was killed by signal 9".to_owned(), Vec::new(), later);
        let State::Restarting { due } = kept.state else { panic!("it does not restart") };
        assert_eq!(due.duration_since(later), SHORTEST_PAUSE);
        assert_eq!(kept.status().failures, 1);
        assert!(!kept.is_ready(later));
        assert!(kept.is_ready(due));
    }

    #[test]
    fn when_what_a_program_needs_does_not_answer_it_waits() {
        // Port 0 takes no connection.
        let mut kept = kept();
        kept.program.after = vec![SocketAddr::from(([127, 0, 0, 1], 0))];
        assert!(!kept.is_ready(Instant::now()));
        assert_eq!(kept.status().state, ProgramState::Waiting);
    }
}
