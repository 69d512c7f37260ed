//! Remora's decisions: pure functions from what is wanted and seen to what must exist.
//!
//! Nothing here talks to an API server, reads a clock, a file or the environment, or draws random bytes: all of that
//! is handed in as arguments, so that the same input always gives the same output.

pub mod bootstrap;
pub mod control_plane;
pub mod csr;
pub mod endpoint;
pub mod expose;
pub mod exposure_policy;
pub mod exposure_status;
pub mod hosted;
pub mod hosted_cluster_status;
pub mod install;
pub mod load_balancer;
pub mod merge_patch;
pub mod node;
pub mod node_pool_status;
pub mod object;
pub mod pause;
pub mod pki;
pub mod pool;
pub mod release;
pub mod validate;
