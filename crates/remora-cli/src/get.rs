//! `remora get`.

use clap::{Args, ValueEnum};
use kube::api::ListParams;
use kube::core::{ApiResource, DynamicObject};
use kube::{Api, Resource};
use remora_api::{HostedCluster, NodePool, ServiceExposure};
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
    column("MESSAGE", |object| {
        // The first verdict that is not good says what is wrong.
        let types = ["Accepted", "Programmed", "Reachable"];
        let wrong = types.into_iter().find(|type_| status(object, type_) != "True");
        message(object, wrong.unwrap_or("Reachable"))
    }),
    wide("ENDPOINTS", |object| {
        let endpoints = object.data.pointer("/status/endpoints").and_then(Value::as_array);
        let told = |entry: &Value| format!("{}:{}", word(entry, "/address"), word(entry, "/port"));
        endpoints
            .map(|list| list.iter().map(told).collect::<Vec<_>>().join(","))
            .unwrap_or_default()
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

fn message(object: &DynamicObject, type_: &str) -> String {
    condition(object, type_).map(|found| word(found, "/message")).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_exposure_says_first_what_is_wrong() {
        let object = crate::manifest::from_json(serde_json::json!({
            "apiVersion": "remora.dev/v1alpha1", "kind": "ServiceExposure",
            "metadata": {"namespace": "clusters", "name": "petclinic"},
            "spec": {"clusterName": "cluster1", "service": {"namespace": "p", "name": "np"}},
            "status": {
                "nodePorts": "30001",
                "endpoints": [{"address": "192.168.123.104", "port": 30001}],
                "conditions": [
                    {"type": "Accepted", "status": "True", "message": "a"},
                    {"type": "Programmed", "status": "True", "message": "b"},
                    {"type": "Reachable", "status": "False", "message": "connection refused"},
                ],
            },
        }))
        .unwrap();
        let cells: Vec<String> = EXPOSURES.iter().map(|column| (column.cell)(&object)).collect();
        assert_eq!(
            cells,
            [
                "clusters",
                "petclinic",
                "cluster1",
                "p/np",
                "30001",
                "True",
                "True",
                "False",
                "connection refused",
                "192.168.123.104:30001"
            ]
        );
    }
}
