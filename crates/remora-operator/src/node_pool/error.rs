//! Why a pass over a NodePool did not go through.

use remora_core::pool::PatchError;

use crate::apply::ApplyError;
use crate::hosted::HostedError;

/// Why a pass over a NodePool did not go through.
#[derive(Debug, thiserror::Error)]
pub(super) enum PoolError {
    /// An API server refused or did not answer.
    #[error("cannot {action} {object}")]
    Request {
        /// What was attempted.
        action: &'static str,
        /// Kind, namespace and name.
        object: String,
        /// Why.
        #[source]
        source: Box<kube::Error>,
    },
    /// The hosting cluster knows no virtual machines.
    #[error("the hosting cluster does not serve kubevirt.io/v1: install KubeVirt")]
    NoKubevirt,
    /// An object could not be written.
    #[error(transparent)]
    Apply(#[from] ApplyError),
    /// There is no client to the hosted API server.
    #[error(transparent)]
    Hosted(#[from] HostedError),
    /// A patch of the user does not fit the VirtualMachine.
    #[error("cannot make a VirtualMachine of NodePool {node_pool}")]
    Patch {
        /// Name of the pool.
        node_pool: String,
        /// Why.
        #[source]
        source: PatchError,
    },
    /// A Secret lacks what it is there for.
    #[error("cannot use Secret {namespace}/{name}: key {key} is missing or not text")]
    SecretKey {
        /// Namespace of the Secret.
        namespace: String,
        /// Name of the Secret.
        name: &'static str,
        /// The key.
        key: &'static str,
    },
    /// The hosted cluster has no network for Services.
    #[error(
        "cannot tell the address of the cluster's DNS: spec.networking.serviceNetwork of HostedCluster {name}"
    )]
    ServiceNetwork {
        /// Name of the HostedCluster.
        name: String,
    },
    /// The system gave no random bytes.
    #[error("cannot draw random bytes")]
    Random,
}

impl PoolError {
    /// A word from a closed set, for logs and events.
    pub(super) fn reason(&self) -> &'static str {
        match self {
            Self::Request { .. } => "RequestFailed",
            Self::NoKubevirt => "KubeVirtNotInstalled",
            Self::Apply(error) => error.reason(),
            Self::Hosted(_) => "HostedClusterUnreachable",
            Self::Patch { .. } => "InvalidKubevirtMachineTemplate",
            Self::SecretKey { .. } => "SecretIncomplete",
            Self::ServiceNetwork { .. } => "InvalidConfiguration",
            Self::Random => "NoRandomBytes",
        }
    }
}

/// Wraps the error of a request.
pub(super) fn failed(
    action: &'static str,
    object: impl Into<String>,
) -> impl FnOnce(kube::Error) -> PoolError {
    let object = object.into();
    move |source| PoolError::Request { action, object, source: Box::new(source) }
}
