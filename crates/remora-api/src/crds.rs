//! The CustomResourceDefinitions: generated from the types, committed in `deploy/crds/`.
//!
//! `REMORA_UPDATE=1 cargo test -p remora-api` writes the files; without it the test fails when
//! they are not what the types say.

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::CustomResourceExt;
use serde_json::Value;

use crate::schema::normalise;
use crate::{ExposurePolicy, HostedCluster, NodePool, ServiceExposure};

/// The committed manifests: file name and YAML.
pub const MANIFESTS: [(&str, &str); 4] = [
    (
        "hypershift.openshift.io_hostedclusters.yaml",
        include_str!("../../../deploy/crds/hypershift.openshift.io_hostedclusters.yaml"),
    ),
    (
        "hypershift.openshift.io_nodepools.yaml",
        include_str!("../../../deploy/crds/hypershift.openshift.io_nodepools.yaml"),
    ),
    (
        "remora.dev_serviceexposures.yaml",
        include_str!("../../../deploy/crds/remora.dev_serviceexposures.yaml"),
    ),
    (
        "remora.dev_exposurepolicies.yaml",
        include_str!("../../../deploy/crds/remora.dev_exposurepolicies.yaml"),
    ),
];

/// Everything that has to be installed, in the order of [`MANIFESTS`].
pub fn all() -> Vec<CustomResourceDefinition> {
    vec![
        finish(HostedCluster::crd(), Some(&HostedCluster::object_rules())),
        finish(NodePool::crd(), None),
        finish(ServiceExposure::crd(), None),
        finish(ExposurePolicy::crd(), None),
    ]
}

/// Makes the derived schemas Kubernetes-like and adds the rules of the whole object.
fn finish(crd: CustomResourceDefinition, object_rules: Option<&Value>) -> CustomResourceDefinition {
    let mut crd = serde_json::to_value(crd).expect("a CRD is plain data");
    let versions = crd.pointer_mut("/spec/versions").and_then(Value::as_array_mut);
    for version in versions.into_iter().flatten() {
        if let Some(schema) = version.pointer_mut("/schema/openAPIV3Schema") {
            normalise(schema);
            if let (Some(fields), Some(rules)) = (schema.as_object_mut(), object_rules) {
                fields.insert("x-kubernetes-validations".to_owned(), rules.clone());
            }
        }
    }
    serde_json::from_value(crd).expect("it was a CRD before")
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;

    #[test]
    fn crds_are_current() {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../deploy/crds");
        for (crd, (name, committed)) in all().iter().zip(MANIFESTS) {
            let generated = serde_saphyr::to_string(crd).unwrap();
            if std::env::var_os("REMORA_UPDATE").is_some() {
                std::fs::write(folder.join(name), generated).unwrap();
            } else {
                assert!(
                    generated == committed,
                    "deploy/crds/{name} is stale: run REMORA_UPDATE=1 cargo test -p remora-api"
                );
            }
        }
    }
}
