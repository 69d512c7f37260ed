//! Types and reasons of conditions: every word that Remora writes there.
//!
//! Readers (Argo CD's health checks, scripts, dashboards) match on these words, so they are
//! HyperShift's wherever HyperShift has one.

use crate::word::words;

/// Message of a condition that has nothing to say.
pub const ALL_IS_WELL: &str = "All is well";
/// Message of `Available` when it is true.
pub const CONTROL_PLANE_IS_AVAILABLE: &str = "The hosted control plane is available";
/// Message of `Available` while the control plane comes up.
pub const WAITING_FOR_CONTROL_PLANE: &str = "Waiting for hosted control plane to be healthy";
/// Message of `AllNodesHealthy` and `AllMachinesReady` of a pool that asks for no nodes.
pub const NO_REPLICAS: &str = "NodePool set to no replicas";

words! {
    /// Condition types of a HostedCluster.
    pub enum HostedClusterConditionType {
        /// The hosted API can be used.
        Available => "Available",
        /// Something is on its way, or blocked (then with reason `Blocked`).
        Progressing => "Progressing",
        /// Something that was working works worse.
        Degraded => "Degraded",
        /// The published endpoints exist.
        InfrastructureReady => "InfrastructureReady",
        /// The hosted API server answers.
        KubeApiServerAvailable => "KubeAPIServerAvailable",
        /// The hosted etcd has its quorum.
        EtcdAvailable => "EtcdAvailable",
        /// An etcd that the user runs is usable.
        UnmanagedEtcdAvailable => "UnmanagedEtcdAvailable",
        /// The spec makes sense.
        ValidConfiguration => "ValidConfiguration",
        /// The spec asks for nothing that this platform lacks.
        SupportedHostedCluster => "SupportedHostedCluster",
        /// The release image is a release that this version can run.
        ValidReleaseImage => "ValidReleaseImage",
        /// The release names every image that is needed.
        ValidReleaseInfo => "ValidReleaseInfo",
        /// The control plane's configuration is valid.
        ValidHostedControlPlaneConfiguration => "ValidHostedControlPlaneConfiguration",
        /// The proxy's configuration is valid.
        ValidProxyConfiguration => "ValidProxyConfiguration",
        /// Bootstrap data can be had (there is no Ignition server here: always so once it can).
        IgnitionEndpointAvailable => "IgnitionEndpointAvailable",
        /// The operator works on this object (false while it is paused).
        ReconciliationActive => "ReconciliationActive",
        /// The last pass went through.
        ReconciliationSucceeded => "ReconciliationSucceeded",
        /// Credentials of the infrastructure were found.
        PlatformCredentialsFound => "PlatformCredentialsFound",
        /// Host names of the published services resolve.
        ExternalDnsReachable => "ExternalDNSReachable",
        /// Volumes and load balancers of the hosted cluster are gone (set while deleting).
        CloudResourcesDestroyed => "CloudResourcesDestroyed",
        /// The cluster is destroyed and waits for its grace period.
        HostedClusterDestroyed => "HostedClusterDestroyed",
        /// The API server reaches the nodes.
        DataPlaneConnectionAvailable => "DataPlaneConnectionAvailable",
        /// The nodes reach the API server.
        ControlPlaneConnectionAvailable => "ControlPlaneConnectionAvailable",
        /// Every VM of the cluster can be migrated live.
        KubeVirtNodesLiveMigratable => "KubeVirtNodesLiveMigratable",
    }
}

