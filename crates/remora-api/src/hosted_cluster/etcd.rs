//! The datastore of a HostedCluster.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::Toleration;
use k8s_openapi::apimachinery::pkg::api::resource::Quantity;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::LocalObjectReference;
use crate::schema::{DNS_LABEL, any_object, immutable, quantity, rule};
use crate::word::words;

words! {
    /// Who runs etcd.
    pub enum EtcdManagementType {
        /// Remora does.
        Managed => "Managed",
        /// The user does.
        Unmanaged => "Unmanaged",
    }
}

words! {
    /// Where a managed etcd keeps its data.
    pub enum EtcdStorageType {
        /// On a persistent volume per member.
        PersistentVolume => "PersistentVolume",
    }
}

/// The datastore.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("x-kubernetes-validations" = [
    rule(
        "self.managementType == 'Managed' ? has(self.managed) : !has(self.managed)",
        "Only managed configuration must be set when managementType is Managed",
    ),
    rule(
        "self.managementType == 'Unmanaged' ? has(self.unmanaged) : !has(self.unmanaged)",
        "Only unmanaged configuration must be set when managementType is Unmanaged",
    ),
]))]
pub struct EtcdSpec {
    /// Who runs etcd; cannot be changed.
    #[schemars(extend("x-kubernetes-validations" = [immutable("managementType")]))]
    pub management_type: EtcdManagementType,
    /// Settings of an etcd that Remora runs.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub managed: Option<ManagedEtcdSpec>,
    /// Access to an etcd that the user runs.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub unmanaged: Option<UnmanagedEtcdSpec>,
}

impl Default for EtcdSpec {
    fn default() -> Self {
        Self {
            management_type: EtcdManagementType::Managed,
            managed: Some(ManagedEtcdSpec {
                storage: ManagedEtcdStorageSpec {
                    storage_type: EtcdStorageType::PersistentVolume,
                    persistent_volume: Some(PersistentVolumeEtcdStorageSpec::default()),
                    restore_snapshot_url: Vec::new(),
                },
                backup: None,
                scheduling: None,
                shards: Vec::new(),
            }),
            unmanaged: None,
        }
    }
}

/// An etcd that Remora runs.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[schemars(extend("x-kubernetes-validations" = [rule(
    "has(oldSelf.shards) == has(self.shards)",
    "shards cannot be added or removed after creation",
)]))]
pub struct ManagedEtcdSpec {
    /// Where the data is kept.
    pub storage: ManagedEtcdStorageSpec,
    /// Backups to a cloud's object store.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "any_object")]
    #[serde(default)]
    pub backup: Option<serde_json::Value>,
    /// Hosts on which the members run.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub scheduling: Option<EtcdScheduling>,
    /// More etcds, each for some resources.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(min = 1, max = 10))]
    #[schemars(extend(
        "x-kubernetes-list-type" = "map",
        "x-kubernetes-list-map-keys" = ["name"],
        "x-kubernetes-validations" = [
            rule(
                "self.all(s1, self.all(s2, s1.name == s2.name || !s1.resources.exists(r, s2.resources.exists(q, r.apiGroup == q.apiGroup && r.resource == q.resource))))",
                "resources must not overlap across shards",
            ),
            rule("self.size() == oldSelf.size()", "shards cannot be added or removed after creation"),
            rule(
                "oldSelf.all(old, self.exists(cur, cur.name == old.name))",
                "existing shards cannot be replaced",
            ),
        ],
    ))]
    pub shards: Vec<ManagedEtcdShard>,
}

/// Hosts on which etcd's members run.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("minProperties" = 1))]
pub struct EtcdScheduling {
    /// Labels of those hosts.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    #[schemars(extend("minProperties" = 1, "maxProperties" = 16))]
    pub node_selector: BTreeMap<String, String>,
    /// Tolerations of the members' pods.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(min = 1, max = 16), extend("x-kubernetes-list-type" = "atomic"))]
    pub tolerations: Vec<Toleration>,
}

/// Where a managed etcd keeps its data.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("x-kubernetes-validations" = [rule(
    "has(self.restoreSnapshotURL) == has(oldSelf.restoreSnapshotURL)",
    "restoreSnapshotURL cannot be added or removed after creation",
)]))]
pub struct ManagedEtcdStorageSpec {
    /// The kind of storage.
    #[serde(rename = "type")]
    pub storage_type: EtcdStorageType,
    /// The persistent volumes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub persistent_volume: Option<PersistentVolumeEtcdStorageSpec>,
    /// Snapshot from which a new cluster is restored.
    #[serde(rename = "restoreSnapshotURL", default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 1), inner(length(max = 1024)))]
    #[schemars(extend(
        "x-kubernetes-list-type" = "set",
        "x-kubernetes-validations" = [
            immutable("restoreSnapshotURL"),
            rule(
                "self.size() == 0 || self[0].matches('^(https|s3)://.*')",
                "restoreSnapshotURL must be a valid URL with scheme https or s3",
            ),
        ],
    ))]
    pub restore_snapshot_url: Vec<String>,
}

