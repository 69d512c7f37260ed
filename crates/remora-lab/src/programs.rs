//! The programs that the lab's hosts and users run, as links in the lab's `bin`.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;

use crate::build::Artifacts;
use crate::error::{LabError, with_causes};
use crate::files;
use crate::paths::Paths;

/// Link, component and program.
const LINKS: [(&str, &str, &str); 11] = [
    ("etcd", "kubernetes", "hyperkube"),
    ("etcdctl", "kubernetes", "hyperkube"),
    ("kube-apiserver", "kubernetes", "hyperkube"),
    ("kube-controller-manager", "kubernetes", "hyperkube"),
    ("kube-scheduler", "kubernetes", "hyperkube"),
    ("kubelet", "kubernetes", "hyperkube"),
    ("kube-proxy", "kubernetes", "hyperkube"),
    ("kubectl", "kubernetes", "hyperkube"),
    ("containerd", "containerd", "containerd"),
    ("containerd-shim-runc-v2", "containerd", "containerd-shim-runc-v2"),
    ("ctr", "containerd", "ctr"),
];

/// Links every program and copies this one.
pub(crate) fn install(paths: &Paths, artifacts: &Artifacts) -> Result<(), LabError> {
    let bin = paths.bin();
    let virtctl = [("virtctl", "kubevirt", "virtctl")];
    for (link, component, program) in LINKS.into_iter().chain(virtctl) {
        let target = artifacts.program(component, program).map_err(|error| LabError::Build {
            action: format!("find program {program}"),
            reason: with_causes(&error),
        })?;
        files::link(&target, &bin.join(link))?;
    }
    install_self(paths)
}

/// Copies the running program, so that the lab depends on no build directory.
fn install_self(paths: &Paths) -> Result<(), LabError> {
    let own = PathBuf::from("/proc/self/exe");
    let target = paths.bin().join("remora");
    let content = fs::read(&own).map_err(LabError::file("read", &own))?;
    if fs::read(&target).is_ok_and(|old| old == content) {
        return Ok(());
    }
    files::create_dir(&paths.bin())?;
    let draft = paths.bin().join(format!("remora.{}.new", std::process::id()));
    fs::write(&draft, &content).map_err(LabError::file("write", &draft))?;
    fs::set_permissions(&draft, fs::Permissions::from_mode(0o755))
        .map_err(LabError::file("make executable", &draft))?;
    // The running supervisor keeps the file it was started from.
    fs::rename(&draft, &target).map_err(LabError::file("replace", &target))
}
