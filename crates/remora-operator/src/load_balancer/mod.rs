//! Load balancers of the hosting cluster for the Services of one hosted cluster, as long as its session lives.
//!
//! ```text
//!  hosted Services ─────────────────────┐                          ┌─> finalizer, status, Events of the hosted Service
//!  hosting Services, their slices ──────┼─> decide (core) ─> apply ┤
//!  hosted slices, VM pods (only Local) ─┘                          └─> hosting Service, EndpointSlices
//! ```

mod controller;
mod memory;
mod observed;
mod program;
mod reconcile;
mod sweep;
mod tell;

pub use controller::run;
