//! The root file system of the node disk, as a tree.

use std::io;

use super::super::recipes::is_iptables;
use super::super::tree::{Content, Source, Tree};

/// Files that this folder carries: path, mode, content.
const FILES: [(&str, u32, &str); 14] = [
    ("/etc/cloud/cloud.cfg", 0o644, include_str!("files/cloud.cfg")),
    ("/usr/local/sbin/cloud-init-all", 0o755, include_str!("files/cloud-init-all")),
    ("/usr/local/sbin/node-resolver", 0o755, include_str!("files/node-resolver")),
    (
        "/etc/systemd/system/cloud-init-all.service",
        0o644,
        include_str!("files/cloud-init-all.service"),
    ),
    ("/etc/systemd/system/containerd.service", 0o644, include_str!("files/containerd.service")),
    ("/etc/systemd/system/kubelet.service", 0o644, include_str!("files/kubelet.service")),
    (
        "/etc/systemd/system/kubelet-rejoin.service",
        0o644,
        include_str!("files/kubelet-rejoin.service"),
    ),
    ("/etc/systemd/network/10-eth0.network", 0o644, include_str!("files/eth0.network")),
    ("/etc/systemd/journald.conf.d/node.conf", 0o644, include_str!("files/journald.conf")),
    ("/etc/sysctl.d/node.conf", 0o644, include_str!("files/sysctl.conf")),
    (
        "/etc/systemd/system/systemd-udev-trigger.service.d/node.conf",
        0o644,
        include_str!("files/udev-trigger.conf"),
    ),
    (
        "/etc/systemd/system/serial-getty@.service.d/node.conf",
        0o644,
        include_str!("files/serial-getty.conf"),
    ),
    ("/etc/fstab", 0o644, ""),
    // Empty, so that systemd gives every machine its own.
    ("/etc/machine-id", 0o444, ""),
];

const MASKED_UNITS: &str = include_str!("files/masked-units");
const MASKED_GENERATORS: &str = include_str!("files/masked-generators");

/// Units that start with the machine.
const ENABLED: [(&str, &str); 4] = [
    ("/etc/systemd/system", "cloud-init-all.service"),
    ("/etc/systemd/system", "containerd.service"),
    ("/etc/systemd/system", "kubelet-rejoin.service"),
    ("/lib/systemd/system", "systemd-networkd.service"),
];

/// The only CNI plugins that a node uses; each is megabytes.
const CNI_PLUGINS: [&str; 5] = ["bridge", "host-local", "loopback", "portmap", "tuning"];

/// What of a Debian root a node does not use.
const REMOVED: [&str; 7] = [
    "/usr/share/bug",
    "/usr/share/lintian",
    "/usr/share/initramfs-tools",
    "/usr/share/bash-completion",
    "/var/lib/dpkg/info",
    "/usr/lib/cni",
    "/etc/hostname",
];

/// What a root may hold nothing in.
const EMPTIED: [&str; 9] =
    ["/boot", "/dev", "/proc", "/sys", "/run", "/tmp", "/var/cache", "/var/lib/apt", "/var/log"];

/// The registry and the sandbox's image, which the disk's containerd is told.
pub(crate) struct Runtime<'a> {
    /// `HOST:PORT` of a registry that speaks plain HTTP.
    pub(crate) registry: &'a str,
    /// The image of a pod's sandbox, by digest.
    pub(crate) sandbox: &'a str,
}

/// Makes the node's root of a Debian root. `programs` go to /usr/local/bin.
pub(crate) fn node_root(
    mut root: Tree,
    programs: Vec<(&str, Source)>,
    runtime: &Runtime<'_>,
) -> io::Result<Tree> {
    let plugins =
        CNI_PLUGINS.map(|name| (name, root.get(&format!("/usr/lib/cni/{name}")).cloned()));
    for (name, node) in plugins {
        let Some(Content::File(source)) = node.map(|node| node.content) else {
            return Err(io::Error::new(
                io::ErrorKind::NotFound,
                format!("the root has no CNI plugin {name}"),
            ));
        };
        root.file(&format!("/opt/cni/bin/{name}"), 0o755, source);
    }
    REMOVED.iter().for_each(|path| root.remove(path));
    EMPTIED.iter().for_each(|path| root.empty(path));
    // Kubelet and kube-proxy would run it many times over, for rules that never were there.
    root.retain(|path| !is_iptables(path));
    for (name, source) in programs {
        root.file(&format!("/usr/local/bin/{name}"), 0o755, source);
    }
    for (path, mode, text) in FILES {
        root.text(path, mode, text);
    }
    add_containerd_configuration(&mut root, runtime);
    for folder in ["/etc/cni/net.d", "/etc/kubernetes/pki", "/etc/kubernetes/manifests"] {
        root.directory(folder, 0o755);
    }
    root.directory("/var/lib/kubelet", 0o750);
    root.remove("/etc/resolv.conf");
    root.symlink("/etc/resolv.conf", "../run/resolv.conf");
    arrange_units(&mut root);
    Ok(root)
}

