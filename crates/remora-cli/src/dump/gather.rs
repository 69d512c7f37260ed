//! What is read for a dump. What cannot be read is noted, and the rest is read all the same.

use std::collections::BTreeMap;
use std::time::Duration;

use k8s_openapi::api::core::v1::{Event, Node, Pod};
use kube::api::{ListParams, LogParams};
use kube::core::{ApiResource, DynamicObject};
use kube::discovery::{ApiCapabilities, Discovery, Scope, verbs};
use kube::{Api, Client, ResourceExt};
use serde_json::Value;

use super::folder::Folder;
use crate::cluster_objects::{list, list_all};
use crate::create::kubeconfig_of;
use crate::failure::{Failure, told};
use crate::hosted;

/// Lines from the end of each log.
const LOG_LINES: i64 = 10_000;
/// Bytes of each log.
const LOG_BYTES: i64 = 8 * 1024 * 1024;
/// How long one list of the hosted cluster may take.
const HOSTED_LIMIT: Duration = Duration::from_secs(60);
/// Groups whose kinds are another kind's view: measurements, consoles, and the events once more.
const VIEWS: [&str; 5] = [
    "metrics.k8s.io",
    "custom.metrics.k8s.io",
    "subresources.kubevirt.io",
    "upload.cdi.kubevirt.io",
    "events.k8s.io",
];

/// Writes every object of a namespace but its events.
pub(super) async fn objects(
    client: &Client,
    namespace: &str,
    folder: &mut Folder,
) -> Result<(), Failure> {
    let resources = match kinds(client).await {
        Ok(resources) => resources,
        Err(error) => {
            let failure = Failure::request("list", "the kinds of the hosting cluster")(error);
            folder.problem(&told(&failure));
            return Ok(());
        }
    };
    for resource in resources {
        let found = list(client, namespace, &resource).await;
        folder.objects_or_problem(&path(namespace, &resource), found)?;
    }
    Ok(())
}

/// All kinds of namespaced objects that can be listed.
async fn kinds(client: &Client) -> Result<Vec<ApiResource>, kube::Error> {
    let discovery = match Discovery::new(client.clone()).exclude(&VIEWS).run_aggregated().await {
        Ok(discovery) => discovery,
        // API servers before 1.30 may not know it.
        Err(_) => Discovery::new(client.clone()).exclude(&VIEWS).run().await?,
    };
    let groups = discovery.groups_alphabetical().into_iter();
    let all = groups.flat_map(|group| group.recommended_resources());
    let is_read = |(resource, capabilities): &(ApiResource, ApiCapabilities)| {
        capabilities.scope == Scope::Namespaced
            && capabilities.supports_operation(verbs::LIST)
            && (resource.group.as_str(), resource.kind.as_str()) != ("", "Event")
    };
    Ok(all.filter(is_read).map(|(resource, _)| resource).collect())
}

fn path(namespace: &str, resource: &ApiResource) -> String {
    let group = if resource.group.is_empty() { "core" } else { &resource.group };
    format!("namespaces/{namespace}/{group}/{}.yaml", resource.plural)
}

/// Kind and name of an object, as events name it.
pub(super) fn subject(object: &DynamicObject) -> (String, String) {
    let kind = object.types.as_ref().map(|types| types.kind.clone()).unwrap_or_default();
    (kind, object.name_any())
}

/// Writes the events of a namespace, oldest first.
pub(super) async fn events(
    client: &Client,
    namespace: &str,
    folder: &mut Folder,
) -> Result<(), Failure> {
    write_events(client, namespace, folder, |_| true).await
}

/// Writes the events of a namespace that are about some objects.
pub(super) async fn events_about(
    client: &Client,
    namespace: &str,
    subjects: &[(String, String)],
    folder: &mut Folder,
) -> Result<(), Failure> {
    let is_about = |event: &DynamicObject| {
        let word = |field: &str| {
            let word = event.data.pointer(&format!("/involvedObject/{field}"));
            word.and_then(Value::as_str).unwrap_or_default()
        };
        subjects.iter().any(|(kind, name)| kind == word("kind") && name == word("name"))
    };
    write_events(client, namespace, folder, is_about).await
}

async fn write_events(
    client: &Client,
    namespace: &str,
    folder: &mut Folder,
    is_wanted: impl Fn(&DynamicObject) -> bool,
) -> Result<(), Failure> {
    let resource = ApiResource::erase::<Event>(&());
    let found = list(client, namespace, &resource).await.map(|mut events| {
        events.retain(is_wanted);
        in_order(events)
    });
    folder.objects_or_problem(&path(namespace, &resource), found)
}

