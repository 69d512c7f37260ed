//! What the images of a release and of our own programs hold.

use super::image::Recipe;
use super::layer::Compression;
use super::tree::{Source, Tree};
use super::{ImagesError, flannel};
use crate::build::Artifacts;

/// The user of programs that need no privilege.
const NONROOT: &str = "65532:65532";
const ROOT: &str = "0:0";

/// Public certificate authorities, as Debian's package ca-certificates keeps them.
const AUTHORITIES: &str = "/etc/ssl/certs/ca-certificates.crt";

/// Programs of the hyperkube binary that are an image each.
const HYPERKUBE: [&str; 4] =
    ["etcd", "kube-apiserver", "kube-controller-manager", "kube-scheduler"];

/// The images of a release, but for the node disk.
pub(crate) fn release_components(artifacts: &Artifacts) -> Result<Vec<Recipe>, ImagesError> {
    let mut recipes = vec![pod(artifacts)?];
    for name in HYPERKUBE {
        recipes.push(hyperkube(artifacts, name)?);
    }
    recipes.push(kube_proxy(artifacts)?);
    recipes.push(coredns(artifacts)?);
    recipes.push(konnectivity(artifacts)?);
    recipes.push(flannel::recipe(artifacts)?);
    Ok(recipes)
}

/// An image of one of our own programs, which may change between two runs.
pub(crate) fn application(
    name: &str,
    program: &str,
    path: &std::path::Path,
) -> Result<Recipe, ImagesError> {
    let source = Source::hashed(path)
        .map_err(|source| ImagesError::Program { path: path.to_owned(), source })?;
    let mut tree = Tree::new();
    tree.file(&format!("/usr/local/bin/{program}"), 0o755, source);
    // Whom the operator trusts when it asks a registry on the Internet.
    let authorities = std::path::Path::new(AUTHORITIES);
    let source = Source::hashed(authorities)
        .map_err(|source| ImagesError::Program { path: authorities.to_owned(), source })?;
    tree.file(AUTHORITIES, 0o644, source);
    Ok(Recipe {
        name: name.to_owned(),
        version: env!("CARGO_PKG_VERSION").to_owned(),
        user: NONROOT,
        command: Vec::new(),
        layers: vec![base(), (tree, Compression::Zstd)],
    })
}

/// The layer under every image without a Debian root: who is who, and a place for temporary files.
pub(crate) fn base() -> (Tree, Compression) {
    let mut tree = Tree::new();
    tree.text(
        "/etc/passwd",
        0o644,
        "root:x:0:0:root:/root:/sbin/nologin\n\
         nonroot:x:65532:65532:nonroot:/home/nonroot:/sbin/nologin\n",
    );
    tree.text("/etc/group", 0o644, "root:x:0:\nnonroot:x:65532:\n");
    tree.directory("/tmp", 0o1777);
    (tree, Compression::Zstd)
}

/// A layer of one built program in /usr/local/bin.
pub(crate) fn program(
    artifacts: &Artifacts,
    component: &str,
    name: &str,
) -> Result<(Tree, Compression), ImagesError> {
    let mut tree = Tree::new();
    let path = artifacts.program(component, name)?;
    tree.file(&format!("/usr/local/bin/{name}"), 0o755, Source::cached(&path));
    Ok((tree, Compression::Zstd))
}

/// nft with what it needs, and the same for iptables on top. kube-proxy gets the first
/// only: where it finds an iptables it runs it many times to clean up rules that never were there.
pub(crate) fn network_tools(artifacts: &Artifacts) -> Result<(Tree, Tree), ImagesError> {
    let path = artifacts.root("network-tools")?;
    let mut tools =
        Tree::from_tar(&path).map_err(|source| ImagesError::Root { path: path.clone(), source })?;
    tools.retain(|path| {
        ["/usr", "/lib", "/bin", "/sbin", "/lib64"].iter().any(|top| {
            path.strip_prefix(top).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
        })
    });
    for unused in ["/usr/share/man", "/usr/share/bug", "/usr/share/lintian", "/usr/share/perl5"] {
        tools.remove(unused);
    }
    let mut iptables = tools.clone();
    tools.retain(|path| !is_iptables(path));
    iptables.retain(is_iptables);
    for name in ["iptables", "iptables-save", "iptables-restore"] {
        for family in ["", "6"] {
            let name = name.replace("ip", &format!("ip{family}"));
            iptables.symlink(&format!("/usr/sbin/{name}"), "xtables-nft-multi");
        }
    }
    Ok((tools, iptables))
}

