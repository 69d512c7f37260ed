//! The node disk: what a VM node boots from, in an image as KubeVirt takes it.
//!
//! ```text
//!  Debian root ─▶ tree ─▶ folder ─┬─▶ + images in containerd's store ─▶ ext4 ┐
//!                   └─▶ initrd ───┴─────────────────────────────────▶ FAT ───┴─▶ qcow2 ─▶ image
//! ```
//! Under emulation every program that starts costs, so the node has few: see `files/masked-units`.

mod disk;
mod initrd;
mod preload;
mod root;

use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};
use std::process::Command;

use super::image::Recipe;
use super::kubevirt::QEMU;
use super::layer::{Compression, write_tar};
use super::registry::repository;
use super::store::Store;
use super::tree::{Source, Tree};
use super::{Image, ImagesError};
use crate::build::{
    Artifacts, BuildError, CacheError, CommandError, KeyHasher, Log, Made, run_with_input,
};
use crate::progress::{Outcome, Progress, Step};
use preload::{Preloaded, Programs};
use root::Runtime;

/// Bumped when the code here makes another disk of the same inputs.
const RECIPE: &str = "node-disk-1";
const NAME: &str = "node-disk";
const POD: &str = "pod";
/// Images that every node runs.
const PRELOADED: [&str; 5] = [POD, "kube-proxy", "flannel", "coredns", "apiserver-network-proxy"];
/// Programs on the disk: component and name.
const PROGRAMS: [(&str, &str); 4] = [
    ("containerd", "containerd"),
    ("containerd", "containerd-shim-runc-v2"),
    ("containerd", "ctr"),
    ("kubernetes", "kubelet"),
];

