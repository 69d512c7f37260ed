//! MetalLB in the hosting cluster: addresses for Services of type LoadBalancer, announced on the network of the hosts.

use std::path::Path;
use std::time::Duration;

use kube::Client;
use serde_json::{Value, json};

use crate::cluster::api::{self, eventually};
use crate::cluster::workloads;
use crate::error::{LabError, with_causes};
use crate::topology::LOAD_BALANCERS;

const NAMESPACE: &str = "metallb-system";
/// Ten times what was measured, and a margin for images that are pulled first.
const DEPLOYED: Duration = Duration::from_secs(600);

/// Which images MetalLB consists of, by digest.
pub(crate) struct Images<'a> {
    pub(crate) controller: &'a str,
    pub(crate) speaker: &'a str,
}

/// Installs MetalLB by its own manifest.
pub(crate) async fn install(
    client: &Client,
    manifest: &Path,
    images: &Images<'_>,
) -> Result<(), LabError> {
    let text = std::fs::read_to_string(manifest).map_err(|error| LabError::Malformed {
        path: manifest.to_path_buf(),
        reason: error.to_string(),
    })?;
    let objects = objects(&text, images)
        .map_err(|reason| LabError::Malformed { path: manifest.to_path_buf(), reason })?;
    api::apply_all(client, &objects).await
}

/// Waits until MetalLB runs, and gives it its addresses: its webhook judges them, so it has to run first.
pub(crate) async fn deployed(client: &Client) -> Result<(), LabError> {
    let pool = pool();
    eventually("MetalLB", DEPLOYED, || async {
        workloads::available(client, NAMESPACE).await?;
        api::apply_all(client, &pool).await.map_err(|error| with_causes(&error))
    })
    .await
}

/// Whether all of MetalLB runs.
pub(crate) async fn health(client: &Client) -> Result<String, String> {
    workloads::available(client, NAMESPACE).await?;
    Ok(LOAD_BALANCERS.to_owned())
}

/// The objects of MetalLB's manifest with our images.
fn objects(manifest: &str, images: &Images<'_>) -> Result<Vec<Value>, String> {
    let read: Vec<Value> =
        serde_saphyr::from_multiple(manifest).map_err(|error| error.to_string())?;
    let mut objects: Vec<Value> = read.into_iter().filter(|object| !object.is_null()).collect();
    for (kind, name, image, program) in [
        ("Deployment", "controller", images.controller, "metallb-controller"),
        ("DaemonSet", "speaker", images.speaker, "metallb-speaker"),
    ] {
        let is_it = |object: &&mut Value| {
            object["kind"] == kind && object["metadata"]["name"].as_str() == Some(name)
        };
        let found = objects.iter_mut().find(is_it);
        let container = found
            .and_then(|found| found.pointer_mut("/spec/template/spec/containers/0"))
            .ok_or_else(|| format!("it has no {kind} {name} with a container"))?;
        container["image"] = image.into();
        container["command"] = json!([program]);
        container["resources"] = json!({"requests": {"cpu": "5m", "memory": "64Mi"}});
    }
    Ok(objects)
}

/// The addresses, and that they are announced on the network of the hosts.
fn pool() -> [Value; 2] {
    let metadata = json!({"name": "lab", "namespace": NAMESPACE});
    [
        json!({
            "apiVersion": "metallb.io/v1beta1",
            "kind": "IPAddressPool",
            "metadata": metadata,
            "spec": {"addresses": [LOAD_BALANCERS]},
        }),
        json!({
            "apiVersion": "metallb.io/v1beta1",
            "kind": "L2Advertisement",
            "metadata": metadata,
            "spec": {"ipAddressPools": ["lab"]},
        }),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    const IMAGES: Images<'_> = Images { controller: "lab/controller", speaker: "lab/speaker" };
    const MANIFEST: &str = "kind: Namespace
metadata: {name: metallb-system}
---
kind: Deployment
metadata: {name: controller}
spec: {template: {spec: {containers: [{name: controller, image: elsewhere}]}}}
---
kind: DaemonSet
metadata: {name: speaker}
spec: {template: {spec: {containers: [{name: speaker, image: elsewhere, args: [--port=1]}]}}}
";

    #[test]
    fn when_the_manifest_is_read_its_programs_are_ours() {
        let objects = objects(MANIFEST, &IMAGES).unwrap();
        let container = |index: usize| {
            objects[index].pointer("/spec/template/spec/containers/0").cloned().unwrap()
        };
        let resources = json!({"requests": {"cpu": "5m", "memory": "64Mi"}});
        assert_eq!(objects.len(), 3);
        assert_eq!(
            container(1),
            json!({"name": "controller", "image": "lab/controller",
                "command": ["metallb-controller"], "resources": resources})
        );
        assert_eq!(
            container(2),
            json!({"name": "speaker", "image": "lab/speaker", "args": ["--port=1"],
                "command": ["metallb-speaker"], "resources": resources})
        );
    }

    #[test]
    fn when_the_manifest_lacks_a_program_it_is_named() {
        let (without, _) = MANIFEST.rsplit_once("---").unwrap();
        assert_eq!(
            objects(without, &IMAGES),
            Err("it has no DaemonSet speaker with a container".to_owned())
        );
    }
}
