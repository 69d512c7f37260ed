//! The lab: a hosting cluster with KubeVirt on one machine.
