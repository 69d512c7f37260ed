//! The initrd: busybox, the modules that a node needs, and the program that mounts the root.

use std::io::{self, Write};

use flate2::GzBuilder;

use super::super::tree::{Content, EPOCH, Node, Source, Tree};

/// What the disk, the network, the cloud-init disk, containers and Services need. udev would load
/// some of them, at ten times the cost.
const MODULES: [&str; 21] = [
    "virtio_pci",
    "virtio_blk",
    "virtio_net",
    "virtio_rng",
    "crc32c_intel",
    "overlay",
    "isofs",
    "br_netfilter",
    "vxlan",
    "nf_tables",
    "nft_ct",
    "nft_nat",
    "nft_masq",
    "nft_chain_nat",
    "nft_fib_inet",
    "nft_numgen",
    "nft_reject_inet",
    "nft_compat",
    "xt_comment",
    "xt_conntrack",
    "veth",
];

/// The programs that busybox is for the init script.
const APPLETS: [&str; 6] = ["sh", "mount", "insmod", "switch_root", "mkdir", "sleep"];

/// The kernel's version: the one folder of modules that the root has.
pub(crate) fn kernel_version(root: &Tree) -> io::Result<String> {
    root.nodes()
        .filter_map(|(name, _)| name.strip_prefix("usr/lib/modules/"))
        .find(|version| !version.contains('/'))
        .map(str::to_owned)
        .ok_or_else(|| missing("a folder of kernel modules"))
}

/// The tree of the initrd.
pub(crate) fn tree(root: &Tree) -> io::Result<Tree> {
    let folder = format!("/usr/lib/modules/{}", kernel_version(root)?);
    let dependencies =
        String::from_utf8_lossy(&root.read(&format!("{folder}/modules.dep"))?).into_owned();
    let builtin =
        String::from_utf8_lossy(&root.read(&format!("{folder}/modules.builtin"))?).into_owned();
    let modules = in_load_order(&MODULES, &dependencies, &builtin)?;
    let mut tree = Tree::new();
    for name in ["proc", "sys", "dev", "root"] {
        tree.directory(&format!("/{name}"), 0o755);
    }
    let busybox = ["/usr/bin/busybox", "/bin/busybox"].into_iter().find_map(|path| root.get(path));
    tree.file("/bin/busybox", 0o755, source(busybox, "busybox")?);
    for applet in APPLETS {
        tree.symlink(&format!("/bin/{applet}"), "busybox");
    }
    let mut order = String::new();
    for path in &modules {
        let name = path.rsplit('/').next().unwrap_or(path);
        order.push_str(name);
        order.push('\n');
        let node = root.get(&format!("{folder}/{path}"));
        tree.file(&format!("/modules/{name}"), 0o644, source(node, path)?);
    }
    tree.text("/modules/order", 0o644, order);
    tree.text("/init", 0o755, include_str!("files/init"));
    Ok(tree)
}

fn source(node: Option<&Node>, what: &str) -> io::Result<Source> {
    match node.map(|node| &node.content) {
        Some(Content::File(source)) => Ok(source.clone()),
        _ => Err(missing(what)),
    }
}

fn missing(what: &str) -> io::Error {
    io::Error::new(io::ErrorKind::NotFound, format!("the root has no {what}"))
}

/// The paths of modules with what they depend on, each before what needs it. modules.dep lists a
/// module's dependencies nearest first; what the kernel has built in needs no file.
fn in_load_order(wanted: &[&str], dependencies: &str, builtin: &str) -> io::Result<Vec<String>> {
    let mut order: Vec<String> = Vec::new();
    for module in wanted {
        let line = dependencies.lines().find_map(|line| {
            let (path, needs) = line.split_once(':')?;
            (module_name(path) == *module).then_some((path, needs))
        });
        let Some((path, needs)) = line else {
            if builtin.lines().any(|path| module_name(path) == *module) {
                continue;
            }
            return Err(missing(&format!("kernel module {module}")));
        };
        for needed in needs.split_whitespace().rev().chain([path]) {
            if !order.iter().any(|known| known == needed) {
                order.push(needed.to_owned());
            }
        }
    }
    Ok(order)
}

