//! Writes trees as layers: the same tree gives the same bytes.

use std::fs::File;
use std::io::{self, BufWriter, Write};

use flate2::GzBuilder;
use flate2::write::GzEncoder;
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use super::store::{Store, StoreError};
use super::tree::{Content, Tree};
use crate::build::{KeyHasher, hex};

/// Bumped when the writer below writes the same tree differently.
const WRITER: &str = "layer-1";

/// How a layer is compressed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Compression {
    /// Not at all: the content is compressed already.
    None,
    /// For readers that know only this.
    Gzip,
    /// What containerd unpacks fastest.
    Zstd,
}

impl Compression {
    fn media_type(self) -> &'static str {
        match self {
            Self::None => "application/vnd.oci.image.layer.v1.tar",
            Self::Gzip => "application/vnd.oci.image.layer.v1.tar+gzip",
            Self::Zstd => "application/vnd.oci.image.layer.v1.tar+zstd",
        }
    }
}

/// A layer in the store.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Layer {
    /// How it is compressed, as manifests say it.
    pub(crate) media_type: String,
    /// The digest of its blob, with the algorithm.
    pub(crate) digest: String,
    /// The size of its blob.
    pub(crate) size: u64,
    /// The digest of its tar, with the algorithm.
    pub(crate) diff_id: String,
}

/// Puts a tree into the store, unless an equal tree is there.
pub(crate) fn write(
    store: &Store,
    tree: &Tree,
    compression: Compression,
) -> Result<Layer, StoreError> {
    let mut hasher = KeyHasher::new(WRITER).with(compression.media_type());
    tree.identify(&mut hasher);
    let key = hasher.finish();
    if let Some(layer) = store.known_layer(&key)? {
        return Ok(layer);
    }
    let mut blob = store.new_blob()?;
    let written = write_compressed(tree, compression, blob.file());
    let (diff_id, digest, size) = written.map_err(|source| StoreError::Layer { source })?;
    blob.keep(&digest)?;
    let layer = Layer {
        media_type: compression.media_type().to_owned(),
        digest: format!("sha256:{digest}"),
        size,
        diff_id: format!("sha256:{diff_id}"),
    };
    store.remember_layer(&key, &layer)?;
    Ok(layer)
}

/// Returns the digest of the tar, the digest of the blob and its size.
fn write_compressed(
    tree: &Tree,
    compression: Compression,
    file: &File,
) -> io::Result<(String, String, u64)> {
    let output = Hashing::new(BufWriter::with_capacity(1 << 20, file));
    match compression {
        Compression::None => {
            let (diff_id, output) = write_hashed(tree, output)?;
            let (digest, size, _) = output.finish()?;
            Ok((diff_id, digest, size))
        }
        Compression::Gzip => {
            let gzip: GzEncoder<_> = GzBuilder::new().write(output, flate2::Compression::new(6));
            let (diff_id, gzip) = write_hashed(tree, gzip)?;
            let (digest, size, _) = gzip.finish()?.finish()?;
            Ok((diff_id, digest, size))
        }
        Compression::Zstd => {
            let zstd = zstd::Encoder::new(output, 3)?;
            let (diff_id, zstd) = write_hashed(tree, zstd)?;
            let (digest, size, _) = zstd.finish()?.finish()?;
            Ok((diff_id, digest, size))
        }
    }
}

fn write_hashed<W: Write>(tree: &Tree, output: W) -> io::Result<(String, W)> {
    let hashing = write_tar(tree, Hashing::new(output))?;
    let (diff_id, _, output) = hashing.finish()?;
    Ok((diff_id, output))
}

