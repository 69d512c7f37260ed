//! The objects that users and policies wrote for a cluster.

use kube::api::ListParams;
use kube::core::{ApiResource, DynamicObject, TypeMeta};
use kube::{Api, Client};
use remora_api::{ExposurePolicy, HostedCluster, NodePool, ServiceExposure};
use serde_json::Value;

use crate::failure::Failure;

/// A HostedCluster and what names it.
#[derive(Debug)]
pub(crate) struct ClusterObjects {
    pub(crate) hosted_cluster: DynamicObject,
    pub(crate) node_pools: Vec<DynamicObject>,
    pub(crate) exposures: Vec<DynamicObject>,
    pub(crate) policies: Vec<DynamicObject>,
}

impl ClusterObjects {
    /// Reads them, each with every field that it has.
    pub(crate) async fn read(
        client: &Client,
        namespace: &str,
        name: &str,
    ) -> Result<Self, Failure> {
        let resource = ApiResource::erase::<HostedCluster>(&());
        let api: Api<DynamicObject> = Api::namespaced_with(client.clone(), namespace, &resource);
        let object = format!("HostedCluster {namespace}/{name}");
        let found = api.get_opt(name).await.map_err(Failure::request("read", object.clone()))?;
        let hosted_cluster = found.ok_or_else(|| Failure::Missing {
            object,
            remedy: "correct --name and --namespace; `remora get clusters -A` lists what there is."
                .to_owned(),
        })?;
        let of_cluster = async |resource: ApiResource| {
            let mut found = list(client, namespace, &resource).await?;
            found.retain(|object| cluster_name(object) == Some(name));
            Ok::<_, Failure>(found)
        };
        Ok(Self {
            hosted_cluster: typed(hosted_cluster, &resource),
            node_pools: of_cluster(ApiResource::erase::<NodePool>(&())).await?,
            exposures: of_cluster(ApiResource::erase::<ServiceExposure>(&())).await?,
            policies: of_cluster(ApiResource::erase::<ExposurePolicy>(&())).await?,
        })
    }
}

/// Lists all objects of a kind in a namespace; each has its type, which items of a list lack.
pub(crate) async fn list(
    client: &Client,
    namespace: &str,
    resource: &ApiResource,
) -> Result<Vec<DynamicObject>, Failure> {
    let api: Api<DynamicObject> = Api::namespaced_with(client.clone(), namespace, resource);
    list_all(&api, resource).await
}

/// Lists all objects that an API gives, page by page.
pub(crate) async fn list_all(
    api: &Api<DynamicObject>,
    resource: &ApiResource,
) -> Result<Vec<DynamicObject>, Failure> {
    /// Objects in one answer, as kubectl has it.
    const PAGE: u32 = 500;
    let mut all = Vec::new();
    let mut params = ListParams::default().limit(PAGE);
    loop {
        let page = api.list(&params).await.map_err(Failure::request("list", &resource.plural))?;
        all.extend(page.items.into_iter().map(|object| typed(object, resource)));
        match page.metadata.continue_.filter(|token| !token.is_empty()) {
            Some(token) => params = params.continue_token(&token),
            None => return Ok(all),
        }
    }
}

fn typed(mut object: DynamicObject, resource: &ApiResource) -> DynamicObject {
    object.types =
        Some(TypeMeta { api_version: resource.api_version.clone(), kind: resource.kind.clone() });
    object
}

fn cluster_name(object: &DynamicObject) -> Option<&str> {
    object.data.pointer("/spec/clusterName").and_then(Value::as_str)
}
