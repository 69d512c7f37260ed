//! Programs that a test binary starts and that never outlive it.
//!
//! A static of a test binary is never dropped, and a test binary may be killed. So:
//! - the kernel kills a child when the thread that started it ends (`PR_SET_PDEATHSIG`, set by
//!   `setpriv`), and that thread does nothing else and ends with the test binary;
//! - the working folder is removed by a shell that waits for the end of its standard input, a pipe
//!   that only the test binary holds open.

use std::ffi::OsString;
use std::fs::File;
use std::io;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;

use anyhow::Context as _;

/// Programs and the folder in which they work.
#[derive(Debug)]
pub struct Children {
    folder: tempfile::TempDir,
    requests: Option<Sender<Request>>,
    running: Running,
    keeper: Option<JoinHandle<()>>,
    janitor: Child,
}

/// Bytes that a folder in memory has to have left: etcd alone reserves 64 MiB for each log segment.
const ROOM: u64 = 1 << 30;

/// What was started, by name.
type Running = Arc<Mutex<Vec<(String, Child)>>>;

/// A program to start, and where to tell how that went.
struct Request {
    name: String,
    command: Command,
    answer: Sender<io::Result<()>>,
}

impl Children {
    /// Makes the folder, in memory where that is possible.
    ///
    /// # Errors
    /// When no folder can be made.
    pub fn new(name: &str) -> anyhow::Result<Self> {
        let memory = PathBuf::from("/dev/shm");
        let parent = if has_room(&memory) { memory } else { std::env::temp_dir() };
        let folder = tempfile::Builder::new()
            .prefix(&format!("remora-testkit-{name}-"))
            .tempdir_in(&parent)
            .with_context(|| format!("cannot make a folder in {}", parent.display()))?;
        let janitor = Command::new("sh")
            .args(["-c", r#"cat >/dev/null; rm -rf "$0" || { sleep 1; rm -rf "$0"; }"#])
            .arg(folder.path())
            .stdin(Stdio::piped())
            // Ctrl-C goes to the foreground's process group: the janitor has to survive it.
            .process_group(0)
            .spawn()
            .context("cannot start sh")?;
        let (requests, inbox) = channel();
        let running = Running::default();
        let kept = Arc::clone(&running);
        let keeper = std::thread::Builder::new()
            .name(format!("{name}-keeper"))
            .spawn(move || keep(&inbox, &kept))
            .context("cannot start a thread")?;
        Ok(Self { folder, requests: Some(requests), running, keeper: Some(keeper), janitor })
    }

    /// The folder in which the programs work.
    #[must_use]
    pub fn folder(&self) -> &Path {
        self.folder.path()
    }

    /// The file with everything that a program said.
    #[must_use]
    pub fn log(&self, name: &str) -> PathBuf {
        self.folder().join(format!("{name}.log"))
    }

    /// Starts a program in the folder; what it says goes to [`Children::log`].
    ///
    /// # Errors
    /// When it cannot be started.
    pub fn start(
        &self,
        name: &str,
        program: &Path,
        arguments: impl IntoIterator<Item = impl Into<OsString>>,
    ) -> anyhow::Result<()> {
        let path = self.log(name);
        let log =
            File::create(&path).with_context(|| format!("cannot write {}", path.display()))?;
        let errors = log.try_clone().context("cannot duplicate a file handle")?;
        let mut command = Command::new("setpriv");
        command
            .args(["--pdeathsig", "KILL", "--"])
            .arg(program)
            .args(arguments.into_iter().map(Into::into))
            .current_dir(self.folder())
            .stdin(Stdio::null())
            .stdout(log)
            .stderr(errors);
        let (answer, started) = channel();
        let requests = self.requests.as_ref().context("the keeper has ended")?;
        requests
            .send(Request { name: name.to_owned(), command, answer })
            .context("the keeper has ended")?;
        started
            .recv()
            .context("the keeper has ended")?
            .with_context(|| format!("cannot start {name} ({})", program.display()))
    }

    /// Fails when a program has ended, with its last words.
    ///
    /// # Errors
    /// See above.
    pub fn all_run(&self) -> anyhow::Result<()> {
        let mut running = self.running.lock().unwrap_or_else(PoisonError::into_inner);
        for (name, child) in running.iter_mut() {
            if let Some(status) = child.try_wait().context("cannot look at a child")? {
                anyhow::bail!("{name} has ended with {status}:\n{}", self.last_words(name));
            }
        }
        Ok(())
    }

    /// The last lines that a program said.
    #[must_use]
    pub fn last_words(&self, name: &str) -> String {
        let text = std::fs::read_to_string(self.log(name)).unwrap_or_default();
        let lines: Vec<_> = text.lines().collect();
        lines.iter().skip(lines.len().saturating_sub(20)).copied().collect::<Vec<_>>().join("\n")
    }
}

impl Drop for Children {
    fn drop(&mut self) {
        drop(self.requests.take());
        if let Some(keeper) = self.keeper.take() {
            // A keeper that has panicked has ended, and its children with it.
            let _ = keeper.join();
        }
        drop(self.janitor.stdin.take());
        // What remains to be done about a janitor that cannot be waited for: nothing.
        let _ = self.janitor.wait();
    }
}

fn has_room(folder: &Path) -> bool {
    rustix::fs::statvfs(folder)
        .is_ok_and(|status| status.f_bavail.saturating_mul(status.f_frsize) >= ROOM)
}

/// Starts what is asked for, and ends it when nobody can ask any more.
fn keep(inbox: &Receiver<Request>, running: &Running) {
    let lock = || running.lock().unwrap_or_else(PoisonError::into_inner);
    while let Ok(Request { name, mut command, answer }) = inbox.recv() {
        let result = command.spawn().map(|child| lock().push((name, child)));
        // Nobody waits for the answer when the test has ended meanwhile.
        let _ = answer.send(result);
    }
    for (_, child) in lock().iter_mut() {
        // A child that has ended by itself cannot be killed, which is fine.
        let _ = child.kill();
        let _ = child.wait();
    }
}
