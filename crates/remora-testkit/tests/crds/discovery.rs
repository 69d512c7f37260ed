//! What kubectl sees: names, columns, the scale subresource.

use kube::api::{Patch, PatchParams};
use kube::discovery::{Scope, verbs};
use kube::{Api, Client};
use remora_api::{NodePool, REMORA_GROUP};
use remora_testkit::manifest::{self, HOSTED_CLUSTER, NODE_POOL, SERVICE_EXPOSURE, patched};
use serde_json::{Value, json};

use crate::{api_of, apply, server};

/// Headers and the cells of the first row of `kubectl get`.
async fn table(client: &Client, path: &str) -> anyhow::Result<(Vec<String>, Vec<Value>)> {
    let request = http::Request::get(path)
        .header("Accept", "application/json;as=Table;v=v1;g=meta.k8s.io")
        .body(Vec::new())?;
    let table: Value = client.request(request).await?;
    let texts = |path: &str, key: &str| -> Vec<String> {
        let list = table.pointer(path).and_then(Value::as_array);
        let texts = list.into_iter().flatten().filter_map(|entry| entry.get(key)?.as_str());
        texts.map(str::to_owned).collect()
    };
    let cells = table.pointer("/rows/0/cells").and_then(Value::as_array).cloned();
    Ok((texts("/columnDefinitions", "name"), cells.unwrap_or_default()))
}

#[tokio::test]
async fn kinds_have_their_names() -> anyhow::Result<()> {
    let client = server().await?.client().await?;
    let mut seen = Vec::new();
    for group in [remora_api::HYPERSHIFT_GROUP, REMORA_GROUP] {
        let group = kube::discovery::group(&client, group).await?;
        for (resource, capabilities) in group.recommended_resources() {
            assert_eq!(capabilities.scope, Scope::Namespaced);
            assert!(capabilities.supports_operation(verbs::WATCH));
            seen.push((resource.kind, resource.plural));
        }
    }
    seen.sort();
    let expected = [
        ("ExposurePolicy", "exposurepolicies"),
        ("HostedCluster", "hostedclusters"),
        ("NodePool", "nodepools"),
        ("ServiceExposure", "serviceexposures"),
    ];
    assert_eq!(seen, expected.map(|(kind, plural)| (kind.to_owned(), plural.to_owned())));
    Ok(())
}

#[tokio::test]
async fn kinds_have_short_names_and_a_category() -> anyhow::Result<()> {
    let client = server().await?.client().await?;
    for (path, plural, short_names) in [
        ("/apis/hypershift.openshift.io/v1beta1", "hostedclusters", json!(["hc", "hcs"])),
        ("/apis/hypershift.openshift.io/v1beta1", "nodepools", json!(["np", "nps"])),
        ("/apis/remora.dev/v1alpha1", "serviceexposures", json!(["svx"])),
        ("/apis/remora.dev/v1alpha1", "exposurepolicies", json!(["svxp"])),
    ] {
        let list: Value = client.request(http::Request::get(path).body(Vec::new())?).await?;
        let resources = list.get("resources").and_then(Value::as_array);
        let resource = resources
            .into_iter()
            .flatten()
            .find(|resource| resource.get("name") == Some(&json!(plural)));
        let field = |name: &str| resource.and_then(|resource| resource.get(name)).cloned();
        assert_eq!(field("shortNames"), Some(short_names), "{plural}");
        assert_eq!(field("categories"), Some(json!(["remora"])), "{plural}");
    }
    Ok(())
}

#[tokio::test]
async fn a_table_of_hosted_clusters_shows_their_state() -> anyhow::Result<()> {
    let client = server().await?.client().await?;
    let cluster = manifest::yaml(HOSTED_CLUSTER)?;
    let cluster = patched(cluster, &json!({ "metadata": { "name": "shown" } }));
    let api = api_of(client.clone(), &cluster)?;
    apply(&api, &cluster, false).await?;
    let condition = |kind: &str, status: &str, message: &str| {
        json!({
            "type": kind, "status": status, "message": message, "reason": "AsExpected",
            "lastTransitionTime": "2026-11-30T22:40:00Z",
        })
    };
    let release = |state: &str, version: &str| {
        json!({
            "desired": { "version": version, "image": "registry.test/release" },
            "history": [{
                "state": state, "version": version, "image": "registry.test/release",
                "startedTime": "2026-11-30T22:40:00Z",
            }],
        })
    };
    let status = json!({
        "kubeconfig": { "name": "shown-admin-kubeconfig" },
        "conditions": [
            condition("Available", "True", "The hosted control plane is available"),
            condition("Progressing", "False", "done"),
        ],
        "version": release("Partial", "1.35.3"),
        "controlPlaneVersion": release("Completed", "1.35.4"),
    });
    apply(&api, &patched(cluster, &json!({ "status": status })), false).await?;
    let path = "/apis/hypershift.openshift.io/v1beta1/namespaces/default/hostedclusters\
                ?fieldSelector=metadata.name%3Dshown";
    let (columns, cells) = table(&client, path).await?;
    assert_eq!(
        columns,
        [
            "Name",
            "Version",
            "CP Version",
            "KubeConfig",
            "Progress",
            "Available",
            "Progressing",
            "Message",
            "CP Progress",
            "DP Progress",
        ]
    );
    assert_eq!(
        json!(cells),
        json!([
            "shown",
            null,
            "1.35.4",
            "shown-admin-kubeconfig",
            "Partial",
            "True",
            "False",
            "The hosted control plane is available",
            "Completed",
            "Partial",
        ])
    );
    Ok(())
}

