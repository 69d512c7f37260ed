//! Labels, annotations and finalizers: what objects of Remora carry and what users set.

/// Field manager of everything Remora applies.
pub const FIELD_MANAGER: &str = "remora";

/// Finalizer of HostedCluster and NodePool.
pub const FINALIZER: &str = "hypershift.openshift.io/finalizer";
/// Finalizer of ServiceExposure.
pub const EXPOSURE_FINALIZER: &str = "remora.dev/finalizer";

/// Label of a control plane namespace, value `true`.
pub const HOSTED_CONTROL_PLANE: &str = "hypershift.openshift.io/hosted-control-plane";
/// Annotation of objects outside the HostedCluster's namespace: `<namespace>/<name>` of the HostedCluster.
pub const HOSTED_CLUSTER: &str = "hypershift.openshift.io/cluster";
/// Label of VMs and their pods: the cluster's infraID.
pub const INFRA_ID: &str = "hypershift.openshift.io/infra-id";
/// Label of pods and workloads of a control plane: the component's name.
pub const CONTROL_PLANE_COMPONENT: &str = "hypershift.openshift.io/control-plane-component";
/// Label of VMs and their pods: the NodePool's name.
pub const NODE_POOL_NAME: &str = "hypershift.openshift.io/nodepool-name";
/// Label of Nodes inside the hosted cluster: the NodePool's name.
pub const NODE_NODE_POOL: &str = "hypershift.openshift.io/nodePool";
/// Annotation of objects made for a NodePool: `<namespace>/<name>` of the NodePool.
pub const NODE_POOL: &str = "hypershift.openshift.io/nodePool";

/// Label of VMs and their pods: the cluster's infraID, under the name that Cluster API uses.
pub const CAPI_CLUSTER_NAME: &str = "cluster.x-k8s.io/cluster-name";
/// Label of VMs and their pods: the machine's role, always [`CAPI_ROLE_WORKER`] here.
pub const CAPI_ROLE: &str = "cluster.x-k8s.io/role";
/// Value of [`CAPI_ROLE`] for the machines of a NodePool.
pub const CAPI_ROLE_WORKER: &str = "worker";
/// Label of VMs and their pods: the machine's name.
pub const CAPK_MACHINE_NAME: &str = "capk.cluster.x-k8s.io/kubevirt-machine-name";
/// Label of VMs and their pods: the machine's namespace.
pub const CAPK_MACHINE_NAMESPACE: &str = "capk.cluster.x-k8s.io/kubevirt-machine-namespace";
/// Label of hosting Services made for a hosted Service of type LoadBalancer: its name, shortened where it is too long.
pub const TENANT_SERVICE_NAME: &str = "cluster.x-k8s.io/tenant-service-name";
/// Label of hosting Services made for a hosted Service of type LoadBalancer: its namespace.
pub const TENANT_SERVICE_NAMESPACE: &str = "cluster.x-k8s.io/tenant-service-namespace";
/// Annotation of hosting Services made for a hosted Service of type LoadBalancer: `<namespace>/<name>`, never shortened.
pub const HOSTED_SERVICE: &str = "remora.dev/hosted-service";
/// Finalizer of a hosted Service of type LoadBalancer, as the cloud controllers have it.
pub const LOAD_BALANCER_FINALIZER: &str = "service.kubernetes.io/load-balancer-cleanup";
/// `spec.loadBalancerClass` of hosted Services that ask for a load balancer of the hosting cluster by name.
pub const LOAD_BALANCER_CLASS: &str = "remora.dev/hosting";
/// User's annotation of a HostedCluster: [`LOAD_BALANCERS_DISABLED`] when its Services get no load balancers of the hosting
/// cluster.
pub const LOAD_BALANCERS: &str = "remora.dev/load-balancers";
/// Value of [`LOAD_BALANCERS`] that switches them off.
pub const LOAD_BALANCERS_DISABLED: &str = "Disabled";
/// Label that a user puts on a VM to have it replaced; the value is the reason.
pub const CAPK_VM_IS_TERMINAL: &str = "capk.cluster.x-k8s.io/vm-is-terminal";
/// Label that KubeVirt's own tools expect on a VM's pods: the VM's name.
pub const KUBEVIRT_VM: &str = "kubevirt.io/vm";
/// Label that KubeVirt puts on virt-launcher pods, value `virt-launcher`.
pub const KUBEVIRT_IO: &str = "kubevirt.io";

