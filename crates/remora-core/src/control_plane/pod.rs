//! The frame of every pod of a control plane: Pod Security level `restricted`, no token, replaced when what it mounts
//! changes.

use kube::core::DynamicObject;
use remora_api::labels;
use serde_json::{Map, Value, json};
use sha2::{Digest, Sha256};

use super::{Availability, ControlPlane, from_json};

/// User and group of every program (the "nonroot" of common base images).
const USER: i64 = 65532;

/// How long a program may take to end. All of them end within two seconds when they can.
const TERMINATION_GRACE_SECONDS: i64 = 10;

/// Annotation of a pod template: hash of all that the pod reads only once.
const CONFIG_HASH: &str = "remora.dev/config-hash";

/// One container's varying parts.
pub(super) struct Container {
    /// Name.
    pub(super) name: &'static str,
    /// Image.
    pub(super) image: String,
    /// Program, found in the image's PATH.
    pub(super) program: &'static str,
    /// Arguments.
    pub(super) args: Vec<String>,
    /// Environment: settings of the Go runtime, and fields of the pod.
    pub(super) env: Vec<Value>,
    /// Ports by name.
    pub(super) ports: Vec<(&'static str, u16)>,
    /// Probes: fields of a container.
    pub(super) probes: Map<String, Value>,
    /// Requested CPU and memory.
    pub(super) requests: (&'static str, &'static str),
    /// Volume, path, and whether it may be written.
    pub(super) mounts: Vec<(&'static str, &'static str, Access)>,
}

/// What a container may do with a volume.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Access {
    /// Only read it.
    Read,
    /// Also write it.
    Write,
}

