//! What the lab puts into the hosting cluster, through its API.

pub(crate) mod api;
pub(crate) mod dns;
pub(crate) mod kubevirt;
pub(crate) mod metallb;
pub(crate) mod nodes;
pub(crate) mod storage;
pub(crate) mod workloads;
