//! `remora get`.

use clap::{Args, ValueEnum};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::api::ListParams;
use kube::core::{ApiResource, DynamicObject};
use kube::{Api, Resource};
use remora_api::{ExposurePolicy, HostedCluster, NodePool, ServiceExposure, labels};
use serde_json::Value;

use crate::connect::Connection;
use crate::failure::Failure;
use crate::output::{self, Format, ListFormat};
use crate::wait::condition;

/// Shows clusters, node pools and exposures.
#[derive(Clone, Debug, Args)]
#[command(after_help = "Examples:
  remora get clusters
  remora get nodepools -A
  remora get exposures -o wide
  remora get exposures petclinic -o yaml
  remora get clusters -o json | jq -r '.items[].status.controlPlaneEndpoint.host'")]
pub(crate) struct GetCommand {
    /// What to show.
    #[arg(value_enum)]
    kind: Kind,
    /// Only the one of this name.
    name: Option<String>,
    /// Namespace of the objects.
    #[arg(short, long, default_value = "clusters")]
    namespace: String,
    /// Those of all namespaces.
    #[arg(short = 'A', long, conflicts_with = "namespace")]
    all_namespaces: bool,
    /// How to show them.
    #[arg(short, long, value_enum)]
    output: Option<Format>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Kind {
    /// HostedClusters.
    #[value(alias = "cluster", alias = "hostedclusters", alias = "hostedcluster", alias = "hc")]
    Clusters,
    /// NodePools.
    #[value(name = "nodepools", alias = "nodepool", alias = "np")]
    NodePools,
    /// ServiceExposures.
    #[value(
        alias = "exposure",
        alias = "serviceexposures",
        alias = "serviceexposure",
        alias = "svx"
    )]
    Exposures,
}

impl GetCommand {
    /// Runs the command.
    pub(crate) async fn run(self, connection: &Connection) -> Result<(), Failure> {
        let resource = self.kind.resource();
        let client = connection.client().await?;
        let api: Api<DynamicObject> = if self.all_namespaces {
            Api::all_with(client, &resource)
        } else {
            Api::namespaced_with(client, &self.namespace, &resource)
        };
        let objects = match &self.name {
            Some(name) => {
                let object = format!("{} {}/{name}", resource.kind, self.namespace);
                vec![api.get(name).await.map_err(Failure::request("read", object))?]
            }
            None => {
                let found = api.list(&ListParams::default()).await;
                let mut found = found.map_err(Failure::request("list", &resource.plural))?;
                let types = kube::core::TypeMeta {
                    api_version: resource.api_version.clone(),
                    kind: resource.kind.clone(),
                };
                // Items of a list carry no type of their own.
                found.items.iter_mut().for_each(|item| item.types = Some(types.clone()));
                found.items
            }
        };
        match self.output {
            Some(Format::Json) => output::list(&objects, ListFormat::Json),
            Some(Format::Yaml) => output::list(&objects, ListFormat::Yaml),
            Some(Format::Wide) => self.table(&objects, Width::Wide),
            None => self.table(&objects, Width::Narrow),
        }
    }

