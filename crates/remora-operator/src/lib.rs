//! Remora's operator: watches, applies and reports.

pub mod apply;
pub mod context;
pub mod error;
pub mod exposure;
pub mod health;
pub mod hosted;
pub mod hosted_cluster;
pub mod load_balancer;
pub mod node_pool;
pub mod options;
pub mod session;