/// Who made an object, value [`FIELD_MANAGER`].
pub const MANAGED_BY: &str = "app.kubernetes.io/managed-by";
/// Label of objects made for a ServiceExposure: its name.
pub const EXPOSURE_NAME: &str = "remora.dev/exposure";
/// Label of objects made for a ServiceExposure: its namespace.
pub const EXPOSURE_NAMESPACE: &str = "remora.dev/exposure-namespace";
/// Label of a ServiceExposure that was made for an ExposurePolicy: the policy's name.
pub const EXPOSURE_POLICY: &str = "remora.dev/exposure-policy";
/// Hosted users' annotation of a Service: the way by which it shall be exposed (`NodePort`).
pub const EXPOSE: &str = "remora.dev/expose";
/// Hosted users' annotation of a Service: the node ports that it shall have outside (`http=30080,8443=30443`).
pub const EXPOSE_NODE_PORTS: &str = "remora.dev/expose-node-ports";
/// Annotation of a hosted Service that asked to be exposed: every address and port at which it is reached.
pub const EXPOSED_AT: &str = "remora.dev/exposed-at";
/// Annotation of a hosted Service that asked to be exposed: what keeps it from being reached.
pub const EXPOSURE_PROBLEM: &str = "remora.dev/exposure-problem";
/// Label of VMs and user-data Secrets: hash of the template that they were made from.
pub const TEMPLATE_HASH: &str = "remora.dev/template-hash";
/// Annotation of VMs: version of the release that the VM was made from.
pub const RELEASE_VERSION: &str = "remora.dev/release-version";
/// Annotation of VMs that were chosen to leave their NodePool: since when they are drained.
pub const REMOVAL_STARTED: &str = "remora.dev/removal-started";
/// Annotation of VMs whose node was given a certificate: `<UID of the VM instance>/<UID of the signing request>`.
pub const IDENTITY_ISSUED: &str = "remora.dev/identity-issued";
/// Annotation of Nodes: the taints that their NodePool gave them, as JSON.
pub const POOL_TAINTS: &str = "remora.dev/node-pool-taints";
/// User's annotation of a VM: it is the first to go when its NodePool shrinks.
pub const CAPI_DELETE_MACHINE: &str = "cluster.x-k8s.io/delete-machine";

/// Pod Security Admission: what is refused in a namespace.
pub const POD_SECURITY_ENFORCE: &str = "pod-security.kubernetes.io/enforce";
/// Pod Security Admission: what is written to the audit log.
pub const POD_SECURITY_AUDIT: &str = "pod-security.kubernetes.io/audit";
/// Pod Security Admission: what is warned about.
pub const POD_SECURITY_WARN: &str = "pod-security.kubernetes.io/warn";

/// User's annotation: JSON patch of the VM template.
pub const VM_JSON_PATCH: &str = "hypershift.openshift.io/kubevirt-vm-jsonpatch";
/// User's annotation: how long a node may be unhealthy before it is replaced.
pub const HEALTH_CHECK_TIMEOUT: &str = "hypershift.openshift.io/machine-health-check-timeout";
/// User's annotation: how long a machine may take to become a node.
pub const HEALTH_CHECK_NODE_STARTUP_TIMEOUT: &str =
    "hypershift.openshift.io/machine-health-check-node-startup-timeout";
/// User's annotation: how many unhealthy nodes stop the repair.
pub const HEALTH_CHECK_MAX_UNHEALTHY: &str =
    "hypershift.openshift.io/machine-health-check-max-unhealthy";
/// User's annotation: the exact release image that an otherwise refused upgrade is forced to.
pub const FORCE_UPGRADE_TO: &str = "hypershift.openshift.io/force-upgrade-to";
/// User's annotation: a change of its value restarts the control plane.
pub const RESTART_DATE: &str = "hypershift.openshift.io/restart-date";
/// User's annotation: time to wait before the finalizer is dropped.
pub const DESTROY_GRACE_PERIOD: &str = "hypershift.openshift.io/destroy-grace-period";
/// User's annotation: remove volumes and load balancers of the hosted cluster with it.
pub const CLEANUP_CLOUD_RESOURCES: &str = "hypershift.openshift.io/cleanup-cloud-resources";
/// User's annotation: leave the control plane namespace when the HostedCluster is deleted.
pub const SKIP_CONTROL_PLANE_NAMESPACE_DELETION: &str =
    "hypershift.openshift.io/skip-delete-hosted-controlplane-namespace";
/// User's annotation: make no machines.
pub const DISABLE_MACHINE_MANAGEMENT: &str = "hypershift.openshift.io/disable-machine-management";
/// User's annotation: Pod Security level of the control plane namespace.
pub const POD_SECURITY_OVERRIDE: &str =
    "hypershift.openshift.io/pod-security-admission-label-override";
/// User's annotation: images that replace those of the release.
pub const IMAGE_OVERRIDES: &str = "hypershift.openshift.io/image-overrides";
/// User's annotation: accept hosting clusters older than the supported ones.
pub const ALLOW_UNSUPPORTED_KUBEVIRT: &str =
    "hypershift.openshift.io/allow-unsupported-kubevirt-rhcos-variants";
/// User's annotation: the cluster was restored from a backup.
pub const RESTORED_FROM_BACKUP: &str = "hypershift.openshift.io/restored-from-backup";
/// User's annotation: image of HyperShift's own controllers, of which there are none here.
pub const CONTROL_PLANE_OPERATOR_IMAGE: &str =
    "hypershift.openshift.io/control-plane-operator-image";
/// User's annotation: image of Cluster API's KubeVirt provider, which is not used here.
pub const CAPI_PROVIDER_IMAGE: &str = "hypershift.openshift.io/capi-provider-kubevirt-image";
/// User's annotation: the size class of the control plane.
pub const CLUSTER_SIZE_OVERRIDE: &str = "hypershift.openshift.io/cluster-size-override";
/// Prefix of user's annotations `<prefix>/<deployment>.<container>: memory=..,cpu=..`.
pub const RESOURCE_REQUEST_OVERRIDE_PREFIX: &str =
    "resource-request-override.hypershift.openshift.io";
