//! Whether what should run in a namespace of the hosting cluster does.

use k8s_openapi::api::apps::v1::{DaemonSet, Deployment};
use kube::api::ListParams;
use kube::{Api, Client};

use crate::error::{LabError, with_causes};

/// Whether everything in a namespace is available, or what is not.
pub(crate) async fn available(client: &Client, namespace: &str) -> Result<(), String> {
    let missing = missing(client, namespace).await.map_err(|error| with_causes(&error))?;
    if missing.is_empty() { Ok(()) } else { Err(missing.join(", ")) }
}

async fn missing(client: &Client, namespace: &str) -> Result<Vec<String>, LabError> {
    let everything = ListParams::default();
    let deployments: Api<Deployment> = Api::namespaced(client.clone(), namespace);
    let deployments = deployments
        .list(&everything)
        .await
        .map_err(LabError::api(format!("list Deployments of {namespace}")))?;
    let daemon_sets: Api<DaemonSet> = Api::namespaced(client.clone(), namespace);
    let daemon_sets = daemon_sets
        .list(&everything)
        .await
        .map_err(LabError::api(format!("list DaemonSets of {namespace}")))?;
    let deployments = deployments.items.iter().filter_map(missing_of_deployment);
    Ok(deployments.chain(daemon_sets.items.iter().filter_map(missing_of_daemon_set)).collect())
}

fn missing_of_deployment(deployment: &Deployment) -> Option<String> {
    let wanted = deployment.spec.as_ref().and_then(|spec| spec.replicas).unwrap_or(1);
    let status = deployment.status.as_ref();
    let available = status.and_then(|status| status.available_replicas).unwrap_or(0);
    let name = deployment.metadata.name.as_deref().unwrap_or_default();
    (available < wanted).then(|| format!("{name} {available} of {wanted}"))
}

fn missing_of_daemon_set(daemon_set: &DaemonSet) -> Option<String> {
    let name = daemon_set.metadata.name.as_deref().unwrap_or_default();
    let Some(status) = &daemon_set.status else { return Some(format!("{name} not begun")) };
    let (ready, wanted) = (status.number_ready, status.desired_number_scheduled);
    (ready < wanted).then(|| format!("{name} {ready} of {wanted}"))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn when_a_deployment_has_too_few_pods_it_says_how_many() {
        let deployment = |available: i32| -> Deployment {
            serde_json::from_value(json!({
                "metadata": {"name": "virt-api"},
                "spec": {
                    "replicas": 2,
                    "selector": {},
                    "template": {},
                },
                "status": {"availableReplicas": available},
            }))
            .unwrap()
        };
        assert_eq!(missing_of_deployment(&deployment(1)), Some("virt-api 1 of 2".to_owned()));
        assert_eq!(missing_of_deployment(&deployment(2)), None);
    }

    #[test]
    fn when_a_daemon_set_was_not_looked_at_yet_it_is_missing() {
        let mut daemon_set: DaemonSet =
            serde_json::from_value(json!({"metadata": {"name": "virt-handler"}})).unwrap();
        assert_eq!(missing_of_daemon_set(&daemon_set), Some("virt-handler not begun".to_owned()));
        daemon_set.status = serde_json::from_value(json!({
            "currentNumberScheduled": 3,
            "desiredNumberScheduled": 3,
            "numberMisscheduled": 0,
            "numberReady": 2,
        }))
        .unwrap();
        assert_eq!(missing_of_daemon_set(&daemon_set), Some("virt-handler 2 of 3".to_owned()));
    }
}
