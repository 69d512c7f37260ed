//! What of the objects belongs into a repository.

use kube::ResourceExt;
use kube::core::{DynamicObject, ObjectMeta};
use remora_api::names::PULL_SECRET_KEY;
use serde_json::json;

use crate::cluster_objects::ClusterObjects;
use crate::create::EMPTY_PULL_SECRET;
use crate::failure::Failure;
use crate::get::policy_of;
use crate::manifest;

/// Annotation in which kubectl keeps what it applied last.
const LAST_APPLIED: &str = "kubectl.kubernetes.io/last-applied-configuration";

/// The manifests of a cluster that is there.
#[derive(Debug)]
pub(super) struct Exported {
    pub(super) objects: Vec<DynamicObject>,
    /// What is left out, and why.
    pub(super) left_out: Vec<String>,
}

/// What a user would have written to get these objects.
pub(super) fn of_cluster(cluster: ClusterObjects) -> Result<Exported, Failure> {
    let ClusterObjects { hosted_cluster, node_pools, exposures, policies } = cluster;
    let namespace = hosted_cluster.namespace().unwrap_or_default();
    let namespace =
        json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace}});
    let mut exported =
        Exported { objects: vec![manifest::from_json(namespace)?], left_out: Vec::new() };
    let all = [vec![hosted_cluster], node_pools, policies, exposures];
    for object in all.into_iter().flatten() {
        let told = manifest::told(&object);
        if object.metadata.deletion_timestamp.is_some() {
            exported.left_out.push(format!("{told} is left out: it is being deleted."));
        } else if let Some(policy) = policy_of(&object.metadata) {
            exported
                .left_out
                .push(format!("{told} is left out: ExposurePolicy {policy} makes it."));
        } else {
            exported.objects.push(bare(object));
        }
    }
    Ok(exported)
}

/// The manifests of a new cluster without its Secrets, but for a pull secret that names no registry.
pub(super) fn publishable(mut objects: Vec<DynamicObject>) -> Vec<DynamicObject> {
    objects.retain(|object| {
        let is_secret = object.types.as_ref().is_some_and(|types| types.kind == "Secret");
        let content = object.data.get("stringData");
        let names_nothing = json!({PULL_SECRET_KEY: EMPTY_PULL_SECRET});
        !is_secret || content == Some(&names_nothing)
    });
    objects
}

/// The object without what the API server and the controllers wrote; defaults are kept.
fn bare(object: DynamicObject) -> DynamicObject {
    let ObjectMeta { name, namespace, labels, annotations, .. } = object.metadata;
    let mut annotations = annotations.unwrap_or_default();
    annotations.remove(LAST_APPLIED);
    let mut data = object.data;
    if let Some(fields) = data.as_object_mut() {
        fields.remove("status");
    }
    DynamicObject {
        types: object.types,
        metadata: ObjectMeta {
            name,
            namespace,
            labels: labels.filter(|labels| !labels.is_empty()),
            annotations: Some(annotations).filter(|annotations| !annotations.is_empty()),
            ..ObjectMeta::default()
        },
        data,
    }
}
