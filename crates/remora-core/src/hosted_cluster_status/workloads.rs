//! How the workloads of a control plane are doing.

use std::collections::BTreeMap;

use k8s_openapi::api::apps::v1::{Deployment, StatefulSet};

use crate::control_plane::{
    DEPLOYMENTS, etcd, kube_apiserver, kube_controller_manager, kube_scheduler,
};

/// How one workload is doing.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Workload {
    /// Replicas that are wanted.
    pub desired: i32,
    /// Replicas that are ready.
    pub ready: i32,
    /// Whether all replicas run what is wanted now.
    pub is_current: bool,
}

impl Workload {
    fn is_complete(self) -> bool {
        self.is_current && self.ready >= self.desired
    }
}

/// How the workloads of a control plane are doing, by name; what is missing does not exist.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Workloads {
    by_name: BTreeMap<String, Workload>,
}

impl Workloads {
    /// Reads the live objects of a control plane namespace.
    pub fn read(stateful_sets: &[StatefulSet], deployments: &[Deployment]) -> Self {
        let stateful = stateful_sets
            .iter()
            .filter_map(|object| Some((object.metadata.name.clone()?, stateful_set(object))));
        let deployed = deployments
            .iter()
            .filter_map(|object| Some((object.metadata.name.clone()?, deployment(object))));
        Self { by_name: stateful.chain(deployed).collect() }
    }

    /// One workload, if it exists.
    pub fn get(&self, name: &str) -> Option<Workload> {
        self.by_name.get(name).copied()
    }

    /// Whether the API server serves.
    pub fn is_api_available(&self) -> bool {
        self.get(kube_apiserver::NAME).is_some_and(|workload| workload.ready > 0)
    }

    /// Whether etcd has its quorum.
    pub fn has_etcd_quorum(&self) -> bool {
        self.get(etcd::NAME).is_some_and(|workload| workload.ready > workload.desired / 2)
    }

    /// Whether the API server's clients were made: from then on they are kept, whether it serves or not.
    pub fn has_clients(&self) -> bool {
        self.get(kube_controller_manager::NAME).is_some()
            && self.get(kube_scheduler::NAME).is_some()
    }

    /// The components that do not run as wanted: replicas are missing, or old ones are left.
    pub fn incomplete(&self) -> Vec<&'static str> {
        names().filter(|name| !self.get(name).is_some_and(Workload::is_complete)).collect()
    }

    /// The components that lack replicas although nothing is being rolled out.
    pub fn degraded(&self) -> Vec<&'static str> {
        let is_degraded =
            |workload: Workload| workload.is_current && workload.ready < workload.desired;
        names().filter(|name| self.get(name).is_some_and(is_degraded)).collect()
    }
}

fn names() -> impl Iterator<Item = &'static str> {
    std::iter::once(etcd::NAME).chain(DEPLOYMENTS)
}

fn stateful_set(object: &StatefulSet) -> Workload {
    let desired = object.spec.as_ref().and_then(|spec| spec.replicas).unwrap_or(1);
    let Some(status) = &object.status else {
        return Workload { desired, ..Workload::default() };
    };
    Workload {
        desired,
        ready: status.ready_replicas.unwrap_or_default(),
        is_current: is_observed(object.metadata.generation, status.observed_generation)
            && status.updated_replicas.unwrap_or_default() == status.replicas,
    }
}

fn deployment(object: &Deployment) -> Workload {
    let desired = object.spec.as_ref().and_then(|spec| spec.replicas).unwrap_or(1);
    let Some(status) = &object.status else {
        return Workload { desired, ..Workload::default() };
    };
    Workload {
        desired,
        ready: status.ready_replicas.unwrap_or_default(),
        // Old replicas are counted in `replicas` and not in `updatedReplicas`.
        is_current: is_observed(object.metadata.generation, status.observed_generation)
            && status.updated_replicas.unwrap_or_default() == status.replicas.unwrap_or_default(),
    }
}

fn is_observed(generation: Option<i64>, observed: Option<i64>) -> bool {
    observed.is_some() && observed >= generation
}

#[cfg(test)]
mod tests {
    use super::*;

    fn deployment_of(status: &serde_json::Value) -> Workload {
        let object = serde_json::from_value(serde_json::json!({
            "metadata": { "name": "kube-apiserver", "generation": 4 },
            "spec": { "replicas": 3, "selector": {}, "template": {} },
            "status": status,
        }))
        .unwrap();
        deployment(&object)
    }

    #[test]
    fn when_old_replicas_are_left_a_rollout_is_under_way() {
        let workload = deployment_of(&serde_json::json!(
            { "observedGeneration": 4, "replicas": 4, "updatedReplicas": 1, "readyReplicas": 3 }
        ));
        assert_eq!(workload, Workload { desired: 3, ready: 3, is_current: false });
    }

    #[test]
    fn when_the_controller_has_not_seen_the_change_a_rollout_is_under_way() {
        let workload = deployment_of(&serde_json::json!(
            { "observedGeneration": 3, "replicas": 3, "updatedReplicas": 3, "readyReplicas": 3 }
        ));
        assert!(!workload.is_current);
    }

    #[test]
    fn when_two_of_three_members_are_ready_etcd_has_its_quorum() {
        let with = |ready: i32| {
            let object = serde_json::from_value(serde_json::json!({
                "metadata": { "name": "etcd", "generation": 1 },
                "spec": { "replicas": 3, "selector": {}, "serviceName": "etcd-discovery", "template": {} },
                "status": {
                    "observedGeneration": 1, "replicas": 3, "updatedReplicas": 3, "readyReplicas": ready,
                },
            }))
            .unwrap();
            Workloads::read(&[object], &[])
        };
        assert!(with(2).has_etcd_quorum());
        assert!(!with(1).has_etcd_quorum());
        assert_eq!(with(2).degraded(), ["etcd"]);
    }
}
