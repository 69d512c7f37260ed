//! The hosted control plane: what runs on the hosting cluster for one HostedCluster.
//!
//! Each component is a folder that says what it builds. All of them read one [`ControlPlane`], which is made once,
//! from a validated HostedCluster, its release and what was observed.

pub mod etcd;
pub mod kube_apiserver;
pub mod kube_controller_manager;
pub mod kube_scheduler;
pub mod kubeconfig;
pub mod namespace;
pub mod network_policy;
mod pod;
pub mod secrets;
pub mod services;

use std::collections::BTreeMap;
use std::net::IpAddr;

use ipnet::IpNet;
use kube::core::DynamicObject;
use remora_api::hosted_cluster::NetworkType;
use remora_api::labels;
use serde_json::{Value, json};

pub(crate) use self::pod::short_hash;
use crate::release::Images;

/// The components whose workloads make a control plane available, with the kind of workload.
pub const DEPLOYMENTS: [&str; 3] =
    [kube_apiserver::NAME, kube_controller_manager::NAME, kube_scheduler::NAME];

/// Everything that a component needs to know about the control plane it belongs to.
#[derive(Clone, Debug)]
pub struct ControlPlane {
    /// Control plane namespace.
    pub namespace: String,
    /// Namespace of the HostedCluster.
    pub hosted_cluster_namespace: String,
    /// Name of the HostedCluster.
    pub hosted_cluster_name: String,
    /// UID of the HostedCluster.
    pub hosted_cluster_uid: String,
    /// infraID of the HostedCluster.
    pub infra_id: String,
    /// One of each, or three.
    pub availability: Availability,
    /// Component images of the release.
    pub images: Images,
    /// Networks inside the hosted cluster.
    pub networks: Networks,
    /// Issuer of service account tokens.
    pub issuer_url: String,
    /// Volume of each etcd member.
    pub etcd_volume: EtcdVolume,
    /// How the API server is published.
    pub api_publishing: Publishing,
    /// How the konnectivity server is published.
    pub konnectivity_publishing: Publishing,
    /// Another name under which users reach the API server.
    pub api_dns_name: Option<String>,
    /// Feature gates of all Kubernetes components, `name=true|false`.
    pub feature_gates: Vec<String>,
    /// Placement of the pods.
    pub placement: Placement,
    /// Secret of the control plane namespace with which the pods' images are pulled.
    pub pull_secret: Option<&'static str>,
    /// A change of this value restarts the control plane.
    pub restart_date: Option<String>,
    /// Requests that replace ours, by `<workload>.<container>`.
    pub resource_requests: BTreeMap<String, ResourceRequest>,
    /// Hashes of the Secrets of the control plane namespace, by name: a pod is replaced when one that it mounts changes.
    pub secret_hashes: BTreeMap<String, String>,
}

/// How many of each component run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Availability {
    /// One.
    SingleReplica,
    /// Three, spread over hosts.
    HighlyAvailable,
}

impl Availability {
    /// The number of replicas.
    pub fn replicas(self) -> u8 {
        match self {
            Self::SingleReplica => 1,
            Self::HighlyAvailable => 3,
        }
    }
}

/// Networks inside the hosted cluster.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Networks {
    /// Pod networks, at most one per address family.
    pub cluster: Vec<ClusterNetwork>,
    /// Service networks, at most one per address family.
    pub service: Vec<IpNet>,
    /// Ports that Services of type NodePort may have, first and last.
    pub node_ports: (u16, u16),
    /// Which pod network is installed.
    pub pod_network: PodNetwork,
    /// Whether each node is given a part of the pod network although the user installs it.
    pub allocates_node_cidrs: bool,
    /// Networks from which a load balancer lets clients reach the API server; none means all.
    pub allowed_sources: Vec<IpNet>,
}

impl Networks {
    /// The first address of each service network: that of the Service `default/kubernetes`.
    pub fn kubernetes_service_addresses(&self) -> Vec<IpAddr> {
        self.service.iter().filter_map(|network| network.hosts().next()).collect()
    }

    /// The tenth address of the first service network: that of the cluster's DNS.
    pub fn dns_service_address(&self) -> Option<IpAddr> {
        self.service.first().and_then(|network| network.hosts().nth(9))
    }
}

/// A pod network.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClusterNetwork {
    /// The whole network.
    pub cidr: IpNet,
    /// Prefix length of each node's part.
    pub host_prefix: u8,
}

/// Which pod network is installed in the hosted cluster.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PodNetwork {
    /// Flannel, installed and kept by Remora.
    Flannel,
    /// The user installs one.
    User,
}

impl From<NetworkType> for PodNetwork {
    fn from(network_type: NetworkType) -> Self {
        match network_type {
            NetworkType::Other => Self::User,
            NetworkType::OvnKubernetes | NetworkType::OpenShiftSdn | NetworkType::Calico => {
                Self::Flannel
            }
        }
    }
}

/// The volume of each etcd member.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EtcdVolume {
    /// Storage class; none for the hosting cluster's default.
    pub storage_class: Option<String>,
    /// Size.
    pub size: String,
}

/// How a service of the control plane is published outside the hosting cluster.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Publishing {
    /// On a port of the hosting nodes.
    NodePort {
        /// Host under which clients reach it.
        address: String,
        /// The port; none to take any free one.
        port: Option<u16>,
    },
    /// By a load balancer of the hosting cluster.
    LoadBalancer {
        /// DNS name that clients use instead of the balancer's own address.
        hostname: Option<String>,
    },
}

