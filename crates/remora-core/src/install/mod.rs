//! What installs the operator: namespace, CRDs, RBAC and the Deployment.

mod deployment;
mod rbac;

use k8s_openapi::api::core::v1::{Namespace, ServiceAccount};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::core::DynamicObject;
use remora_api::{crds, labels};

use crate::object::object;

/// Namespace of the operator.
pub const NAMESPACE: &str = "remora";
/// Name of the operator's Deployment, ServiceAccount and roles.
pub const OPERATOR: &str = "remora-operator";
/// Label of the operator's pods.
pub const NAME_LABEL: &str = "app.kubernetes.io/name";

/// What an installation can choose.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InstallOptions {
    /// Image of the operator.
    pub image: String,
    /// Registries (host:port) that are spoken to over plain HTTP.
    pub insecure_registries: Vec<String>,
}

/// Everything to apply, in this order: an object comes after what it needs.
pub fn objects(options: &InstallOptions) -> Vec<DynamicObject> {
    let mut objects = vec![object(&namespace())];
    objects.extend(crds::all().iter().map(object));
    objects.push(object(&service_account()));
    objects.extend(rbac::objects());
    objects.push(object(&deployment::deployment(options)));
    objects
}

fn namespace() -> Namespace {
    let mut metadata = named(NAMESPACE);
    metadata.namespace = None;
    let levels = metadata.labels.get_or_insert_default();
    for mode in
        [labels::POD_SECURITY_ENFORCE, labels::POD_SECURITY_AUDIT, labels::POD_SECURITY_WARN]
    {
        levels.insert(mode.to_owned(), "restricted".to_owned());
    }
    Namespace { metadata, ..Namespace::default() }
}

fn service_account() -> ServiceAccount {
    ServiceAccount { metadata: named(OPERATOR), ..ServiceAccount::default() }
}

/// Metadata of an object in the operator's namespace.
fn named(name: &str) -> ObjectMeta {
    ObjectMeta {
        name: Some(name.to_owned()),
        namespace: Some(NAMESPACE.to_owned()),
        labels: Some(
            [(NAME_LABEL, OPERATOR), ("app.kubernetes.io/part-of", "remora")]
                .map(|(key, value)| (key.to_owned(), value.to_owned()))
                .into(),
        ),
        ..ObjectMeta::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn options() -> InstallOptions {
        InstallOptions {
            image: "registry.example/remora/operator:0.1.0".to_owned(),
            insecure_registries: vec!["10.0.0.1:5000".to_owned()],
        }
    }

    #[test]
    fn what_is_installed_is_this() {
        // The CRDs have a golden file of their own.
        let without_crds: Vec<DynamicObject> = objects(&options())
            .into_iter()
            .filter(|found| {
                found.types.as_ref().is_some_and(|t| t.kind != "CustomResourceDefinition")
            })
            .collect();
        insta::assert_yaml_snapshot!(without_crds);
    }

    #[test]
    fn an_object_comes_after_what_it_needs() {
        let kinds: Vec<String> = objects(&options())
            .into_iter()
            .filter_map(|found| found.types.map(|types| types.kind))
            .collect();
        assert_eq!(kinds.first().map(String::as_str), Some("Namespace"));
        assert_eq!(kinds.last().map(String::as_str), Some("Deployment"));
        assert_eq!(
            kinds.iter().filter(|kind| *kind == "CustomResourceDefinition").count(),
            crds::all().len()
        );
    }
}
