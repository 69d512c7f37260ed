//! The operator against a real API server: in this process, without kubelets and without KubeVirt.

mod cluster;
mod control_planes;
mod exposure_policies;
mod exposures;
mod failures;
mod hosted_clusters;
mod kept_namespaces;
mod kills;
mod kubeconfigs;
mod load_balancers;
mod node_pools;
mod operator;
mod pause;
mod rollouts;
mod settled;
mod signing_requests;
mod stand_ins;
mod world;
