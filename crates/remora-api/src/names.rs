//! Names of the objects that belong to a HostedCluster or a NodePool.

/// Longest name that a namespace can have (a DNS label, RFC 1123).
pub const NAMESPACE_NAME_LIMIT: usize = 63;
/// Most characters of the HostedCluster's name that an infraID keeps.
const INFRA_ID_BASE_LIMIT: usize = 21;
/// Random characters that end an infraID.
pub const INFRA_ID_RANDOM_LENGTH: usize = 5;

/// Secret of the control plane namespace: admin kubeconfig with the published address.
pub const ADMIN_KUBECONFIG: &str = "admin-kubeconfig";
/// Secret of the control plane namespace: admin kubeconfig with the address of the Service.
pub const SERVICE_NETWORK_ADMIN_KUBECONFIG: &str = "service-network-admin-kubeconfig";
/// Secret of the control plane namespace: copy of the HostedCluster's pull secret.
pub const CONTROL_PLANE_PULL_SECRET: &str = "pull-secret";
/// Key of every kubeconfig Secret.
pub const KUBECONFIG_KEY: &str = "kubeconfig";
/// Key of a pull secret.
pub const PULL_SECRET_KEY: &str = ".dockerconfigjson";
/// Key of an SSH key Secret.
pub const SSH_KEY_KEY: &str = "id_rsa.pub";
/// Key of an additional trust bundle's ConfigMap.
pub const TRUST_BUNDLE_KEY: &str = "ca-bundle.crt";
/// Key of a user-data Secret that holds the cloud-config.
pub const USER_DATA_KEY: &str = "userdata";

/// Service and Deployment of the hosted API server.
pub const KUBE_APISERVER: &str = "kube-apiserver";
/// Service of the konnectivity server.
pub const KONNECTIVITY_SERVER: &str = "konnectivity-server";
/// Service by which the hosted API server reaches etcd.
pub const ETCD_CLIENT: &str = "etcd-client";
/// Headless Service of the etcd members.
pub const ETCD_DISCOVERY: &str = "etcd-discovery";

/// Namespace of the control plane of a HostedCluster.
///
/// Dots of the name become dashes. The length is not limited here: whoever creates the namespace
/// checks it against [`NAMESPACE_NAME_LIMIT`] and refuses with a reason.
pub fn control_plane_namespace(
    hosted_cluster_namespace: &str,
    hosted_cluster_name: &str,
) -> String {
    format!("{hosted_cluster_namespace}-{}", hosted_cluster_name.replace('.', "-"))
}

/// The infraID of a HostedCluster that asks for none: its name, shortened, and random characters.
pub fn infra_id(hosted_cluster_name: &str, random: &str) -> String {
    let mut base = String::new();
    for character in hosted_cluster_name.chars() {
        let character = if character.is_ascii_alphanumeric() { character } else { '-' };
        if !(character == '-' && base.ends_with('-')) {
            base.push(character);
        }
    }
    base.truncate(INFRA_ID_BASE_LIMIT);
    format!("{}-{random}", base.trim_end_matches('-'))
}

/// Secret beside the HostedCluster with the admin kubeconfig.
pub fn admin_kubeconfig_secret(hosted_cluster_name: &str) -> String {
    format!("{hosted_cluster_name}-admin-kubeconfig")
}

/// Secret beside the HostedCluster with the admin kubeconfig for `kubeAPIServerDNSName`.
pub fn custom_admin_kubeconfig_secret(hosted_cluster_name: &str) -> String {
    format!("{hosted_cluster_name}-custom-admin-kubeconfig")
}

/// Pull secret that the CLI creates beside the HostedCluster.
pub fn pull_secret(hosted_cluster_name: &str) -> String {
    format!("{hosted_cluster_name}-pull-secret")
}

/// SSH key Secret that the CLI creates beside the HostedCluster.
pub fn ssh_key_secret(hosted_cluster_name: &str) -> String {
    format!("{hosted_cluster_name}-ssh-key")
}

/// Secret of the control plane namespace with the bootstrap token of a NodePool's generation.
pub fn token_secret(node_pool_name: &str, hash: &str) -> String {
    format!("token-{node_pool_name}-{hash}")
}

/// Secret of the control plane namespace with the cloud-config of a NodePool's generation.
pub fn user_data_secret(node_pool_name: &str, hash: &str) -> String {
    format!("user-data-{node_pool_name}-{hash}")
}

/// The providerID of a hosted Node.
pub fn provider_id(machine_name: &str) -> String {
    format!("kubevirt://{machine_name}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dots_of_a_cluster_name_become_dashes_in_its_namespace() {
        assert_eq!(control_plane_namespace("clusters", "eu.west"), "clusters-eu-west");
    }

    #[test]
    fn an_infra_id_is_the_shortened_name_and_the_random_characters() {
        assert_eq!(infra_id("cluster1", "x7k2p"), "cluster1-x7k2p");
        assert_eq!(infra_id("a..b", "x7k2p"), "a-b-x7k2p");
        assert_eq!(
            infra_id("twenty-characters-ab-cut-here", "x7k2p"),
            "twenty-characters-ab-x7k2p"
        );
        assert_eq!(infra_id(&"n".repeat(60), "x7k2p").len(), 27);
    }
}
