//! What the lab's parts say.

use std::fs::{self, File};
use std::io::{Read, Seek, SeekFrom, Write};
use std::path::PathBuf;
use std::time::Duration;

use crate::error::LabError;
use crate::host::programs::{Layout, programs};
use crate::paths::Paths;
use crate::plan::Plan;
use crate::registry;
use crate::supervisor::SUPERVISOR;

/// How often a followed log is looked at.
const LOOK: Duration = Duration::from_millis(250);

/// Which part of a log to show.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LogsOptions {
    /// How many of the last lines.
    pub lines: usize,
    /// Whether to go on showing what is added, for ever.
    pub follow: bool,
}

/// The logs of the lab: `supervisor`, `registry`, `<host>` and `<host>/<program>`.
pub fn log_names(paths: &Paths) -> Result<Vec<String>, LabError> {
    let plan = Plan::require(paths)?;
    let mut names = vec![SUPERVISOR.to_owned(), registry::NAME.to_owned()];
    for host in &plan.topology.hosts {
        names.push(host.name.clone());
        let layout = Layout::new(paths, &plan, host);
        names.extend(programs(&layout).iter().map(|one| format!("{}/{}", host.name, one.name)));
    }
    Ok(names)
}

/// Writes a part's log to `output`.
pub fn logs(
    paths: &Paths,
    name: &str,
    options: LogsOptions,
    output: &mut dyn Write,
) -> Result<(), LabError> {
    let known = log_names(paths)?;
    if !known.iter().any(|one| one == name) {
        return Err(LabError::Refused(format!(
            "there is no log `{name}`; there are {}",
            known.join(", ")
        )));
    }
    let path = log_path(paths, name);
    let mut file = File::open(&path).map_err(LabError::file("open", &path))?;
    let mut bytes = Vec::new();
    file.read_to_end(&mut bytes).map_err(LabError::file("read", &path))?;
    write(output, last_lines(&bytes, options.lines))?;
    if !options.follow {
        return Ok(());
    }
    loop {
        std::thread::sleep(LOOK);
        let read_until = file.stream_position().map_err(LabError::file("read", &path))?;
        // A log that was put aside begins anew.
        if fs::metadata(&path).is_ok_and(|now| now.len() < read_until) {
            file = File::open(&path).map_err(LabError::file("open", &path))?;
            file.seek(SeekFrom::Start(0)).map_err(LabError::file("read", &path))?;
        }
        bytes.clear();
        file.read_to_end(&mut bytes).map_err(LabError::file("read", &path))?;
        write(output, &bytes)?;
    }
}

fn log_path(paths: &Paths, name: &str) -> PathBuf {
    match name.split_once('/') {
        Some((host, program)) => paths.host(host).log(program),
        None => paths.log(name),
    }
}

fn write(output: &mut dyn Write, bytes: &[u8]) -> Result<(), LabError> {
    output.write_all(bytes).and_then(|()| output.flush()).map_err(LabError::system("show the log"))
}

/// The end of a text, from the beginning of a line.
fn last_lines(bytes: &[u8], lines: usize) -> &[u8] {
    let without_end = bytes.strip_suffix(b"\n").unwrap_or(bytes);
    let breaks = without_end.iter().enumerate().rev().filter(|(_, byte)| **byte == b'\n');
    match lines.checked_sub(1) {
        None => &[],
        Some(skipped) => {
            let start = breaks.map(|(at, _)| at + 1).nth(skipped).unwrap_or(0);
            bytes.get(start..).unwrap_or_default()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn when_the_last_lines_are_asked_for_they_are_whole() {
        let text = b"one\ntwo\nthree\n";
        assert_eq!(last_lines(text, 2), b"two\nthree\n");
        assert_eq!(last_lines(text, 9), text);
        assert_eq!(last_lines(text, 0), b"");
        assert_eq!(last_lines(b"", 5), b"");
    }

    #[test]
    fn when_a_log_is_unknown_the_error_lists_the_known_ones() {
        let dir = tempfile::tempdir().unwrap();
        let paths = Paths::new(dir.path().join("lab"), dir.path().join("cache")).unwrap();
        let topology = crate::topology::Topology::new(1, 1).unwrap();
        Plan { topology, pause_image: None }.write(&paths).unwrap();
        let options = LogsOptions { lines: 1, follow: false };
        let error = logs(&paths, "worker-1/etcd", options, &mut Vec::new()).unwrap_err();
        assert!(error.to_string().contains("worker-1/kubelet"), "{error}");
    }
}