/// Events in the order in which they last happened.
pub(super) fn in_order(mut events: Vec<DynamicObject>) -> Vec<DynamicObject> {
    let time = |event: &DynamicObject| {
        let fields = ["/lastTimestamp", "/eventTime", "/firstTimestamp"];
        let told = fields.into_iter().find_map(|field| event.data.pointer(field)?.as_str());
        let created = event.metadata.creation_timestamp.as_ref().map(|time| time.0.to_string());
        told.map(str::to_owned).or(created).unwrap_or_default()
    };
    events.sort_by_cached_key(time);
    events
}

/// Writes the end of every container's log, and of the one before it when it was started again.
pub(super) async fn logs(
    client: &Client,
    namespace: &str,
    folder: &mut Folder,
) -> Result<(), Failure> {
    let api: Api<Pod> = Api::namespaced(client.clone(), namespace);
    let pods = match api.list(&ListParams::default()).await {
        Ok(pods) => pods.items,
        Err(error) => {
            let failure = Failure::request("list", format!("pods of namespace {namespace}"))(error);
            folder.problem(&told(&failure));
            return Ok(());
        }
    };
    for pod in pods {
        let name = pod.name_any();
        for (container, restarts) in containers(&pod) {
            let place = Place { namespace, pod: &name, container: &container };
            log(&api, place, Run::Last, folder).await?;
            if restarts > 0 {
                log(&api, place, Run::BeforeLast, folder).await?;
            }
        }
    }
    Ok(())
}

#[derive(Clone, Copy)]
struct Place<'a> {
    namespace: &'a str,
    pod: &'a str,
    container: &'a str,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Run {
    Last,
    BeforeLast,
}

async fn log(
    api: &Api<Pod>,
    place: Place<'_>,
    run: Run,
    folder: &mut Folder,
) -> Result<(), Failure> {
    let Place { namespace, pod, container } = place;
    let params = LogParams {
        container: Some(container.to_owned()),
        previous: run == Run::BeforeLast,
        tail_lines: Some(LOG_LINES),
        limit_bytes: Some(LOG_BYTES),
        timestamps: true,
        ..LogParams::default()
    };
    let suffix = match run {
        Run::Last => "",
        Run::BeforeLast => ".previous",
    };
    match api.logs(pod, &params).await {
        Ok(text) if text.is_empty() => Ok(()),
        Ok(text) => folder
            .text(&format!("namespaces/{namespace}/pods/{pod}/{container}{suffix}.log"), &text),
        Err(error) => {
            let object = format!("the log of container {container} of pod {namespace}/{pod}");
            folder.problem(&told(&Failure::request("read", object)(error)));
            Ok(())
        }
    }
}

/// The containers of a pod that have run, and how often each was started again.
pub(super) fn containers(pod: &Pod) -> BTreeMap<String, i32> {
    let Some(status) = &pod.status else { return BTreeMap::new() };
    let all = status.init_container_statuses.iter().chain(&status.container_statuses).flatten();
    let has_run = all.filter(|container| {
        let state = container.state.as_ref();
        container.restart_count > 0
            || state.is_some_and(|state| state.running.is_some() || state.terminated.is_some())
    });
    has_run.map(|container| (container.name.clone(), container.restart_count)).collect()
}

/// Writes nodes, pods and events of the hosted cluster.
pub(super) async fn hosted(
    client: &Client,
    (namespace, name): (&str, &str),
    folder: &mut Folder,
) -> Result<(), Failure> {
    let connecting = async {
        let kubeconfig = kubeconfig_of(client, namespace, name).await?;
        hosted::client(&format!("{namespace}/{name}"), &kubeconfig).await
    };
    let client = match connecting.await {
        Ok(client) => client,
        Err(failure) => {
            folder.problem(&told(&failure));
            return Ok(());
        }
    };
    let resources = [
        ApiResource::erase::<Node>(&()),
        ApiResource::erase::<Pod>(&()),
        ApiResource::erase::<Event>(&()),
    ];
    for resource in resources {
        let path = format!("hostedcluster-{name}/core/{}.yaml", resource.plural);
        let api = Api::all_with(client.clone(), &resource);
        let listing = tokio::time::timeout(HOSTED_LIMIT, list_all(&api, &resource));
        let Ok(found) = listing.await else {
            folder.problem(&format!(
                "the hosted API server did not list {} within {} s",
                resource.plural,
                HOSTED_LIMIT.as_secs()
            ));
            continue;
        };
        let found = if resource.kind == "Event" { found.map(in_order) } else { found };
        folder.objects_or_problem(&path, found)?;
    }
    Ok(())
}
