//! What a minimal manifest becomes, and that the Rust types agree with it.

use kube::api::DynamicObject;
use remora_api::{HostedCluster, NodePool, ServiceExposure};
use remora_testkit::manifest::{self, HOSTED_CLUSTER, NODE_POOL, SERVICE_EXPOSURE, patched};
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use crate::{api_of, apply, server};

/// The spec that the API server makes of a manifest.
async fn defaulted(manifest: &Value) -> anyhow::Result<Value> {
    let api = api_of(server().await?.client().await?, manifest)?;
    let DynamicObject { data, .. } = apply(&api, manifest, true).await?;
    Ok(data.get("spec").cloned().unwrap_or_default())
}

/// The spec that the Rust types make of a manifest, without the API server.
fn typed<T: DeserializeOwned + serde::Serialize>(manifest: &Value) -> anyhow::Result<Value> {
    let object: T = serde_json::from_value(manifest.clone())?;
    Ok(serde_json::to_value(object)?.get("spec").cloned().unwrap_or_default())
}

#[tokio::test]
async fn a_minimal_hosted_cluster_gets_its_defaults() -> anyhow::Result<()> {
    let minimal = manifest::yaml(HOSTED_CLUSTER)?;
    let expected = patched(
        minimal.get("spec").cloned().unwrap_or_default(),
        &json!({
            "capabilities": {},
            "controllerAvailabilityPolicy": "HighlyAvailable",
            "etcd": {
                "managementType": "Managed",
                "managed": {
                    "storage": { "type": "PersistentVolume", "persistentVolume": { "size": "8Gi" } },
                },
            },
            "infrastructureAvailabilityPolicy": "SingleReplica",
            "issuerURL": "https://kubernetes.default.svc",
            "networking": {
                "clusterNetwork": [{ "cidr": "10.132.0.0/14" }],
                "networkType": "OVNKubernetes",
                "serviceNetwork": [{ "cidr": "172.31.0.0/16" }],
            },
            "olmCatalogPlacement": "management",
        }),
    );
    assert_eq!(defaulted(&minimal).await?, expected);
    assert_eq!(typed::<HostedCluster>(&minimal)?, expected);
    Ok(())
}

#[tokio::test]
async fn parts_of_a_hosted_cluster_get_their_defaults() -> anyhow::Result<()> {
    let manifest = patched(
        manifest::yaml(HOSTED_CLUSTER)?,
        &json!({ "spec": {
            "autoscaling": {},
            "etcd": { "managementType": "Managed", "managed": { "storage": {
                "type": "PersistentVolume",
                "persistentVolume": { "storageClassName": "fast" },
            } } },
            "networking": { "networkType": "Other" },
            "operatorConfiguration": { "clusterNetworkOperator": {} },
            "platform": { "kubevirt": { "storageDriver": {} } },
            "sshKey": {},
        } }),
    );
    let expected = json!({
        "/spec/autoscaling": { "scaling": "ScaleUpAndScaleDown" },
        "/spec/etcd/managed/storage/persistentVolume": { "storageClassName": "fast", "size": "8Gi" },
        "/spec/networking": {
            "clusterNetwork": [{ "cidr": "10.132.0.0/14" }],
            "networkType": "Other",
            "serviceNetwork": [{ "cidr": "172.31.0.0/16" }],
        },
        "/spec/operatorConfiguration/clusterNetworkOperator": { "disableMultiNetwork": false },
        "/spec/platform/kubevirt/storageDriver": { "type": "Default" },
        "/spec/sshKey": { "name": "" },
    });
    for seen in [defaulted(&manifest).await?, typed::<HostedCluster>(&manifest)?] {
        let seen = json!({ "spec": seen });
        for (path, part) in expected.as_object().into_iter().flatten() {
            assert_eq!(seen.pointer(path), Some(part), "{path}");
        }
    }
    Ok(())
}

#[tokio::test]
async fn a_minimal_node_pool_gets_its_defaults() -> anyhow::Result<()> {
    let minimal = manifest::yaml(NODE_POOL)?;
    let expected = patched(
        minimal.get("spec").cloned().unwrap_or_default(),
        &json!({
            "arch": "amd64",
            "management": {
                "autoRepair": false,
                "replace": {
                    "strategy": "RollingUpdate",
                    "rollingUpdate": { "maxSurge": 1, "maxUnavailable": 0 },
                },
            },
            "platform": { "kubevirt": {
                "attachDefaultNetwork": true,
                "compute": { "cores": 2, "memory": "8Gi", "qosClass": "Burstable" },
                "networkInterfaceMultiqueue": "Enable",
                "rootVolume": { "persistent": { "size": "32Gi" }, "type": "Persistent" },
            } },
        }),
    );
    assert_eq!(defaulted(&minimal).await?, expected);
    assert_eq!(typed::<NodePool>(&minimal)?, expected);
    Ok(())
}

#[tokio::test]
async fn parts_of_a_node_pool_get_their_defaults() -> anyhow::Result<()> {
    let manifest = patched(
        manifest::yaml(NODE_POOL)?,
        &json!({ "spec": {
            "management": { "replace": { "strategy": "OnDelete" } },
            "platform": { "kubevirt": {
                "compute": { "cores": 4 },
                "hostDevices": [{ "deviceName": "vendor.test/gpu" }],
                "rootVolume": { "cacheStrategy": {}, "persistent": { "storageClass": "fast" } },
            } },
        } }),
    );
    let expected = json!({
        "/spec/management/replace": { "strategy": "OnDelete" },
        "/spec/platform/kubevirt/compute": { "cores": 4, "memory": "8Gi", "qosClass": "Burstable" },
        "/spec/platform/kubevirt/hostDevices": [{ "deviceName": "vendor.test/gpu", "count": 1 }],
        "/spec/platform/kubevirt/rootVolume": {
            "cacheStrategy": { "type": "None" },
            "persistent": { "size": "32Gi", "storageClass": "fast" },
            "type": "Persistent",
        },
    });
    for seen in [defaulted(&manifest).await?, typed::<NodePool>(&manifest)?] {
        let seen = json!({ "spec": seen });
        for (path, part) in expected.as_object().into_iter().flatten() {
            assert_eq!(seen.pointer(path), Some(part), "{path}");
        }
    }
    Ok(())
}

#[tokio::test]
async fn a_minimal_service_exposure_gets_its_defaults() -> anyhow::Result<()> {
    let minimal = manifest::yaml(SERVICE_EXPOSURE)?;
    let spec = minimal.get("spec").cloned().unwrap_or_default();
    let expected = patched(spec, &json!({ "via": "NodePort" }));
    assert_eq!(defaulted(&minimal).await?, expected);
    assert_eq!(typed::<ServiceExposure>(&minimal)?, expected);
    Ok(())
}

/// An explicit null is what templates leave of an empty value.
#[tokio::test]
async fn a_null_gets_the_default_of_its_field() -> anyhow::Result<()> {
    let mut manifest = manifest::yaml(NODE_POOL)?;
    if let Some(spec) = manifest.get_mut("spec").and_then(Value::as_object_mut) {
        spec.insert("arch".to_owned(), Value::Null);
    }
    assert_eq!(defaulted(&manifest).await?.get("arch"), Some(&json!("amd64")));
    Ok(())
}
