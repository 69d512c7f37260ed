//! What can go wrong while the lab is brought up, kept or removed.

use std::path::PathBuf;
use std::time::Duration;

/// A failed step of the lab.
#[derive(Debug, thiserror::Error)]
pub enum LabError {
    /// A file or directory could not be used.
    #[error("cannot {action} {}", path.display())]
    File {
        /// What was attempted, such as `read`.
        action: &'static str,
        /// The file or directory.
        path: PathBuf,
        /// Why it failed.
        #[source]
        source: std::io::Error,
    },
    /// A file of the lab's own making does not hold what the lab wrote.
    #[error("cannot understand {}: {reason}", path.display())]
    Malformed {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        reason: String,
    },
    /// A program could not be started.
    #[error("cannot start `{program}`")]
    Start {
        /// The program's name or path.
        program: String,
        /// Why it failed.
        #[source]
        source: std::io::Error,
    },
    /// A program ended with an error.
    #[error("`{command}` failed with {status}: {output}")]
    Command {
        /// The program and its arguments.
        command: String,
        /// Its exit status in words.
        status: String,
        /// The end of what it printed.
        output: String,
    },
    /// A system call failed.
    #[error("cannot {action}")]
    System {
        /// What was attempted.
        action: String,
        /// Why it failed.
        #[source]
        source: std::io::Error,
    },
    /// A certificate or key could not be made.
    #[error("cannot issue certificate {name}")]
    Certificate {
        /// The certificate's name in the lab.
        name: String,
        /// Why it failed.
        #[source]
        source: rcgen::Error,
    },
    /// A request to the hosting cluster's API failed.
    #[error("cannot {action}")]
    Api {
        /// What was attempted.
        action: String,
        /// Why it failed.
        #[source]
        source: Box<kube::Error>,
    },
    /// A client for the hosting cluster could not be made from the lab's kubeconfig.
    #[error("cannot use kubeconfig {}: {reason}", path.display())]
    Kubeconfig {
        /// The kubeconfig.
        path: PathBuf,
        /// What is wrong with it.
        reason: String,
    },
    /// An awaited state did not come.
    #[error("{awaited} did not come within {} s: {state}", after.as_secs())]
    Deadline {
        /// What was awaited.
        awaited: String,
        /// How long it was awaited.
        after: Duration,
        /// What was seen instead.
        state: String,
    },
    /// A program of a host cannot be kept running.
    #[error("{program} of {host} keeps ending: it {how}\n{}", lines.join("\n"))]
    Program {
        /// The host.
        host: String,
        /// The program.
        program: String,
        /// How it ended last.
        how: String,
        /// What it said last.
        lines: Vec<String>,
    },
    /// The request cannot be met as it is.
    #[error("{0}")]
    Refused(String),
    /// The third-party programs or images could not be made.
    #[error("cannot {action}: {reason}")]
    Build {
        /// What was attempted.
        action: String,
        /// Why it failed, with its causes.
        reason: String,
    },
}

impl LabError {
    /// A function for `map_err` that says which file it was about.
    pub(crate) fn file(
        action: &'static str,
        path: impl Into<PathBuf>,
    ) -> impl FnOnce(std::io::Error) -> Self {
        let path = path.into();
        move |source| Self::File { action, path, source }
    }

    /// A function for `map_err` of system calls.
    pub(crate) fn system<E: Into<std::io::Error>>(
        action: impl Into<String>,
    ) -> impl FnOnce(E) -> Self {
        let action = action.into();
        move |source| Self::System { action, source: source.into() }
    }

    /// A function for `map_err` of requests to the hosting cluster's API.
    pub(crate) fn api(action: impl Into<String>) -> impl FnOnce(kube::Error) -> Self {
        let action = action.into();
        move |source| Self::Api { action, source: Box::new(source) }
    }
}

/// An error with all its causes on one line.
pub fn with_causes(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        let part = error.to_string();
        if !text.contains(&part) {
            text.push_str(": ");
            text.push_str(&part);
        }
        cause = error.source();
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn when_an_error_has_causes_the_line_names_each_once() {
        let source = std::io::Error::other("disk on fire");
        let error = LabError::file("read", "/lab/state.json")(source);
        assert_eq!(with_causes(&error), "cannot read /lab/state.json: disk on fire");
    }
}