/// A volume's source.
pub(super) enum Volume {
    /// Keys of Secrets side by side: (secret, key, path).
    Secrets(Vec<(&'static str, &'static str, &'static str)>),
    /// A ConfigMap, with a hash of its content.
    ConfigMap(&'static str, String),
    /// Memory shared by the pod's containers.
    Empty,
}

/// A component's pod.
pub(super) struct Pod {
    /// The component's name.
    pub(super) component: &'static str,
    /// Containers.
    pub(super) containers: Vec<Container>,
    /// Volumes by name.
    pub(super) volumes: Vec<(&'static str, Volume)>,
}

/// Labels by which a component's pods are found.
pub(super) fn selector(component: &str) -> Value {
    json!({ "app": component, labels::CONTROL_PLANE_COMPONENT: component })
}

/// Builds a component's Deployment.
pub(super) fn deployment(control_plane: &ControlPlane, pod: &Pod) -> DynamicObject {
    from_json(json!({
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": control_plane.metadata(pod.component, pod.component),
        "spec": {
            "replicas": control_plane.availability.replicas(),
            "revisionHistoryLimit": 2,
            // The old pod stays until the new one serves: a single replica is replaced without a gap.
            "strategy": { "type": "RollingUpdate", "rollingUpdate": { "maxSurge": 1, "maxUnavailable": 0 } },
            "selector": { "matchLabels": selector(pod.component) },
            "template": template(control_plane, pod),
        },
    }))
}

/// Builds a pod template.
pub(super) fn template(control_plane: &ControlPlane, pod: &Pod) -> Value {
    let mut pod_labels = selector(pod.component);
    pod_labels[labels::INFRA_ID] = control_plane.infra_id.clone().into();
    pod_labels[labels::HOSTED_CONTROL_PLANE] = "true".into();
    for (key, value) in &control_plane.placement.labels {
        if pod_labels.get(key).is_none() {
            pod_labels[key] = value.clone().into();
        }
    }
    let mut spec = json!({
        "automountServiceAccountToken": false,
        "enableServiceLinks": false,
        "terminationGracePeriodSeconds": TERMINATION_GRACE_SECONDS,
        "securityContext": {
            "runAsNonRoot": true, "runAsUser": USER, "runAsGroup": USER, "fsGroup": USER,
            // A large volume is not walked through at every start.
            "fsGroupChangePolicy": "OnRootMismatch",
            "seccompProfile": { "type": "RuntimeDefault" },
        },
        "containers": pod.containers.iter().map(|container| container_json(control_plane, pod, container))
            .collect::<Vec<_>>(),
        "volumes": pod.volumes.iter().map(|(name, volume)| volume_json(name, volume)).collect::<Vec<_>>(),
    });
    if let Some(name) = control_plane.pull_secret {
        spec["imagePullSecrets"] = json!([{ "name": name }]);
    }
    place(control_plane, pod.component, &mut spec);
    json!({
        "metadata": {
            "labels": pod_labels,
            "annotations": { CONFIG_HASH: config_hash(control_plane, pod) },
        },
        "spec": spec,
    })
}

fn place(control_plane: &ControlPlane, component: &str, spec: &mut Value) {
    let placement = &control_plane.placement;
    if !placement.node_selector.is_empty() {
        spec["nodeSelector"] = json!(placement.node_selector);
    }
    if !placement.tolerations.is_empty() {
        spec["tolerations"] = json!(placement.tolerations);
    }
    if control_plane.availability == Availability::HighlyAvailable {
        spec["topologySpreadConstraints"] = json!([{
            "maxSkew": 1,
            "topologyKey": "kubernetes.io/hostname",
            "whenUnsatisfiable": "ScheduleAnyway",
            "labelSelector": { "matchLabels": selector(component) },
        }]);
    }
}

fn container_json(control_plane: &ControlPlane, pod: &Pod, container: &Container) -> Value {
    let (cpu, memory) = container.requests;
    let wanted =
        control_plane.resource_requests.get(&format!("{}.{}", pod.component, container.name));
    let cpu = wanted.and_then(|wanted| wanted.cpu.as_deref()).unwrap_or(cpu);
    let memory = wanted.and_then(|wanted| wanted.memory.as_deref()).unwrap_or(memory);
    let mut value = json!({
        "name": container.name,
        "image": container.image,
        "imagePullPolicy": "IfNotPresent",
        "command": [container.program],
        "args": container.args,
        "env": container.env,
        "ports": container.ports.iter()
            .map(|(name, port)| json!({ "name": name, "containerPort": port, "protocol": "TCP" }))
            .collect::<Vec<_>>(),
        "resources": { "requests": { "cpu": cpu, "memory": memory } },
        "securityContext": {
            "allowPrivilegeEscalation": false,
            "capabilities": { "drop": ["ALL"] },
            "readOnlyRootFilesystem": true,
        },
        "terminationMessagePolicy": "FallbackToLogsOnError",
        "volumeMounts": container.mounts.iter().map(mount_json).collect::<Vec<_>>(),
    });
    if let Some(fields) = value.as_object_mut() {
        fields.extend(container.probes.clone());
    }
    value
}

fn mount_json((name, path, access): &(&'static str, &'static str, Access)) -> Value {
    match access {
        Access::Read => json!({ "name": name, "mountPath": path, "readOnly": true }),
        Access::Write => json!({ "name": name, "mountPath": path }),
    }
}

fn volume_json(name: &str, volume: &Volume) -> Value {
    match volume {
        Volume::Secrets(items) => {
            let sources: Vec<Value> = items
                .iter()
                .map(|(secret, key, path)| {
                    json!({ "secret": { "name": secret, "items": [{ "key": key, "path": path }] } })
                })
                .collect();
            json!({ "name": name, "projected": { "defaultMode": 0o440, "sources": sources } })
        }
        Volume::ConfigMap(config_map, _) => {
            json!({ "name": name, "configMap": { "name": config_map } })
        }
        Volume::Empty => {
            json!({ "name": name, "emptyDir": { "medium": "Memory", "sizeLimit": "1Mi" } })
        }
    }
}

fn config_hash(control_plane: &ControlPlane, pod: &Pod) -> String {
    let mut hasher = Sha256::new();
    hasher.update(control_plane.restart_date.as_deref().unwrap_or_default());
    for (name, volume) in &pod.volumes {
        hasher.update(name);
        match volume {
            Volume::Secrets(items) => {
                for (secret, key, _) in items {
                    let hash = control_plane.secret_hashes.get(*secret).map_or("", String::as_str);
                    hasher.update(format!("{secret}/{key}={hash};"));
                }
            }
            Volume::ConfigMap(name, content) => hasher.update(format!("{name}={content};")),
            Volume::Empty => {}
        }
    }
    short_hash(&hasher.finalize())
}

/// The first 16 hexadecimal digits of a hash: enough to tell versions apart.
pub(crate) fn short_hash(digest: &[u8]) -> String {
    digest.iter().take(8).map(|byte| format!("{byte:02x}")).collect()
}

/// Gives a ConfigMap and the hash of its content.
pub(super) fn config_map(
    control_plane: &ControlPlane,
    name: &str,
    component: &str,
    data: &Value,
) -> (DynamicObject, String) {
    let object = from_json(json!({
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": control_plane.metadata(name, component),
        "data": data,
    }));
    let hash = short_hash(&Sha256::digest(data.to_string()));
    (object, hash)
}

/// Probes over HTTP(S): a start probe that asks every second, so that no time is lost, then a quiet liveness probe.
pub(super) fn probes(
    scheme: &str,
    port: u16,
    ready: &str,
    live: &str,
    readiness: Readiness,
) -> Map<String, Value> {
    let get = |path: &str| json!({ "scheme": scheme, "port": port, "path": path });
    let mut probes = Map::new();
    probes.insert(
        "startupProbe".to_owned(),
        // Three minutes to start: a crowded host is slow, and a restart would begin anew.
        json!({ "httpGet": get(ready), "periodSeconds": 1, "timeoutSeconds": 5, "failureThreshold": 180 }),
    );
    probes.insert(
        "livenessProbe".to_owned(),
        json!({ "httpGet": get(live), "periodSeconds": 10, "timeoutSeconds": 10, "failureThreshold": 6 }),
    );
    if readiness == Readiness::Probed {
        probes.insert(
            "readinessProbe".to_owned(),
            json!({ "httpGet": get(ready), "periodSeconds": 5, "timeoutSeconds": 5, "failureThreshold": 3 }),
        );
    }
    probes
}

/// Whether a container that has started is asked again and again if it is ready.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Readiness {
    /// It serves others: it leaves its Service while it is not ready.
    Probed,
    /// Nobody connects to it: once started it is ready.
    OnceStarted,
}

/// An environment variable.
pub(super) fn env(name: &str, value: &str) -> Value {
    json!({ "name": name, "value": value })
}

/// An environment variable with the pod's name.
pub(super) fn pod_name_env() -> Value {
    json!({ "name": "POD_NAME", "valueFrom": { "fieldRef": { "fieldPath": "metadata.name" } } })
}
