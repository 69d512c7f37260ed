//! Rights that the control plane and joining nodes need inside the hosted cluster.

use kube::core::DynamicObject;
use serde_json::json;

use super::cluster_role_binding;
use crate::control_plane::from_json;
use crate::pki::KUBELET_CLIENT_USER;

/// Builds the bindings.
///
/// None of them approves a certificate request: the operator does that, after a look at the VM.
pub fn objects() -> Vec<DynamicObject> {
    let group = |name: &str| json!({ "apiGroup": "rbac.authorization.k8s.io", "kind": "Group", "name": name });
    let user = |name: &str| json!({ "apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": name });
    vec![
        // Whoever has a bootstrap token may ask for a node's certificate.
        from_json(cluster_role_binding(
            "remora:node-bootstrapper",
            "system:node-bootstrapper",
            &group("system:bootstrappers"),
        )),
        // The API server may use the kubelets' API: logs, exec, port-forward.
        from_json(cluster_role_binding(
            "remora:kubelet-api-admin",
            "system:kubelet-api-admin",
            &user(KUBELET_CLIENT_USER),
        )),
    ]
}

#[cfg(test)]
mod tests {
    use k8s_openapi::api::rbac::v1::ClusterRoleBinding;

    use super::*;
    use crate::control_plane::testing::assert_is;

    #[test]
    fn when_rights_are_bound_nobody_may_approve_certificates() {
        let objects = objects();
        objects.iter().for_each(assert_is::<ClusterRoleBinding>);
        insta::assert_yaml_snapshot!(objects);
    }
}
