//! A file tree in memory: what a layer or a disk will hold, with contents named but not read.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};

use crate::build::{KeyHasher, sha256_of_file};

/// The time of every file of our own: 2020-01-01. Files of a Debian root keep theirs, since
/// Python's compiled files carry the time of their source.
pub(crate) const EPOCH: u64 = 1_577_836_800;

const XATTR_PREFIX: &str = "SCHILY.xattr.";

/// Where a file's bytes are. The identity stands for them in keys.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Source {
    /// Here.
    Bytes(Vec<u8>),
    /// A whole file.
    File {
        /// Where it is.
        path: PathBuf,
        /// What stands for its content.
        identity: String,
    },
    /// A part of a file: one member of an uncompressed tar.
    Slice {
        /// Where the tar is.
        path: PathBuf,
        /// What stands for the tar's content.
        identity: String,
        /// Where the member begins.
        offset: u64,
        /// How long it is.
        size: u64,
    },
}

impl Source {
    /// A file of the build cache, which its path identifies: an entry there never changes.
    pub(crate) fn cached(path: &Path) -> Self {
        Self::File { path: path.to_owned(), identity: path.to_string_lossy().into_owned() }
    }

    /// A file that may change: its content identifies it.
    pub(crate) fn hashed(path: &Path) -> io::Result<Self> {
        let identity = sha256_of_file(path)?;
        Ok(Self::File { path: path.to_owned(), identity })
    }

    /// Reads the whole content.
    pub(crate) fn read(&self) -> io::Result<Vec<u8>> {
        let mut bytes = Vec::new();
        self.open()?.1.read_to_end(&mut bytes)?;
        Ok(bytes)
    }

    /// Opens the content: its size and a reader of exactly that much.
    pub(crate) fn open(&self) -> io::Result<(u64, Box<dyn Read + '_>)> {
        match self {
            Self::Bytes(bytes) => Ok((bytes.len() as u64, Box::new(bytes.as_slice()))),
            Self::File { path, .. } => {
                let file = File::open(path)?;
                let size = file.metadata()?.len();
                Ok((size, Box::new(file.take(size))))
            }
            Self::Slice { path, offset, size, .. } => {
                let mut file = File::open(path)?;
                file.seek(SeekFrom::Start(*offset))?;
                Ok((*size, Box::new(file.take(*size))))
            }
        }
    }

    fn identify(&self, hasher: &mut KeyHasher) {
        match self {
            Self::Bytes(bytes) => hasher.add(bytes),
            Self::File { path: _, identity } => hasher.add(identity),
            Self::Slice { path: _, identity, offset, size } => {
                hasher.add(identity);
                hasher.add(offset.to_le_bytes());
                hasher.add(size.to_le_bytes());
            }
        }
    }
}

/// What a path is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Content {
    /// A folder.
    Directory,
    /// A file.
    File(Source),
    /// A symbolic link.
    Symlink(String),
}

/// One path of a tree.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Node {
    /// What it is.
    pub(crate) content: Content,
    /// Its permissions.
    pub(crate) mode: u32,
    /// The owner's number.
    pub(crate) uid: u64,
    /// The group's number.
    pub(crate) gid: u64,
    /// Its time of change, in seconds since 1970.
    pub(crate) mtime: u64,
    /// Its extended attributes.
    pub(crate) xattrs: BTreeMap<String, Vec<u8>>,
}

impl Node {
    fn new(content: Content, mode: u32) -> Self {
        Self { content, mode, uid: 0, gid: 0, mtime: EPOCH, xattrs: BTreeMap::new() }
    }
}

/// A file tree. Paths are given absolute and kept relative, sorted, so that a folder comes before
/// what it holds.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Tree {
    nodes: BTreeMap<String, Node>,
}

impl Tree {
    /// An empty tree.
    pub(crate) fn new() -> Self {
        Self::default()
    }

