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

/// What is watched and not read one by one.
const WATCH: [&str; 2] = ["list", "watch"];
/// Server-side apply is a patch, and a creation where the object is missing.
const OWN: [&str; 5] = ["list", "watch", "create", "patch", "delete"];
/// The same for what is also read one by one.
const OWN_AND_GET: [&str; 6] = ["get", "list", "watch", "create", "patch", "delete"];

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
        rule(REMORA_GROUP, &["serviceexposures"], &OWN_AND_GET),
        // Where the admission plugin OwnerReferencesPermissionEnforcement runs, whoever sets an owner reference has to
        // be allowed to delete the object.
        rule(REMORA_GROUP, &["exposurepolicies"], &["list", "watch", "patch", "delete"]),
        rule(REMORA_GROUP, &["serviceexposures/status", "exposurepolicies/status"], &["patch"]),
        // The control planes.
        rule("", &["namespaces"], &OWN_AND_GET),
        rule("", &["secrets", "services"], &OWN_AND_GET),
        rule("", &["configmaps"], &OWN),
        rule("apps", &["deployments", "statefulsets"], &OWN),
        rule("policy", &["poddisruptionbudgets"], &OWN),
        rule("networking.k8s.io", &["networkpolicies"], &OWN),
        // The machines.
        rule("kubevirt.io", &["virtualmachines"], &OWN_AND_GET),
        rule("kubevirt.io", &["virtualmachineinstances"], &["get", "list", "watch"]),
        // The exposures: which addresses there are, and the backends that a selector cannot name.
        rule("", &["nodes", "pods"], &WATCH),
        // A control plane that goes does not get the full time to end: its data goes with it.
        rule("", &["pods"], &["delete"]),
        // Its volume claims go before its namespace, so that their volumes are free by then.
        rule("", &["persistentvolumeclaims"], &["list", "watch", "delete"]),
        rule("discovery.k8s.io", &["endpointslices"], &OWN),
        // Whoever may write a Service may not write its EndpointSlices for free where this plugin runs.
        rule("discovery.k8s.io", &["endpointslices/restricted"], &["create"]),
        // What is told to users.
        rule("events.k8s.io", &["events"], &["create", "patch"]),
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

    /// Every right, once more and by hand: a rule that grows has to be written twice.
    #[test]
    fn the_operator_may_do_this_and_nothing_more() {
        let mut rights: Vec<String> = Vec::new();
        for rule in rules() {
            assert_eq!((rule.resource_names, rule.non_resource_urls), (None, None));
            for group in rule.api_groups.unwrap_or_default() {
                for resource in rule.resources.clone().unwrap_or_default() {
                    let verbs = rule.verbs.join(",");
                    rights.push(format!("{resource}.{group}: {verbs}"));
                }
            }
        }
        rights.sort();
        let mut expected = [
            "configmaps.: list,watch,create,patch,delete",
            "deployments.apps: list,watch,create,patch,delete",
            "endpointslices.discovery.k8s.io: list,watch,create,patch,delete",
            "endpointslices/restricted.discovery.k8s.io: create",
            "events.events.k8s.io: create,patch",
            "hostedclusters.hypershift.openshift.io: get,list,watch,patch",
            "hostedclusters/status.hypershift.openshift.io: patch",
            "namespaces.: get,list,watch,create,patch,delete",
            "networkpolicies.networking.k8s.io: list,watch,create,patch,delete",
            "nodepools.hypershift.openshift.io: get,list,watch,patch,delete",
            "nodepools/status.hypershift.openshift.io: patch",
            "nodes.: list,watch",
            "persistentvolumeclaims.: list,watch,delete",
            "poddisruptionbudgets.policy: list,watch,create,patch,delete",
            "pods.: delete",
            "pods.: list,watch",
            "secrets.: get,list,watch,create,patch,delete",
            "exposurepolicies.remora.dev: list,watch,patch,delete",
            "exposurepolicies/status.remora.dev: patch",
            "serviceexposures.remora.dev: get,list,watch,create,patch,delete",
            "serviceexposures/status.remora.dev: patch",
            "services.: get,list,watch,create,patch,delete",
            "statefulsets.apps: list,watch,create,patch,delete",
            "virtualmachineinstances.kubevirt.io: get,list,watch",
            "virtualmachines.kubevirt.io: get,list,watch,create,patch,delete",
        ];
        expected.sort_unstable();
        assert_eq!(rights, expected);
    }
}