/// Persistent volumes of etcd.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct PersistentVolumeEtcdStorageSpec {
    /// Storage class; the default one when unset.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 255))]
    #[schemars(extend("x-kubernetes-validations" = [immutable("storageClassName")]))]
    pub storage_class_name: Option<String>,
    /// Size of each volume.
    #[serde(default = "default_etcd_size")]
    #[schemars(schema_with = "quantity")]
    #[schemars(extend("x-kubernetes-validations" = [rule("self == oldSelf", "Etcd PV storage size is immutable")]))]
    pub size: Quantity,
}

impl Default for PersistentVolumeEtcdStorageSpec {
    fn default() -> Self {
        Self { storage_class_name: None, size: default_etcd_size() }
    }
}

/// An etcd for some resources.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[schemars(extend("x-kubernetes-validations" = [rule(
    "has(oldSelf.storage) == has(self.storage)",
    "storage cannot be added or removed after creation",
)]))]
pub struct ManagedEtcdShard {
    /// Name of the shard.
    #[schemars(length(min = 1, max = 48))]
    #[schemars(extend("x-kubernetes-validations" = [
        rule(DNS_LABEL, "name must be a valid DNS1123 label: lowercase alphanumeric with hyphens, starting and ending with an alphanumeric character"),
        immutable("name"),
    ]))]
    pub name: String,
    /// Members: one or three.
    #[schemars(extend("enum" = [1, 3], "x-kubernetes-validations" = [immutable("replicas")]))]
    pub replicas: i32,
    /// Resources that the shard holds.
    #[schemars(length(min = 1, max = 20))]
    #[schemars(extend(
        "x-kubernetes-list-type" = "map",
        "x-kubernetes-list-map-keys" = ["apiGroup", "resource"],
        "x-kubernetes-validations" = [rule("self == oldSelf", "resources are immutable")],
    ))]
    pub resources: Vec<EtcdShardResource>,
    /// Hosts on which the members run.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub scheduling: Option<EtcdScheduling>,
    /// Where the data is kept.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub storage: Option<EtcdShardStorage>,
}

/// A resource by group and plural name.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct EtcdShardResource {
    /// API group; empty for the core group.
    #[schemars(length(max = 253))]
    #[schemars(extend("x-kubernetes-validations" = [rule(
        "self == '' || self.matches('^[a-z0-9]([a-z0-9-]*[a-z0-9])?([.][a-z0-9]([a-z0-9-]*[a-z0-9])?)*$')",
        "apiGroup must be a valid DNS subdomain (lowercase alphanumeric, hyphens, dots)",
    )]))]
    pub api_group: String,
    /// Plural name.
    #[schemars(length(min = 1, max = 63))]
    #[schemars(extend("x-kubernetes-validations" = [rule(
        "self.matches('^[a-z0-9]([a-z0-9-]*[a-z0-9])?$')",
        "resource must be a valid DNS label (lowercase alphanumeric, hyphens)",
    )]))]
    pub resource: String,
}

words! {
    /// Where a shard keeps its data.
    pub enum EtcdShardStorageType {
        /// On a persistent volume per member.
        PersistentVolume => "PersistentVolume",
        /// In the pod: lost with it.
        EmptyDir => "EmptyDir",
    }
}

/// Where a shard keeps its data.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("x-kubernetes-validations" = [
    immutable("storage"),
    rule(
        "self.type == 'PersistentVolume' ? true : !has(self.persistentVolume)",
        "persistentVolume is forbidden when type is not PersistentVolume",
    ),
]))]
pub struct EtcdShardStorage {
    /// The kind of storage.
    #[serde(rename = "type")]
    pub storage_type: EtcdShardStorageType,
    /// The persistent volumes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub persistent_volume: Option<EtcdShardPersistentVolume>,
}

/// Persistent volumes of a shard.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("minProperties" = 1))]
pub struct EtcdShardPersistentVolume {
    /// Storage class; the default one when unset.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 253))]
    #[schemars(extend("x-kubernetes-validations" = [rule(
        "self.matches('^[a-z0-9]([a-z0-9.-]*[a-z0-9])?$')",
        "storageClassName must be a valid DNS1123 subdomain",
    )]))]
    pub storage_class_name: Option<String>,
}

/// Access to an etcd that the user runs.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct UnmanagedEtcdSpec {
    /// URL of etcd.
    #[schemars(length(max = 255), regex(pattern = "^https://"))]
    pub endpoint: String,
    /// Certificates of the connection.
    pub tls: EtcdTlsConfig,
}

/// Certificates of the connection to etcd.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct EtcdTlsConfig {
    /// Secret with keys `etcd-client.crt`, `etcd-client.key` and `etcd-client-ca.crt`.
    pub client_secret: LocalObjectReference,
}

fn default_etcd_size() -> Quantity {
    Quantity("8Gi".to_owned())
}
