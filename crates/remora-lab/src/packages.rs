//! The Debian packages that the machine itself needs.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Command, Stdio};

use crate::command::{run, tail};
use crate::error::{LabError, with_causes};

const PACKAGES: &str = include_str!("../../../third-party/debian/host-packages.txt");
/// Asked by Debian's maintainer scripts before they start a service.
const POLICY: &str = "/usr/sbin/policy-rc.d";
/// invoke-rc.d's status for an action that policy forbids.
const FORBIDDEN: &str = "#!/bin/sh\nexit 101\n";
/// Another apt may be at work, such as the machine's daily one; in seconds.
const LOCK_TIMEOUT: &str = "DPkg::Lock::Timeout=300";

/// The packages in the list, without comments.
fn wanted(list: &str) -> Vec<&str> {
    list.lines()
        .map(|line| line.split('#').next().unwrap_or_default().trim())
        .filter(|package| !package.is_empty())
        .collect()
}

/// The packages of the list that are not installed.
pub(crate) fn missing() -> Result<Vec<&'static str>, LabError> {
    Policy::drop_leftover()?;
    let packages = wanted(PACKAGES);
    let format = "--showformat=${Package} ${db:Status-Status}\\n";
    // It ends with an error as soon as one package is unknown, and still prints the others.
    let output = Command::new("dpkg-query")
        .args(["--show", format])
        .args(&packages)
        .stdin(Stdio::null())
        .output()
        .map_err(|source| LabError::Start { program: "dpkg-query".to_owned(), source })?;
    let installed = String::from_utf8_lossy(&output.stdout).into_owned();
    Ok(without_installed(packages, &installed))
}

fn without_installed(packages: Vec<&'static str>, installed: &str) -> Vec<&'static str> {
    let is_installed =
        |package: &str| installed.lines().any(|line| line == format!("{package} installed"));
    packages.into_iter().filter(|package| !is_installed(package)).collect()
}

/// Installs packages, and lets none of them start a service.
pub(crate) fn install(packages: &[&str], note: &dyn Fn(&str)) -> Result<(), LabError> {
    let policy = Policy::forbid_services()?;
    // What a killed run left half-installed would make apt refuse everything.
    run("dpkg", &["--configure", "-a"])?;
    note("updating the package lists");
    // A machine may list sources that do not answer and are not needed; without the needed ones the installation fails.
    let updated = run("apt-get", &["update", "-qq"]);
    if let Err(error) = &updated {
        note(&with_causes(error));
    }
    note(&format!("installing {}", packages.join(" ")));
    let output = Command::new("apt-get")
        .args(["install", "-qq", "--yes", "--no-install-recommends", "-o", LOCK_TIMEOUT])
        .args(packages)
        .env("DEBIAN_FRONTEND", "noninteractive")
        .stdin(Stdio::null())
        .output()
        .map_err(|source| LabError::Start { program: "apt-get".to_owned(), source })?;
    drop(policy);
    if output.status.success() {
        return Ok(());
    }
    let said = String::from_utf8_lossy(&output.stderr).trim().to_owned();
    Err(LabError::Command {
        command: format!("apt-get install {}", packages.join(" ")),
        status: output.status.to_string(),
        output: tail(&said, 2000).to_owned(),
    })
}

/// Forbids services to start, until it is dropped. A policy that the machine has is left alone.
struct Policy {
    is_ours: bool,
}

impl Policy {
    /// Removes the one that a killed run left.
    fn drop_leftover() -> Result<(), LabError> {
        if fs::read_to_string(POLICY).is_ok_and(|policy| policy == FORBIDDEN) {
            fs::remove_file(POLICY).map_err(LabError::file("remove", Path::new(POLICY)))?;
        }
        Ok(())
    }

    fn forbid_services() -> Result<Self, LabError> {
        let path = Path::new(POLICY);
        if path.exists() {
            return Ok(Self { is_ours: false });
        }
        fs::write(path, FORBIDDEN).map_err(LabError::file("write", path))?;
        fs::set_permissions(path, fs::Permissions::from_mode(0o755))
            .map_err(LabError::file("make executable", path))?;
        Ok(Self { is_ours: true })
    }
}

impl Drop for Policy {
    fn drop(&mut self) {
        if self.is_ours
            && let Err(error) = fs::remove_file(POLICY)
        {
            tracing::warn!(%error, "cannot remove {POLICY}");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn when_the_list_has_comments_only_packages_are_wanted() {
        assert_eq!(wanted("# hosts\nrunc\n\nsocat # forwarding\n"), ["runc", "socat"]);
        assert!(wanted(PACKAGES).contains(&"docker-registry"));
    }

    #[test]
    fn when_a_package_was_removed_but_configured_it_is_missing() {
        let installed = "runc installed\nsocat config-files\n";
        assert_eq!(without_installed(vec!["runc", "socat", "gcc"], installed), ["socat", "gcc"]);
    }
}
