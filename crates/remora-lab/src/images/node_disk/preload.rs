//! Puts images into the store of the containerd that will run on the disk: what a node has, it does
//! not pull. The disk's own containerd does it, started here with its root inside the disk's tree.

use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};
use serde_json::json;

use super::super::Image;
use super::super::image::{INDEX, MANIFEST};
use super::super::store::Store;
use super::NodeDiskError;
use crate::build::{Log, run};

/// The namespace in which the kubelet's images are.
const NAMESPACE: &str = "k8s.io";
/// How long containerd may take to answer or to end; it takes less than a second.
const DEADLINE: Duration = Duration::from_secs(60);

/// An image and the reference that pods use for it.
pub(crate) struct Preloaded<'a> {
    /// The image.
    pub(crate) image: &'a Image,
    /// Its reference by digest.
    pub(crate) reference: String,
}

/// The programs that do the work.
pub(crate) struct Programs {
    /// containerd itself.
    pub(crate) containerd: PathBuf,
    /// Its client.
    pub(crate) ctr: PathBuf,
}

/// Imports images into `root`/var/lib/containerd. `work` is for temporary files.
pub(crate) fn preload(
    programs: &Programs,
    store: &Store,
    images: &[Preloaded<'_>],
    (root, work): (&Path, &Path),
    log: &Log,
) -> Result<(), NodeDiskError> {
    let archive = work.join("images.tar");
    write_archive(store, images, &archive).map_err(NodeDiskError::io("write", &archive))?;
    // A socket's path is short (unix(7)); the cache's need not be.
    let sockets = tempfile::tempdir().map_err(NodeDiskError::io("make a folder in", work))?;
    let socket = sockets.path().join("containerd.sock");
    let configuration = work.join("containerd.toml");
    let state = work.join("state");
    let text = format!(
        "version = 3\nroot = {:?}\nstate = {:?}\ndisabled_plugins = [\
         \"io.containerd.cri.v1.images\", \"io.containerd.cri.v1.runtime\", \
         \"io.containerd.grpc.v1.cri\", \"io.containerd.nri.v1.nri\", \
         \"io.containerd.snapshotter.v1.blockfile\", \"io.containerd.snapshotter.v1.erofs\", \
         \"io.containerd.snapshotter.v1.native\"]\n[grpc]\naddress = {socket:?}\n\
         [ttrpc]\naddress = {:?}\n",
        root.join("var/lib/containerd"),
        state,
        sockets.path().join("containerd.ttrpc"),
    );
    fs::write(&configuration, text).map_err(NodeDiskError::io("write", &configuration))?;
    let daemon = Daemon::start(&programs.containerd, &configuration, work)?;
    daemon.await_socket(&socket)?;
    let mut import = Command::new(&programs.ctr);
    import
        .arg("--address")
        .arg(&socket)
        .args(["--namespace", NAMESPACE, "images", "import", "--local"])
        .args(["--discard-unpacked-layers", "--snapshotter", "overlayfs"])
        .arg(&archive);
    run(&mut import, log)?;
    daemon.stop()?;
    for path in [archive, configuration] {
        fs::remove_file(&path).map_err(NodeDiskError::io("remove", &path))?;
    }
    Ok(())
}

/// Writes images as one archive in the OCI layout, named as containerd understands it.
fn write_archive(store: &Store, images: &[Preloaded<'_>], path: &Path) -> io::Result<()> {
    let mut archive = tar::Builder::new(io::BufWriter::new(File::create(path)?));
    let manifests: Vec<_> = images
        .iter()
        .map(|Preloaded { image, reference }| {
            json!({
                "mediaType": MANIFEST,
                "digest": image.digest,
                "size": image.size,
                "annotations": {"io.containerd.image.name": reference},
            })
        })
        .collect();
    let index = json!({"schemaVersion": 2, "mediaType": INDEX, "manifests": manifests});
    for (name, bytes) in [
        ("oci-layout", b"{\"imageLayoutVersion\":\"1.0.0\"}".to_vec()),
        ("index.json", index.to_string().into_bytes()),
    ] {
        let mut header = tar::Header::new_gnu();
        header.set_size(bytes.len() as u64);
        header.set_mode(0o644);
        archive.append_data(&mut header, name, bytes.as_slice())?;
    }
    let mut digests: Vec<&str> = images
        .iter()
        .flat_map(|preloaded| {
            let blobs = preloaded.image.blobs.iter().map(|(digest, _)| digest.as_str());
            blobs.chain([preloaded.image.digest.as_str()])
        })
        .collect();
    digests.sort_unstable();
    digests.dedup();
    for digest in digests {
        let name = format!("blobs/sha256/{}", digest.trim_start_matches("sha256:"));
        archive.append_path_with_name(store.blob(digest), name)?;
    }
    archive.into_inner()?.into_inner().map_err(io::IntoInnerError::into_error)?;
    Ok(())
}

/// A running containerd; killed when dropped.
struct Daemon {
    child: Child,
    log: PathBuf,
}

impl Daemon {
    fn start(program: &Path, configuration: &Path, work: &Path) -> Result<Self, NodeDiskError> {
        let log = work.join("containerd.log");
        let output = File::create(&log).map_err(NodeDiskError::io("write", &log))?;
        // It ends with us, however we end, and takes its mounts along.
        let child = Command::new("setpriv")
            .args(["--pdeathsig", "KILL", "unshare", "--mount", "--propagation", "private"])
            .arg(program)
            .arg("--config")
            .arg(configuration)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(output)
            .spawn()
            .map_err(NodeDiskError::io("run", program))?;
        Ok(Self { child, log })
    }

    fn await_socket(&self, socket: &Path) -> Result<(), NodeDiskError> {
        let deadline = Instant::now() + DEADLINE;
        while std::os::unix::net::UnixStream::connect(socket).is_err() {
            if Instant::now() > deadline {
                let text = fs::read_to_string(&self.log).unwrap_or_default();
                let last = text.lines().last().unwrap_or_default().to_owned();
                return Err(NodeDiskError::Containerd { last });
            }
            thread::sleep(Duration::from_millis(50));
        }
        Ok(())
    }

    /// Ends containerd in order, so that its database is whole.
    fn stop(mut self) -> Result<(), NodeDiskError> {
        let failed = NodeDiskError::io("end", Path::new("containerd"));
        if let Some(pid) = i32::try_from(self.child.id()).ok().and_then(Pid::from_raw) {
            // It may be gone already; the wait below tells.
            let _ = kill_process(pid, Signal::TERM);
        }
        let deadline = Instant::now() + DEADLINE;
        loop {
            match self.child.try_wait() {
                Ok(Some(_)) => return Ok(()),
                Ok(None) if Instant::now() < deadline => {
                    thread::sleep(Duration::from_millis(50));
                }
                Ok(None) => return Err(failed(io::ErrorKind::TimedOut.into())),
                Err(error) => return Err(failed(error)),
            }
        }
    }
}

impl Drop for Daemon {
    fn drop(&mut self) {
        // Only after a failure it still runs; then its end is all that matters.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
