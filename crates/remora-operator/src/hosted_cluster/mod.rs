//! The HostedCluster: observe, validate, plan, apply, report.
//!
//! ```text
//!  HostedCluster ───────┐                          ┌─> Services ─> Secrets ─> etcd, API server, ...  (hosting cluster)
//!  its objects changed ─┼─> controller ─> reconcile ┤
//!  NodePools, pods ─────┘   (deletion)              └─> session ─> addons                             (hosted cluster)
//! ```

pub mod addons;
pub mod controller;
mod credentials;
mod deletion;
mod error;
mod identity;
mod kubeconfigs;
mod observe;
mod pull_secret;
mod reconcile;
pub mod release;
mod report;
mod serving;
