//! ServiceExposures: hosted Services on the hosting cluster's nodes.
//!
//! ```text
//!  session of each hosted cluster ── services::run ──> HostedServices ─┐
//!  watches of the hosting cluster ── view::watch ────> Observed ───────┼─> controller: decide -> apply -> probe -> report
//!  ServiceExposures ───────────────────────────────────────────────────┘
//! ```

pub mod controller;
mod hosted_services;
mod observed;
pub mod policy;
mod probe;
mod program;
pub(crate) mod progress;
mod reconcile;
pub mod services;
pub(crate) mod view;

pub use hosted_services::HostedServices;
