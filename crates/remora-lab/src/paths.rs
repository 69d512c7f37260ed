//! Where the lab keeps everything: one directory for its state, one cache beside it.

use std::path::{Path, PathBuf};

use crate::error::LabError;

/// Directories in which the hosts see something else than the machine does.
const SHADOWED: [&str; 4] = ["/run", "/proc", "/sys", "/dev"];

/// A path without symbolic links, as the kernel names the programs in it; what does not exist yet stays as it is.
fn resolved(path: PathBuf) -> PathBuf {
    for existing in path.ancestors() {
        if let Ok(real) = existing.canonicalize() {
            let rest = path.strip_prefix(existing).unwrap_or_else(|_| Path::new(""));
            return if rest.as_os_str().is_empty() { real } else { real.join(rest) };
        }
    }
    path
}

/// The directories and files of a lab.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Paths {
    lab: PathBuf,
    cache: PathBuf,
}

impl Paths {
    /// The directories named by `REMORA_LAB_DIR` and `REMORA_CACHE_DIR`, or the defaults in the
    /// user's cache.
    pub fn from_environment() -> Result<Self, LabError> {
        let variable = |name| std::env::var_os(name).filter(|value| !value.is_empty());
        let cache = match (variable("REMORA_CACHE_DIR"), variable("HOME")) {
            (Some(cache), _) => PathBuf::from(cache),
            (None, Some(home)) => Path::new(&home).join(".cache/remora"),
            (None, None) => {
                return Err(LabError::Refused(
                    "neither REMORA_CACHE_DIR nor HOME is set: set one of them".to_owned(),
                ));
            }
        };
        let lab = variable("REMORA_LAB_DIR").map_or_else(|| cache.join("lab"), PathBuf::from);
        Self::new(lab, cache)
    }

    /// A lab in `lab` that reuses what is in `cache`.
    pub fn new(lab: impl Into<PathBuf>, cache: impl Into<PathBuf>) -> Result<Self, LabError> {
        let (lab, cache) = (resolved(lab.into()), resolved(cache.into()));
        for path in [&lab, &cache] {
            if !path.is_absolute() {
                return Err(LabError::Refused(format!(
                    "{} is not an absolute path: name the lab's and the cache's directory in full",
                    path.display()
                )));
            }
            if let Some(shadowed) = SHADOWED.iter().find(|shadowed| path.starts_with(shadowed)) {
                return Err(LabError::Refused(format!(
                    "{} cannot be used: the lab's hosts have a {shadowed} of their own",
                    path.display()
                )));
            }
        }
        Ok(Self { lab, cache })
    }

    /// The lab's own directory.
    pub fn lab(&self) -> &Path {
        &self.lab
    }

    /// The cache of built programs and images.
    pub fn cache(&self) -> &Path {
        &self.cache
    }

    /// The kubeconfig of the hosting cluster's administrator.
    pub fn kubeconfig(&self) -> PathBuf {
        self.lab.join("kubeconfig")
    }

    /// Links to the programs that the lab runs, and `kubectl` and `virtctl`.
    pub fn bin(&self) -> PathBuf {
        self.lab.join("bin")
    }

    /// What the lab is to be: its topology and settings.
    pub(crate) fn plan(&self) -> PathBuf {
        self.lab.join("lab.json")
    }

    /// Held by whoever changes the lab.
    pub(crate) fn change_lock(&self) -> PathBuf {
        self.cache.join("lab.lock")
    }

    /// Held by the supervisor while it lives.
    pub(crate) fn supervisor_lock(&self) -> PathBuf {
        self.lab.join("supervisor.lock")
    }

    /// What the machine's forwarding was set to before the lab.
    pub(crate) fn saved_forwarding(&self) -> PathBuf {
        self.lab.join("ip_forward.before")
    }

    /// Certificates and keys.
    pub(crate) fn pki(&self) -> PathBuf {
        self.lab.join("pki")
    }

    /// The records of the running processes.
    pub(crate) fn record(&self, part: &str) -> PathBuf {
        self.lab.join("run").join(format!("{part}.json"))
    }

    /// The registry's configuration and images.
    pub(crate) fn registry(&self) -> PathBuf {
        self.lab.join("registry")
    }

    /// Configuration that all hosts' containerds share: how to reach the registry.
    pub(crate) fn registry_hosts(&self) -> PathBuf {
        self.lab.join("certs.d")
    }

    /// The log of a part that runs on the machine itself.
    pub(crate) fn log(&self, part: &str) -> PathBuf {
        self.lab.join("logs").join(format!("{part}.log"))
    }

    /// What belongs to one host.
    pub(crate) fn host(&self, host: &str) -> HostPaths {
        HostPaths { root: self.lab.join("hosts").join(host) }
    }
}

/// The directories and files of one host.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct HostPaths {
    root: PathBuf,
}

impl HostPaths {
    /// Configuration and credentials of the host's programs.
    pub(crate) fn etc(&self) -> PathBuf {
        self.root.join("etc")
    }

    /// What the host has as `/var/lib`.
    pub(crate) fn var_lib(&self) -> PathBuf {
        self.root.join("lib")
    }

    /// What the host has as `/var/log`; the logs of its programs are in it too.
    pub(crate) fn var_log(&self) -> PathBuf {
        self.root.join("log")
    }

    /// The log of one of the host's programs.
    pub(crate) fn log(&self, program: &str) -> PathBuf {
        self.var_log().join(format!("{program}.log"))
    }

    /// How the host's programs fare.
    pub(crate) fn status(&self) -> PathBuf {
        self.root.join("status.json")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn when_a_directory_would_be_hidden_from_the_hosts_it_is_refused() {
        let error = Paths::new("/run/lab", "/root/.cache/remora").unwrap_err().to_string();
        assert_eq!(error, "/run/lab cannot be used: the lab's hosts have a /run of their own");
        assert!(Paths::new("lab", "/root/.cache/remora").is_err());
        assert!(Paths::new("/running/lab", "/root/.cache/remora").is_ok());
    }
}
