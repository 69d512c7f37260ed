//! ExposurePolicies: which Services of a hosted cluster get a ServiceExposure, and what those who asked are told.
//!
//! ```text
//!  ExposurePolicies ─┐
//!  hosted Services ──┼─> reconcile (one HostedCluster): decide ─> ServiceExposures ─> status of the policies
//!  ServiceExposures ─┘                                      └───> answers: annotations and Events inside
//! ```

mod answers;
pub mod controller;
mod missing;
mod reconcile;