    fn table(&self, objects: &[DynamicObject], width: Width) -> Result<(), Failure> {
        if objects.is_empty() {
            let place = if self.all_namespaces {
                "any namespace".to_owned()
            } else {
                format!("namespace {}", self.namespace)
            };
            output::note(&format!("No {} in {place}.", self.kind.resource().plural));
            return Ok(());
        }
        let columns: Vec<&Column> = self
            .kind
            .columns()
            .iter()
            .filter(|column| width == Width::Wide || !column.is_wide)
            .filter(|column| self.all_namespaces || column.header != "NAMESPACE")
            .collect();
        let headers: Vec<&str> = columns.iter().map(|column| column.header).collect();
        let row = |object: &DynamicObject| {
            columns.iter().map(|column| (column.cell)(object)).collect::<Vec<_>>()
        };
        output::table(&headers, &objects.iter().map(row).collect::<Vec<_>>())
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Width {
    Narrow,
    Wide,
}

/// One column of a table.
struct Column {
    header: &'static str,
    is_wide: bool,
    cell: fn(&DynamicObject) -> String,
}

const fn column(header: &'static str, cell: fn(&DynamicObject) -> String) -> Column {
    Column { header, is_wide: false, cell }
}

const fn wide(header: &'static str, cell: fn(&DynamicObject) -> String) -> Column {
    Column { header, is_wide: true, cell }
}

const CLUSTERS: &[Column] = &[
    column("NAMESPACE", namespace),
    column("NAME", name),
    column("VERSION", |object| {
        let history = object.data.pointer("/status/version/history").and_then(Value::as_array);
        let done = |entry: &&Value| entry.get("state").and_then(Value::as_str) == Some("Completed");
        history
            .and_then(|list| list.iter().find(done))
            .map_or_else(String::new, |e| word(e, "/version"))
    }),
    column("KUBECONFIG", |object| word(&object.data, "/status/kubeconfig/name")),
    column("PROGRESS", |object| word(&object.data, "/status/version/history/0/state")),
    column("AVAILABLE", |object| status(object, "Available")),
    column("PROGRESSING", |object| status(object, "Progressing")),
    column("MESSAGE", |object| message(object, "Available")),
    wide("ENDPOINT", |object| {
        let host = word(&object.data, "/status/controlPlaneEndpoint/host");
        let port = word(&object.data, "/status/controlPlaneEndpoint/port");
        if host.is_empty() { host } else { format!("{host}:{port}") }
    }),
    wide("INFRA ID", |object| word(&object.data, "/spec/infraID")),
    wide("RELEASE IMAGE", |object| word(&object.data, "/spec/release/image")),
];

const NODE_POOLS: &[Column] = &[
    column("NAMESPACE", namespace),
    column("NAME", name),
    column("CLUSTER", |object| word(&object.data, "/spec/clusterName")),
    column("DESIRED NODES", |object| word(&object.data, "/spec/replicas")),
    column("CURRENT NODES", |object| word(&object.data, "/status/replicas")),
    column("VERSION", |object| word(&object.data, "/status/version")),
    column("READY", |object| status(object, "Ready")),
    column("MESSAGE", |object| message(object, "Ready")),
    wide("UPDATING VERSION", |object| status(object, "UpdatingVersion")),
    wide("UPDATING CONFIG", |object| status(object, "UpdatingConfig")),
    wide("CORES", |object| word(&object.data, "/spec/platform/kubevirt/compute/cores")),
    wide("MEMORY", |object| word(&object.data, "/spec/platform/kubevirt/compute/memory")),
];

const EXPOSURES: &[Column] = &[
    column("NAMESPACE", namespace),
    column("NAME", name),
    column("CLUSTER", |object| word(&object.data, "/spec/clusterName")),
    column("SERVICE", |object| {
        let service = |field| word(&object.data, &format!("/spec/service/{field}"));
        format!("{}/{}", service("namespace"), service("name"))
    }),
    column("PORTS", |object| word(&object.data, "/status/nodePorts")),
    column("ACCEPTED", |object| status(object, "Accepted")),
    column("PROGRAMMED", |object| status(object, "Programmed")),
    column("REACHABLE", |object| status(object, "Reachable")),
    column("MESSAGE", |object| message(object, decisive(object))),
    wide("REASON", |object| reason(object, decisive(object))),
    wide("HOSTED->HOSTING", |object| distinct(object, mapping).join(",")),
    wide("NODES", |object| {
        distinct(object, |endpoint| word(endpoint, "/address")).len().to_string()
    }),
    wide("ORIGIN", |object| {
        let policy = policy_of(&object.metadata);
        policy.map_or_else(|| "by hand".to_owned(), |policy| format!("policy {policy}"))
    }),
    wide("ENDPOINTS", |object| {
        let address = |endpoint: &Value| {
            format!("{}:{}", word(endpoint, "/address"), word(endpoint, "/port"))
        };
        distinct(object, address).join(",")
    }),
];

impl Kind {
    fn resource(self) -> ApiResource {
        match self {
            Self::Clusters => ApiResource::erase::<HostedCluster>(&()),
            Self::NodePools => ApiResource::erase::<NodePool>(&()),
            Self::Exposures => ApiResource::erase::<ServiceExposure>(&()),
        }
    }

    fn columns(self) -> &'static [Column] {
        match self {
            Self::Clusters => CLUSTERS,
            Self::NodePools => NODE_POOLS,
            Self::Exposures => EXPOSURES,
        }
    }
}

/// The ExposurePolicy that made an exposure; none when it was written by hand.
pub(crate) fn policy_of(metadata: &ObjectMeta) -> Option<String> {
    let mut owners = metadata.owner_references.iter().flatten();
    let owner = owners.find(|owner| owner.kind == ExposurePolicy::kind(&()));
    // The label shortens long names.
    let label = || metadata.labels.as_ref()?.get(labels::EXPOSURE_POLICY).cloned();
    owner.map(|owner| owner.name.clone()).or_else(label)
}

fn namespace(object: &DynamicObject) -> String {
    object.meta().namespace.clone().unwrap_or_default()
}

fn name(object: &DynamicObject) -> String {
    object.meta().name.clone().unwrap_or_default()
}

fn word(value: &Value, pointer: &str) -> String {
    match value.pointer(pointer) {
        None | Some(Value::Null) => String::new(),
        Some(Value::String(text)) => text.clone(),
        Some(other) => other.to_string(),
    }
}

fn status(object: &DynamicObject, type_: &str) -> String {
    condition(object, type_).map(|found| word(found, "/status")).unwrap_or_default()
}

fn reason(object: &DynamicObject, type_: &str) -> String {
    condition(object, type_).map(|found| word(found, "/reason")).unwrap_or_default()
}

/// The first verdict on an exposure that is not good says what is wrong, the last one that all is well.
fn decisive(object: &DynamicObject) -> &'static str {
    let types = ["Accepted", "Programmed", "Reachable"];
    types.into_iter().find(|type_| status(object, type_) != "True").unwrap_or("Reachable")
}

