//! Makes Debian root file systems from package lists, with the machine's own apt configuration.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::process::Command;

use super::cache::CacheError;
use super::{CommandError, Key, KeyHasher, Log, Sources, capture, run};

/// The Debian release of every root.
pub(crate) const SUITE: &str = "bookworm";

/// Bumped when the recipe below changes what a root holds.
const RECIPE: &str = "debian-root-1";

/// The time that stands in for every time of build: 2020-01-01.
const SOURCE_DATE_EPOCH: &str = "1577836800";

/// How much of Debian a root is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Variant {
    /// The essential packages and the listed ones, configured.
    Minbase,
    /// The listed packages and what they depend on, unpacked only.
    Extract,
}

/// One root: the list `third-party/debian/<name>-packages.txt`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Root {
    /// Its name.
    pub(crate) name: &'static str,
    /// How much of Debian it is.
    pub(crate) variant: Variant,
}

/// Every root that images need.
pub(crate) const ROOTS: [Root; 3] = [
    Root { name: "kubevirt-node", variant: Variant::Minbase },
    Root { name: "node", variant: Variant::Minbase },
    Root { name: "network-tools", variant: Variant::Extract },
];

/// Why a root could not be made.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RootError {
    /// Its list could not be read.
    #[error("cannot read the package list {}", path.display())]
    List {
        /// Where it should be.
        path: PathBuf,
        /// The system's answer.
        source: io::Error,
    },
    /// A tool failed.
    #[error(transparent)]
    Command(#[from] CommandError),
    /// A file operation failed.
    #[error(transparent)]
    File(#[from] CacheError),
}

impl Variant {
    fn name(self) -> &'static str {
        match self {
            Self::Minbase => "minbase",
            Self::Extract => "extract",
        }
    }
}

impl Root {
    /// Reads the root's packages.
    pub(crate) fn packages(&self, sources: &Sources) -> Result<Vec<String>, RootError> {
        let path = sources.package_list(self.name);
        let text = fs::read_to_string(&path).map_err(|source| RootError::List { path, source })?;
        Ok(parse_list(&text))
    }

    /// The key of the root: its packages by name; their versions are the day's.
    pub(crate) fn key(&self, packages: &[String]) -> Key {
        let mut hasher = KeyHasher::new(RECIPE).with(SUITE).with(self.variant.name());
        for package in packages {
            hasher.add(package);
        }
        hasher.finish()
    }

    /// Makes `root.tar` in `entry`.
    pub(crate) fn make(
        &self,
        packages: &[String],
        entry: &Path,
        log: &Log,
    ) -> Result<(), RootError> {
        let mut command = Command::new("mmdebstrap");
        command
            .env("SOURCE_DATE_EPOCH", SOURCE_DATE_EPOCH)
            .args(["--mode=root", "--format=tar"])
            .arg(format!("--variant={}", self.variant.name()))
            .arg(format!("--include={}", packages.join(",")))
            .args(["--aptopt=APT::Install-Recommends \"false\""])
            .args(host_options(log)?.into_iter().map(|option| format!("--aptopt={option}")));
        if self.variant == Variant::Minbase {
            command
                .args(["--dpkgopt=path-exclude=/usr/share/man/*"])
                .args(["--dpkgopt=path-exclude=/usr/share/locale/*"])
                .args(["--dpkgopt=path-exclude=/usr/share/info/*"])
                .args(["--dpkgopt=path-exclude=/usr/share/doc/*"])
                .args(["--dpkgopt=path-include=/usr/share/doc/*/copyright"])
                // Nothing here boots by Debian's own initrd: an empty one is made fastest.
                .env("INITRD", "No")
                .arg("--setup-hook=mkdir -p \"$1/etc/initramfs-tools/conf.d\"")
                .arg("--setup-hook=echo MODULES=list > \"$1/etc/initramfs-tools/conf.d/remora\"");
        }
        run(command.arg(SUITE).arg(entry.join("root.tar")).args(host_sources()), log)?;
        Ok(())
    }
}

/// The lines of a package list that name packages.
fn parse_list(text: &str) -> Vec<String> {
    text.lines()
        .map(|line| line.split('#').next().unwrap_or("").trim())
        .filter(|line| !line.is_empty())
        .map(str::to_owned)
        .collect()
}

/// The machine's own list of Debian mirrors; without one mmdebstrap knows the public one.
fn host_sources() -> Option<PathBuf> {
    let deb822 = PathBuf::from("/etc/apt/sources.list.d/debian.sources");
    if deb822.is_file() {
        return Some(deb822);
    }
    let list = PathBuf::from("/etc/apt/sources.list");
    fs::read_to_string(&list).is_ok_and(|text| names_suite(&text)).then_some(list)
}

/// Says whether a one-line style list has the suite.
fn names_suite(text: &str) -> bool {
    text.lines().any(|line| line.starts_with("deb ") && line.contains(&format!(" {SUITE} ")))
}

/// The machine's proxies and exceptions for apt, which mmdebstrap does not take over by itself.
fn host_options(log: &Log) -> Result<Vec<String>, CommandError> {
    let dump = capture(Command::new("apt-config").args(["dump", "Acquire"]), log)?;
    Ok(relevant_options(&String::from_utf8_lossy(&dump)))
}

fn relevant_options(dump: &str) -> Vec<String> {
    dump.lines()
        .filter_map(|line| line.trim().strip_suffix(';'))
        .filter(|line| {
            let name = line.split(' ').next().unwrap_or("");
            let is_proxy = name.contains("::Proxy");
            let is_check = name.starts_with("Acquire::Check-");
            (is_proxy || is_check) && !line.ends_with("\"\"")
        })
        .map(str::to_owned)
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn when_a_list_has_comments_only_packages_are_taken() {
        let list = "# root\nnftables\n\niproute2 # ip\n  kmod\n";
        assert_eq!(parse_list(list), ["nftables", "iproute2", "kmod"]);
    }

    #[test]
    fn when_a_package_is_added_the_key_changes() {
        let root = ROOTS[0];
        let one = root.key(&["nftables".into()]);
        assert_eq!(root.key(&["nftables".into()]), one);
        assert_ne!(root.key(&["nftables".into(), "kmod".into()]), one);
    }

    #[test]
    fn when_apt_has_a_proxy_it_is_passed_on_and_the_rest_is_not() {
        let dump = "Acquire \"\";\nAcquire::http::Proxy \"http://cache:3142\";\n\
                    Acquire::Languages \"none\";\nAcquire::Check-Date \"false\";\n\
                    Acquire::https::Proxy \"\";\n";
        assert_eq!(
            relevant_options(dump),
            ["Acquire::http::Proxy \"http://cache:3142\"", "Acquire::Check-Date \"false\""]
        );
    }

    #[test]
    fn when_the_one_line_list_is_for_another_system_it_is_not_used() {
        assert!(names_suite("deb http://mirror.test/debian bookworm main\n"));
        assert!(!names_suite("deb http://mirror.test/ubuntu noble main\n"));
    }

    #[test]
    fn every_root_has_a_list_in_the_checkout() {
        let sources = Sources::find().unwrap();
        for root in ROOTS {
            assert!(!root.packages(&sources).unwrap().is_empty(), "{}", root.name);
        }
    }
}