words! {
    /// Condition types of a NodePool.
    pub enum NodePoolConditionType {
        /// All nodes that are wanted are ready.
        Ready => "Ready",
        /// The pool's size is between two bounds.
        AutoscalingEnabled => "AutoscalingEnabled",
        /// Unhealthy nodes are replaced.
        AutorepairEnabled => "AutorepairEnabled",
        /// `spec.management` makes sense.
        UpdateManagementEnabled => "UpdateManagementEnabled",
        /// The release image is a release.
        ValidReleaseImage => "ValidReleaseImage",
        /// The release fits the platform's architecture.
        ValidArchPlatform => "ValidArchPlatform",
        /// The operator works on this object (false while it is paused).
        ReconciliationActive => "ReconciliationActive",
        /// The pool's version may run beside the control plane's.
        SupportedVersionSkew => "SupportedVersionSkew",
        /// The pool's configuration is valid.
        ValidMachineConfig => "ValidMachineConfig",
        /// Nodes are being replaced because of a new configuration.
        UpdatingConfig => "UpdatingConfig",
        /// Nodes are being replaced because of a new release.
        UpdatingVersion => "UpdatingVersion",
        /// Nodes are being replaced because of a new VM template.
        UpdatingPlatformMachineTemplate => "UpdatingPlatformMachineTemplate",
        /// Bootstrap data was made.
        ValidGeneratedPayload => "ValidGeneratedPayload",
        /// A machine has fetched its bootstrap data and joined.
        ReachedIgnitionEndpoint => "ReachedIgnitionEndpoint",
        /// All VMs run.
        AllMachinesReady => "AllMachinesReady",
        /// All Nodes are ready.
        AllNodesHealthy => "AllNodesHealthy",
        /// The release has a disk image for the platform.
        ValidPlatformImage => "ValidPlatformImage",
        /// The platform's part of the spec makes sense.
        ValidPlatformConfig => "ValidPlatformConfig",
        /// The VM template is accepted (only written while it is not).
        ValidMachineTemplate => "ValidMachineTemplate",
        /// The tuning configuration is valid.
        ValidTuningConfig => "ValidTuningConfig",
        /// VMs have addresses inside a network of the cluster.
        ClusterNetworkCidrConflict => "ClusterNetworkCIDRConflict",
        /// Every VM of the pool can be migrated live.
        KubeVirtNodesLiveMigratable => "KubeVirtNodesLiveMigratable",
    }
}

words! {
    /// Condition types of a ServiceExposure.
    pub enum ExposureConditionType {
        /// The request is understood and can be served.
        Accepted => "Accepted",
        /// The hosting cluster has what it takes.
        Programmed => "Programmed",
        /// The operator has connected to every endpoint.
        Reachable => "Reachable",
    }
}

