//! The credentials of a control plane: read, issue what is due, write.

use std::collections::BTreeMap;

use jiff::Timestamp;
use k8s_openapi::api::core::v1::Secret;
use kube::api::{Api, ListParams, PostParams};
use kube::core::DynamicObject;
use remora_api::{labels, names};
use remora_core::control_plane::ControlPlane;
use remora_core::control_plane::secrets::{self, Clients};
use remora_core::endpoint::Published;
use remora_core::pki::{
    self, Authority, Credential, Names, PrivateKey, authority_due, issue_authority, issue_leaf,
    leaf, leaf_due, leaves, public_key_pem, renew_at,
};

use super::error::ReconcileError;
use crate::context::Context;
use crate::error::is_conflict;

/// What the rest of a pass needs to know of the credentials.
pub(super) struct Credentials {
    /// Hashes of all Secrets, by name.
    pub(super) hashes: BTreeMap<String, String>,
    /// Certificate of the root authority, PEM.
    pub(super) authority: String,
    /// The konnectivity agents' certificate.
    pub(super) konnectivity_agent: Credential,
    /// The administrator's kubeconfigs for the namespace of the HostedCluster.
    pub(super) user_kubeconfigs: Vec<DynamicObject>,
    /// When the first certificate is due for renewal.
    pub(super) renew_at: Option<Timestamp>,
}

/// Credentials by the name of their Secret, and the hashes of all Secrets.
#[derive(Default)]
struct Known {
    credentials: BTreeMap<String, Credential>,
    hashes: BTreeMap<String, String>,
}

impl Known {
    fn add(&mut self, secret: &Secret) {
        let Some(name) = secret.metadata.name.clone() else { return };
        if let Some(credential) = secrets::read_credential(secret) {
            self.credentials.insert(name.clone(), credential);
        }
        if let Some(data) = &secret.data {
            self.hashes.insert(name, secrets::hash(data));
        }
    }

    fn credential(
        &self,
        namespace: &str,
        name: &'static str,
    ) -> Result<Credential, ReconcileError> {
        self.credentials.get(name).cloned().ok_or_else(|| ReconcileError::MissingCredential {
            namespace: namespace.to_owned(),
            name,
        })
    }
}

/// Makes sure that all Secrets of the control plane exist and are valid.
pub(super) async fn ensure(
    context: &Context,
    control_plane: &ControlPlane,
    published: &Published,
    now: Timestamp,
) -> Result<Credentials, ReconcileError> {
    let mut known = read(context, &control_plane.namespace).await?;
    create_roots(context, control_plane, &mut known, now).await?;
    issue_leaves(context, control_plane, published, &mut known, now).await?;
    let namespace = &control_plane.namespace;
    let authority = known.credential(namespace, Authority::Root.secret())?.certificate;
    let clients = Clients {
        authority: authority.clone(),
        admin: known.credential(namespace, leaf::ADMIN)?,
        kube_controller_manager: known.credential(namespace, leaf::KUBE_CONTROLLER_MANAGER)?,
        kube_scheduler: known.credential(namespace, leaf::KUBE_SCHEDULER)?,
    };
    let mut kubeconfigs = secrets::internal_kubeconfigs(control_plane, &clients);
    kubeconfigs.push(secrets::admin_kubeconfig(control_plane, &clients, &published.api));
    context.applied.apply_all(&context.client, &kubeconfigs).await?;
    known.hashes.extend(secrets::hashes(&kubeconfigs));
    let renew_at =
        known.credentials.values().filter_map(|credential| renew_at(&credential.certificate)).min();
    Ok(Credentials {
        konnectivity_agent: known.credential(namespace, leaf::KONNECTIVITY_AGENT)?,
        hashes: known.hashes,
        authority,
        user_kubeconfigs: secrets::user_kubeconfigs(control_plane, &clients, &published.api),
        renew_at,
    })
}

/// The hash of the kubeconfig by which the operator reaches the hosted API server; none if there is no such Secret.
pub(super) async fn own_kubeconfig_hash(
    context: &Context,
    namespace: &str,
) -> Result<Option<String>, ReconcileError> {
    let name = names::SERVICE_NETWORK_ADMIN_KUBECONFIG;
    let api: Api<Secret> = Api::namespaced(context.client.clone(), namespace);
    let found = api
        .get_opt(name)
        .await
        .map_err(ReconcileError::reading(format!("Secret {namespace}/{name}")))?;
    Ok(found.map(|secret| secret.data.as_ref().map(secrets::hash).unwrap_or_default()))
}