/// Where the pods of the control plane run.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Placement {
    /// Node selector.
    pub node_selector: BTreeMap<String, String>,
    /// Tolerations, as in a pod.
    pub tolerations: Vec<Value>,
    /// Labels that the pods get besides ours.
    pub labels: BTreeMap<String, String>,
}

/// What a container asks of its host.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ResourceRequest {
    /// CPU, as a quantity.
    pub cpu: Option<String>,
    /// Memory, as a quantity.
    pub memory: Option<String>,
}

impl ControlPlane {
    /// The annotation value that leads from an object back to its HostedCluster.
    pub fn hosted_cluster(&self) -> String {
        format!("{}/{}", self.hosted_cluster_namespace, self.hosted_cluster_name)
    }

    /// Metadata of an object in the control plane namespace.
    fn metadata(&self, name: &str, component: &str) -> Value {
        json!({
            "name": name,
            "namespace": self.namespace,
            "labels": {
                labels::MANAGED_BY: labels::FIELD_MANAGER,
                labels::CONTROL_PLANE_COMPONENT: component,
            },
            "annotations": { labels::HOSTED_CLUSTER: self.hosted_cluster() },
        })
    }
}

/// Builds what makes the API available, Secrets and published Services apart.
pub fn objects(control_plane: &ControlPlane) -> Vec<DynamicObject> {
    let mut objects = etcd::objects(control_plane);
    objects.extend(kube_apiserver::objects(control_plane));
    objects.extend(network_policy::objects(control_plane));
    objects
}

/// Builds the API server's clients.
///
/// They are made once it serves: kube-controller-manager gives up when it has waited ten seconds, and each time the
/// host waits longer before it starts it again.
pub fn client_objects(control_plane: &ControlPlane) -> Vec<DynamicObject> {
    let mut objects = kube_controller_manager::objects(control_plane);
    objects.extend(kube_scheduler::objects(control_plane));
    objects
}

/// Makes an object from its JSON form.
pub(crate) fn from_json(value: Value) -> DynamicObject {
    serde_json::from_value(value).expect("written here with type and metadata")
}

#[cfg(test)]
pub(crate) mod testing {
    use super::*;

    /// A control plane whose values differ from each other, so that swaps show.
    pub(crate) fn control_plane() -> ControlPlane {
        ControlPlane {
            namespace: "clusters-demo".to_owned(),
            hosted_cluster_namespace: "clusters".to_owned(),
            hosted_cluster_name: "demo".to_owned(),
            hosted_cluster_uid: "5e0a3c1c-0000-4000-8000-000000000001".to_owned(),
            infra_id: "demo-x7k2p".to_owned(),
            availability: Availability::SingleReplica,
            images: crate::release::testing::release().images().unwrap(),
            networks: Networks {
                cluster: vec![ClusterNetwork {
                    cidr: "10.132.0.0/14".parse().unwrap(),
                    host_prefix: 23,
                }],
                service: vec!["172.31.0.0/16".parse().unwrap()],
                node_ports: (30000, 32767),
                pod_network: PodNetwork::Flannel,
                allocates_node_cidrs: false,
                allowed_sources: Vec::new(),
            },
            issuer_url: "https://kubernetes.default.svc".to_owned(),
            etcd_volume: EtcdVolume {
                storage_class: Some("fast".to_owned()),
                size: "8Gi".to_owned(),
            },
            api_publishing: Publishing::NodePort {
                address: "192.0.2.7".to_owned(),
                port: Some(30443),
            },
            konnectivity_publishing: Publishing::NodePort {
                address: "192.0.2.8".to_owned(),
                port: None,
            },
            api_dns_name: None,
            feature_gates: Vec::new(),
            placement: Placement::default(),
            pull_secret: Some("pull-secret"),
            restart_date: None,
            resource_requests: BTreeMap::new(),
            secret_hashes: [("kas-server-crt".to_owned(), "aaaa".to_owned())].into(),
        }
    }

    /// Asserts that every field of the object is one that the typed form knows: nothing is misspelt or misplaced.
    pub(crate) fn assert_is<T>(object: &DynamicObject)
    where
        T: serde::de::DeserializeOwned + serde::Serialize,
    {
        let mut given = serde_json::to_value(object).unwrap();
        let typed: T = serde_json::from_value(given.clone()).unwrap();
        let mut returned = serde_json::to_value(&typed).unwrap();
        for value in [&mut given, &mut returned] {
            let fields = value.as_object_mut().unwrap();
            fields.remove("apiVersion");
            fields.remove("kind");
        }
        prune(&mut given);
        prune(&mut returned);
        assert_eq!(given, returned);
    }

    /// Drops what the typed form writes but nobody gave: nulls, and empty maps and lists.
    fn prune(value: &mut Value) {
        match value {
            Value::Object(fields) => {
                fields.values_mut().for_each(prune);
                fields.retain(|_, field| !is_empty(field));
            }
            Value::Array(items) => items.iter_mut().for_each(prune),
            Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
        }
    }

    fn is_empty(value: &Value) -> bool {
        match value {
            Value::Null => true,
            Value::Object(fields) => fields.is_empty(),
            Value::Array(items) => items.is_empty(),
            Value::Bool(_) | Value::Number(_) | Value::String(_) => false,
        }
    }
}
