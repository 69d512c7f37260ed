//! Objects of programs that do not run here.

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::Client;
use kube::api::DynamicObject;
use serde_json::{Value, json};

use crate::world::{apply, apply_status};

/// KubeVirt's kinds, with any content.
pub(crate) fn kubevirt() -> anyhow::Result<Vec<CustomResourceDefinition>> {
    [("VirtualMachine", "virtualmachines"), ("VirtualMachineInstance", "virtualmachineinstances")]
        .into_iter()
        .map(|(kind, plural)| {
            let schema = json!({ "type": "object", "x-kubernetes-preserve-unknown-fields": true });
            Ok(serde_json::from_value(json!({
                "apiVersion": "apiextensions.k8s.io/v1",
                "kind": "CustomResourceDefinition",
                "metadata": { "name": format!("{plural}.kubevirt.io") },
                "spec": {
                    "group": "kubevirt.io",
                    "scope": "Namespaced",
                    "names": { "kind": kind, "plural": plural },
                    "versions": [{
                        "name": "v1", "served": true, "storage": true,
                        "schema": { "openAPIV3Schema": schema },
                        "subresources": { "status": {} },
                    }],
                },
            }))?)
        })
        .collect()
}

/// A host of the hosting cluster, ready, under an address.
pub(crate) async fn host(client: &Client, name: &str, address: &str) -> anyhow::Result<()> {
    let node = json!({ "apiVersion": "v1", "kind": "Node", "metadata": { "name": name } });
    apply(client, &node).await?;
    let status = json!({
        "addresses": [{ "type": "InternalIP", "address": address }],
        "conditions": [{ "type": "Ready", "status": "True" }],
    });
    apply_status(client, &with_status(node, status)).await?;
    Ok(())
}

/// Says, in their controllers' stead, that the pods of a Deployment or StatefulSet are ready.
pub(crate) async fn report_ready(client: &Client, workload: &DynamicObject) -> anyhow::Result<()> {
    let types = workload.types.clone().unwrap_or_default();
    let object = json!({
        "apiVersion": types.api_version,
        "kind": types.kind,
        "metadata": { "name": workload.metadata.name, "namespace": workload.metadata.namespace },
    });
    let mut status = json!({
        "observedGeneration": workload.metadata.generation,
        "replicas": 1, "updatedReplicas": 1, "readyReplicas": 1, "availableReplicas": 1,
    });
    if types.kind == "StatefulSet" {
        status["currentReplicas"] = 1.into();
    }
    apply_status(client, &with_status(object, status)).await?;
    Ok(())
}

/// The pod of a VM of a NodePool, serving.
pub(crate) async fn machine_pod(
    client: &Client,
    (namespace, name): (&str, &str),
    (infra_id, node_pool): (&str, &str),
) -> anyhow::Result<()> {
    let pod = json!({
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": { "namespace": namespace, "name": name, "labels": {
            "cluster.x-k8s.io/cluster-name": infra_id,
            "cluster.x-k8s.io/role": "worker",
            "hypershift.openshift.io/nodepool-name": node_pool,
            "kubevirt.io": "virt-launcher",
        } },
        "spec": { "containers": [{ "name": "compute", "image": "registry.test/compute" }] },
    });
    apply(client, &pod).await?;
    let status = json!({
        "phase": "Running",
        "podIPs": [{ "ip": "10.128.7.7" }],
        "conditions": [{ "type": "Ready", "status": "True" }],
    });
    apply_status(client, &with_status(pod, status)).await?;
    Ok(())
}

/// Lets a VirtualMachine run: makes its instance, with an address.
pub(crate) async fn run(
    client: &Client,
    machine: &DynamicObject,
    address: &str,
) -> anyhow::Result<()> {
    let instance = json!({
        "apiVersion": "kubevirt.io/v1",
        "kind": "VirtualMachineInstance",
        "metadata": {
            "name": machine.metadata.name,
            "namespace": machine.metadata.namespace,
            "labels": machine.data.pointer("/spec/template/metadata/labels"),
            "ownerReferences": [{
                "apiVersion": "kubevirt.io/v1", "kind": "VirtualMachine",
                "name": machine.metadata.name, "uid": machine.metadata.uid,
            }],
        },
        "spec": { "domain": {} },
    });
    apply(client, &instance).await?;
    let status = json!({
        "phase": "Running",
        "interfaces": [{ "name": "default", "ipAddress": address, "ipAddresses": [address] }],
    });
    apply_status(client, &with_status(instance, status)).await?;
    Ok(())
}

/// Lets the kubelet of a machine join: makes its Node in the hosted cluster, ready. Without providerID, unlike a real one:
/// the session of another HostedCluster with this API server would take it for one that its pools have left behind.
pub(crate) async fn join(hosted: &Client, name: &str, address: &str) -> anyhow::Result<()> {
    let node = json!({ "apiVersion": "v1", "kind": "Node", "metadata": { "name": name } });
    apply(hosted, &node).await?;
    let status = json!({
        "addresses": [{ "type": "InternalIP", "address": address }],
        "conditions": [{ "type": "Ready", "status": "True" }],
        "nodeInfo": {
            "architecture": "amd64", "bootID": "", "containerRuntimeVersion": "", "kernelVersion": "",
            "kubeProxyVersion": "", "kubeletVersion": "v1.35.4", "machineID": "",
            "operatingSystem": "linux", "osImage": "", "systemUUID": "",
        },
    });
    apply_status(hosted, &with_status(node, status)).await?;
    Ok(())
}

fn with_status(mut object: Value, status: Value) -> Value {
    if let Some(fields) = object.as_object_mut() {
        fields.remove("spec");
        fields.insert("status".to_owned(), status);
    }
    object
}
