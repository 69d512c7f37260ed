//! What everything says when a step of the demo has failed.

use std::fmt::Write;

use k8s_openapi::api::core::v1::{Event, Pod};
use kube::api::{ListParams, LogParams};
use kube::core::DynamicObject;
use kube::{Api, Client, ResourceExt};
use remora_api::names;
use remora_core::install;
use serde_json::{Value, json};

use crate::manifest;

/// Lines of each log that are shown.
const LOG_LINES: i64 = 25;
/// Events that are shown for each namespace.
const EVENTS: usize = 15;
/// Container in which KubeVirt keeps a machine's serial output.
const SERIAL_CONSOLE: &str = "guest-console-log";

/// Conditions of the objects, states of the pods, warnings, and the last lines of operator and serial consoles.
pub(super) async fn everything(client: &Client, namespace: &str, cluster: &str) -> String {
    let mut text = String::new();
    for (api_version, kind) in [
        ("hypershift.openshift.io/v1beta1", "HostedCluster"),
        ("hypershift.openshift.io/v1beta1", "NodePool"),
        ("remora.dev/v1alpha1", "ServiceExposure"),
    ] {
        text.push_str(&conditions(client, api_version, kind, namespace).await);
    }
    let control_plane = names::control_plane_namespace(namespace, cluster);
    for place in [install::NAMESPACE, &control_plane] {
        text.push_str(&pods(client, place).await);
        text.push_str(&warnings(client, place).await);
    }
    text
}

async fn conditions(client: &Client, api_version: &str, kind: &str, namespace: &str) -> String {
    let any =
        json!({"apiVersion": api_version, "kind": kind, "metadata": {"namespace": namespace}});
    let Ok(any) = manifest::from_json(any) else { return String::new() };
    match manifest::api(client, &any).list(&ListParams::default()).await {
        Ok(found) => found.items.iter().map(|object| told_conditions(kind, object)).collect(),
        Err(error) => format!("{kind}: cannot be listed: {error}\n"),
    }
}

fn told_conditions(kind: &str, object: &DynamicObject) -> String {
    let mut text = format!("{kind} {}\n", object.name_any());
    let conditions = object.data.pointer("/status/conditions").and_then(Value::as_array);
    for condition in conditions.into_iter().flatten() {
        let word = |field: &str| condition.get(field).and_then(Value::as_str).unwrap_or_default();
        let _ = writeln!(
            text,
            "  {:<32} {:<7} {}: {}",
            word("type"),
            word("status"),
            word("reason"),
            word("message")
        );
    }
    text
}

async fn pods(client: &Client, namespace: &str) -> String {
    let api: Api<Pod> = Api::namespaced(client.clone(), namespace);
    let mut text = String::new();
    let found = match api.list(&ListParams::default()).await {
        Ok(found) => found,
        Err(error) => return format!("pods of {namespace}: cannot be listed: {error}\n"),
    };
    for pod in found {
        let _ = writeln!(text, "Pod {namespace}/{}: {}", pod.name_any(), told_pod(&pod));
        let containers = pod
            .spec
            .iter()
            .flat_map(|spec| spec.init_containers.iter().flatten().chain(&spec.containers));
        let has_console = containers.into_iter().any(|one| one.name == SERIAL_CONSOLE);
        let container = match (has_console, namespace == install::NAMESPACE) {
            (true, _) => Some(SERIAL_CONSOLE.to_owned()),
            (false, true) => None,
            (false, false) => match unready(&pod) {
                Some(name) => Some(name),
                None => continue,
            },
        };
        let params = LogParams { container, tail_lines: Some(LOG_LINES), ..LogParams::default() };
        match api.logs(&pod.name_any(), &params).await {
            Ok(log) => log.lines().for_each(|line| {
                let _ = writeln!(text, "    | {line}");
            }),
            Err(error) => {
                let _ = writeln!(text, "    no log: {error}");
            }
        }
    }
    text
}

fn told_pod(pod: &Pod) -> String {
    let Some(status) = &pod.status else { return "no status".to_owned() };
    let mut words = vec![status.phase.clone().unwrap_or_default()];
    words.extend(status.message.clone());
    for container in status.container_statuses.iter().flatten() {
        let state = container.state.as_ref();
        let waiting = state.and_then(|state| state.waiting.as_ref());
        let waiting = waiting.map(|waiting| {
            let reason = waiting.reason.clone().unwrap_or_default();
            format!(" waiting: {reason} {}", waiting.message.clone().unwrap_or_default())
        });
        words.push(format!(
            "{} {}, started again {} times{}",
            container.name,
            if container.ready { "ready" } else { "not ready" },
            container.restart_count,
            waiting.unwrap_or_default()
        ));
    }
    words.join("; ")
}

/// The first container that is not ready.
fn unready(pod: &Pod) -> Option<String> {
    let statuses = pod.status.as_ref()?.container_statuses.as_ref()?;
    statuses.iter().find(|one| !one.ready).map(|one| one.name.clone())
}

async fn warnings(client: &Client, namespace: &str) -> String {
    let api: Api<Event> = Api::namespaced(client.clone(), namespace);
    let params = ListParams::default().fields("type=Warning");
    let Ok(found) = api.list(&params).await else { return String::new() };
    let skipped = found.items.len().saturating_sub(EVENTS);
    let told = |event: &Event| {
        let object = &event.involved_object;
        format!(
            "Warning {} {}: {}: {}\n",
            object.kind.as_deref().unwrap_or_default(),
            object.name.as_deref().unwrap_or_default(),
            event.reason.as_deref().unwrap_or_default(),
            event.message.as_deref().unwrap_or_default()
        )
    };
    found.items.iter().skip(skipped).map(told).collect()
}
