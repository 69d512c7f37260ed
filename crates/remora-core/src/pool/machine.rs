//! One machine of a NodePool, as it is seen.

use std::collections::BTreeSet;
use std::net::IpAddr;

use jiff::Timestamp;

/// A VirtualMachine of a NodePool, with its instance and its node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Machine {
    /// Name of the VirtualMachine, of its instance and of its node.
    pub name: String,
    /// Hash of the template it was made from.
    pub template_hash: String,
    /// Version of the release it was made from.
    pub release_version: String,
    /// When the VirtualMachine was made.
    pub created: Timestamp,
    /// Whether it stays.
    pub stay: Stay,
    /// Its instance.
    pub instance: Instance,
    /// Its node in the hosted cluster.
    pub node: Node,
    /// Version of its kubelet, once it has joined.
    pub kubelet_version: Option<String>,
}

/// Whether a machine stays in its pool.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Stay {
    /// It stays.
    Stays,
    /// It stays, but a user named it as the first to go when one has to.
    Unwanted,
    /// It was chosen to go and is being drained since then.
    Leaves(Timestamp),
    /// Its VirtualMachine is being deleted.
    Deleted,
}

/// The VirtualMachineInstance of a machine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Instance {
    /// It does not run.
    Down {
        /// A word.
        reason: String,
        /// A sentence.
        message: String,
    },
    /// It runs.
    Running {
        /// Addresses of all its interfaces.
        addresses: BTreeSet<IpAddr>,
    },
}

/// The node of a machine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Node {
    /// Nobody knows: the hosted API server was not asked or did not answer.
    Unknown,
    /// It has not joined.
    Absent,
    /// Its kubelet says that it cannot run pods.
    NotReady {
        /// Why.
        message: String,
    },
    /// Its kubelet has been silent for too long.
    Unreachable,
    /// It can run pods.
    Ready,
}

impl Machine {
    /// Tells whether the machine was chosen to go.
    pub fn is_leaving(&self) -> bool {
        matches!(self.stay, Stay::Leaves(_) | Stay::Deleted)
    }

    /// Tells whether pods can run on the machine now and later.
    pub fn is_available(&self) -> bool {
        !self.is_leaving()
            && matches!(self.instance, Instance::Running { .. })
            && matches!(self.node, Node::Ready)
    }

    /// Tells whether the machine's instance runs.
    pub fn is_running(&self) -> bool {
        matches!(self.instance, Instance::Running { .. })
    }
}
