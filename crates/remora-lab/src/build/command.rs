//! Runs tools, keeps what they say, and names the last of it when they fail.

use std::fs::{self, File, OpenOptions};
use std::io::{self, BufWriter, Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};
use std::process::{ChildStdin, Command, ExitStatus, Stdio};

/// Why a tool did not do its work.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum CommandError {
    /// It could not be started.
    #[error("cannot run {program}: install it (see third-party/debian/host-packages.txt)")]
    Start {
        /// The tool.
        program: String,
        /// The system's answer.
        source: io::Error,
    },
    /// It ended badly.
    #[error("{program} ended with {status}; the log is {}\n{tail}", log.display())]
    Failed {
        /// The tool and its first argument.
        program: String,
        /// How it ended.
        status: ExitStatus,
        /// The last lines it wrote.
        tail: String,
        /// Where the rest is.
        log: PathBuf,
    },
    /// It could not be given its input.
    #[error("cannot write to {program}")]
    Input {
        /// The tool.
        program: String,
        /// The system's answer.
        source: io::Error,
    },
    /// The log could not be written.
    #[error("cannot write the log {}", path.display())]
    Log {
        /// Which.
        path: PathBuf,
        /// The system's answer.
        source: io::Error,
    },
}

/// The log of one job; tools append to it.
#[derive(Debug)]
pub(crate) struct Log {
    path: PathBuf,
    file: File,
}

impl Log {
    /// Starts an empty log.
    pub(crate) fn create(path: &Path) -> Result<Self, CommandError> {
        let failed = |source| CommandError::Log { path: path.to_owned(), source };
        if let Some(folder) = path.parent() {
            fs::create_dir_all(folder).map_err(failed)?;
        }
        // A truncated file opened for appending, so that several tools share it in turn.
        File::create(path).map_err(failed)?;
        let file = OpenOptions::new().append(true).open(path).map_err(failed)?;
        Ok(Self { path: path.to_owned(), file })
    }

    fn handle(&self) -> Result<File, CommandError> {
        self.file
            .try_clone()
            .map_err(|source| CommandError::Log { path: self.path.clone(), source })
    }

    /// The last lines of the log, at most 2 KiB.
    fn tail(&self) -> String {
        let read = || -> io::Result<String> {
            let mut file = File::open(&self.path)?;
            let start = file.metadata()?.len().saturating_sub(2048);
            file.seek(SeekFrom::Start(start))?;
            let mut bytes = Vec::new();
            file.read_to_end(&mut bytes)?;
            Ok(String::from_utf8_lossy(&bytes).trim_end().to_owned())
        };
        read().unwrap_or_default()
    }
}

/// Runs a tool to its end; both its outputs go to the log.
pub(crate) fn run(command: &mut Command, log: &Log) -> Result<(), CommandError> {
    let mut output = log.handle()?;
    // The line is for the reader of the log; its loss changes nothing.
    let _ = writeln!(output, "$ {command:?}");
    let status = command
        .stdin(Stdio::null())
        .stdout(output)
        .stderr(log.handle()?)
        .status()
        .map_err(|source| CommandError::Start { program: name(command), source })?;
    check(command, status, log)
}

/// Runs a tool to its end while `write` feeds it; its outputs go to the log.
pub(crate) fn run_with_input(
    command: &mut Command,
    log: &Log,
    write: impl FnOnce(&mut BufWriter<ChildStdin>) -> io::Result<()>,
) -> Result<(), CommandError> {
    let started = |source| CommandError::Start { program: name(command), source };
    let mut child = Command::new(command.get_program())
        .args(command.get_args())
        .stdin(Stdio::piped())
        .stdout(log.handle()?)
        .stderr(log.handle()?)
        .spawn()
        .map_err(started)?;
    let written = match child.stdin.take() {
        Some(input) => {
            let mut input = BufWriter::with_capacity(1 << 20, input);
            write(&mut input).and_then(|()| input.flush())
        }
        None => Ok(()),
    };
    let status = child.wait().map_err(started)?;
    // The tool's own complaint says more than the broken pipe that it left.
    check(command, status, log)?;
    written.map_err(|source| CommandError::Input { program: name(command), source })
}

/// Runs a tool to its end and returns what it wrote; its errors go to the log.
pub(crate) fn capture(command: &mut Command, log: &Log) -> Result<Vec<u8>, CommandError> {
    let output = command
        .stdin(Stdio::null())
        .stderr(log.handle()?)
        .output()
        .map_err(|source| CommandError::Start { program: name(command), source })?;
    check(command, output.status, log)?;
    Ok(output.stdout)
}

fn check(command: &Command, status: ExitStatus, log: &Log) -> Result<(), CommandError> {
    if status.success() {
        return Ok(());
    }
    let verb = command.get_args().next().unwrap_or_default().to_string_lossy();
    let program = format!("{} {verb}", name(command)).trim_end().to_owned();
    Err(CommandError::Failed { program, status, tail: log.tail(), log: log.path.clone() })
}

fn name(command: &Command) -> String {
    command.get_program().to_string_lossy().into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn when_a_tool_fails_the_error_carries_its_last_words() {
        let folder = tempfile::tempdir().unwrap();
        let log = Log::create(&folder.path().join("logs/x.log")).unwrap();
        let error = run(Command::new("sh").args(["-c", "echo no such pin >&2; exit 3"]), &log)
            .unwrap_err()
            .to_string();
        assert!(error.starts_with("sh -c ended with exit status: 3"), "{error}");
        assert!(error.ends_with("no such pin"), "{error}");
    }

    #[test]
    fn when_a_tool_is_absent_the_error_says_where_it_is_listed() {
        let folder = tempfile::tempdir().unwrap();
        let log = Log::create(&folder.path().join("x.log")).unwrap();
        let error = run(&mut Command::new("no-such-tool-here"), &log).unwrap_err().to_string();
        assert!(error.contains("host-packages.txt"), "{error}");
    }
}
