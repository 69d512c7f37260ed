//! Renders the cloud-config.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde::Serialize;
use serde_json::{Value, json};

use super::{Bootstrap, BootstrapToken, files, kubelet_configuration, pod_network};
use crate::control_plane::PodNetwork;

#[derive(Serialize)]
struct CloudConfig {
    write_files: Vec<WriteFile>,
    runcmd: Vec<Vec<String>>,
}

#[derive(Serialize)]
struct WriteFile {
    path: &'static str,
    permissions: &'static str,
    content: String,
}

/// The host name is the machine's, which only the metadata knows: all machines of a revision share their user data.
/// Images whose cloud-init sets it have it already.
const SET_HOST_NAME: &str = r#"name=$(sed -n 's/^ *"local_hostname": "\([^"]*\)".*/\1/p' /run/cloud-init/instance-data.json | head -n 1)
if [ -n "$name" ] && [ "$(cat /proc/sys/kernel/hostname)" != "$name" ]; then
  echo "$name" > /etc/hostname
  echo "$name" > /proc/sys/kernel/hostname
fi"#;

/// The providerID proves that a node is a machine of a NodePool. The node has it from its first moment, and the name of
/// the host makes it.
const SET_PROVIDER_ID: &str = r#"case $(cat /etc/kubernetes/kubelet.yaml) in
  *providerID:*) ;;
  *) echo "providerID: kubevirt://$(cat /proc/sys/kernel/hostname)" >> /etc/kubernetes/kubelet.yaml ;;
esac"#;

/// Renders the cloud-config of a machine.
pub fn user_data(bootstrap: &Bootstrap, token: &BootstrapToken) -> String {
    let file = |path, permissions, content| WriteFile { path, permissions, content };
    let mut write_files = vec![
        file(files::CA_CERTIFICATE, "0644", bootstrap.ca_certificate.clone()),
        file(files::BOOTSTRAP_KUBECONFIG, "0600", yaml(&bootstrap_kubeconfig(bootstrap, token))),
        file(
            files::KUBELET_CONFIGURATION,
            "0644",
            yaml(&kubelet_configuration(&bootstrap.kubelet)),
        ),
    ];
    if bootstrap.pod_network == PodNetwork::Flannel {
        let plugin = pod_network::PLUGIN.to_owned();
        write_files.push(file(files::NETWORK_PLUGIN, "0755", plugin));
        write_files.push(file(files::NETWORK_CONFIGURATION, "0644", pod_network::configuration()));
    }
    let config = CloudConfig {
        write_files,
        runcmd: vec![
            command(&["sh", "-c", SET_HOST_NAME]),
            command(&["sh", "-c", SET_PROVIDER_ID]),
            command(&["sh", "-c", &link_resolver_configuration()]),
            // Not waited for: the unit is of type simple, and cloud-init has nothing left to do.
            command(&["systemctl", "start", "--no-block", "kubelet.service"]),
        ],
    };
    format!("#cloud-config\n{}", yaml(&config))
}

fn link_resolver_configuration() -> String {
    format!(
        "target=/run/systemd/resolve/resolv.conf\n\
         [ -s \"$target\" ] || target=/etc/resolv.conf\n\
         ln -sfn \"$target\" {}",
        files::RESOLV_CONF
    )
}

fn bootstrap_kubeconfig(bootstrap: &Bootstrap, token: &BootstrapToken) -> Value {
    json!({
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": "hosted", "cluster": {
            "server": bootstrap.server,
            "certificate-authority-data": STANDARD.encode(&bootstrap.ca_certificate),
        }}],
        "users": [{"name": "bootstrap", "user": {"token": token.reveal()}}],
        "contexts": [{"name": "bootstrap", "context": {"cluster": "hosted", "user": "bootstrap"}}],
        "current-context": "bootstrap",
    })
}

fn command(words: &[&str]) -> Vec<String> {
    words.iter().map(|word| (*word).to_owned()).collect()
}

fn yaml(value: &impl Serialize) -> String {
    serde_saphyr::to_string(value).expect("plain data has a YAML form")
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::process::Command;

    use super::*;

    #[test]
    fn when_the_provider_id_is_set_the_configuration_has_it_once() {
        let directory = tempfile::tempdir().unwrap();
        let file = directory.path().join("kubelet.yaml");
        let host_name = directory.path().join("hostname");
        fs::write(&file, "failSwapOn: false\nserverTLSBootstrap: true\n").unwrap();
        fs::write(&host_name, "pool-b-x7k2p\n").unwrap();
        let script = SET_PROVIDER_ID
            .replace(files::KUBELET_CONFIGURATION, &file.display().to_string())
            .replace("/proc/sys/kernel/hostname", &host_name.display().to_string());
        for _ in 0..2 {
            assert!(Command::new("sh").args(["-c", &script]).status().unwrap().success());
        }
        let text = fs::read_to_string(&file).unwrap();
        assert_eq!(text.matches("providerID").count(), 1);
        let configuration: Value = serde_saphyr::from_str(&text).unwrap();
        assert_eq!(configuration["providerID"], "kubevirt://pool-b-x7k2p");
        assert_eq!(configuration["serverTLSBootstrap"], true);
    }
}
