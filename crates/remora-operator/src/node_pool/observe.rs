//! Reads what a pass over a NodePool goes by.

use kube::{Api, Client, ResourceExt};
use remora_api::conditions::{NodePoolConditionType, Reason};
use remora_api::hosted_cluster::UpdateState;
use remora_api::node_pool::KubevirtNodePoolPlatform;
use remora_api::{HostedCluster, NodePool, labels};
use remora_core::node_pool_status::{ClusterView, ReleaseView, TemplateView};
use remora_core::pool::{
    MachineTemplate, Problem, Revision, RootDisk, TemplateSources, VolumeImporter,
};
use remora_core::release::Release;
use remora_core::validate::pull_secret;

use super::error::{PoolError, failed};
use crate::context::Context;
use crate::error::chain;

/// Component of a release that is the machines' root disk.
const NODE_DISK: &str = "node-disk";
/// API group of the importer that fills volumes from images.
const CDI_GROUP: &str = "cdi.kubevirt.io";

/// Reads the HostedCluster of a pool.
pub(super) async fn hosted_cluster(
    client: &Client,
    pool: &NodePool,
) -> Result<Option<HostedCluster>, PoolError> {
    let namespace = pool.namespace().unwrap_or_default();
    let name = &pool.spec.cluster_name;
    let api: Api<HostedCluster> = Api::namespaced(client.clone(), &namespace);
    api.get_opt(name).await.map_err(failed("read", format!("HostedCluster {namespace}/{name}")))
}

/// Sums up a HostedCluster; `is_answering` tells whether its API server does.
pub(super) fn cluster_view(cluster: Option<&HostedCluster>, is_answering: bool) -> ClusterView {
    match cluster {
        None => ClusterView::Missing,
        Some(cluster) if cluster.metadata.deletion_timestamp.is_some() => ClusterView::Deleting,
        Some(_) if !is_answering => ClusterView::Waiting,
        Some(cluster) => ClusterView::Available { version: version(cluster) },
    }
}

/// The version that counts for the skew: the newest that was rolled out, else the newest at all.
fn version(cluster: &HostedCluster) -> Option<String> {
    let version = cluster.status.as_ref()?.version.as_ref()?;
    let is_completed =
        |entry: &&remora_api::hosted_cluster::UpdateHistory| entry.state == UpdateState::Completed;
    let completed = version.history.iter().find(is_completed);
    completed
        .or_else(|| version.history.first())
        .map(|entry| entry.version.clone())
        .or_else(|| Some(version.desired.version.clone()))
        .filter(|version| !version.is_empty())
}

/// The JSON patches that apply to a pool, each with the object that carries it.
pub(super) fn patches(cluster: &HostedCluster, pool: &NodePool) -> Vec<(String, String)> {
    let carried = |kind: &str, namespace: String, name: String, patch: Option<&String>| {
        patch.map(|patch| (format!("{kind} {namespace}/{name}"), patch.clone()))
    };
    let of_cluster = carried(
        "HostedCluster",
        cluster.namespace().unwrap_or_default(),
        cluster.name_any(),
        cluster.annotations().get(labels::VM_JSON_PATCH),
    );
    let of_pool = carried(
        "NodePool",
        pool.namespace().unwrap_or_default(),
        pool.name_any(),
        pool.annotations().get(labels::VM_JSON_PATCH),
    );
    of_cluster.into_iter().chain(of_pool).collect()
}

/// Reads the release of a pool with the pull secret of its HostedCluster.
pub(super) async fn release(
    context: &Context,
    cluster: &HostedCluster,
    pool: &NodePool,
) -> Result<Release, ReleaseView> {
    let namespace = pool.namespace().unwrap_or_default();
    let image = &pool.spec.release.image;
    context
        .releases
        .resolve(&context.client, &namespace, image, Some(&cluster.spec.pull_secret.name))
        .await
        .map_err(|error| ReleaseView::Failed { reason: error.reason(), message: chain(&error) })
}

/// The template of a pool's machines, and how its status tells of it.
pub(super) struct Template {
    /// What the machines are made of.
    pub(super) machine: MachineTemplate,
    /// What the status says.
    pub(super) view: TemplateView,
}

/// Makes the template of a pool's machines.
pub(super) async fn template(
    context: &Context,
    cluster: &HostedCluster,
    pool: &NodePool,
    release: &Release,
    patches: &[&str],
) -> Result<Result<Template, Problem>, PoolError> {
    let default = KubevirtNodePoolPlatform::default();
    let platform = pool.spec.platform.kubevirt.as_ref().unwrap_or(&default);
    let wants_volume = platform.root_volume.persistent.is_some();
    let importer = if wants_volume && is_cdi_installed(&context.client).await? {
        VolumeImporter::Installed
    } else {
        VolumeImporter::Absent
    };
    let sources = TemplateSources {
        release_disk: release.image(NODE_DISK),
        pull_secret: pull_secret(&cluster.spec),
        importer,
    };
    let machine = match MachineTemplate::new(platform, sources) {
        Ok(machine) => machine,
        Err(error) => {
            return Ok(Err(Problem {
                condition: NodePoolConditionType::ValidPlatformImage,
                reason: Reason::MissingReleaseImages,
                message: format!("{}: {error}", pool.spec.release.image),
            }));
        }
    };
    let (disk_image, reservation) = match &machine.root_disk {
        RootDisk::Volume { image, .. } => (image.clone(), None),
        RootDisk::Container { image, .. } => (image.clone(), wants_volume.then(no_volume)),
    };
    let trust_bundle = cluster.spec.additional_trust_bundle.as_ref();
    let revision = Revision {
        release_image: &pool.spec.release.image,
        platform,
        patches,
        pull_secret: &cluster.spec.pull_secret.name,
        additional_trust_bundle: trust_bundle.map(|bundle| bundle.name.as_str()),
        image_content_sources: &cluster.spec.image_content_sources,
    };
    Ok(Ok(Template {
        machine,
        view: TemplateView { hash: revision.hash(), disk_image, reservation },
    }))
}

fn no_volume() -> String {
    format!(
        "the hosting cluster has no CDI ({CDI_GROUP}), which fills volumes from images: root disks are made from the \
         image at every start of a machine, and rootVolume.persistent has no effect"
    )
}

async fn is_cdi_installed(client: &Client) -> Result<bool, PoolError> {
    let groups = client
        .list_api_groups()
        .await
        .map_err(failed("list", "API groups of the hosting cluster"))?;
    Ok(groups.groups.iter().any(|group| group.name == CDI_GROUP))
}
