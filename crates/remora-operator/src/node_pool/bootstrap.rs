//! Keeps bootstrap data and its tokens fresh.
//!
//! A token is made in the hosted cluster first and then written into the user data, so that user data never holds one
//! that is unknown. The token it replaces stays valid until it expires by itself: a machine may be starting with it.

use std::collections::BTreeSet;

use k8s_openapi::api::core::v1::{Secret, Taint};
use k8s_openapi::jiff::Timestamp;
use kube::api::ListParams;
use kube::{Api, Client, ResourceExt};
use remora_api::{HostedCluster, labels, names};
use remora_core::bootstrap::{
    Bootstrap, BootstrapToken, KubeletSettings, PoolRevision, TOKEN_ENTROPY, TOKEN_NAMESPACE,
    cluster_dns, expiration, token_in_use, user_data_secret,
};
use remora_core::endpoint::Endpoint;

use super::error::{PoolError, failed};
use super::random;
use crate::apply;

/// Secret of the control plane namespace with the hosted cluster's root certificate.
const ROOT_CERTIFICATE: &str = "root-ca";
/// Key of the certificate in it.
const CERTIFICATE_KEY: &str = "ca.crt";

/// The two clusters that bootstrap data is kept in.
pub(super) struct Clusters<'a> {
    /// Client to the hosting cluster.
    pub(super) hosting: &'a Client,
    /// Client to the hosted cluster.
    pub(super) hosted: &'a Client,
    /// Namespace of the control plane.
    pub(super) control_plane_namespace: &'a str,
}

/// Which revisions of a pool need bootstrap data.
pub(super) struct Revisions<'a> {
    /// Name of the pool.
    pub(super) node_pool: &'a str,
    /// The revision of which new machines are made.
    pub(super) current: &'a str,
    /// The revisions of the machines there are.
    pub(super) in_use: BTreeSet<&'a str>,
}

/// Reads what bootstrap data is made of; nothing when the endpoint is not published yet.
pub(super) async fn content(
    clusters: &Clusters<'_>,
    hosted_cluster: &HostedCluster,
    taints: Vec<Taint>,
) -> Result<Option<Bootstrap>, PoolError> {
    let status = hosted_cluster.status.as_ref();
    let Some(endpoint) = status.and_then(|status| status.control_plane_endpoint.as_ref()) else {
        return Ok(None);
    };
    let Ok(port) = u16::try_from(endpoint.port) else { return Ok(None) };
    let networks = &hosted_cluster.spec.networking.service_network;
    let cluster_dns = networks
        .first()
        .and_then(|network| cluster_dns(&network.cidr))
        .ok_or_else(|| PoolError::ServiceNetwork { name: hosted_cluster.name_any() })?;
    Ok(Some(Bootstrap {
        server: Endpoint { host: endpoint.host.clone(), port }.url(),
        ca_certificate: root_certificate(clusters).await?,
        kubelet: KubeletSettings { cluster_dns, taints },
        pod_network: hosted_cluster.spec.networking.network_type.into(),
    }))
}

async fn root_certificate(clusters: &Clusters<'_>) -> Result<String, PoolError> {
    let namespace = clusters.control_plane_namespace;
    let api: Api<Secret> = Api::namespaced(clusters.hosting.clone(), namespace);
    let secret = api
        .get(ROOT_CERTIFICATE)
        .await
        .map_err(failed("read", format!("Secret {namespace}/{ROOT_CERTIFICATE}")))?;
    secret
        .data
        .and_then(|mut data| data.remove(CERTIFICATE_KEY))
        .and_then(|bytes| String::from_utf8(bytes.0).ok())
        .ok_or_else(|| PoolError::SecretKey {
            namespace: namespace.to_owned(),
            name: ROOT_CERTIFICATE,
            key: CERTIFICATE_KEY,
        })
}

