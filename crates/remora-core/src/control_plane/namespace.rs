//! The control plane namespace.

use kube::core::DynamicObject;
use remora_api::labels;
use serde_json::json;

use super::from_json;

/// Builds the namespace.
///
/// Our own pods meet the Pod Security level `restricted`; the level of the namespace is `privileged`, because the
/// virt-launcher pods of the NodePools live in it too, and they need more.
pub fn namespace(name: &str, hosted_cluster: &str, pod_security: &str) -> DynamicObject {
    from_json(json!({
        "apiVersion": "v1",
        "kind": "Namespace",
        "metadata": {
            "name": name,
            "labels": {
                labels::MANAGED_BY: labels::FIELD_MANAGER,
                labels::HOSTED_CONTROL_PLANE: "true",
                labels::POD_SECURITY_ENFORCE: pod_security,
                labels::POD_SECURITY_AUDIT: pod_security,
                labels::POD_SECURITY_WARN: pod_security,
                "security.openshift.io/scc.podSecurityLabelSync": "false",
            },
            "annotations": { labels::HOSTED_CLUSTER: hosted_cluster },
        },
    }))
}

#[cfg(test)]
mod tests {
    use k8s_openapi::api::core::v1::Namespace;

    use super::*;
    use crate::control_plane::testing::assert_is;

    #[test]
    fn when_a_namespace_is_built_it_leads_back_to_its_cluster() {
        let namespace = namespace("clusters-demo", "clusters/demo", "privileged");
        assert_is::<Namespace>(&namespace);
        insta::assert_yaml_snapshot!(namespace);
    }
}
