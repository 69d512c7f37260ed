//! What the operator may do on the hosting cluster: one rule per kind of object, with the reason beside it.
//!
//! HostedClusters may lie in any namespace and each has a control plane namespace of its own, so that the role is
//! cluster-wide. The operator grants nobody anything on the hosting cluster: it may neither write roles nor bindings,
//! so that it cannot give itself or a tenant more than this.

use k8s_openapi::api::rbac::v1::{ClusterRole, ClusterRoleBinding, PolicyRule, RoleRef, Subject};
use kube::core::DynamicObject;
use remora_api::{HYPERSHIFT_GROUP, REMORA_GROUP};

use super::{NAMESPACE, OPERATOR, named};
use crate::object::object;

const READ: [&str; 3] = ["get", "list", "watch"];
/// Server-side apply is a patch, and a creation where the object is missing.
const OWN: [&str; 6] = ["get", "list", "watch", "create", "patch", "delete"];

pub(super) fn objects() -> Vec<DynamicObject> {
    let mut role = ClusterRole { metadata: named(OPERATOR), ..ClusterRole::default() };
    role.metadata.namespace = None;
    role.rules = Some(rules());
    let mut binding = ClusterRoleBinding {
        metadata: named(OPERATOR),
        role_ref: role_ref(),
        subjects: Some(vec![subject()]),
    };
    binding.metadata.namespace = None;
    vec![object(&role), object(&binding)]
}

fn rules() -> Vec<PolicyRule> {
    vec![
        // The users' objects: their specs are completed (infraID, clusterID, defaults), finalizers and owners set.
        // A HostedCluster that goes takes its NodePools with it.
        rule(HYPERSHIFT_GROUP, &["hostedclusters"], &["get", "list", "watch", "patch"]),
        rule(HYPERSHIFT_GROUP, &["nodepools"], &["get", "list", "watch", "patch", "delete"]),
        rule(HYPERSHIFT_GROUP, &["hostedclusters/status", "nodepools/status"], &["patch"]),
        // A policy makes exposures, and takes them back.
        rule(REMORA_GROUP, &["serviceexposures"], &OWN),
        // Where the admission plugin OwnerReferencesPermissionEnforcement runs, whoever sets an owner reference has to
        // be allowed to delete the object.
        rule(REMORA_GROUP, &["exposurepolicies"], &["get", "list", "watch", "patch", "delete"]),
        rule(REMORA_GROUP, &["serviceexposures/status", "exposurepolicies/status"], &["patch"]),
        // Where the admission plugin OwnerReferencesPermissionEnforcement runs, an owner reference that blocks the
        // owner's deletion needs this.
        rule(HYPERSHIFT_GROUP, &["hostedclusters/finalizers", "nodepools/finalizers"], &["update"]),
        rule(
            REMORA_GROUP,
            &["serviceexposures/finalizers", "exposurepolicies/finalizers"],
            &["update"],
        ),
        // The control planes.
        rule("", &["namespaces"], &OWN),
        rule("", &["secrets", "configmaps", "services"], &OWN),
        rule("apps", &["deployments", "statefulsets"], &OWN),
        rule("policy", &["poddisruptionbudgets"], &OWN),
        rule("networking.k8s.io", &["networkpolicies"], &OWN),
        // The machines.
        rule("kubevirt.io", &["virtualmachines"], &OWN),
        rule("kubevirt.io", &["virtualmachineinstances"], &["get", "list", "watch", "delete"]),
        // The exposures: which addresses there are, and the backends that a selector cannot name.
        rule("", &["nodes", "pods"], &READ),
        // A control plane that goes does not get the full time to end: its data goes with it.
        rule("", &["pods"], &["delete"]),
        // Its volume claims go before its namespace, so that their volumes are free by then.
        rule("", &["persistentvolumeclaims"], &["get", "list", "watch", "delete"]),
        rule("discovery.k8s.io", &["endpointslices"], &OWN),
        // Whoever may write a Service may not write its EndpointSlices for free where this plugin runs.
        rule("discovery.k8s.io", &["endpointslices/restricted"], &["create"]),
        // What the hosting cluster has: KubeVirt, CDI.
        rule("apiextensions.k8s.io", &["customresourcedefinitions"], &READ),
        // What is told to users.
        rule("events.k8s.io", &["events"], &["create", "patch"]),
        rule("", &["events"], &["create", "patch"]),
    ]
}

fn rule(group: &str, resources: &[&str], verbs: &[&str]) -> PolicyRule {
    let owned = |words: &[&str]| words.iter().map(|word| (*word).to_owned()).collect::<Vec<_>>();
    PolicyRule {
        api_groups: Some(vec![group.to_owned()]),
        resources: Some(owned(resources)),
        verbs: owned(verbs),
        ..PolicyRule::default()
    }
}

fn role_ref() -> RoleRef {
    RoleRef {
        api_group: "rbac.authorization.k8s.io".to_owned(),
        kind: "ClusterRole".to_owned(),
        name: OPERATOR.to_owned(),
    }
}

fn subject() -> Subject {
    Subject {
        kind: "ServiceAccount".to_owned(),
        namespace: Some(NAMESPACE.to_owned()),
        name: OPERATOR.to_owned(),
        ..Subject::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_operator_cannot_grant_anything() {
        for rule in rules() {
            assert!(
                !rule
                    .verbs
                    .iter()
                    .any(|verb| ["*", "escalate", "bind", "impersonate"].contains(&verb.as_str()))
            );
            let groups = rule.api_groups.unwrap_or_default();
            assert!(!groups.iter().any(|group| group == "*" || group.starts_with("rbac.")));
            assert!(!rule.resources.unwrap_or_default().iter().any(|resource| resource == "*"));
        }
    }
}
