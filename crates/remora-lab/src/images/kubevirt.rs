//! KubeVirt's images, from programs and a Debian root; third-party/kubevirt/README.md says why each
//! part is needed.

use std::io;

use super::ImagesError;
use super::image::Recipe;
use super::layer::Compression;
use super::recipes::version;
use super::tree::{Source, Tree};
use crate::build::Artifacts;

const COMPONENT: &str = "kubevirt";
const CONTROL_PROGRAMS: [&str; 3] = ["virt-operator", "virt-api", "virt-controller"];
const NODE_PROGRAMS: [&str; 8] = [
    "virt-handler",
    "virt-chroot",
    "virt-launcher",
    "virt-launcher-monitor",
    "virt-freezer",
    "virt-probe",
    "virt-tail",
    "container-disk",
];

/// The user that runs emulators, in every KubeVirt installation.
pub(crate) const QEMU: u64 = 107;
const LIBVIRT_QEMU: u64 = 64055;

/// `cap_net_bind_service=+ep` as the kernel keeps it: revision 2 with the effective bit, then
/// permitted and inheritable sets, low words before high ones (linux/capability.h).
const NET_BIND_SERVICE: [u8; 20] =
    [0x01, 0, 0, 0x02, 0, 0x04, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0];

const DRIVERS: &str = "/usr/lib/x86_64-linux-gnu/libvirt/connection-driver";
const KEPT_DRIVERS: [&str; 3] =
    ["libvirt_driver_qemu.so", "libvirt_driver_secret.so", "libvirt_driver_storage.so"];

/// The image of virt-operator, virt-api and virt-controller.
pub(crate) fn control(artifacts: &Artifacts) -> Result<Recipe, ImagesError> {
    let mut base = Tree::new();
    base.text(
        "/etc/passwd",
        0o644,
        "root:x:0:0:root:/root:/sbin/nologin\n\
         nonroot-user:x:1001:1001:nonroot-user:/home/nonroot-user:/sbin/nologin\n",
    );
    base.text("/etc/group", 0o644, "root:x:0:\nnonroot-user:x:1001:\n");
    base.directory("/tmp", 0o1777);
    let mut layers = vec![(base, Compression::Zstd)];
    for name in CONTROL_PROGRAMS {
        let mut tree = Tree::new();
        add_program(&mut tree, artifacts, name)?;
        layers.push((tree, Compression::Zstd));
    }
    Ok(Recipe {
        name: "kubevirt-control".to_owned(),
        version: version(artifacts, COMPONENT)?,
        user: "1001:1001",
        command: Vec::new(),
        layers,
    })
}

/// The image of virt-handler and virt-launcher.
pub(crate) fn node(artifacts: &Artifacts) -> Result<Recipe, ImagesError> {
    let path = artifacts.root("kubevirt-node")?;
    let root = Tree::from_tar(&path)
        .and_then(prepare_root)
        .map_err(|source| ImagesError::Root { path, source })?;
    let mut programs = Tree::new();
    for name in NODE_PROGRAMS {
        add_program(&mut programs, artifacts, name)?;
    }
    programs.set_xattr("/usr/bin/virt-launcher-monitor", "security.capability", &NET_BIND_SERVICE);
    let mut files = Tree::new();
    for file in &artifacts.component(COMPONENT)?.file {
        if file.image == "node" {
            let path = artifacts.file(COMPONENT, &file.from)?;
            let bytes =
                std::fs::read(&path).map_err(|source| ImagesError::Program { path, source })?;
            files.text(&file.to, file.mode, bytes);
        }
    }
    files.text("/etc/libvirt/virtlogd.conf", 0o644, "");
    Ok(Recipe {
        name: "kubevirt-node".to_owned(),
        version: version(artifacts, COMPONENT)?,
        user: "0:0",
        command: Vec::new(),
        layers: vec![
            (root, Compression::Zstd),
            (programs, Compression::Zstd),
            (files, Compression::Gzip),
        ],
    })
}

fn add_program(tree: &mut Tree, artifacts: &Artifacts, name: &str) -> Result<(), ImagesError> {
    let path = artifacts.program(COMPONENT, name)?;
    tree.file(&format!("/usr/bin/{name}"), 0o755, Source::cached(&path));
    Ok(())
}

/// Makes of a Debian root what libvirt and KubeVirt expect.
fn prepare_root(mut root: Tree) -> io::Result<Tree> {
    for folder in ["/boot", "/dev", "/proc", "/sys", "/run", "/tmp", "/var/cache", "/var/log"] {
        root.empty(folder);
    }
    root.empty("/var/lib/apt");
    edit(&mut root, "/etc/passwd", |line| with_users(line, PASSWD))?;
    edit(&mut root, "/etc/group", |line| with_users(line, GROUP))?;
    edit(&mut root, "/etc/shadow", |line| with_users(line, SHADOW))?;
    if !root.rename("/usr/bin/qemu-system-x86_64", "/usr/bin/qemu-system-x86_64.real") {
        return Err(io::Error::new(
            io::ErrorKind::NotFound,
            "the root has no /usr/bin/qemu-system-x86_64",
        ));
    }
    root.retain(|path| match path.strip_prefix(DRIVERS).and_then(|rest| rest.strip_prefix('/')) {
        Some(driver) => KEPT_DRIVERS.contains(&driver),
        None => true,
    });
    root.remove("/var/run");
    root.symlink("/var/run", "../run");
    for folder in ["/var/log/libvirt", "/var/lib/libvirt", "/var/cache/libvirt"] {
        let below = format!("{folder}/qemu");
        root.directory(&below, 0o755);
        root.directory(folder, 0o755);
        root.own(folder, QEMU, QEMU);
        root.own(&below, QEMU, QEMU);
    }
    for (folder, owner) in [("/run/libvirt", QEMU), ("/home/qemu", QEMU)] {
        root.directory(folder, 0o755);
        root.own(folder, owner, owner);
    }
    root.directory("/var/lib/kubevirt-node-labeller", 0o755);
    root.directory("/usr/lib64/qemu-kvm", 0o755);
    Ok(root)
}