/// Reads the Secrets from the API server itself: a cache that lags would make an authority be issued twice.
async fn read(context: &Context, namespace: &str) -> Result<Known, ReconcileError> {
    let api: Api<Secret> = Api::namespaced(context.client.clone(), namespace);
    let own = ListParams::default().labels(labels::CONTROL_PLANE_COMPONENT);
    let listed = api
        .list(&own)
        .await
        .map_err(ReconcileError::reading(format!("Secrets of namespace {namespace}")))?;
    let mut known = Known::default();
    listed.items.iter().for_each(|secret| known.add(secret));
    Ok(known)
}

/// Creates the authorities and the service account key that do not exist.
///
/// They are created, not applied: should two operators run for a moment, the second one's creation is refused.
async fn create_roots(
    context: &Context,
    control_plane: &ControlPlane,
    known: &mut Known,
    now: Timestamp,
) -> Result<(), ReconcileError> {
    let mut missing = Vec::new();
    for authority in Authority::ALL {
        let name = authority.secret();
        if authority_due(known.credentials.get(name)).is_some() {
            let issued =
                issue_authority(authority, &control_plane.hosted_cluster_name, new_key()?, now)?;
            missing.push(secrets::credential(control_plane, name, &issued, &issued.certificate));
        }
    }
    if !known.hashes.contains_key(pki::SERVICE_ACCOUNT_KEY_SECRET) {
        let key = new_key()?;
        let public_key = public_key_pem(&key)?;
        missing.push(secrets::service_account_key(control_plane, &key, &public_key));
    }
    let created =
        futures::future::join_all(missing.iter().map(|object| create(context, object))).await;
    for secret in created {
        known.add(&secret?);
    }
    Ok(())
}

async fn create(context: &Context, object: &DynamicObject) -> Result<Secret, ReconcileError> {
    let namespace = object.metadata.namespace.clone().unwrap_or_default();
    let name = object.metadata.name.clone().unwrap_or_default();
    let api: Api<Secret> = Api::namespaced(context.client.clone(), &namespace);
    let secret = object.clone().try_parse::<Secret>().ok().unwrap_or_default();
    let params = PostParams {
        field_manager: Some(labels::FIELD_MANAGER.to_owned()),
        ..PostParams::default()
    };
    let result = match api.create(&params, &secret).await {
        // Someone was faster, or the label was taken away: what is there counts.
        Err(error) if is_conflict(&error) => api.get(&name).await,
        result => result,
    };
    result.map_err(|source| ReconcileError::Create { namespace, name, source: Box::new(source) })
}

async fn issue_leaves(
    context: &Context,
    control_plane: &ControlPlane,
    published: &Published,
    known: &mut Known,
    now: Timestamp,
) -> Result<(), ReconcileError> {
    let mut api_hosts = vec![published.api.host.clone()];
    api_hosts.extend(control_plane.api_dns_name.clone());
    let names = Names {
        namespace: control_plane.namespace.clone(),
        api_hosts,
        konnectivity_hosts: vec![published.konnectivity.host.clone()],
        kubernetes_service_addresses: control_plane.networks.kubernetes_service_addresses(),
    };
    let mut issued = Vec::new();
    for wanted in leaves(&names) {
        let authority = known.credential(&control_plane.namespace, wanted.authority.secret())?;
        let existing = known.credentials.get(wanted.secret);
        if let Some(due) = leaf_due(existing, &wanted, &authority, now) {
            let credential = issue_leaf(&wanted, &authority, new_key()?, now)?;
            tracing::info!(
                namespace = %control_plane.namespace, name = wanted.secret, ?due, "certificate issued"
            );
            issued.push(secrets::credential(
                control_plane,
                wanted.secret,
                &credential,
                &authority.certificate,
            ));
        }
    }
    context.applied.apply_all(&context.client, &issued).await?;
    issued
        .into_iter()
        .filter_map(|object| object.try_parse::<Secret>().ok())
        .for_each(|secret| known.add(&secret));
    Ok(())
}

fn new_key() -> Result<PrivateKey, ReconcileError> {
    let pair = rcgen::KeyPair::generate().map_err(ReconcileError::Key)?;
    Ok(PrivateKey::new(pair.serialize_pem()))
}