#[tokio::test]
async fn a_table_of_node_pools_shows_their_state() -> anyhow::Result<()> {
    let client = server().await?.client().await?;
    let pool = patched(
        manifest::yaml(NODE_POOL)?,
        &json!({ "metadata": { "name": "shown" }, "spec": { "replicas": 3 } }),
    );
    let api = api_of(client.clone(), &pool)?;
    apply(&api, &pool, false).await?;
    let conditions: Vec<_> = [
        ("AutoscalingEnabled", "False", ""),
        ("AutorepairEnabled", "True", ""),
        ("UpdatingVersion", "Unknown", ""),
        ("Ready", "False", "1 of 3 nodes is not ready"),
    ]
    .into_iter()
    .map(|(kind, status, message)| {
        json!({
            "type": kind, "status": status, "message": message,
            "lastTransitionTime": "2026-11-30T22:40:00Z",
        })
    })
    .collect();
    let status = json!({ "replicas": 2, "version": "1.35.4", "conditions": conditions });
    apply(&api, &patched(pool, &json!({ "status": status })), false).await?;
    let path = "/apis/hypershift.openshift.io/v1beta1/namespaces/default/nodepools\
                ?fieldSelector=metadata.name%3Dshown";
    let (columns, cells) = table(&client, path).await?;
    assert_eq!(
        columns,
        [
            "Name",
            "Cluster",
            "Desired Nodes",
            "Current Nodes",
            "Autoscaling",
            "Autorepair",
            "Version",
            "UpdatingVersion",
            "UpdatingConfig",
            "Message",
        ]
    );
    assert_eq!(
        json!(cells),
        json!([
            "shown",
            "reef",
            3,
            2,
            "False",
            "True",
            "1.35.4",
            "Unknown",
            null,
            "1 of 3 nodes is not ready",
        ])
    );
    Ok(())
}

#[tokio::test]
async fn a_table_of_exposures_shows_what_is_reached_where() -> anyhow::Result<()> {
    let client = server().await?.client().await?;
    let exposure = manifest::yaml(SERVICE_EXPOSURE)?;
    let exposure = patched(exposure, &json!({ "metadata": { "name": "shown" } }));
    let api = api_of(client.clone(), &exposure)?;
    apply(&api, &exposure, false).await?;
    let status = json!({
        "observedGeneration": 1,
        "nodePorts": "30001,30002",
        "endpoints": [{
            "address": "192.0.2.104", "port": 30001, "servicePort": 8080, "targetPort": 31001,
            "protocol": "TCP", "name": "http",
        }],
        "conditions": [{
            "type": "Reachable", "status": "True", "reason": "AsExpected", "message": "2 of 2",
            "lastTransitionTime": "2026-11-30T22:40:00Z",
        }],
    });
    apply(&api, &patched(exposure, &json!({ "status": status })), false).await?;
    let path = "/apis/remora.dev/v1alpha1/namespaces/default/serviceexposures\
                ?fieldSelector=metadata.name%3Dshown";
    let (columns, mut cells) = table(&client, path).await?;
    assert_eq!(
        columns,
        [
            "Name",
            "Cluster",
            "Namespace",
            "Service",
            "Via",
            "Reachable",
            "Endpoint",
            "Ports",
            "Message",
            "Age",
        ]
    );
    cells.pop();
    assert_eq!(
        json!(cells),
        json!([
            "shown",
            "reef",
            "petclinic",
            "petclinic-np",
            "NodePort",
            "True",
            "192.0.2.104",
            "30001,30002",
            "2 of 2",
        ])
    );
    Ok(())
}

#[tokio::test]
async fn a_node_pool_is_scaled_by_its_subresource() -> anyhow::Result<()> {
    let client = server().await?.client().await?;
    let pool = manifest::yaml(NODE_POOL)?;
    let pool =
        patched(pool, &json!({ "metadata": { "name": "scaled" }, "spec": { "replicas": 1 } }));
    let api = api_of(client.clone(), &pool)?;
    apply(&api, &pool, false).await?;
    apply(&api, &patched(pool, &json!({ "status": { "replicas": 5 } })), false).await?;
    let pools: Api<NodePool> = Api::default_namespaced(client);
    let scale = pools.get_scale("scaled").await?;
    assert_eq!(scale.spec.and_then(|spec| spec.replicas), Some(1));
    assert_eq!(scale.status.map(|status| status.replicas), Some(5));
    let patch = Patch::Merge(json!({ "spec": { "replicas": 4 } }));
    pools.patch_scale("scaled", &PatchParams::default(), &patch).await?;
    assert_eq!(pools.get("scaled").await?.spec.replicas, Some(4));
    Ok(())
}
