//! What a HostedCluster gets at its first pass: finalizer, infraID and clusterID.

use kube::api::{Api, Patch, PatchParams};
use kube::{Client, ResourceExt};
use remora_api::{HostedCluster, labels, names};
use serde_json::json;

use super::error::ReconcileError;

/// Letters of random names: those of Kubernetes' own generated names, without vowels and look-alikes.
const ALPHABET: &[u8; 27] = b"bcdfghjklmnpqrstvwxz2456789";

/// Makes sure that the HostedCluster has its finalizer, infraID and clusterID, and returns it with them.
pub(super) async fn ensure(
    client: &Client,
    hosted_cluster: HostedCluster,
) -> Result<HostedCluster, ReconcileError> {
    let has_finalizer = hosted_cluster.finalizers().iter().any(|name| name == labels::FINALIZER);
    let spec = &hosted_cluster.spec;
    if has_finalizer && is_set(spec.infra_id.as_ref()) && is_set(spec.cluster_id.as_ref()) {
        return Ok(hosted_cluster);
    }
    let name = hosted_cluster.name_any();
    let infra_id = match spec.infra_id.clone().filter(|id| !id.is_empty()) {
        Some(infra_id) => infra_id,
        None => names::infra_id(
            &name,
            &random_name(random_bytes::<{ names::INFRA_ID_RANDOM_LENGTH }>()?),
        ),
    };
    let cluster_id = match spec.cluster_id.clone().filter(|id| !id.is_empty()) {
        Some(cluster_id) => cluster_id,
        None => uuid(random_bytes::<16>()?),
    };
    let mut finalizers = hosted_cluster.finalizers().to_vec();
    if !has_finalizer {
        finalizers.push(labels::FINALIZER.to_owned());
    }
    let patch = json!({
        // The version makes the write fail if someone else was faster: an infraID is given only once.
        "metadata": {
            "resourceVersion": hosted_cluster.resource_version(),
            "finalizers": finalizers,
        },
        "spec": { "infraID": infra_id, "clusterID": cluster_id },
    });
    let namespace = hosted_cluster.namespace().unwrap_or_default();
    let api: Api<HostedCluster> = Api::namespaced(client.clone(), &namespace);
    let written = api.patch(&name, &PatchParams::default(), &Patch::Merge(&patch)).await.map_err(
        |source| ReconcileError::Write {
            what: "identity",
            hosted_cluster: format!("{namespace}/{name}"),
            source: Box::new(source),
        },
    )?;
    tracing::info!(%namespace, %name, %infra_id, "HostedCluster adopted");
    Ok(written)
}

/// Drops the finalizer: the last act of a deletion.
pub(super) async fn release(
    client: &Client,
    hosted_cluster: &HostedCluster,
) -> Result<(), ReconcileError> {
    let finalizers: Vec<&String> =
        hosted_cluster.finalizers().iter().filter(|name| *name != labels::FINALIZER).collect();
    let patch = json!({
        "metadata": { "resourceVersion": hosted_cluster.resource_version(), "finalizers": finalizers },
    });
    let namespace = hosted_cluster.namespace().unwrap_or_default();
    let name = hosted_cluster.name_any();
    let api: Api<HostedCluster> = Api::namespaced(client.clone(), &namespace);
    match api.patch(&name, &PatchParams::default(), &Patch::Merge(&patch)).await {
        Ok(_) => Ok(()),
        Err(error) if crate::error::is_not_found(&error) => Ok(()),
        Err(source) => Err(ReconcileError::Write {
            what: "finalizers",
            hosted_cluster: format!("{namespace}/{name}"),
            source: Box::new(source),
        }),
    }
}

fn is_set(value: Option<&String>) -> bool {
    value.is_some_and(|value| !value.is_empty())
}

/// Draws random bytes that nobody can foresee.
pub(super) fn random_bytes<const LENGTH: usize>() -> Result<[u8; LENGTH], ReconcileError> {
    let mut bytes = [0; LENGTH];
    rustls::crypto::ring::default_provider()
        .secure_random
        .fill(&mut bytes)
        .map_err(|_| ReconcileError::Random)?;
    Ok(bytes)
}

fn random_name<const LENGTH: usize>(bytes: [u8; LENGTH]) -> String {
    bytes
        .iter()
        .filter_map(|byte| ALPHABET.get(usize::from(*byte) % ALPHABET.len()))
        .map(|letter| char::from(*letter))
        .collect()
}

/// Formats random bytes as a UUID of version 4 (RFC 9562, 5.4).
fn uuid(mut bytes: [u8; 16]) -> String {
    if let Some(version) = bytes.get_mut(6) {
        *version = (*version & 0x0f) | 0x40;
    }
    if let Some(variant) = bytes.get_mut(8) {
        *variant = (*variant & 0x3f) | 0x80;
    }
    let mut text = String::with_capacity(36);
    for (index, byte) in bytes.iter().enumerate() {
        if matches!(index, 4 | 6 | 8 | 10) {
            text.push('-');
        }
        text.push_str(&format!("{byte:02x}"));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn when_bytes_are_formatted_they_make_a_uuid_of_version_4() {
        assert_eq!(uuid([0xff; 16]), "ffffffff-ffff-4fff-bfff-ffffffffffff");
        assert_eq!(uuid([0; 16]), "00000000-0000-4000-8000-000000000000");
    }

    #[test]
    fn when_a_name_is_drawn_it_has_only_letters_of_the_alphabet() {
        assert_eq!(random_name([0, 1, 26, 27, 255]), "bc9bq");
    }
}
