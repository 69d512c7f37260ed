//! The lab: a hosting cluster with KubeVirt on one machine.
//!
//! ```text
//!  remora lab up ──starts──▶ remora lab supervise ──keeps──┬─▶ docker-registry
//!                                                          ├─▶ remora lab host-init master-1
//!                                                          │     └─▶ etcd, kube-apiserver, …
//!                                                          └─▶ remora lab host-init worker-1 …
//! ```
//! A host is a network, a PID, a mount and a UTS namespace; its first process is this program.

pub mod build;
mod cgroup;
mod cluster;
mod command;
mod down;
mod error;
mod files;
mod host;
pub mod images;
mod kubeconfig;
mod lock;
mod logs;
mod mounts;
mod network;
mod packages;
pub mod paths;
mod pki;
mod plan;
mod probe;
mod process;
mod programs;
pub mod progress;
mod registry;
mod shell;
mod status;
mod supervisor;
pub mod topology;
mod up;

pub use down::down;
pub use error::{LabError, with_causes};
pub use host::init::host_init;
pub use host::status::{HostStatus, ProgramState, ProgramStatus};
pub use logs::{LogsOptions, log_names, logs};
pub use process::ProcessId;
pub use shell::shell;
pub use status::{HostReport, LabStatus, Part, status};
pub use supervisor::supervise;
pub use up::{Lab, UpOptions, install_packages, up};