fn edit(root: &mut Tree, path: &str, change: impl Fn(&str) -> String) -> io::Result<()> {
    let text = String::from_utf8_lossy(&root.read(path)?).into_owned();
    let mode = root.get(path).map_or(0o644, |node| node.mode);
    root.text(path, mode, change(&text));
    Ok(())
}

/// Lines to be in a file of users or groups: the name and number that nobody else may have, and the
/// line.
type Entries = [(&'static str, Option<u64>, &'static str)];

const PASSWD: &Entries = &[
    ("qemu", Some(QEMU), "qemu:x:107:107:qemu:/home/qemu:/bin/bash"),
    (
        "libvirt-qemu",
        Some(LIBVIRT_QEMU),
        "libvirt-qemu:x:64055:64055:Libvirt Qemu:/var/lib/libvirt:/usr/sbin/nologin",
    ),
];
const GROUP: &Entries = &[
    ("qemu", Some(QEMU), "qemu:x:107:"),
    ("libvirt-qemu", Some(LIBVIRT_QEMU), "libvirt-qemu:x:64055:"),
    ("kvm", Some(36), "kvm:x:36:qemu,libvirt-qemu"),
    ("libvirt", Some(64056), "libvirt:x:64056:"),
];
const SHADOW: &Entries =
    &[("qemu", None, "qemu:!:18262::::::"), ("libvirt-qemu", None, "libvirt-qemu:!:18262::::::")];

/// Puts entries in place of whoever had their names or numbers.
fn with_users(text: &str, entries: &Entries) -> String {
    let is_free = |line: &&str| {
        let mut fields = line.split(':');
        let name = fields.next().unwrap_or("");
        let number = fields.nth(1).and_then(|number| number.parse::<u64>().ok());
        !entries.iter().any(|(taken, taken_number, _)| {
            *taken == name || (taken_number.is_some() && *taken_number == number)
        })
    };
    let kept = text.lines().filter(is_free);
    let added = entries.iter().map(|(_, _, line)| *line);
    kept.chain(added).flat_map(|line| [line, "\n"]).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn when_debian_gave_107_away_the_emulator_s_user_takes_it() {
        let passwd = "root:x:0:0:root:/root:/bin/bash\nmessagebus:x:107:112::/run:/bin/false\n";
        assert_eq!(
            with_users(passwd, PASSWD),
            "root:x:0:0:root:/root:/bin/bash\nqemu:x:107:107:qemu:/home/qemu:/bin/bash\n\
             libvirt-qemu:x:64055:64055:Libvirt Qemu:/var/lib/libvirt:/usr/sbin/nologin\n"
        );
        let shadow = with_users("root:*:107::::::\n", SHADOW);
        assert!(shadow.starts_with("root:*:107"), "a day of change is no user: {shadow}");
    }

    #[test]
    fn when_the_capability_is_written_it_is_bit_ten_and_effective() {
        let word = |at: usize| {
            let bytes: [u8; 4] = NET_BIND_SERVICE[at..at + 4].try_into().unwrap();
            u32::from_le_bytes(bytes)
        };
        assert_eq!((word(0), word(4)), (0x0200_0001, 1 << 10));
        assert_eq!((word(8), word(12), word(16)), (0, 0, 0));
    }

    #[test]
    fn when_a_root_is_prepared_links_drivers_and_owners_are_kubevirt_s() {
        let mut root = Tree::new();
        for path in ["/etc/passwd", "/etc/group", "/etc/shadow"] {
            root.text(path, 0o644, "root:x:0:\n");
        }
        root.text("/usr/bin/qemu-system-x86_64", 0o755, "emulator");
        root.text(&format!("{DRIVERS}/libvirt_driver_qemu.so"), 0o644, "x");
        root.text(&format!("{DRIVERS}/libvirt_driver_network.so"), 0o644, "x");
        root.symlink("/var/run", "/run");
        let root = prepare_root(root).unwrap();
        assert!(root.get("/usr/bin/qemu-system-x86_64.real").is_some());
        assert!(root.get(&format!("{DRIVERS}/libvirt_driver_qemu.so")).is_some());
        assert!(root.get(&format!("{DRIVERS}/libvirt_driver_network.so")).is_none());
        let link = &root.get("/var/run").unwrap().content;
        assert_eq!(*link, super::super::tree::Content::Symlink("../run".into()));
        for path in ["/var/lib/libvirt", "/var/lib/libvirt/qemu", "/run/libvirt"] {
            assert_eq!(root.get(path).unwrap().uid, QEMU, "{path}");
        }
    }
}