/// A module's name as the kernel says it: the file's, without its ending, dashes as underscores.
fn module_name(path: &str) -> String {
    let file = path.rsplit('/').next().unwrap_or(path);
    file.split(".ko").next().unwrap_or(file).replace('-', "_")
}

/// Writes a tree as a compressed archive in the kernel's own format, "newc" cpio.
pub(crate) fn write<W: Write>(tree: &Tree, output: W) -> io::Result<W> {
    let mut archive = GzBuilder::new().write(output, flate2::Compression::new(6));
    for (number, (name, node)) in tree.nodes().enumerate() {
        let (kind, content) = match &node.content {
            Content::Directory => (0o040_000, Vec::new()),
            Content::File(source) => (0o100_000, source.read()?),
            Content::Symlink(target) => (0o120_000, target.clone().into_bytes()),
        };
        write_member(&mut archive, number + 1, name, kind | node.mode, &content)?;
    }
    write_member(&mut archive, 0, "TRAILER!!!", 0, &[])?;
    archive.finish()
}

fn write_member(
    output: &mut impl Write,
    number: usize,
    name: &str,
    mode: u32,
    content: &[u8],
) -> io::Result<()> {
    let header = format!(
        "070701{number:08x}{mode:08x}{uid:08x}{gid:08x}{links:08x}{EPOCH:08x}{size:08x}\
         {major:08x}{minor:08x}{major:08x}{minor:08x}{name_size:08x}{check:08x}",
        uid = 0,
        gid = 0,
        links = 1,
        size = content.len(),
        major = 0,
        minor = 0,
        name_size = name.len() + 1,
        check = 0,
    );
    output.write_all(header.as_bytes())?;
    output.write_all(name.as_bytes())?;
    output.write_all(&[0])?;
    pad(output, header.len() + name.len() + 1)?;
    output.write_all(content)?;
    pad(output, content.len())
}

/// Fills up to a multiple of four bytes.
fn pad(output: &mut impl Write, length: usize) -> io::Result<()> {
    let missing = length.next_multiple_of(4) - length;
    io::copy(&mut io::Read::take(io::repeat(0), missing as u64), output).map(drop)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Read;

    #[test]
    fn when_a_module_depends_on_others_they_come_first_and_once() {
        let dependencies = "kernel/net/vxlan.ko: kernel/net/ip6_udp.ko kernel/net/udp.ko\n\
                            kernel/net/udp.ko:\nkernel/net/ip6_udp.ko:\n\
                            kernel/drivers/virtio-rng.ko: kernel/net/udp.ko\n";
        let order = in_load_order(
            &["vxlan", "virtio_rng", "veth"],
            dependencies,
            "kernel/drivers/net/veth.ko\n",
        )
        .unwrap();
        assert_eq!(
            order,
            [
                "kernel/net/udp.ko",
                "kernel/net/ip6_udp.ko",
                "kernel/net/vxlan.ko",
                "kernel/drivers/virtio-rng.ko",
            ]
        );
    }

    #[test]
    fn when_a_module_is_nowhere_the_error_names_it() {
        let error = in_load_order(&["overlay"], "", "").unwrap_err();
        assert!(error.to_string().contains("overlay"), "{error}");
    }

    #[test]
    fn when_an_archive_is_written_every_member_begins_at_a_multiple_of_four() {
        let mut tree = Tree::new();
        tree.text("/init", 0o755, "#!/bin/sh\n");
        tree.symlink("/bin/sh", "busybox");
        let compressed = write(&tree, Vec::new()).unwrap();
        let mut archive = Vec::new();
        flate2::read::GzDecoder::new(compressed.as_slice()).read_to_end(&mut archive).unwrap();
        let text = String::from_utf8_lossy(&archive);
        let starts: Vec<_> = text.match_indices("070701").map(|(at, _)| at).collect();
        assert_eq!(starts.len(), 4, "bin, bin/sh, init and the trailer");
        assert!(starts.iter().all(|at| at % 4 == 0) && archive.len() % 4 == 0);
        assert!(text.contains("000081ed"), "init is a file with mode 0755");
        assert!(text.contains("0000a1ff"), "sh is a link");
    }
}