fn add_containerd_configuration(root: &mut Tree, runtime: &Runtime<'_>) {
    let Runtime { registry, sandbox } = runtime;
    let configuration = include_str!("files/containerd.toml").replace("@SANDBOX@", sandbox);
    root.text("/etc/containerd/config.toml", 0o644, configuration);
    root.text(
        &format!("/etc/containerd/certs.d/{registry}/hosts.toml"),
        0o644,
        format!(
            "server = \"http://{registry}\"\n[host.\"http://{registry}\"]\n  \
             capabilities = [\"pull\", \"resolve\"]\n"
        ),
    );
}

fn arrange_units(root: &mut Tree) {
    let wants = "/etc/systemd/system/multi-user.target.wants";
    for folder in [wants, "/etc/systemd/system/sysinit.target.wants"] {
        root.empty(folder);
    }
    for unit in lines(MASKED_UNITS) {
        root.symlink(&format!("/etc/systemd/system/{unit}"), "/dev/null");
    }
    for generator in lines(MASKED_GENERATORS) {
        root.symlink(&format!("/etc/systemd/system-generators/{generator}"), "/dev/null");
    }
    for (folder, unit) in ENABLED {
        root.symlink(&format!("{wants}/{unit}"), &format!("{folder}/{unit}"));
    }
    root.symlink("/etc/systemd/system/default.target", "/lib/systemd/system/multi-user.target");
}

fn lines(text: &str) -> impl Iterator<Item = &str> {
    text.lines().filter(|line| !line.is_empty() && !line.starts_with('#'))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn debian() -> Tree {
        let mut root = Tree::new();
        for name in CNI_PLUGINS {
            root.text(&format!("/usr/lib/cni/{name}"), 0o755, "plugin");
        }
        root.text("/usr/lib/cni/vlan", 0o755, "plugin");
        root.text("/usr/sbin/iptables-nft", 0o755, "iptables");
        root.symlink("/etc/systemd/system/multi-user.target.wants/cron.service", "/lib/cron");
        root
    }

    const RUNTIME: Runtime<'_> = Runtime {
        registry: "registry.test:5000",
        sandbox: "registry.test:5000/remora/pod@sha256:1",
    };

    #[test]
    fn when_a_root_is_made_the_kubelet_is_there_and_not_enabled() {
        let programs = vec![("kubelet", Source::Bytes(b"kubelet".to_vec()))];
        let root = node_root(debian(), programs, &RUNTIME).unwrap();
        assert_eq!(root.read("/usr/local/bin/kubelet").unwrap(), b"kubelet");
        let wants = "/etc/systemd/system/multi-user.target.wants";
        assert!(root.get(&format!("{wants}/containerd.service")).is_some());
        assert!(root.get(&format!("{wants}/kubelet.service")).is_none());
        assert!(root.get(&format!("{wants}/cron.service")).is_none());
    }

    #[test]
    fn when_a_root_is_made_containerd_knows_registry_and_sandbox() {
        let root = node_root(debian(), Vec::new(), &RUNTIME).unwrap();
        let text = |path: &str| String::from_utf8(root.read(path).unwrap()).unwrap();
        let configuration: toml::Table =
            toml::from_str(&text("/etc/containerd/config.toml")).unwrap();
        let images = &configuration["plugins"]["io.containerd.cri.v1.images"];
        assert_eq!(
            images["pinned_images"]["sandbox"].as_str(),
            Some("registry.test:5000/remora/pod@sha256:1")
        );
        let hosts: toml::Table =
            toml::from_str(&text("/etc/containerd/certs.d/registry.test:5000/hosts.toml")).unwrap();
        assert_eq!(hosts["server"].as_str(), Some("http://registry.test:5000"));
    }

    #[test]
    fn when_a_root_is_made_iptables_and_unused_plugins_are_gone() {
        let root = node_root(debian(), Vec::new(), &RUNTIME).unwrap();
        assert!(root.get("/usr/sbin/iptables-nft").is_none());
        assert!(root.get("/opt/cni/bin/bridge").is_some());
        assert!(root.get("/opt/cni/bin/vlan").is_none());
        assert!(root.get("/usr/lib/cni").is_none());
    }

    #[test]
    fn when_a_plugin_is_missing_the_error_names_it() {
        let mut root = debian();
        root.remove("/usr/lib/cni/loopback");
        let error = node_root(root, Vec::new(), &RUNTIME).unwrap_err();
        assert!(error.to_string().contains("loopback"), "{error}");
    }
}
