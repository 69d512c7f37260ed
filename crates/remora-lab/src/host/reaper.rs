//! Collects ended processes: a host's first process inherits every orphan of the host.

use std::process::{Child, Command};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use rustix::process::{WaitId, WaitIdOptions, WaitOptions, WaitStatus, wait, waitid};

use crate::error::LabError;

/// How long to rest when there is no child at all.
const IDLE: Duration = Duration::from_millis(100);

/// A process that ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Exit {
    /// Its pid in this PID namespace.
    pub(crate) pid: u32,
    /// How it ended, in words.
    pub(crate) how: String,
}

/// Starts processes and reports every end.
pub(crate) struct Reaper {
    /// Held while a process is started, so that its end is not collected under `Command`'s hands.
    starting: Arc<Mutex<()>>,
    exits: Receiver<Exit>,
}

impl Reaper {
    /// Begins to collect.
    pub(crate) fn start() -> Result<Self, LabError> {
        let starting = Arc::new(Mutex::new(()));
        let (sender, exits) = channel();
        let guard = Arc::clone(&starting);
        std::thread::Builder::new()
            .name("reaper".to_owned())
            .spawn(move || collect(&guard, &sender))
            .map_err(LabError::system("start the reaper"))?;
        Ok(Self { starting, exits })
    }

    /// Starts a process.
    pub(crate) fn spawn(&self, command: &mut Command) -> std::io::Result<Child> {
        let _starting = self.starting.lock().unwrap_or_else(PoisonError::into_inner);
        command.spawn()
    }

    /// The next end of a process, waiting at most so long.
    pub(crate) fn next(&self, patience: Duration) -> Option<Exit> {
        self.exits.recv_timeout(patience).ok()
    }
}

fn collect(starting: &Mutex<()>, exits: &Sender<Exit>) {
    loop {
        // Looks without collecting, so that the lock is not held while waiting.
        let look = WaitIdOptions::EXITED | WaitIdOptions::NOWAIT;
        if waitid(WaitId::All, look).is_err() {
            std::thread::sleep(IDLE);
            continue;
        }
        let _starting = starting.lock().unwrap_or_else(PoisonError::into_inner);
        while let Ok(Some((pid, status))) = wait(WaitOptions::NOHANG) {
            let pid = pid.as_raw_nonzero().get().unsigned_abs();
            if exits.send(Exit { pid, how: in_words(status) }).is_err() {
                return;
            }
        }
    }
}

fn in_words(status: WaitStatus) -> String {
    match (status.exit_status(), status.terminating_signal()) {
        (Some(code), _) => format!("ended with status {code}"),
        (None, Some(signal)) => format!("was killed by signal {signal}"),
        (None, None) => "ended".to_owned(),
    }
}