/// Writes a tree as a tar and returns the writer.
pub(crate) fn write_tar<W: Write>(tree: &Tree, output: W) -> io::Result<W> {
    let mut builder = tar::Builder::new(output);
    for (name, node) in tree.nodes() {
        if !node.xattrs.is_empty() {
            let records: Vec<(String, &[u8])> = node
                .xattrs
                .iter()
                .map(|(name, value)| (format!("SCHILY.xattr.{name}"), value.as_slice()))
                .collect();
            builder.append_pax_extensions(
                records.iter().map(|(name, value)| (name.as_str(), *value)),
            )?;
        }
        let mut header = tar::Header::new_gnu();
        header.set_mode(node.mode);
        header.set_uid(node.uid);
        header.set_gid(node.gid);
        header.set_mtime(node.mtime);
        header.set_size(0);
        match &node.content {
            Content::Directory => {
                header.set_entry_type(tar::EntryType::Directory);
                builder.append_data(&mut header, format!("{name}/"), io::empty())?;
            }
            Content::Symlink(target) => {
                header.set_entry_type(tar::EntryType::Symlink);
                builder.append_link(&mut header, name, target)?;
            }
            Content::File(source) => {
                let (size, reader) = source.open()?;
                header.set_entry_type(tar::EntryType::Regular);
                header.set_size(size);
                builder.append_data(&mut header, name, reader)?;
            }
        }
    }
    builder.into_inner()
}

/// Counts and hashes what passes through.
struct Hashing<W> {
    output: W,
    hasher: Sha256,
    size: u64,
}

impl<W: Write> Hashing<W> {
    fn new(output: W) -> Self {
        Self { output, hasher: Sha256::new(), size: 0 }
    }

    fn finish(mut self) -> io::Result<(String, u64, W)> {
        self.output.flush()?;
        Ok((hex(&self.hasher.finalize()), self.size, self.output))
    }
}

impl<W: Write> Write for Hashing<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let written = self.output.write(bytes)?;
        let (passed, _) = bytes.split_at(written);
        self.hasher.update(passed);
        self.size += written as u64;
        Ok(written)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.output.flush()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::build::Cache;

    fn sample() -> Tree {
        let mut tree = Tree::new();
        tree.text("/usr/bin/virt-launcher-monitor", 0o755, "program");
        tree.set_xattr(
            "/usr/bin/virt-launcher-monitor",
            "security.capability",
            b"\x01\x00\x04\x02",
        );
        tree.symlink("/var/run", "../run");
        tree.directory("/tmp", 0o1777);
        tree.text(&format!("/opt/{}/file", "deep/".repeat(60)), 0o600, "long path");
        tree.own("/tmp", 107, 108);
        tree
    }

    fn store(folder: &tempfile::TempDir) -> Store {
        Store::open(&Cache::at(folder.path()).unwrap()).unwrap()
    }

    #[test]
    fn when_the_same_tree_is_written_twice_the_digests_are_equal() {
        for compression in [Compression::None, Compression::Gzip, Compression::Zstd] {
            let (one, other) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
            let first = write(&store(&one), &sample(), compression).unwrap();
            let second = write(&store(&other), &sample(), compression).unwrap();
            assert_eq!(first, second);
            assert_eq!(first.diff_id == first.digest, compression == Compression::None);
        }
    }

    #[test]
    fn when_a_mode_or_an_owner_changes_so_does_the_digest() {
        let folder = tempfile::tempdir().unwrap();
        let store = store(&folder);
        let first = write(&store, &sample(), Compression::Zstd).unwrap();
        let mut owned = sample();
        owned.own("/tmp", 1, 1);
        assert_ne!(write(&store, &owned, Compression::Zstd).unwrap().digest, first.digest);
        let mut closed = sample();
        closed.directory("/tmp", 0o755);
        assert_ne!(write(&store, &closed, Compression::Zstd).unwrap().digest, first.digest);
    }

    #[test]
    fn when_a_layer_is_read_back_the_tree_is_the_same() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("layer.tar");
        write_tar(&sample(), File::create(&path).unwrap()).unwrap();
        let read = Tree::from_tar(&path).unwrap();
        let sample = sample();
        let (written, read): (Vec<_>, Vec<_>) = (sample.nodes().collect(), read.nodes().collect());
        assert_eq!(written.len(), read.len());
        for ((name, node), (read_name, read_node)) in written.into_iter().zip(read) {
            assert_eq!(name, read_name);
            assert_eq!(
                (node.mode, node.uid, node.gid),
                (read_node.mode, read_node.uid, read_node.gid)
            );
            assert_eq!(node.xattrs, read_node.xattrs);
        }
    }
}
