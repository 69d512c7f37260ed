//! The node's part of the pod network: a CNI configuration that is there from the start.
//!
//! As with upstream's flannel, a node is Ready before flannel runs on it, and pods with an address of their own start
//! once flannel knows the node's subnet. A kubelet whose runtime has no network looks for one ten times a second, which
//! would keep a small node busy at the very moment when it has the most to do. Upstream's plugin is no Go module that is
//! served; a few lines of shell in front of containernetworking's bridge do the same.

use serde_json::json;

/// The plugin: a shell script.
pub(super) const PLUGIN: &str = include_str!("flannel-subnet");

/// The configuration that names the plugin.
pub(super) fn configuration() -> String {
    json!({
        "cniVersion": "0.4.0",
        "name": "cbr0",
        "plugins": [{ "type": "flannel-subnet" }],
    })
    .to_string()
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::io::Write;
    use std::os::unix::fs::symlink;
    use std::path::Path;
    use std::process::{Command, Output, Stdio};

    use super::*;

    /// Runs the plugin beside a bridge that shows its input.
    fn run(command: &str, subnet: Option<&str>) -> Output {
        let folder = tempfile::tempdir().unwrap();
        symlink("/bin/cat", folder.path().join("bridge")).unwrap();
        let plugin = folder.path().join("flannel-subnet");
        fs::write(&plugin, PLUGIN).unwrap();
        let subnet_file = folder.path().join("subnet.env");
        if let Some(text) = subnet {
            fs::write(&subnet_file, text).unwrap();
        }
        ask(&plugin, command, &subnet_file)
    }

    fn ask(plugin: &Path, command: &str, subnet_file: &Path) -> Output {
        let mut child = Command::new("sh")
            .arg(plugin)
            .env("CNI_COMMAND", command)
            .env("FLANNEL_SUBNET_FILE", subnet_file)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        child.stdin.take().unwrap().write_all(configuration().as_bytes()).unwrap();
        child.wait_with_output().unwrap()
    }

    #[test]
    fn when_flannel_has_a_subnet_the_bridge_gets_it() {
        let subnet = "FLANNEL_NETWORK=10.132.0.0/14\nFLANNEL_SUBNET=10.132.7.1/24\nFLANNEL_MTU=1430\n\
                      FLANNEL_IPMASQ=true\n";
        let output = run("ADD", Some(subnet));
        assert!(output.status.success());
        let bridge: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
        assert_eq!(bridge["type"], "bridge");
        assert_eq!(bridge["mtu"], 1430);
        assert_eq!(bridge["ipam"]["ranges"][0][0]["subnet"], "10.132.7.0/24");
    }

    #[test]
    fn when_there_is_no_subnet_what_was_never_added_is_removed() {
        let output = run("DEL", None);
        assert!(output.status.success());
        assert_eq!(output.stdout, b"");
    }

    #[test]
    fn when_there_is_no_subnet_a_check_is_told_to_come_again() {
        let output = run("CHECK", None);
        assert!(!output.status.success());
        let error: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
        assert_eq!(error["code"], 11);
    }
}
