//! Fixtures of the tests: a real API server, a registry, manifests, waiting.
//!
//! Every fixture is started once per test binary and ends with it, however it ends: see
//! [`children`]. Nothing here is part of a program that ships.

pub mod api_server;
mod audit;
mod certificates;
pub mod children;
pub mod manifest;
pub mod registry;
mod wait;

pub use api_server::ApiServer;
pub use audit::Write;
pub use registry::Registry;
pub use wait::eventually;