words! {
    /// Reasons of conditions, events and refusals.
    pub enum Reason {
        /// All is as it should be.
        AsExpected => "AsExpected",
        /// Nothing is known yet.
        StatusUnknown => "StatusUnknown",
        /// An object that is needed does not exist.
        NotFound => "NotFound",
        /// An object that is needed cannot be read.
        FailedToGet => "FailedToGet",
        /// A Secret that is needed does not exist or lacks its key.
        SecretNotFound => "SecretNotFound",
        /// A ConfigMap that is needed does not exist or lacks its key.
        ConfigMapNotFound => "ConfigMapNotFound",
        /// The control plane is not up yet.
        WaitingForAvailable => "WaitingForAvailable",
        /// The grace period of a deletion runs.
        WaitingForGracePeriod => "WaitingForGracePeriod",
        /// A condition that is false stops the progress.
        Blocked => "Blocked",
        /// The infrastructure has failed.
        InfraStatusFailure => "InfraStatusFailure",
        /// The infrastructure is not there yet.
        WaitingOnInfrastructureReady => "WaitingOnInfrastructureReady",
        /// A published address cannot be had, or nobody reaches it.
        EndpointNotReachable => "EndpointNotReachable",
        /// The load balancer has no address yet.
        LoadBalancerPending => "LoadBalancerPending",
        /// etcd has its quorum.
        QuorumAvailable => "QuorumAvailable",
        /// etcd waits for its quorum.
        EtcdWaitingForQuorum => "EtcdWaitingForQuorum",
        /// The StatefulSet of etcd does not exist.
        StatefulSetNotFound => "StatefulSetNotFound",
        /// The etcd that the user runs is described wrongly.
        UnmanagedEtcdMisconfigured => "UnmanagedEtcdMisconfigured",
        /// The etcd that the user runs is usable.
        UnmanagedEtcdAsExpected => "UnmanagedEtcdAsExpected",
        /// The spec contradicts itself or the cluster.
        InvalidConfiguration => "InvalidConfiguration",
        /// The kubeconfig does not exist yet.
        KubeconfigWaitingForCreate => "KubeconfigWaitingForCreate",
        /// The spec asks for something that this platform lacks.
        UnsupportedHostedCluster => "UnsupportedHostedCluster",
        /// The image does not exist, cannot be pulled, or is no release.
        InvalidImage => "InvalidImage",
        /// The registry does not answer.
        RegistryUnreachable => "RegistryUnreachable",
        /// The registry refuses the pull secret.
        RegistryDenied => "RegistryDenied",
        /// The release lacks images.
        MissingReleaseImages => "MissingReleaseImages",
        /// `spec.pausedUntil` stops the reconciliation.
        ReconciliationPaused => "ReconciliationPaused",
        /// `spec.pausedUntil` is neither a time nor a truth value.
        InvalidPausedUntilValue => "InvalidPausedUntilValue",
        /// A pass of the operator has failed.
        ReconcileError => "ReconcileError",
        /// Deployments of the control plane are not available.
        ComponentsNotAvailable => "ComponentsNotAvailable",
        /// A control plane is being rolled out.
        RollingOut => "RollingOut",
        /// The object is being deleted.
        Deleting => "Deleting",
        /// There is no worker node yet.
        NoWorkerNodesAvailable => "NoWorkerNodesAvailable",
        /// No konnectivity agent is connected.
        KonnectivityAgentPodsNotFound => "KonnectivityAgentPodsNotFound",
        /// The API server does not answer.
        KasAccessFailed => "KASAccessFailed",
        /// Volumes and load balancers were left.
        CloudResourcesCleanupSkipped => "CloudResourcesCleanupSkipped",
        /// Volumes and load balancers did not go in time.
        CloudResourcesDeletionTimedOut => "CloudResourcesDeletionTimedOut",
        /// A field of the NodePool is refused.
        ValidationFailed => "ValidationFailed",
        /// The release does not fit the architecture.
        InvalidArchPlatform => "InvalidArchPlatform",
        /// The VM template is refused.
        InvalidKubevirtMachineTemplate => "InvalidKubevirtMachineTemplate",
        /// Networks overlap.
        CidrConflict => "CIDRConflict",
        /// A VM cannot be migrated live.
        KubeVirtNodesNotLiveMigratable => "KubeVirtNodesNotLiveMigratable",
        /// The pool's version may not run beside the control plane's.
        UnsupportedSkew => "UnsupportedSkew",
        /// Too many nodes are unhealthy for a repair.
        TooManyUnhealthy => "TooManyUnhealthy",
        /// No machine has joined yet.
        IgnitionNotReached => "ignitionNotReached",
        /// VMs do not run yet.
        VmNotReady => "VMNotReady",
        /// A VM cannot be created.
        VmCreateFailed => "VMCreateFailed",
        /// A VM finds no place.
        Unschedulable => "Unschedulable",
        /// Nodes are not ready yet.
        NodesNotReady => "NodesNotReady",
        /// The pool is changing its number of nodes.
        ScalingUp => "ScalingUp",
        /// The pool gives nodes back.
        ScalingDown => "ScalingDown",
        /// The pool asks for something that this version does not do.
        Unsupported => "Unsupported",
        /// The HostedCluster does not exist.
        HostedClusterNotFound => "HostedClusterNotFound",
        /// The HostedCluster is not available yet.
        HostedClusterNotAvailable => "HostedClusterNotAvailable",
        /// The HostedCluster is being deleted.
        HostedClusterDeleting => "HostedClusterDeleting",
        /// A NodePool that the exposure names does not exist.
        NodePoolNotFound => "NodePoolNotFound",
        /// The hosted Service does not exist.
        ServiceNotFound => "ServiceNotFound",
        /// The hosted Service is not of type NodePort or LoadBalancer.
        ServiceNotNodePort => "ServiceNotNodePort",
        /// The hosted Service has no such port.
        PortNotFound => "PortNotFound",
        /// The hosting node port is in use.
        NodePortTaken => "NodePortTaken",
        /// The hosting node port is outside the range of the hosting cluster.
        NodePortOutOfRange => "NodePortOutOfRange",
        /// Another port than the preferred one was taken.
        NodePortReassigned => "NodePortReassigned",
        /// The hosting cluster has refused the Service.
        ServiceRefused => "ServiceRefused",
        /// No VM serves yet.
        NoEndpoints => "NoEndpoints",
        /// Connections do not come through.
        ConnectionFailed => "ConnectionFailed",
        /// Nothing was tried yet.
        Pending => "Pending",
    }
}