/// What is said of an exposure's endpoints, each once, in their order.
fn distinct(object: &DynamicObject, said: impl Fn(&Value) -> String) -> Vec<String> {
    let endpoints = object.data.pointer("/status/endpoints").and_then(Value::as_array);
    let mut all = Vec::new();
    for endpoint in endpoints.into_iter().flatten() {
        let one = said(endpoint);
        if !all.contains(&one) {
            all.push(one);
        }
    }
    all
}

/// Node port inside the hosted cluster and node port of the hosting cluster.
fn mapping(endpoint: &Value) -> String {
    let protocol = word(endpoint, "/protocol");
    let suffix = if protocol == "TCP" { String::new() } else { format!("/{protocol}") };
    format!("{}->{}{suffix}", word(endpoint, "/targetPort"), word(endpoint, "/port"))
}

fn message(object: &DynamicObject, type_: &str) -> String {
    condition(object, type_).map(|found| word(found, "/message")).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn exposure(metadata: &Value, reachable: &Value) -> DynamicObject {
        let endpoint = |address: &str, port: u16, target_port: u16, protocol: &str| json!({"address": address, "port": port, "servicePort": 80, "targetPort": target_port, "protocol": protocol});
        let (one, other) = ("192.168.123.104", "192.168.123.105");
        crate::manifest::from_json(json!({
            "apiVersion": "remora.dev/v1alpha1", "kind": "ServiceExposure", "metadata": metadata,
            "spec": {"clusterName": "cluster1", "service": {"namespace": "p", "name": "np"}},
            "status": {
                "nodePorts": "31080,30053",
                "endpoints": [
                    endpoint(one, 31080, 30001, "TCP"), endpoint(one, 30053, 30053, "UDP"),
                    endpoint(other, 31080, 30001, "TCP"), endpoint(other, 30053, 30053, "UDP"),
                ],
                "conditions": [
                    {"type": "Accepted", "status": "True", "reason": "A", "message": "a"},
                    {"type": "Programmed", "status": "True", "reason": "B", "message": "b"},
                    reachable,
                ],
            },
        }))
        .unwrap()
    }

    fn cells(object: &DynamicObject) -> Vec<String> {
        EXPOSURES
            .iter()
            .map(|column| format!("{}: {}", column.header, (column.cell)(object)))
            .collect()
    }

    #[test]
    fn an_exposure_says_first_what_is_wrong_then_how_its_ports_map_and_whose_it_is() {
        let broken = json!({
            "type": "Reachable", "status": "False", "reason": "ConnectionFailed", "message": "connection refused",
        });
        let by_hand = json!({"namespace": "clusters", "name": "petclinic"});
        insta::assert_yaml_snapshot!(cells(&exposure(&by_hand, &broken)));
    }

    #[test]
    fn an_exposure_of_a_policy_names_it_in_full() {
        let well = json!({"type": "Reachable", "status": "True", "reason": "AsExpected"});
        let owner = json!({
            "apiVersion": "remora.dev/v1alpha1", "kind": "ExposurePolicy", "name": "shops", "uid": "1",
        });
        let labels = json!({"remora.dev/exposure-policy": "shops-short"});
        let made = json!({"name": "np", "labels": labels, "ownerReferences": [owner]});
        let labelled = json!({"name": "np", "labels": labels});
        let origin = |metadata| {
            let object = exposure(metadata, &well);
            cells(&object).into_iter().find(|cell| cell.starts_with("ORIGIN"))
        };
        assert_eq!(origin(&made).as_deref(), Some("ORIGIN: policy shops"));
        assert_eq!(origin(&labelled).as_deref(), Some("ORIGIN: policy shops-short"));
    }

    #[test]
    fn an_exposure_without_a_status_has_empty_cells() {
        let object = crate::manifest::from_json(json!({
            "apiVersion": "remora.dev/v1alpha1", "kind": "ServiceExposure", "metadata": {"name": "new"},
            "spec": {"clusterName": "cluster1", "service": {"namespace": "p", "name": "np"}},
        }))
        .unwrap();
        insta::assert_yaml_snapshot!(cells(&object));
    }
}
