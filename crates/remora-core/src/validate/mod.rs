//! The HostedCluster's spec: what the CRD's own rules cannot say, and its meaning in Remora's terms.

mod annotations;
mod networks;
mod publishing;
mod unused;

use std::collections::BTreeMap;

use remora_api::hosted_cluster::{
    AvailabilityPolicy, EtcdManagementType, HostedClusterSpec, PlatformType,
};
use remora_api::{HostedCluster, labels, names};

use crate::control_plane::{
    Availability, ControlPlane, EtcdVolume, Networks, Placement, Publishing, ResourceRequest,
};
use crate::release::Images;

/// Something in the spec that keeps the cluster from being made.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fault {
    /// Whether it is wrong or only not to be had here.
    pub kind: FaultKind,
    /// The field and what is wrong with it.
    pub problem: String,
    /// What to do.
    pub remedy: String,
}

/// What kind of fault.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum FaultKind {
    /// It contradicts itself: condition ValidConfiguration.
    Invalid,
    /// It is right, but Remora does not do it: condition SupportedHostedCluster.
    Unsupported,
}

impl Fault {
    pub(crate) fn invalid(problem: impl Into<String>, remedy: impl Into<String>) -> Self {
        Self { kind: FaultKind::Invalid, problem: problem.into(), remedy: remedy.into() }
    }

    /// The control plane namespace is someone else's.
    pub fn foreign_namespace(problem: String) -> Self {
        Self::invalid(problem, "choose another name or namespace for this HostedCluster")
    }

    /// A Secret beside the HostedCluster, where its kubeconfig belongs, is someone else's.
    pub fn foreign_secret(namespace: &str, name: &str) -> Self {
        Self::invalid(
            format!("Secret {namespace}/{name} exists and was not made by Remora"),
            "rename or delete it: the administrator's kubeconfig is written there",
        )
    }

    pub(crate) fn unsupported(problem: impl Into<String>, remedy: impl Into<String>) -> Self {
        Self { kind: FaultKind::Unsupported, problem: problem.into(), remedy: remedy.into() }
    }
}

impl std::fmt::Display for Fault {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(formatter, "{}: {}", self.problem, self.remedy)
    }
}

/// The spec in Remora's terms.
#[derive(Clone, Debug)]
pub struct Settings {
    /// Control plane namespace.
    pub control_plane_namespace: String,
    /// Notes about fields that are accepted without effect.
    pub unused: Vec<String>,
    availability: Availability,
    networks: Networks,
    etcd_volume: EtcdVolume,
    api_publishing: Publishing,
    konnectivity_publishing: Publishing,
    placement: Placement,
    feature_gates: Vec<String>,
    resource_requests: BTreeMap<String, ResourceRequest>,
}

impl Settings {
    /// Joins the settings with the object's identity and the release's images.
    pub fn control_plane(
        self,
        hosted_cluster: &HostedCluster,
        infra_id: String,
        images: Images,
    ) -> ControlPlane {
        let metadata = &hosted_cluster.metadata;
        let spec = &hosted_cluster.spec;
        ControlPlane {
            namespace: self.control_plane_namespace,
            hosted_cluster_namespace: metadata.namespace.clone().unwrap_or_default(),
            hosted_cluster_name: metadata.name.clone().unwrap_or_default(),
            hosted_cluster_uid: metadata.uid.clone().unwrap_or_default(),
            infra_id,
            availability: self.availability,
            images,
            networks: self.networks,
            issuer_url: spec.issuer_url.clone(),
            etcd_volume: self.etcd_volume,
            api_publishing: self.api_publishing,
            konnectivity_publishing: self.konnectivity_publishing,
            api_dns_name: spec.kube_api_server_dns_name.clone().filter(|name| !name.is_empty()),
            feature_gates: self.feature_gates,
            placement: self.placement,
            pull_secret: pull_secret(spec),
            restart_date: annotation(hosted_cluster, labels::RESTART_DATE),
            resource_requests: self.resource_requests,
            secret_hashes: BTreeMap::new(),
        }
    }
}

/// The copy of the pull secret in the control plane namespace, if there is a pull secret to be copied.
pub fn pull_secret(spec: &HostedClusterSpec) -> Option<&'static str> {
    (!spec.pull_secret.name.is_empty()).then_some(names::CONTROL_PLANE_PULL_SECRET)
}