/// Makes the bootstrap data of every revision that needs it as it has to be, and removes the rest.
///
/// Returns when the first token has to be renewed.
pub(super) async fn refresh(
    clusters: &Clusters<'_>,
    content: &Bootstrap,
    revisions: &Revisions<'_>,
    now: Timestamp,
) -> Result<Timestamp, PoolError> {
    let present =
        user_data(clusters.hosting, clusters.control_plane_namespace, revisions.node_pool).await?;
    let mut needed = revisions.in_use.clone();
    needed.insert(revisions.current);
    let mut renewal = Timestamp::MAX;
    for template_hash in &needed {
        let name = names::user_data_secret(revisions.node_pool, template_hash);
        let present = present.iter().find(|secret| secret.name_any() == name);
        let token = token(clusters, revisions.node_pool, present, now).await?;
        renewal = renewal.min(token.renewal());
        let revision = PoolRevision {
            control_plane_namespace: clusters.control_plane_namespace,
            node_pool: revisions.node_pool,
            template_hash,
        };
        let desired = user_data_secret(content, &token, &revision);
        if !is_current(present, &desired) {
            apply::apply(clusters.hosting, &desired).await?;
            tracing::info!(secret = %name, "bootstrap data written");
        }
    }
    for secret in &present {
        let hash = secret.labels().get(labels::TEMPLATE_HASH).map(String::as_str);
        if !hash.is_some_and(|hash| needed.contains(hash)) {
            delete_secret(clusters.hosting, secret).await?;
        }
    }
    Ok(renewal)
}

/// The token in use while it has time left, else a new one that the hosted cluster knows already.
async fn token(
    clusters: &Clusters<'_>,
    node_pool: &str,
    user_data: Option<&Secret>,
    now: Timestamp,
) -> Result<BootstrapToken, PoolError> {
    if let Some(token) = user_data.and_then(token_in_use)
        && token.renewal() > now
        && is_known(clusters, &token).await?
    {
        return Ok(token);
    }
    let token = BootstrapToken::new(&random::bytes::<TOKEN_ENTROPY>()?, now);
    apply::apply(clusters.hosted, &token.secret(node_pool)).await?;
    remove_tokens(clusters.hosted, node_pool, Expired::Before(now)).await?;
    Ok(token)
}

/// Whether the hosted cluster (still) knows a token: it may have been restored from a backup.
async fn is_known(clusters: &Clusters<'_>, token: &BootstrapToken) -> Result<bool, PoolError> {
    let api: Api<Secret> = Api::namespaced(clusters.hosted.clone(), TOKEN_NAMESPACE);
    let name = remora_core::bootstrap::token_secret_name(token.id());
    let found = api
        .get_metadata_opt(&name)
        .await
        .map_err(failed("read", format!("hosted Secret {TOKEN_NAMESPACE}/{name}")))?;
    Ok(found.is_some())
}

fn is_current(present: Option<&Secret>, desired: &kube::core::DynamicObject) -> bool {
    present.is_some_and(|present| {
        let data = serde_json::to_value(&present.data).unwrap_or_default();
        Some(&data) == desired.data.get("data")
            && present.labels() == desired.labels()
            && desired
                .annotations()
                .iter()
                .all(|(key, value)| present.annotations().get(key) == Some(value))
    })
}

/// Which tokens are removed.
#[derive(Clone, Copy)]
pub(super) enum Expired {
    /// Those that have expired.
    Before(Timestamp),
    /// All.
    Any,
}

/// Removes tokens of a pool from the hosted cluster.
pub(super) async fn remove_tokens(
    hosted: &Client,
    node_pool: &str,
    expired: Expired,
) -> Result<(), PoolError> {
    let api: Api<Secret> = Api::namespaced(hosted.clone(), TOKEN_NAMESPACE);
    let selector = format!("{}={node_pool}", labels::NODE_NODE_POOL);
    let tokens = api
        .list(&ListParams::default().labels(&selector))
        .await
        .map_err(failed("list", format!("hosted bootstrap tokens of NodePool {node_pool}")))?;
    for secret in &tokens.items {
        let is_due = match expired {
            Expired::Any => true,
            Expired::Before(now) => expiration(secret).is_none_or(|expires| expires < now),
        };
        if is_due {
            delete_secret(hosted, secret).await?;
        }
    }
    Ok(())
}

/// The Secrets with bootstrap data of a pool.
pub(super) async fn user_data(
    hosting: &Client,
    control_plane_namespace: &str,
    node_pool: &str,
) -> Result<Vec<Secret>, PoolError> {
    let api: Api<Secret> = Api::namespaced(hosting.clone(), control_plane_namespace);
    let selector = format!("{}={node_pool}", labels::NODE_POOL_NAME);
    let list = api
        .list(&ListParams::default().labels(&selector))
        .await
        .map_err(failed("list", format!("user data of NodePool {node_pool}")))?;
    Ok(list.items)
}

/// Deletes a Secret.
pub(super) async fn delete_secret(client: &Client, secret: &Secret) -> Result<(), PoolError> {
    let reference =
        apply::reference::<Secret>(secret.metadata.namespace.as_deref(), &secret.name_any());
    apply::delete_if_exists(client, &reference).await?;
    Ok(())
}