/// Says whether a path belongs to Debian's iptables; its library is nft's too.
pub(crate) fn is_iptables(path: &str) -> bool {
    let name = path.rsplit('/').next().unwrap_or(path);
    let is_program = path.contains("bin/")
        && ["iptables", "ip6tables", "arptables", "ebtables", "xtables-"]
            .iter()
            .any(|prefix| name.starts_with(prefix));
    is_program || path.contains("/xtables")
}

/// A component's upstream version, the tag of its images.
pub(crate) fn version(artifacts: &Artifacts, component: &str) -> Result<String, ImagesError> {
    Ok(artifacts.component(component)?.version.clone())
}

fn pod(artifacts: &Artifacts) -> Result<Recipe, ImagesError> {
    Ok(Recipe {
        name: "pod".to_owned(),
        version: version(artifacts, "pod")?,
        user: NONROOT,
        command: vec!["/usr/local/bin/pause"],
        layers: vec![program(artifacts, "pod", "pause")?],
    })
}

fn hyperkube(artifacts: &Artifacts, name: &'static str) -> Result<Recipe, ImagesError> {
    let mut link = Tree::new();
    link.symlink(&format!("/usr/local/bin/{name}"), "hyperkube");
    if name == "etcd" {
        link.symlink("/usr/local/bin/etcdctl", "hyperkube");
        link.symlink("/usr/local/bin/etcdutl", "hyperkube");
    }
    Ok(Recipe {
        name: name.to_owned(),
        version: version(artifacts, "kubernetes")?,
        user: NONROOT,
        command: vec![name],
        layers: vec![
            base(),
            program(artifacts, "kubernetes", "hyperkube")?,
            (link, Compression::Gzip),
        ],
    })
}

fn kube_proxy(artifacts: &Artifacts) -> Result<Recipe, ImagesError> {
    let (tools, _) = network_tools(artifacts)?;
    Ok(Recipe {
        name: "kube-proxy".to_owned(),
        version: version(artifacts, "kubernetes")?,
        user: ROOT,
        command: vec!["kube-proxy"],
        layers: vec![
            (tools, Compression::Zstd),
            base(),
            program(artifacts, "kubernetes", "kube-proxy")?,
        ],
    })
}

fn coredns(artifacts: &Artifacts) -> Result<Recipe, ImagesError> {
    Ok(Recipe {
        name: "coredns".to_owned(),
        version: version(artifacts, "coredns")?,
        user: NONROOT,
        command: vec!["coredns"],
        layers: vec![base(), program(artifacts, "coredns", "coredns")?],
    })
}

fn konnectivity(artifacts: &Artifacts) -> Result<Recipe, ImagesError> {
    Ok(Recipe {
        name: "apiserver-network-proxy".to_owned(),
        version: version(artifacts, "konnectivity")?,
        user: NONROOT,
        command: Vec::new(),
        layers: vec![
            base(),
            program(artifacts, "konnectivity", "proxy-server")?,
            program(artifacts, "konnectivity", "proxy-agent")?,
        ],
    })
}

/// MetalLB's two images. The speaker sends raw frames, which takes root and a capability.
pub(crate) fn metallb(artifacts: &Artifacts) -> Result<[Recipe; 2], ImagesError> {
    let recipe = |name: &'static str, user| {
        Ok::<_, ImagesError>(Recipe {
            name: name.to_owned(),
            version: version(artifacts, "metallb")?,
            user,
            command: vec![name],
            layers: vec![base(), program(artifacts, "metallb", name)?],
        })
    };
    Ok([recipe("metallb-controller", NONROOT)?, recipe("metallb-speaker", ROOT)?])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn when_a_path_is_of_iptables_kube_proxy_does_not_get_it() {
        for path in [
            "/usr/sbin/iptables-nft",
            "/usr/sbin/xtables-nft-multi",
            "/sbin/ip6tables",
            "/usr/lib/x86_64-linux-gnu/xtables/libxt_tcp.so",
        ] {
            assert!(is_iptables(path), "{path}");
        }
        for path in [
            "/usr/sbin/nft",
            "/usr/lib/x86_64-linux-gnu/libxtables.so.12",
            "/usr/share/doc/iptables/copyright",
        ] {
            assert!(!is_iptables(path), "{path}");
        }
    }

    #[test]
    fn when_the_base_layer_is_written_programs_have_a_user_and_a_place_to_write() {
        let (tree, _) = base();
        let passwd = String::from_utf8(tree.read("/etc/passwd").unwrap()).unwrap();
        assert!(passwd.contains("nonroot:x:65532:65532:"));
        assert_eq!(tree.get("/tmp").unwrap().mode, 0o1777);
    }
}