/// Validates a HostedCluster; all faults are found, not only the first.
pub fn validate(hosted_cluster: &HostedCluster) -> Result<Settings, Vec<Fault>> {
    let spec = &hosted_cluster.spec;
    let mut faults = unsupported(spec);
    let control_plane_namespace = control_plane_namespace(hosted_cluster, &mut faults);
    let networks = networks::networks(spec, &mut faults);
    let published = publishing::publishing(spec, networks.as_ref(), &mut faults);
    match (networks, published) {
        (Some(networks), Some(published)) if faults.is_empty() => Ok(Settings {
            control_plane_namespace,
            unused: unused::notes(hosted_cluster),
            availability: availability(spec.controller_availability_policy),
            networks,
            etcd_volume: etcd_volume(spec),
            api_publishing: published.api,
            konnectivity_publishing: published.konnectivity,
            placement: placement(spec),
            feature_gates: feature_gates(spec),
            resource_requests: annotations::resource_requests(
                hosted_cluster.metadata.annotations.iter().flatten(),
            ),
        }),
        (_, _) => Err(faults),
    }
}

fn control_plane_namespace(hosted_cluster: &HostedCluster, faults: &mut Vec<Fault>) -> String {
    let metadata = &hosted_cluster.metadata;
    let namespace = metadata.namespace.as_deref().unwrap_or_default();
    let name = metadata.name.as_deref().unwrap_or_default();
    let control_plane = names::control_plane_namespace(namespace, name);
    if control_plane.len() > names::NAMESPACE_NAME_LIMIT {
        faults.push(Fault::invalid(
            format!(
                "namespace {namespace} and name {name} make the control plane namespace {control_plane}, which \
                 is {} characters long and may have {}",
                control_plane.len(),
                names::NAMESPACE_NAME_LIMIT
            ),
            "choose a shorter name or namespace",
        ));
    }
    control_plane
}

/// Fields that ask for something that would be missed if it were left out silently.
fn unsupported(spec: &HostedClusterSpec) -> Vec<Fault> {
    let etcd = &spec.etcd;
    let managed = etcd.managed.as_ref();
    let kubevirt = spec.platform.kubevirt.as_ref();
    let asked = [
        (
            spec.platform.platform_type != PlatformType::KubeVirt,
            "spec.platform.type is not KubeVirt",
            "set it to KubeVirt",
        ),
        (
            kubevirt.is_some_and(|kubevirt| kubevirt.credentials.is_some()),
            "spec.platform.kubevirt.credentials asks for another infrastructure cluster",
            "remove it: VMs run in the hosting cluster",
        ),
        (
            etcd.management_type == EtcdManagementType::Unmanaged,
            "spec.etcd.managementType is Unmanaged",
            "set it to Managed",
        ),
        (
            managed.is_some_and(|managed| !managed.storage.restore_snapshot_url.is_empty()),
            "spec.etcd.managed.storage.restoreSnapshotURL asks for a restored etcd",
            "remove it",
        ),
        (
            managed.is_some_and(|managed| !managed.shards.is_empty()),
            "spec.etcd.managed.shards asks for several etcds",
            "remove it",
        ),
        (
            spec.secret_encryption.is_some(),
            "spec.secretEncryption asks for Secrets to be encrypted in etcd",
            "remove it, and encrypt etcd's volumes by their storage class",
        ),
        (
            spec.service_account_signing_key.is_some(),
            "spec.serviceAccountSigningKey brings a key of its own",
            "remove it: a key is generated",
        ),
        (
            spec.audit_webhook.is_some(),
            "spec.auditWebhook asks for audit events to be sent",
            "remove it",
        ),
        (spec.fips == Some(true), "spec.fips asks for FIPS mode", "set it to false"),
    ];
    asked
        .into_iter()
        .filter(|(is_asked, _, _)| *is_asked)
        .map(|(_, problem, remedy)| Fault::unsupported(problem, remedy))
        .collect()
}

fn availability(policy: AvailabilityPolicy) -> Availability {
    match policy {
        AvailabilityPolicy::SingleReplica => Availability::SingleReplica,
        AvailabilityPolicy::HighlyAvailable => Availability::HighlyAvailable,
    }
}

fn etcd_volume(spec: &HostedClusterSpec) -> EtcdVolume {
    let volume = spec
        .etcd
        .managed
        .as_ref()
        .and_then(|managed| managed.storage.persistent_volume.clone())
        .unwrap_or_default();
    EtcdVolume { storage_class: volume.storage_class_name, size: volume.size.0 }
}

fn placement(spec: &HostedClusterSpec) -> Placement {
    Placement {
        node_selector: spec.node_selector.clone(),
        tolerations: spec
            .tolerations
            .iter()
            .map(|toleration| serde_json::to_value(toleration).expect("plain data"))
            .collect(),
        labels: spec.labels.clone(),
    }
}