    /// Reads the list of an uncompressed tar; the contents stay there. Device nodes are left out.
    ///
    /// An attribute whose value holds a line break is an error: the reader takes it for the end of the record.
    pub(crate) fn from_tar(path: &Path) -> io::Result<Self> {
        let identity = path.to_string_lossy().into_owned();
        let mut archive = tar::Archive::new(File::open(path)?);
        let mut tree = Self::new();
        for entry in archive.entries_with_seek()? {
            let mut entry = entry?;
            let name = relative(&String::from_utf8_lossy(&entry.path_bytes()));
            let target = || -> io::Result<String> {
                let bytes = entry.link_name_bytes().ok_or(io::ErrorKind::InvalidData)?;
                Ok(String::from_utf8_lossy(&bytes).into_owned())
            };
            let content = match entry.header().entry_type() {
                tar::EntryType::Directory => Content::Directory,
                tar::EntryType::Symlink => Content::Symlink(target()?),
                tar::EntryType::Link => match tree.nodes.get(&relative(&target()?)) {
                    Some(first) => first.content.clone(),
                    None => return Err(io::ErrorKind::InvalidData.into()),
                },
                tar::EntryType::Regular | tar::EntryType::Continuous => {
                    Content::File(Source::Slice {
                        path: path.to_owned(),
                        identity: identity.clone(),
                        offset: entry.raw_file_position(),
                        size: entry.size(),
                    })
                }
                _ => continue,
            };
            let header = entry.header();
            let mut node = Node::new(content, header.mode()? & 0o7777);
            (node.uid, node.gid, node.mtime) = (header.uid()?, header.gid()?, header.mtime()?);
            if let Some(extensions) = entry.pax_extensions()? {
                for extension in extensions {
                    let extension = extension?;
                    if let Some(name) =
                        extension.key().ok().and_then(|key| key.strip_prefix(XATTR_PREFIX))
                    {
                        node.xattrs.insert(name.to_owned(), extension.value_bytes().to_vec());
                    }
                }
            }
            if !name.is_empty() {
                tree.nodes.insert(name, node);
            }
        }
        Ok(tree)
    }

    /// Adds a folder, with the folders above it.
    pub(crate) fn directory(&mut self, path: &str, mode: u32) {
        self.insert(path, Node::new(Content::Directory, mode));
    }

    /// Adds a file, with the folders above it.
    pub(crate) fn file(&mut self, path: &str, mode: u32, source: Source) {
        self.insert(path, Node::new(Content::File(source), mode));
    }

    /// Adds a file of a few bytes, with the folders above it.
    pub(crate) fn text(&mut self, path: &str, mode: u32, text: impl Into<Vec<u8>>) {
        self.file(path, mode, Source::Bytes(text.into()));
    }

    /// Adds a symbolic link, with the folders above it.
    pub(crate) fn symlink(&mut self, path: &str, target: &str) {
        self.insert(path, Node::new(Content::Symlink(target.to_owned()), 0o777));
    }

    /// Gives a path to an owner and group; an absent path is left absent.
    pub(crate) fn own(&mut self, path: &str, uid: u64, gid: u64) {
        if let Some(node) = self.nodes.get_mut(&relative(path)) {
            (node.uid, node.gid) = (uid, gid);
        }
    }

    /// Sets an extended attribute; an absent path is left absent.
    pub(crate) fn set_xattr(&mut self, path: &str, name: &str, value: &[u8]) {
        if let Some(node) = self.nodes.get_mut(&relative(path)) {
            node.xattrs.insert(name.to_owned(), value.to_vec());
        }
    }

    /// Moves one path; says whether it was there.
    pub(crate) fn rename(&mut self, from: &str, to: &str) -> bool {
        let node = self.nodes.remove(&relative(from));
        let is_there = node.is_some();
        if let Some(node) = node {
            self.insert(to, node);
        }
        is_there
    }

    /// Removes a path with all below it.
    pub(crate) fn remove(&mut self, path: &str) {
        let path = relative(path);
        let below = format!("{path}/");
        self.nodes.retain(|name, _| *name != path && !name.starts_with(&below));
    }

    /// Removes what is below a folder and keeps the folder.
    pub(crate) fn empty(&mut self, path: &str) {
        let below = format!("{}/", relative(path));
        self.nodes.retain(|name, _| !name.starts_with(&below));
    }

    /// Keeps the absolute paths that `keep` accepts.
    pub(crate) fn retain(&mut self, keep: impl Fn(&str) -> bool) {
        self.nodes.retain(|name, _| keep(&format!("/{name}")));
    }

    /// What is at a path.
    pub(crate) fn get(&self, path: &str) -> Option<&Node> {
        self.nodes.get(&relative(path))
    }

    /// Reads the file at a path.
    pub(crate) fn read(&self, path: &str) -> io::Result<Vec<u8>> {
        match self.get(path).map(|node| &node.content) {
            Some(Content::File(source)) => source.read(),
            _ => {
                Err(io::Error::new(io::ErrorKind::NotFound, format!("the root has no file {path}")))
            }
        }
    }

