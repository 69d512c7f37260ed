//! The lab's network: a bridge on the machine, one network namespace per host.
//!
//! ```text
//!   machine (bastion, .1) ── rmr-br0 ──┬── rmr-master-1 ═ eth0 .101 │ namespace rmr-master-1
//!        │ masquerade                  ├── rmr-worker-1 ═ eth0 .104 │ namespace rmr-worker-1
//!      outside                         └── …
//! ```
//! The bastion has no route to pods and Services: what it reaches, it reaches as a client outside
//! the cluster does.

use std::collections::BTreeSet;
use std::fs;
use std::io::ErrorKind;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use crate::command::{run, run_with_input, succeeds};
use crate::error::LabError;
use crate::files;
use crate::mounts;
use crate::topology::{BASTION, BRIDGE, HOST_NETWORK, Host, POD_NETWORK, PREFIX, Topology};

/// Where `ip netns` keeps the namespaces.
const NAMESPACES: &str = "/run/netns";
const FORWARDING: &str = "/proc/sys/net/ipv4/ip_forward";
/// The table of the lab's own rules, on the machine and on every host.
const TABLE: &str = "remora_lab";

/// Makes what is missing of the lab's network and mends what is not as it should be.
pub(crate) fn ensure(topology: &Topology, saved_forwarding: &Path) -> Result<(), LabError> {
    ensure_bridge()?;
    ensure_forwarding(saved_forwarding)?;
    load_rules(None, &bastion_rules())?;
    for host in &topology.hosts {
        ensure_host(host, topology)?;
    }
    Ok(())
}

fn ensure_bridge() -> Result<(), LabError> {
    if !succeeds("ip", &["link", "show", "dev", BRIDGE]) {
        run("ip", &["link", "add", "name", BRIDGE, "type", "bridge", "forward_delay", "0"])?;
    }
    run("ip", &["address", "replace", &format!("{BASTION}/24"), "dev", BRIDGE])?;
    run("ip", &["link", "set", "dev", BRIDGE, "up"]).map(drop)
}

/// Lets the machine forward, and remembers what it did before for `remove`.
fn ensure_forwarding(saved: &Path) -> Result<(), LabError> {
    let current = fs::read_to_string(FORWARDING).map_err(LabError::file("read", FORWARDING))?;
    if !saved.exists() {
        files::write(saved, &current, files::Access::Public)?;
    }
    if current.trim() == "1" {
        return Ok(());
    }
    fs::write(FORWARDING, "1").map_err(LabError::file("write", FORWARDING))
}

fn ensure_host(host: &Host, topology: &Topology) -> Result<(), LabError> {
    let scope = host.scope();
    if !namespace_path(host).exists() || !succeeds("ip", &["-n", &scope, "link", "show"]) {
        // A file without a namespace behind it stays when a mount was lost.
        files::remove_file(&namespace_path(host))?;
        run("ip", &["netns", "add", &scope])?;
    }
    let is_linked = succeeds("ip", &["-n", &scope, "link", "show", "dev", "eth0"])
        && succeeds("ip", &["link", "show", "dev", &scope]);
    if !is_linked {
        link_host(&scope)?;
    }
    run("ip", &["link", "set", "dev", &scope, "master", BRIDGE, "up"])?;
    run_with_input("ip", &["-n", &scope, "-batch", "-"], &host_settings(host, topology))?;
    load_rules(Some(&scope), &host_rules(host))
}

fn link_host(scope: &str) -> Result<(), LabError> {
    // Half of an old pair may be left on either side; the pair goes with its half.
    succeeds("ip", &["link", "delete", "dev", scope]);
    succeeds("ip", &["-n", scope, "link", "delete", "dev", "eth0"]);
    run(
        "ip",
        &["link", "add", "name", scope, "type", "veth", "peer", "name", "eth0", "netns", scope],
    )
    .map(drop)
}

/// The commands for `ip -batch` in the host's namespace; each may be given again.
fn host_settings(host: &Host, topology: &Topology) -> String {
    let mut commands = vec![
        "link set dev lo up".to_owned(),
        format!("address replace {}/24 dev eth0", host.address),
        "link set dev eth0 up".to_owned(),
        format!("route replace default via {BASTION}"),
    ];
    let others = topology.hosts.iter().filter(|other| other.name != host.name);
    commands.extend(
        others.map(|other| format!("route replace {} via {}", other.pod_network(), other.address)),
    );
    commands.join("\n") + "\n"
}

/// Hides the lab's addresses from the outside world.
fn bastion_rules() -> String {
    table(&format!("ip saddr {HOST_NETWORK} oifname != \"{BRIDGE}\" masquerade"))
}

/// Hides pod addresses where they leave the pod network: only hosts have routes to it.
fn host_rules(host: &Host) -> String {
    let pods = host.pod_network();
    table(&format!("ip saddr {pods} ip daddr != {POD_NETWORK} masquerade"))
}

/// One transaction that leaves the table with this rule alone.
fn table(rule: &str) -> String {
    format!(
        "table ip {TABLE}\n\
         delete table ip {TABLE}\n\
         table ip {TABLE} {{\n\
         \tchain postrouting {{\n\
         \t\ttype nat hook postrouting priority srcnat; policy accept;\n\
         \t\t{rule}\n\
         \t}}\n\
         }}\n"
    )
}

