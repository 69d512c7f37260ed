//! What an exposure depends on, read from the hosting and the hosted cluster.
//!
//! What cannot be read is a fact too: the rest is shown all the same.

use std::time::Duration;

use k8s_openapi::api::core::v1::{Node, Pod, Service};
use kube::api::ListParams;
use kube::{Api, Client, ResourceExt};
use remora_api::{HostedCluster, ServiceExposure, labels, names};
use remora_core::expose::{VmPod, service_name};

use crate::create::kubeconfig_of;
use crate::failure::{Failure, told};
use crate::hosted;

/// How long the hosted API server may take for everything that is asked of it.
const HOSTED_LIMIT: Duration = Duration::from_secs(15);

/// What was read, or in words why it could not be.
pub(super) type Read<T> = Result<T, String>;

/// An exposure and what it depends on.
pub(super) struct Facts {
    pub(super) exposure: ServiceExposure,
    pub(super) cluster: Read<Option<HostedCluster>>,
    /// The Service in the control plane namespace.
    pub(super) service: Read<Option<Service>>,
    /// The virtual machines of the cluster.
    pub(super) machines: Read<Vec<Machine>>,
    pub(super) hosted: Read<Hosted>,
}

/// The pod of a virtual machine.
pub(super) struct Machine {
    pub(super) pod: VmPod,
    /// Name of the virtual machine, and of its Node.
    pub(super) name: String,
}

/// What the hosted cluster says.
pub(super) struct Hosted {
    pub(super) nodes: Vec<Node>,
    pub(super) service: Option<Service>,
    /// The pods that the Service selects.
    pub(super) pods: Vec<Pod>,
}

/// Reads everything that an exposure depends on.
pub(super) async fn facts(client: &Client, exposure: ServiceExposure) -> Facts {
    let namespace = exposure.namespace().unwrap_or_default();
    let cluster = exposure.spec.cluster_name.clone();
    let control_plane = names::control_plane_namespace(&namespace, &cluster);
    let clusters: Api<HostedCluster> = Api::namespaced(client.clone(), &namespace);
    let services: Api<Service> = Api::namespaced(client.clone(), &control_plane);
    let own = service_name(&exposure.name_any());
    let (cluster, service, hosted) = futures::join!(
        clusters.get_opt(&cluster),
        services.get_opt(&own),
        hosted(client, &exposure),
    );
    let service_told = format!("Service {control_plane}/{own}");
    let service = service.map_err(|error| told(&Failure::request("read", service_told)(error)));
    let cluster = cluster.map_err(|error| told(&Failure::request("read", "HostedCluster")(error)));
    let machines = match &cluster {
        Ok(found) => machines(client, found.as_ref(), &control_plane).await,
        Err(why) => Err(why.clone()),
    };
    Facts { exposure, cluster, service, machines, hosted }
}

async fn machines(
    client: &Client,
    cluster: Option<&HostedCluster>,
    namespace: &str,
) -> Read<Vec<Machine>> {
    let Some(infra_id) = cluster.and_then(|cluster| cluster.spec.infra_id.as_ref()) else {
        return Ok(Vec::new());
    };
    let api: Api<Pod> = Api::namespaced(client.clone(), namespace);
    let selector = format!("{}={infra_id}", labels::CAPI_CLUSTER_NAME);
    let found = api.list(&ListParams::default().labels(&selector)).await;
    let object = format!("pods of namespace {namespace}");
    let found = found.map_err(|error| told(&Failure::request("list", object)(error)))?;
    let machine = |pod: Pod| {
        let name = pod.labels().get(labels::KUBEVIRT_VM).cloned();
        let pod = VmPod::of(&pod)?;
        Some(Machine { name: name.unwrap_or_else(|| pod.name.clone()), pod })
    };
    Ok(found.items.into_iter().filter_map(machine).collect())
}

async fn hosted(client: &Client, exposure: &ServiceExposure) -> Read<Hosted> {
    let namespace = exposure.namespace().unwrap_or_default();
    let cluster = &exposure.spec.cluster_name;
    let reading = async {
        let kubeconfig = kubeconfig_of(client, &namespace, cluster).await?;
        let hosted = hosted::client(&format!("{namespace}/{cluster}"), &kubeconfig).await?;
        hosted_facts(&hosted, exposure).await
    };
    match tokio::time::timeout(HOSTED_LIMIT, reading).await {
        Ok(read) => read.map_err(|failure| told(&failure)),
        Err(_) => Err(format!(
            "the API server of HostedCluster {namespace}/{cluster} did not answer within {} s",
            HOSTED_LIMIT.as_secs()
        )),
    }
}

async fn hosted_facts(hosted: &Client, exposure: &ServiceExposure) -> Result<Hosted, Failure> {
    let reference = &exposure.spec.service;
    let services: Api<Service> = Api::namespaced(hosted.clone(), &reference.namespace);
    let object = format!("hosted Service {}/{}", reference.namespace, reference.name);
    let service = services.get_opt(&reference.name).await;
    let service = service.map_err(Failure::request("read", object))?;
    let nodes = Api::<Node>::all(hosted.clone()).list(&ListParams::default()).await;
    let nodes = nodes.map_err(Failure::request("list", "hosted nodes"))?.items;
    let pods = match service.as_ref().and_then(selector) {
        Some(selector) => {
            let api: Api<Pod> = Api::namespaced(hosted.clone(), &reference.namespace);
            let found = api.list(&ListParams::default().labels(&selector)).await;
            found.map_err(Failure::request("list", "the hosted Service's pods"))?.items
        }
        None => Vec::new(),
    };
    Ok(Hosted { nodes, service, pods })
}

/// The selector of a Service, as a list is asked for with it; none when it selects nothing.
pub(super) fn selector(service: &Service) -> Option<String> {
    let selector = service.spec.as_ref()?.selector.as_ref()?;
    let entries: Vec<String> =
        selector.iter().map(|(key, value)| format!("{key}={value}")).collect();
    Some(entries.join(",")).filter(|entries| !entries.is_empty())
}
