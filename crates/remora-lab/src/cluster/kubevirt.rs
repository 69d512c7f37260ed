//! KubeVirt in the hosting cluster: its operator, and the settings the operator follows.

use std::path::Path;
use std::time::Duration;

use kube::api::DynamicObject;
use kube::core::{ApiResource, GroupVersionKind};
use kube::{Api, Client};
use serde_json::{Value, json};

use crate::cluster::api::{self, eventually};
use crate::cluster::workloads;
use crate::command::run;
use crate::error::{LabError, with_causes};

/// KubeVirt's namespace and the name of its one object of settings.
const NAMESPACE: &str = "kubevirt";
const NAME: &str = "kubevirt";
/// Ten times what was measured, and a margin for images that are pulled first.
const DEPLOYED: Duration = Duration::from_secs(1200);

/// How guests run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Acceleration {
    /// On the processor, by KVM.
    Kvm,
    /// In software.
    Emulation,
}

/// Which images KubeVirt consists of, by digest.
pub(crate) struct Images<'a> {
    /// virt-operator, virt-api and virt-controller.
    pub(crate) control: &'a str,
    /// virt-handler and virt-launcher.
    pub(crate) node: &'a str,
}

/// Installs virt-operator by the objects that KubeVirt's own generators print.
pub(crate) async fn install(
    client: &Client,
    generator: &Path,
    images: &Images<'_>,
    acceleration: Acceleration,
) -> Result<(), LabError> {
    let arguments = generator_arguments(images)?;
    let arguments: Vec<_> = arguments.iter().map(String::as_str).collect();
    let printed = run(&generator.display().to_string(), &arguments)?;
    let objects = parse(generator, &printed)?;
    api::apply_all(client, &objects).await?;
    let settings = [settings(acceleration)];
    // A kind is served a moment after its definition was accepted.
    eventually("the kind KubeVirt", Duration::from_secs(60), || async {
        api::apply_all(client, &settings).await.map_err(|error| with_causes(&error))
    })
    .await
}

fn generator_arguments(images: &Images<'_>) -> Result<Vec<String>, LabError> {
    let (registry, control) = split(images.control)?;
    let (_, node) = split(images.node)?;
    Ok(vec![
        format!("-registry={registry}"),
        format!("-control-image={control}"),
        format!("-node-image={node}"),
    ])
}

/// Splits a reference into what comes before and after its last slash.
fn split(reference: &str) -> Result<(&str, &str), LabError> {
    reference.rsplit_once('/').ok_or_else(|| {
        LabError::Refused(format!("image reference `{reference}` names no registry"))
    })
}

fn parse(generator: &Path, printed: &str) -> Result<Vec<Value>, LabError> {
    let objects: Vec<Value> = serde_saphyr::from_multiple(printed).map_err(|error| {
        LabError::Malformed { path: generator.to_path_buf(), reason: error.to_string() }
    })?;
    Ok(objects.into_iter().filter(|object| !object.is_null()).map(without_status).collect())
}

/// An applied object says what is wanted; its status is somebody else's.
fn without_status(mut object: Value) -> Value {
    if let Some(fields) = object.as_object_mut() {
        fields.remove("status");
    }
    object
}

fn settings(acceleration: Acceleration) -> Value {
    json!({
        "apiVersion": "kubevirt.io/v1",
        "kind": "KubeVirt",
        "metadata": {"name": NAME, "namespace": NAMESPACE},
        "spec": {
            "imagePullPolicy": "IfNotPresent",
            "infra": {"replicas": 1},
            "configuration": {
                "developerConfiguration": {
                    "useEmulation": acceleration == Acceleration::Emulation,
                },
                // Memory hotplug, the other strategy's need, fails on libvirt 9.0.
                "vmRolloutStrategy": "Stage",
            },
        },
    })
}

/// Waits until KubeVirt is deployed.
pub(crate) async fn deployed(client: &Client) -> Result<(), LabError> {
    eventually("KubeVirt Deployed", DEPLOYED, || async { health(client).await.map(drop) }).await
}

/// Whether KubeVirt is deployed *and* all of it runs: its own word outlives its programs.
pub(crate) async fn health(client: &Client) -> Result<String, String> {
    let phase = phase(client).await.map_err(|error| with_causes(&error))?;
    if phase != "Deployed" {
        return Err(format!("it is {phase}"));
    }
    workloads::available(client, NAMESPACE).await?;
    Ok(phase)
}

/// What KubeVirt says about itself.
async fn phase(client: &Client) -> Result<String, LabError> {
    let kind = GroupVersionKind::gvk("kubevirt.io", "v1", "KubeVirt");
    let resource = ApiResource::from_gvk_with_plural(&kind, "kubevirts");
    let api: Api<DynamicObject> = Api::namespaced_with(client.clone(), NAMESPACE, &resource);
    let object = api.get(NAME).await.map_err(LabError::api("read KubeVirt kubevirt/kubevirt"))?;
    let phase = object.data.pointer("/status/phase").and_then(Value::as_str);
    Ok(phase.unwrap_or("Unknown").to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn when_images_have_digests_the_generator_gets_registry_and_rest() {
        let images = Images {
            control: "192.168.123.1:5000/remora/kubevirt-control@sha256:aa",
            node: "192.168.123.1:5000/remora/kubevirt-node@sha256:bb",
        };
        assert_eq!(
            generator_arguments(&images).unwrap(),
            [
                "-registry=192.168.123.1:5000/remora",
                "-control-image=kubevirt-control@sha256:aa",
                "-node-image=kubevirt-node@sha256:bb",
            ]
        );
        assert!(split("pause").is_err());
    }

    #[test]
    fn when_documents_are_parsed_empty_ones_and_statuses_are_left_out() {
        let printed = "---\nkind: Namespace\nstatus: {}\n---\n---\nkind: Deployment\n";
        let objects = parse(Path::new("manifests"), printed).unwrap();
        assert_eq!(objects, [json!({"kind": "Namespace"}), json!({"kind": "Deployment"})]);
    }

    #[test]
    fn when_kvm_works_guests_are_not_emulated() {
        let emulates = |acceleration| {
            settings(acceleration)
                .pointer("/spec/configuration/developerConfiguration/useEmulation")
                .cloned()
        };
        assert_eq!(emulates(Acceleration::Kvm), Some(json!(false)));
        assert_eq!(emulates(Acceleration::Emulation), Some(json!(true)));
    }
}
