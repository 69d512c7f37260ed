//! NodePools: virtual machines that become nodes of a hosted cluster.
//!
//! ```text
//!  NodePool ─┐                                        ┌─► VirtualMachines, user-data Secrets   (hosting cluster)
//!  HostedCluster ─┼─► controller ── observe ─ plan ─ act ─┤
//!  VM, VM instance ─┘        ▲                            └─► bootstrap tokens, nodes          (hosted cluster)
//!                            │ events
//!  hosted Nodes ───────► nodes (one per session)
//!  hosted CSRs ────────► csr   (one per session)
//! ```
//! Everything is read anew in each pass; what a pass has to remember is written on the objects it is about.

mod bootstrap;
pub mod controller;
pub mod csr;
mod deletion;
mod drain;
mod error;
mod events;
mod kubevirt;
mod machines;
pub mod nodes;
mod observe;
mod random;
mod reconcile;
mod removal;
mod report;
mod sweep;

pub use events::NodePoolEvents;
