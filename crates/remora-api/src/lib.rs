//! Remora's API: the custom resources, their conditions, names and labels.
//!
//! `HostedCluster` and `NodePool` (`hypershift.openshift.io/v1beta1`) carry the whole schema of the
//! KubeVirt platform, so that manifests written for HyperShift apply unchanged. `ServiceExposure`
//! and `ExposurePolicy` (`remora.dev/v1alpha1`) are Remora's own. The CRDs are generated from these types: see [`crds`].

#![allow(
    clippy::duplicated_attributes,
    reason = "every printcolumn attribute of kube has the same keys"
)]

pub mod conditions;
pub mod crds;
pub mod exposure_policy;
pub mod hosted_cluster;
pub mod labels;
pub mod names;
pub mod node_pool;
mod schema;
pub mod service_exposure;
mod word;

pub use exposure_policy::{ExposurePolicy, ExposurePolicySpec, ExposurePolicyStatus};
pub use hosted_cluster::{HostedCluster, HostedClusterSpec, HostedClusterStatus};
pub use node_pool::{NodePool, NodePoolSpec, NodePoolStatus};
pub use service_exposure::{ServiceExposure, ServiceExposureSpec, ServiceExposureStatus};

/// API group of HostedCluster and NodePool.
pub const HYPERSHIFT_GROUP: &str = "hypershift.openshift.io";
/// API version of HostedCluster and NodePool.
pub const HYPERSHIFT_VERSION: &str = "v1beta1";
/// API group of ServiceExposure and ExposurePolicy.
pub const REMORA_GROUP: &str = "remora.dev";
/// API version of ServiceExposure and ExposurePolicy.
pub const REMORA_VERSION: &str = "v1alpha1";
