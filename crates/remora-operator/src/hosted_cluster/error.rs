//! Why a pass over a HostedCluster did not come to its end.

use remora_core::pki::IssueError;

use crate::apply::ApplyError;
use crate::error::is_conflict;
use crate::hosted::HostedError;

/// Why a pass over a HostedCluster did not come to its end.
#[derive(Debug, thiserror::Error)]
pub(super) enum ReconcileError {
    /// An object cannot be read.
    #[error("cannot read {what}")]
    Read {
        /// What was to be read.
        what: String,
        /// Why.
        #[source]
        source: Box<kube::Error>,
    },
    /// An object cannot be written.
    #[error(transparent)]
    Apply(#[from] ApplyError),
    /// The HostedCluster's own spec or finalizers cannot be written.
    #[error("cannot write {what} of HostedCluster {hosted_cluster}")]
    Write {
        /// Which part.
        what: &'static str,
        /// Namespace and name.
        hosted_cluster: String,
        /// Why.
        #[source]
        source: Box<kube::Error>,
    },
    /// An authority cannot be created.
    #[error("cannot create Secret {namespace}/{name}")]
    Create {
        /// Control plane namespace.
        namespace: String,
        /// Name of the Secret.
        name: String,
        /// Why.
        #[source]
        source: Box<kube::Error>,
    },
    /// The pull secret lacks its key.
    #[error("cannot use pull secret {namespace}/{name}: key .dockerconfigjson is missing")]
    PullSecretKey {
        /// Namespace of the Secret.
        namespace: String,
        /// Name of the Secret.
        name: String,
    },
    /// A certificate cannot be issued.
    #[error(transparent)]
    Issue(#[from] IssueError),
    /// A key cannot be generated.
    #[error("cannot generate a private key")]
    Key(#[source] rcgen::Error),
    /// There are no random bytes.
    #[error("cannot draw random bytes")]
    Random,
    /// A Secret was not there although it had just been written.
    #[error(
        "Secret {namespace}/{name} is missing or lacks its keys; it is made anew when it is deleted"
    )]
    MissingCredential {
        /// Control plane namespace.
        namespace: String,
        /// Name of the Secret.
        name: &'static str,
    },
    /// There is no client to the hosted API server.
    #[error(transparent)]
    Hosted(#[from] HostedError),
}

impl ReconcileError {
    /// A word from a closed set, for events and metrics.
    pub(super) fn reason(&self) -> &'static str {
        match self {
            Self::Read { .. } => "ReadFailed",
            Self::Apply(error) => error.reason(),
            Self::Write { .. } | Self::Create { .. } => "WriteFailed",
            Self::Issue(_) => "IssueFailed",
            Self::Key(_) | Self::Random => "RandomFailed",
            Self::PullSecretKey { .. } => "PullSecretIncomplete",
            Self::MissingCredential { .. } => "MissingCredential",
            Self::Hosted(_) => "HostedClientFailed",
        }
    }

    /// Whether someone else was faster: what was read is no longer so, and nothing is wrong.
    pub(super) fn is_conflict(&self) -> bool {
        matches!(self, Self::Write { source, .. } if is_conflict(source))
    }

    /// Makes the error of a failed read.
    pub(super) fn reading(what: impl Into<String>) -> impl FnOnce(kube::Error) -> Self {
        let what = what.into();
        move |source| Self::Read { what, source: Box::new(source) }
    }
}