/// Feature gates of `spec.configuration.featureGate.customNoUpgrade`, sorted.
fn feature_gates(spec: &HostedClusterSpec) -> Vec<String> {
    let gate =
        spec.configuration.as_ref().and_then(|configuration| configuration.feature_gate.as_ref());
    let names = |field: &str| -> Vec<String> {
        gate.and_then(|gate| gate.get("customNoUpgrade")?.get(field)?.as_array())
            .into_iter()
            .flatten()
            .filter_map(|name| name.as_str().map(str::to_owned))
            .collect()
    };
    let mut gates: Vec<String> =
        names("enabled").iter().map(|name| format!("{name}=true")).collect();
    gates.extend(names("disabled").iter().map(|name| format!("{name}=false")));
    gates.sort();
    gates
}

fn annotation(hosted_cluster: &HostedCluster, key: &str) -> Option<String> {
    hosted_cluster.metadata.annotations.as_ref()?.get(key).cloned()
}

#[cfg(test)]
pub(crate) mod testing {
    use super::HostedCluster;

    /// A small HostedCluster, with `change` made to it.
    pub(crate) fn hosted_cluster(change: impl FnOnce(&mut HostedCluster)) -> HostedCluster {
        let mut hosted_cluster: HostedCluster = serde_json::from_value(serde_json::json!({
            "apiVersion": "hypershift.openshift.io/v1beta1",
            "kind": "HostedCluster",
            "metadata": { "namespace": "clusters", "name": "demo", "uid": "u-1", "generation": 3 },
            "spec": {
                "release": { "image": "registry.example/release:1.35.4" },
                "infraID": "demo-x7k2p",
                "platform": { "type": "KubeVirt", "kubevirt": {} },
                "controllerAvailabilityPolicy": "SingleReplica",
                "pullSecret": { "name": "demo-pull-secret" },
                "services": [
                    { "service": "APIServer", "servicePublishingStrategy":
                        { "type": "NodePort", "nodePort": { "address": "192.0.2.7", "port": 30443 } } },
                    { "service": "Konnectivity", "servicePublishingStrategy":
                        { "type": "NodePort", "nodePort": { "address": "192.0.2.7" } } },
                    { "service": "OAuthServer", "servicePublishingStrategy": { "type": "Route" } },
                    { "service": "Ignition", "servicePublishingStrategy": { "type": "Route" } },
                ],
            },
        }))
        .unwrap();
        change(&mut hosted_cluster);
        hosted_cluster
    }

    /// The faults, as text.
    pub(crate) fn faults(change: impl FnOnce(&mut HostedCluster)) -> Vec<String> {
        match super::validate(&hosted_cluster(change)) {
            Ok(_) => Vec::new(),
            Err(faults) => {
                faults.iter().map(|fault| format!("{:?}: {fault}", fault.kind)).collect()
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::release::testing::release;
    use crate::validate::testing::{faults, hosted_cluster};

    #[test]
    fn when_a_spec_is_valid_it_becomes_a_control_plane() {
        let hosted_cluster = hosted_cluster(|hosted_cluster| {
            hosted_cluster.metadata.annotations = Some(
                [(
                    "resource-request-override.hypershift.openshift.io/kube-apiserver.kube-apiserver".to_owned(),
                    "memory=1Gi,cpu=2".to_owned(),
                )]
                .into(),
            );
        });
        let settings = validate(&hosted_cluster).unwrap();
        insta::assert_yaml_snapshot!(settings.unused);
        let images = release().images().unwrap();
        insta::assert_debug_snapshot!(settings.control_plane(
            &hosted_cluster,
            "demo-x7k2p".to_owned(),
            images
        ));
    }

    #[test]
    fn when_something_is_asked_for_that_is_not_done_it_is_named_with_a_remedy() {
        let faults = faults(|hosted_cluster| {
            hosted_cluster.spec.fips = Some(true);
            hosted_cluster.spec.platform.platform_type = PlatformType::Agent;
            hosted_cluster.spec.etcd.management_type = EtcdManagementType::Unmanaged;
        });
        insta::assert_yaml_snapshot!(faults);
    }

    #[test]
    fn when_the_names_are_too_long_for_a_namespace_that_is_said() {
        let faults = faults(|hosted_cluster| hosted_cluster.metadata.name = Some("d".repeat(60)));
        insta::assert_yaml_snapshot!(faults);
    }
}
