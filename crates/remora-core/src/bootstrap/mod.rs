//! Bootstrap data: the cloud-config that turns a virtual machine into a node.
//!
//! It holds what a kubelet needs for TLS bootstrap and nothing else, for any image with systemd, cloud-init,
//! containerd and a kubelet. All machines of a NodePool's revision share one Secret. Its content follows the pool for
//! life (a fresh token, the present taints), so that a machine that is started again, with an empty root disk, can join
//! again; its name follows only what asks for new machines.

mod cloud_config;
mod kubelet;
mod pod_network;
mod token;

use std::collections::BTreeMap;

use jiff::Timestamp;
use k8s_openapi::ByteString;
use k8s_openapi::api::core::v1::Secret;
use kube::ResourceExt;
use kube::core::DynamicObject;
use kube::core::ObjectMeta;
use remora_api::{labels, names};

use crate::control_plane::PodNetwork;
use crate::object::object;
pub use cloud_config::user_data;
pub use kubelet::{KubeletSettings, cluster_dns, kubelet_configuration};
pub use token::{
    BOOTSTRAP_GROUP_PREFIX, BootstrapToken, TOKEN_ENTROPY, TOKEN_LIFETIME, TOKEN_NAMESPACE,
    TOKEN_REMAINDER, expiration, token_secret_name,
};

/// Files that bootstrap data writes and the node image's kubelet unit reads.
pub(crate) mod files {
    /// The hosted cluster's root certificate.
    pub(crate) const CA_CERTIFICATE: &str = "/etc/kubernetes/pki/ca.crt";
    /// The kubelet's configuration.
    pub(crate) const KUBELET_CONFIGURATION: &str = "/etc/kubernetes/kubelet.yaml";
    /// The kubeconfig with the bootstrap token.
    pub(crate) const BOOTSTRAP_KUBECONFIG: &str = "/etc/kubernetes/bootstrap.conf";
    /// A link to the resolver configuration that names real servers, not systemd's stub on a loopback address.
    pub(crate) const RESOLV_CONF: &str = "/etc/kubernetes/resolv.conf";
    /// The node's network configuration, where containerd looks by default.
    pub(crate) const NETWORK_CONFIGURATION: &str = "/etc/cni/net.d/10-flannel.conflist";
    /// The plugin that the configuration names, beside those of containernetworking.
    pub(crate) const NETWORK_PLUGIN: &str = "/opt/cni/bin/flannel-subnet";
}

const TOKEN_KEY: &str = "bootstrap-token";
const TOKEN_EXPIRES: &str = "remora.dev/token-expires";

/// What bootstrap data is made of.
#[derive(Clone, Debug, PartialEq)]
pub struct Bootstrap {
    /// URL of the hosted API server as its nodes reach it.
    pub server: String,
    /// The hosted cluster's root certificate in PEM form.
    pub ca_certificate: String,
    /// What the kubelets have in common.
    pub kubelet: KubeletSettings,
    /// Which pod network the nodes join.
    pub pod_network: PodNetwork,
}

/// The Secret with the bootstrap data of a NodePool's revision.
pub fn user_data_secret(
    bootstrap: &Bootstrap,
    token: &BootstrapToken,
    owner: &PoolRevision<'_>,
) -> DynamicObject {
    let bytes = |text: String| ByteString(text.into_bytes());
    object(&Secret {
        metadata: ObjectMeta {
            name: Some(names::user_data_secret(owner.node_pool, owner.template_hash)),
            namespace: Some(owner.control_plane_namespace.to_owned()),
            labels: Some(BTreeMap::from([
                (labels::NODE_POOL_NAME.to_owned(), owner.node_pool.to_owned()),
                (labels::TEMPLATE_HASH.to_owned(), owner.template_hash.to_owned()),
            ])),
            annotations: Some(BTreeMap::from([(
                TOKEN_EXPIRES.to_owned(),
                token.expires().to_string(),
            )])),
            ..ObjectMeta::default()
        },
        type_: Some("Opaque".to_owned()),
        data: Some(BTreeMap::from([
            (names::USER_DATA_KEY.to_owned(), bytes(user_data(bootstrap, token))),
            (TOKEN_KEY.to_owned(), bytes(token.reveal())),
        ])),
        ..Secret::default()
    })
}

/// The token that a Secret with bootstrap data carries.
pub fn token_in_use(secret: &Secret) -> Option<BootstrapToken> {
    let expires: Timestamp = secret.annotations().get(TOKEN_EXPIRES)?.parse().ok()?;
    let text = &secret.data.as_ref()?.get(TOKEN_KEY)?.0;
    BootstrapToken::parse(std::str::from_utf8(text).ok()?, expires)
}

/// Which revision of which NodePool bootstrap data is for.
#[derive(Clone, Copy, Debug)]
pub struct PoolRevision<'a> {
    /// Namespace of the hosted cluster's control plane.
    pub control_plane_namespace: &'a str,
    /// The NodePool's name.
    pub node_pool: &'a str,
    /// The revision.
    pub template_hash: &'a str,
}

#[cfg(test)]
mod tests;
