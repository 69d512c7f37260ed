//! ServiceExposures: hosted Services on the hosting cluster's nodes.
//!
//! ```text
//!  session of each hosted cluster ── inside::run ──> hosted::Registry ──┐
//!  watches of the hosting cluster ── view::watch ────> Observed ───────┼─> controller: decide -> apply -> probe -> report
//!  ServiceExposures ───────────────────────────────────────────────────┘
//! ```

pub mod controller;
pub(crate) mod correct;
mod hosted;
pub mod inside;
mod observed;
pub mod policy;
mod probe;
mod program;
pub(crate) mod progress;
mod reconcile;
pub(crate) mod view;

pub use hosted::{HostedServices, HostedSlices};
