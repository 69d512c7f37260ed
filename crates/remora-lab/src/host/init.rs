//! The first process of a host: it gives the host its own view of the machine, starts the host's
//! programs and keeps them. When it is killed, the kernel kills everything in the host.

use std::fs;
use std::path::{Path, PathBuf};

use rustix::mount::{
    MountFlags, MountPropagationFlags, mount, mount_bind, mount_bind_recursive, mount_change,
};

use crate::cgroup;
use crate::error::LabError;
use crate::files::{self, Access};
use crate::host::config;
use crate::host::fingerprint::fingerprint;
use crate::host::forwarder;
use crate::host::programs::{self, Layout};
use crate::host::watchman::Watchman;
use crate::kubeconfig;
use crate::paths::Paths;
use crate::plan::Plan;
use crate::process::own_process;
use crate::topology::Host;

/// Makes the calling process the first of a host. It has to run in PID, mount, UTS and network
/// namespaces of the host's own, and returns only when it fails.
pub fn host_init(paths: &Paths, host_name: &str) -> Result<std::convert::Infallible, LabError> {
    let plan = Plan::require(paths)?;
    let host = plan.topology.host(host_name)?;
    // While /proc is still the machine's, it tells the machine's number of this process.
    let init = own_process()?;
    cgroup::join(host)?;
    rustix::system::sethostname(host.name.as_bytes())
        .map_err(LabError::system("set the host's name"))?;
    let layout = Layout::new(paths, &plan, host);
    mount_own_view(paths, &layout)?;
    set_kernel_parameters()?;
    write_config(&layout)?;
    forwarder::start(programs::api_servers(&plan.topology))?;
    let programs = programs::programs(&layout);
    let fingerprint = fingerprint(&layout);
    Watchman::new(init, fingerprint, paths.bin(), layout.own.clone(), programs)?.watch()
}

fn mount_own_view(paths: &Paths, layout: &Layout<'_>) -> Result<(), LabError> {
    let (lib, log) = (layout.own.var_lib(), layout.own.var_log());
    for directory in [&lib, &log] {
        files::create_dir(directory)?;
    }
    for directory in ["kubelet", "containerd", "cni", "kubevirt", "etcd", "volumes"] {
        files::create_dir(&lib.join(directory))?;
    }
    // What lies under a directory that is about to be covered has to be seen through the cover.
    for kept in [paths.lab(), paths.cache()] {
        for (covered, cover) in [("/var/lib", &lib), ("/var/log", &log)] {
            keep_visible(kept, Path::new(covered), cover)?;
        }
    }
    // Volumes mounted in a pod with bidirectional propagation have to appear on the host.
    let shared = MountPropagationFlags::SHARED | MountPropagationFlags::REC;
    mount_change("/", shared).map_err(LabError::system("share mounts with pods"))?;
    bind(&lib, Path::new("/var/lib"))?;
    bind(&log, Path::new("/var/log"))?;
    let safe = MountFlags::NOSUID | MountFlags::NODEV;
    mount("tmpfs", "/run", "tmpfs", safe, Some(c"mode=0755"))
        .map_err(LabError::system("mount the host's /run"))?;
    mount("proc", "/proc", "proc", safe | MountFlags::NOEXEC, None)
        .map_err(LabError::system("mount the host's /proc"))?;
    files::create_dir(Path::new("/run/lock"))
}

fn keep_visible(kept: &Path, covered: &Path, cover: &Path) -> Result<(), LabError> {
    let Ok(rest) = kept.strip_prefix(covered) else { return Ok(()) };
    let target = cover.join(rest);
    files::create_dir(&target)?;
    mount_bind(kept, &target).map_err(LabError::system(format!("keep {} visible", kept.display())))
}

fn bind(source: &Path, target: &Path) -> Result<(), LabError> {
    let action = format!("mount {} on {}", source.display(), target.display());
    mount_bind_recursive(source, target).map_err(LabError::system(action))
}

/// Settings of the host's network namespace, seen through its own `/proc`.
fn set_kernel_parameters() -> Result<(), LabError> {
    let settings = [
        ("net/ipv4/ip_forward", "1"),
        // Replies to a Service's clients may come back by another way.
        ("net/ipv4/conf/all/rp_filter", "0"),
        ("net/ipv4/conf/default/rp_filter", "0"),
        // Absent where the bridge does not hand its frames to the packet filter.
        ("net/bridge/bridge-nf-call-iptables", "1"),
    ];
    for (name, value) in settings {
        let path = PathBuf::from("/proc/sys").join(name);
        if path.exists() {
            fs::write(&path, value).map_err(LabError::file("write", &path))?;
        }
    }
    Ok(())
}

fn write_config(layout: &Layout<'_>) -> Result<(), LabError> {
    let Layout { host, pki, .. } = layout;
    let machine = files::read_if_present(Path::new("/etc/resolv.conf"))?.unwrap_or_default();
    let resolv_conf = config::resolv_conf(&machine);
    files::write(&layout.resolv_conf(), &resolv_conf, Access::Public)?;
    for (path, content) in programs::config_files(layout) {
        files::write(&path, &content, Access::Public)?;
    }
    for (program, user) in programs::kubeconfigs(host) {
        kubeconfig::write(&layout.kubeconfig(program), &programs::api_on_host(), pki, &user)?;
    }
    Ok(())
}

/// The command that makes a host out of this program: in the host's network namespace, and in
/// PID, mount and UTS namespaces of its own.
pub(crate) fn command(paths: &Paths, host: &Host) -> Vec<String> {
    let namespace = crate::network::namespace_path(host);
    let remora = paths.bin().join("remora");
    [
        "nsenter",
        &format!("--net={}", namespace.display()),
        "unshare",
        "--pid",
        "--fork",
        "--kill-child=SIGKILL",
        "--mount",
        "--uts",
        &remora.display().to_string(),
        "lab",
        "host-init",
        &host.name,
    ]
    .map(str::to_owned)
    .to_vec()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::topology::Topology;

    #[test]
    fn when_a_host_is_started_it_gets_namespaces_of_its_own() {
        let paths = Paths::new("/lab", "/cache").unwrap();
        let topology = Topology::new(1, 1).unwrap();
        assert_eq!(
            command(&paths, topology.host("worker-1").unwrap()).join(" "),
            "nsenter --net=/run/netns/rmr-worker-1 unshare --pid --fork --kill-child=SIGKILL \
             --mount --uts /lab/bin/remora lab host-init worker-1"
        );
    }
}
