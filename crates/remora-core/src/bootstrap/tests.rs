//! What a machine gets to read.

use k8s_openapi::api::core::v1::Taint;
use kube::core::ObjectMeta;

use super::*;

fn bootstrap() -> Bootstrap {
    Bootstrap {
        server: "https://192.168.123.104:30443".to_owned(),
        ca_certificate: "-----BEGIN CERTIFICATE-----\nMIIB\n-----END CERTIFICATE-----\n".to_owned(),
        kubelet: KubeletSettings {
            cluster_dns: [172, 31, 0, 10].into(),
            taints: vec![Taint {
                key: "dedicated".to_owned(),
                value: Some("db".to_owned()),
                effect: "NoSchedule".to_owned(),
                time_added: None,
            }],
        },
        pod_network: PodNetwork::Flannel,
    }
}

fn token() -> BootstrapToken {
    BootstrapToken::new(&[7; TOKEN_ENTROPY], "2026-11-30T10:00:00Z".parse().unwrap())
}

const REVISION: PoolRevision<'static> = PoolRevision {
    control_plane_namespace: "clusters-a",
    node_pool: "pool-b",
    template_hash: "c0ffee",
};

#[test]
fn when_user_data_is_rendered_it_is_a_complete_cloud_config() {
    insta::assert_snapshot!(user_data(&bootstrap(), &token()));
}

#[test]
fn when_user_data_is_read_back_its_files_are_well_formed() {
    let text = user_data(&bootstrap(), &token());
    let config: serde_json::Value = serde_saphyr::from_str(&text).unwrap();
    for index in [1, 2] {
        let content = config["write_files"][index]["content"].as_str().unwrap();
        let file: serde_json::Value = serde_saphyr::from_str(content).unwrap();
        assert!(file["kind"].is_string(), "{content}");
    }
    assert_eq!(config["write_files"][0]["content"], bootstrap().ca_certificate);
}

#[test]
fn when_the_user_brings_the_pod_network_the_node_gets_none() {
    let text = user_data(&Bootstrap { pod_network: PodNetwork::User, ..bootstrap() }, &token());
    assert!(!text.contains("cni"), "{text}");
}

#[test]
fn when_the_secret_is_read_back_its_token_is_the_same() {
    let secret = user_data_secret(&bootstrap(), &token(), &REVISION);
    assert_eq!(secret.metadata.name.as_deref(), Some("user-data-pool-b-c0ffee"));
    let secret: Secret = serde_json::from_value(serde_json::to_value(secret).unwrap()).unwrap();
    assert_eq!(token_in_use(&secret), Some(token()));
}

#[test]
fn when_a_secret_carries_no_token_none_is_in_use() {
    let secret = Secret { metadata: ObjectMeta::default(), ..Secret::default() };
    assert_eq!(token_in_use(&secret), None);
}

#[test]
fn when_the_dns_address_is_asked_for_it_is_the_tenth_of_the_network() {
    assert_eq!(cluster_dns("172.31.0.0/16"), Some([172, 31, 0, 10].into()));
    assert_eq!(cluster_dns("172.31.0.0"), None);
    assert_eq!(cluster_dns("172.31.0.0/30"), None);
}