/// Why the node disk could not be made.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum NodeDiskError {
    /// A tool failed.
    #[error(transparent)]
    Command(#[from] CommandError),
    /// The cache could not be used.
    #[error(transparent)]
    Cache(#[from] CacheError),
    /// A program or root was not built.
    #[error(transparent)]
    Build(#[from] BuildError),
    /// An image that belongs on the disk was not made.
    #[error("no image {0} to put on the node disk")]
    NoImage(&'static str),
    /// The Debian root lacks something.
    #[error("cannot use the Debian root of the node")]
    Root {
        /// What.
        source: io::Error,
    },
    /// containerd did not start.
    #[error("containerd did not answer while the disk's images were imported: {last}")]
    Containerd {
        /// The last it said.
        last: String,
    },
    /// A file operation failed.
    #[error("cannot {action} {}", path.display())]
    Io {
        /// What was attempted.
        action: &'static str,
        /// On what.
        path: PathBuf,
        /// The system's answer.
        source: io::Error,
    },
}

impl NodeDiskError {
    fn io(action: &'static str, path: &Path) -> impl FnOnce(io::Error) -> Self {
        let path = path.to_owned();
        move |source| Self::Io { action, path, source }
    }
}

/// Makes the disk, unless one of the same inputs is there, and describes its image. `images` are
/// those that nodes run; pods name them by `registry`.
pub(crate) fn recipe(
    artifacts: &Artifacts,
    store: &Store,
    images: &[Image],
    registry: &str,
    progress: &dyn Progress,
) -> Result<Recipe, ImagesError> {
    let step = Step::start(progress, "node disk");
    let (path, made) = disk(artifacts, store, images, registry, &step)?;
    let mut tree = Tree::new();
    tree.file("/disk/disk.qcow2", 0o440, Source::cached(&path));
    tree.own("/disk", QEMU, QEMU);
    tree.own("/disk/disk.qcow2", QEMU, QEMU);
    step.finish(match made {
        Made::Now => Outcome::Done,
        Made::Before => Outcome::Reused,
    });
    Ok(Recipe {
        name: NAME.to_owned(),
        version: super::recipes::version(artifacts, "kubernetes")?,
        user: "107:107",
        command: Vec::new(),
        layers: vec![(tree, Compression::None)],
    })
}

fn disk(
    artifacts: &Artifacts,
    store: &Store,
    images: &[Image],
    registry: &str,
    step: &Step<'_>,
) -> Result<(PathBuf, Made), NodeDiskError> {
    let preloaded = preloaded(images, registry)?;
    let debian = Tree::from_tar(&artifacts.root("node")?)
        .map_err(|source| NodeDiskError::Root { source })?;
    let node = node_tree(artifacts, &debian, &preloaded, registry)?;
    let initrd = initrd::tree(&debian).map_err(|source| NodeDiskError::Root { source })?;
    let mut hasher = KeyHasher::new(RECIPE).with(include_str!("files/syslinux.cfg"));
    node.identify(&mut hasher);
    initrd.identify(&mut hasher);
    preloaded.iter().for_each(|image| hasher.add(&image.reference));
    let key = hasher.finish();
    let cache = artifacts.cache();
    let (entry, made) =
        cache.make(("disks", NAME, &key), |entry| -> Result<(), NodeDiskError> {
            let log = Log::create(&cache.log(NAME, &key))?;
            let work = entry.join("work");
            let folder = work.join("root");
            fs::create_dir_all(&folder).map_err(NodeDiskError::io("make", &folder))?;
            step.note("writing the root file system");
            unpack(&node, &folder, &log)?;
            step.note("importing images");
            let programs = Programs {
                containerd: artifacts.program("containerd", "containerd")?,
                ctr: artifacts.program("containerd", "ctr")?,
            };
            preload::preload(&programs, store, &preloaded, (&folder, &work), &log)?;
            step.note("writing the disk");
            let boot = BootFiles::write(&debian, &initrd, &work)?;
            disk::make(&folder, &boot.paths(), &entry.join("disk.qcow2"), &work, &log)?;
            fs::remove_dir_all(&work).map_err(NodeDiskError::io("remove", &work))
        })?;
    Ok((entry.join("disk.qcow2"), made))
}

fn preloaded<'a>(images: &'a [Image], registry: &str) -> Result<Vec<Preloaded<'a>>, NodeDiskError> {
    PRELOADED
        .iter()
        .map(|name| {
            let image = images
                .iter()
                .find(|image| image.name == *name)
                .ok_or(NodeDiskError::NoImage(name))?;
            let reference = format!("{}@{}", repository(registry, name), image.digest);
            Ok(Preloaded { image, reference })
        })
        .collect()
}

fn node_tree(
    artifacts: &Artifacts,
    debian: &Tree,
    preloaded: &[Preloaded<'_>],
    registry: &str,
) -> Result<Tree, NodeDiskError> {
    let programs = PROGRAMS
        .iter()
        .map(|(component, name)| Ok((*name, Source::cached(&artifacts.program(component, name)?))))
        .collect::<Result<Vec<_>, BuildError>>()?;
    let sandbox = preloaded
        .iter()
        .find(|preloaded| preloaded.image.name == POD)
        .map(|preloaded| preloaded.reference.as_str())
        .ok_or(NodeDiskError::NoImage(POD))?;
    root::node_root(debian.clone(), programs, &Runtime { registry, sandbox })
        .map_err(|source| NodeDiskError::Root { source })
}

/// Unpacks a tree with its owners and attributes.
fn unpack(tree: &Tree, folder: &Path, log: &Log) -> Result<(), NodeDiskError> {
    let mut tar = Command::new("tar");
    tar.args(["--extract", "--preserve-permissions", "--numeric-owner", "--file=-"])
        .args(["--xattrs", "--xattrs-include=*", "--directory"])
        .arg(folder);
    run_with_input(&mut tar, log, |input| write_tar(tree, input).map(drop))?;
    Ok(())
}

/// The files of the boot partition.
struct BootFiles {
    kernel: PathBuf,
    initrd: PathBuf,
    configuration: PathBuf,
}

impl BootFiles {
    fn write(debian: &Tree, initrd: &Tree, work: &Path) -> Result<Self, NodeDiskError> {
        let files = Self {
            kernel: work.join("vmlinuz"),
            initrd: work.join("initrd"),
            configuration: work.join("syslinux.cfg"),
        };
        let version =
            initrd::kernel_version(debian).map_err(|source| NodeDiskError::Root { source })?;
        let kernel = debian
            .read(&format!("/boot/vmlinuz-{version}"))
            .map_err(|source| NodeDiskError::Root { source })?;
        fs::write(&files.kernel, kernel).map_err(NodeDiskError::io("write", &files.kernel))?;
        File::create(&files.initrd)
            .and_then(|file| initrd::write(initrd, io::BufWriter::new(file)))
            .and_then(|writer| writer.into_inner().map_err(io::IntoInnerError::into_error))
            .map_err(NodeDiskError::io("write", &files.initrd))?;
        fs::write(&files.configuration, include_str!("files/syslinux.cfg"))
            .map_err(NodeDiskError::io("write", &files.configuration))?;
        Ok(files)
    }

    fn paths(&self) -> disk::Boot<'_> {
        disk::Boot {
            kernel: &self.kernel,
            initrd: &self.initrd,
            configuration: &self.configuration,
        }
    }
}