fn load_rules(scope: Option<&str>, rules: &str) -> Result<(), LabError> {
    match scope {
        None => run_with_input("nft", &["-f", "-"], rules),
        Some(scope) => {
            let namespace = format!("--net={NAMESPACES}/{scope}");
            run_with_input("nsenter", &[&namespace, "nft", "-f", "-"], rules)
        }
    }
    .map(drop)
}

/// The file that stands for a host's network namespace.
pub(crate) fn namespace_path(host: &Host) -> PathBuf {
    Path::new(NAMESPACES).join(host.scope())
}

/// The inode that tells a host's network namespace from any other.
pub(crate) fn namespace_inode(host: &Host) -> Option<u64> {
    fs::metadata(namespace_path(host)).ok().map(|namespace| namespace.ino())
}

/// The inodes of all network namespaces that a lab made.
pub(crate) fn namespace_inodes() -> BTreeSet<u64> {
    let inode =
        |name: &String| fs::metadata(Path::new(NAMESPACES).join(name)).ok().map(|n| n.ino());
    namespaces().iter().filter_map(inode).collect()
}

fn namespaces() -> Vec<String> {
    let entries = fs::read_dir(NAMESPACES).into_iter().flatten().flatten();
    entries.filter_map(|entry| lab_name(entry.file_name().to_str()?)).collect()
}

fn links() -> Result<Vec<String>, LabError> {
    // Asked of the kernel: the mounted /sys may show another network namespace.
    Ok(link_names(&if_installed(run("ip", &["-oneline", "link", "show"]))?))
}

/// What a program printed; nothing where it is not installed, and so cannot have made anything.
fn if_installed(printed: Result<String, LabError>) -> Result<String, LabError> {
    match printed {
        Err(LabError::Start { source, .. }) if source.kind() == ErrorKind::NotFound => {
            Ok(String::new())
        }
        printed => printed,
    }
}

/// The lab's names in lines such as `7: rmr-master-1@if2: <BROADCAST,…`.
fn link_names(lines: &str) -> Vec<String> {
    let name = |line: &str| lab_name(line.split(": ").nth(1)?.split('@').next()?);
    lines.lines().filter_map(name).collect()
}

fn lab_name(name: &str) -> Option<String> {
    name.starts_with(PREFIX).then(|| name.to_owned())
}

/// What is left of a lab's network on this machine, in words.
pub(crate) fn leftovers() -> Vec<String> {
    let namespaces = namespaces().into_iter().map(|name| format!("network namespace {name}"));
    let links = links().unwrap_or_default().into_iter().map(|name| format!("link {name}"));
    namespaces.chain(links).collect()
}

/// Removes every namespace, link and rule of the lab and restores the machine's setting.
pub(crate) fn remove(saved_forwarding: &Path) -> Result<(), LabError> {
    for namespace in namespaces() {
        run("ip", &["netns", "delete", &namespace])?;
    }
    for link in links()? {
        // Links vanish with their namespace too, later and on their own.
        if let Err(error) = run("ip", &["link", "delete", "dev", &link])
            && links()?.contains(&link)
        {
            return Err(error);
        }
    }
    // `ip netns` mounts its directory on itself; nothing else is in it any more.
    if fs::read_dir(NAMESPACES).is_ok_and(|mut entries| entries.next().is_none()) {
        mounts::unmount_below(Path::new(NAMESPACES))?;
        fs::remove_dir(NAMESPACES).map_err(LabError::file("remove", NAMESPACES))?;
    }
    // Adding before deleting makes the deletion of an absent table no error.
    let none = format!("table ip {TABLE}\ndelete table ip {TABLE}\n");
    if_installed(run_with_input("nft", &["-f", "-"], &none))?;
    if let Some(before) = files::read_if_present(saved_forwarding)? {
        fs::write(FORWARDING, before.trim()).map_err(LabError::file("write", FORWARDING))?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn when_links_are_listed_only_the_lab_s_are_taken() {
        let lines = "1: lo: <LOOPBACK,UP> mtu 65536\n\
                     7: rmr-br0: <BROADCAST> mtu 1500\n\
                     9: rmr-worker-1@if2: <BROADCAST> mtu 1500\n";
        assert_eq!(link_names(lines), ["rmr-br0", "rmr-worker-1"]);
    }

    #[test]
    fn when_there_are_three_hosts_each_has_a_route_to_the_pods_of_the_others() {
        let topology = Topology::new(1, 2).unwrap();
        let host = topology.host("worker-1").unwrap();
        insta::assert_snapshot!(host_settings(host, &topology), @r"
        link set dev lo up
        address replace 192.168.123.104/24 dev eth0
        link set dev eth0 up
        route replace default via 192.168.123.1
        route replace 10.128.101.0/24 via 192.168.123.101
        route replace 10.128.105.0/24 via 192.168.123.105
        ");
    }

    #[test]
    fn when_pods_talk_to_pods_their_addresses_are_kept() {
        let topology = Topology::new(1, 2).unwrap();
        insta::assert_snapshot!(host_rules(topology.host("worker-2").unwrap()), @r"
        table ip remora_lab
        delete table ip remora_lab
        table ip remora_lab {
        	chain postrouting {
        		type nat hook postrouting priority srcnat; policy accept;
        		ip saddr 10.128.105.0/24 ip daddr != 10.128.0.0/16 masquerade
        	}
        }
        ");
    }
}