    /// All paths, relative, a folder before what it holds.
    pub(crate) fn nodes(&self) -> impl Iterator<Item = (&str, &Node)> {
        self.nodes.iter().map(|(name, node)| (name.as_str(), node))
    }

    /// Adds everything that decides the bytes of a layer to a key.
    pub(crate) fn identify(&self, hasher: &mut KeyHasher) {
        for (name, node) in &self.nodes {
            let Node { content, mode, uid, gid, mtime, xattrs } = node;
            hasher.add(name);
            hasher.add(format!("{mode:o} {uid} {gid} {mtime}"));
            match content {
                Content::Directory => hasher.add("directory"),
                Content::File(source) => {
                    hasher.add("file");
                    source.identify(hasher);
                }
                Content::Symlink(target) => {
                    hasher.add("symlink");
                    hasher.add(target);
                }
            }
            for (name, value) in xattrs {
                hasher.add(name);
                hasher.add(value);
            }
        }
    }

    fn insert(&mut self, path: &str, node: Node) {
        let path = relative(path);
        for (end, _) in path.match_indices('/') {
            self.nodes
                .entry(path.get(..end).unwrap_or_default().to_owned())
                .or_insert_with(|| Node::new(Content::Directory, 0o755));
        }
        self.nodes.insert(path, node);
    }
}

/// A path of a tar or of a caller as it is kept: no leading or trailing `/`, no empty or `.` part.
fn relative(path: &str) -> String {
    let parts: Vec<_> = path.split('/').filter(|part| !matches!(*part, "" | ".")).collect();
    parts.join("/")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn when_a_path_is_written_differently_it_is_the_same() {
        for path in ["/usr/bin", "./usr/bin", "usr//bin/", "/./usr/./bin"] {
            assert_eq!(relative(path), "usr/bin", "{path}");
        }
        assert_eq!(relative("./"), "");
    }

    #[test]
    fn when_a_file_is_added_its_folders_come_before_it() {
        let mut tree = Tree::new();
        tree.text("/usr/local/bin/etcd", 0o755, "x");
        let names: Vec<_> = tree.nodes().map(|(name, _)| name.to_owned()).collect();
        assert_eq!(names, ["usr", "usr/local", "usr/local/bin", "usr/local/bin/etcd"]);
    }

    #[test]
    fn when_a_folder_is_removed_its_namesakes_stay() {
        let mut tree = Tree::new();
        for path in ["/boot/vmlinuz", "/bootstrap", "/etc/boot"] {
            tree.text(path, 0o644, "x");
        }
        tree.remove("/boot");
        let names: Vec<_> = tree.nodes().map(|(name, _)| name.to_owned()).collect();
        assert_eq!(names, ["bootstrap", "etc", "etc/boot"]);
    }

    #[test]
    fn when_a_tar_is_read_contents_owners_links_and_attributes_are_there() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("root.tar");
        let mut builder = tar::Builder::new(File::create(&path).unwrap());
        builder
            .append_pax_extensions([("SCHILY.xattr.security.capability", &b"\x01\x00\x04\x02"[..])])
            .unwrap();
        let mut header = tar::Header::new_ustar();
        header.set_size(5);
        header.set_mode(0o4755);
        header.set_uid(7);
        header.set_gid(8);
        header.set_mtime(9);
        builder.append_data(&mut header, "./usr/bin/perl", &b"hello"[..]).unwrap();
        let mut link = tar::Header::new_ustar();
        link.set_entry_type(tar::EntryType::Link);
        link.set_size(0);
        link.set_mode(0o755);
        link.set_uid(0);
        link.set_gid(0);
        link.set_mtime(0);
        builder.append_link(&mut link, "./usr/bin/perl5", "./usr/bin/perl").unwrap();
        builder.into_inner().unwrap();

        let tree = Tree::from_tar(&path).unwrap();
        assert_eq!(tree.read("/usr/bin/perl").unwrap(), b"hello");
        assert_eq!(tree.read("/usr/bin/perl5").unwrap(), b"hello");
        let node = tree.get("/usr/bin/perl").unwrap();
        assert_eq!((node.mode, node.uid, node.gid, node.mtime), (0o4755, 7, 8, 9));
        assert_eq!(node.xattrs["security.capability"], b"\x01\x00\x04\x02");
    }
}
