//! What can go wrong, and what to do about it.

use std::path::PathBuf;
use std::time::Duration;

use miette::Diagnostic;
use remora_lab::LabError;

/// A command failed.
#[derive(Debug, thiserror::Error, Diagnostic)]
pub(crate) enum Failure {
    #[error("cannot use TLS: a provider is installed already")]
    Tls,
    #[error("cannot find a cluster to talk to")]
    #[diagnostic(help(
        "name a kubeconfig with --kubeconfig or KUBECONFIG, or bring a lab up with `remora lab up`."
    ))]
    NoCluster {
        #[source]
        source: Box<dyn std::error::Error + Send + Sync>,
    },
    #[error("cannot {action} {object}")]
    #[diagnostic(help("{remedy}"))]
    Request {
        action: &'static str,
        object: String,
        remedy: &'static str,
        #[source]
        source: Box<dyn std::error::Error + Send + Sync>,
    },
    #[error("cannot read {}", path.display())]
    #[diagnostic(help("check the path and its permissions."))]
    File {
        path: PathBuf,
        #[source]
        source: std::io::Error,
    },
    #[error("cannot write {}", path.display())]
    #[diagnostic(help("check the path, its permissions and the space that is left."))]
    Write {
        path: PathBuf,
        #[source]
        source: std::io::Error,
    },
    #[error("{flag}: {problem}")]
    #[diagnostic(help("{remedy}"))]
    Flag { flag: &'static str, problem: String, remedy: String },
    #[error("{object} does not exist")]
    #[diagnostic(help("{remedy}"))]
    Missing { object: String, remedy: String },
    #[error("{what} did not come within {} s: {last}", limit.as_secs())]
    #[diagnostic(help(
        "it may still come: look again with `{look}`, or give more time with --timeout."
    ))]
    TimedOut { what: String, limit: Duration, last: String, look: String },
    #[error("cannot read the answer about {object}")]
    #[diagnostic(help(
        "the CRDs of the cluster may be of another version: run `remora install` again."
    ))]
    Unreadable {
        object: String,
        #[source]
        source: Box<dyn std::error::Error + Send + Sync>,
    },
    #[error("cannot write to the terminal")]
    Output(#[source] std::io::Error),
    #[error("{0}")]
    Refused(String),
    #[error("the lab failed")]
    #[diagnostic(help("`remora lab status` shows its parts, `remora lab logs` what they say."))]
    Lab(#[source] LabError),
    #[error("the demo failed at step \"{step}\"")]
    #[diagnostic(help(
        "everything is left as it is; mend what is reported above and run `remora lab demo` again."
    ))]
    Demo {
        step: String,
        #[source]
        source: Box<Self>,
    },
    #[error("cannot see the page at {place}: {problem}")]
    #[diagnostic(help("`remora get exposures` says what the operator sees there."))]
    Page { place: String, problem: String },
}

impl From<LabError> for Failure {
    fn from(error: LabError) -> Self {
        match error {
            LabError::Refused(why) => Self::Refused(why),
            error => Self::Lab(error),
        }
    }
}

impl Failure {
    /// A request about an object failed.
    pub(crate) fn request(
        action: &'static str,
        object: impl Into<String>,
    ) -> impl FnOnce(kube::Error) -> Self {
        let object = object.into();
        move |error| Self::Request { action, object, remedy: remedy(&error), source: cause(error) }
    }
}

/// What an API server answered instead of doing it.
#[derive(Debug, thiserror::Error)]
#[error("{message}")]
struct Refusal {
    message: String,
}

/// The error in words; of an API server's answer the message alone.
fn cause(error: kube::Error) -> Box<dyn std::error::Error + Send + Sync> {
    match error {
        kube::Error::Api(status) => Box::new(Refusal { message: status.message.clone() }),
        other => Box::new(other),
    }
}

fn remedy(error: &kube::Error) -> &'static str {
    match error {
        kube::Error::Api(status) if status.code == 404 => {
            "check name and namespace; if no such kind is known, run `remora install` first."
        }
        kube::Error::Api(status) if status.code == 403 => {
            "the user of this kubeconfig lacks the right: ask an administrator of the hosting cluster."
        }
        kube::Error::Api(status) if status.code == 401 => {
            "the credentials of this kubeconfig are not accepted: get a fresh one."
        }
        kube::Error::Api(status) if status.code == 409 => {
            "someone else has set the same fields: change the object with kubectl, or delete it first."
        }
        kube::Error::Api(_) => "correct what the API server names.",
        _ => "check that the API server of the kubeconfig can be reached from here.",
    }
}

/// The error and its causes in one line.
pub(crate) fn told(error: &dyn std::error::Error) -> String {
    remora_lab::with_causes(error)
}
