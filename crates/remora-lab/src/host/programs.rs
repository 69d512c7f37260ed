//! Which programs a host runs, and how.

use std::fmt::Display;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};

use crate::host::config;
use crate::paths::{HostPaths, Paths};
use crate::pki::{Authority, Pki};
use crate::plan::Plan;
use crate::topology::{
    API_PORT, CLUSTER_DOMAIN, FORWARDER_PORT, Host, Role, SERVICE_NETWORK, Topology,
};

const ETCD_CLIENT_PORT: u16 = 2379;
const ETCD_PEER_PORT: u16 = 2380;

/// One program that a host keeps running.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Program {
    /// Its name, which is also its file's in the lab's `bin`.
    pub(crate) name: &'static str,
    /// What it is told.
    pub(crate) arguments: Vec<String>,
    /// It is started when one of these answers; empty means at once.
    pub(crate) after: Vec<SocketAddr>,
}

/// Where a host's programs find things.
pub(crate) struct Layout<'a> {
    pub(crate) paths: &'a Paths,
    pub(crate) plan: &'a Plan,
    pub(crate) host: &'a Host,
    pub(crate) pki: Pki,
    pub(crate) own: HostPaths,
}

impl<'a> Layout<'a> {
    pub(crate) fn new(paths: &'a Paths, plan: &'a Plan, host: &'a Host) -> Self {
        let pki = Pki::at(paths.pki());
        Self { paths, plan, host, pki, own: paths.host(&host.name) }
    }

    /// A configuration file of the host.
    pub(crate) fn etc(&self, file: &str) -> PathBuf {
        self.own.etc().join(file)
    }

    /// The kubeconfig of one of the host's programs.
    pub(crate) fn kubeconfig(&self, program: &str) -> PathBuf {
        self.etc(&format!("{program}.kubeconfig"))
    }

    /// The name servers of the host's pods.
    pub(crate) fn resolv_conf(&self) -> PathBuf {
        self.etc("resolv.conf")
    }

    /// The directory of the CNI configuration.
    pub(crate) fn cni(&self) -> PathBuf {
        self.etc("net.d")
    }
}

/// The URL at which a host's programs reach the API: its own forwarder.
pub(crate) fn api_on_host() -> String {
    format!("https://127.0.0.1:{FORWARDER_PORT}")
}

/// The API servers of the masters.
pub(crate) fn api_servers(topology: &Topology) -> Vec<SocketAddr> {
    topology.masters().map(|master| (master.address, API_PORT).into()).collect()
}

/// The kubeconfigs a host needs: program and the certificate it shows.
pub(crate) fn kubeconfigs(host: &Host) -> Vec<(&'static str, String)> {
    let mut users = vec![
        ("kubelet", format!("kubelet-{}", host.name)),
        ("kube-proxy", "kube-proxy".to_owned()),
    ];
    if host.role == Role::Master {
        for program in ["kube-controller-manager", "kube-scheduler"] {
            users.push((program, program.to_owned()));
        }
    }
    users
}

/// All programs of a host, in the order in which they are started.
pub(crate) fn programs(layout: &Layout<'_>) -> Vec<Program> {
    let mut programs = vec![containerd(layout)];
    if layout.host.role == Role::Master {
        programs.extend([
            etcd(layout),
            kube_apiserver(layout),
            kube_controller_manager(layout),
            kube_scheduler(layout),
        ]);
    }
    programs.extend([kubelet(layout), kube_proxy(layout)]);
    programs
}

fn containerd(layout: &Layout<'_>) -> Program {
    Program {
        name: "containerd",
        arguments: vec![path_flag("config", &layout.etc("containerd.toml"))],
        after: Vec::new(),
    }
}

fn etcd(layout: &Layout<'_>) -> Program {
    let Layout { host, pki, plan, .. } = layout;
    let (name, address) = (&host.name, host.address);
    let member =
        |member: &Host| format!("{}=https://{}:{ETCD_PEER_PORT}", member.name, member.address);
    let members: Vec<_> = plan.topology.masters().map(member).collect();
    let certificate = format!("etcd-{name}");
    let authority = pki.authority(Authority::Etcd);
    let clients =
        format!("https://127.0.0.1:{ETCD_CLIENT_PORT},https://{address}:{ETCD_CLIENT_PORT}");
    Program {
        name: "etcd",
        arguments: vec![
            flag("name", &name),
            "--data-dir=/var/lib/etcd".to_owned(),
            flag("listen-client-urls", &clients),
            flag("advertise-client-urls", &format!("https://{address}:{ETCD_CLIENT_PORT}")),
            flag("listen-peer-urls", &format!("https://{address}:{ETCD_PEER_PORT}")),
            flag("initial-advertise-peer-urls", &format!("https://{address}:{ETCD_PEER_PORT}")),
            flag("initial-cluster", &members.join(",")),
            "--initial-cluster-state=new".to_owned(),
            "--client-cert-auth".to_owned(),
            path_flag("trusted-ca-file", &authority),
            path_flag("cert-file", &pki.certificate(&certificate)),
            path_flag("key-file", &pki.key(&certificate)),
            "--peer-client-cert-auth".to_owned(),
            path_flag("peer-trusted-ca-file", &authority),
            path_flag("peer-cert-file", &pki.certificate(&certificate)),
            path_flag("peer-key-file", &pki.key(&certificate)),
            // A lab does not outlive the machine's boot, and a killed process loses no write.
            "--unsafe-no-fsync".to_owned(),
            "--log-level=warn".to_owned(),
        ],
        after: Vec::new(),
    }
}

fn kube_apiserver(layout: &Layout<'_>) -> Program {
    let Layout { host, pki, plan, .. } = layout;
    let own = format!("kube-apiserver-{}", host.name);
    let etcd = |master: &Host| format!("https://{}:{ETCD_CLIENT_PORT}", master.address);
    let etcd: Vec<_> = plan.topology.masters().map(etcd).collect();
    let mut arguments = vec![
        flag("advertise-address", &host.address),
        flag("secure-port", &API_PORT),
        flag("etcd-servers", &etcd.join(",")),
        path_flag("etcd-cafile", &pki.authority(Authority::Etcd)),
        path_flag("etcd-certfile", &pki.certificate("etcd-client")),
        path_flag("etcd-keyfile", &pki.key("etcd-client")),
        path_flag("tls-cert-file", &pki.certificate(&own)),
        path_flag("tls-private-key-file", &pki.key(&own)),
        path_flag("client-ca-file", &pki.authority(Authority::Cluster)),
        path_flag("kubelet-certificate-authority", &pki.authority(Authority::Cluster)),
        path_flag("kubelet-client-certificate", &pki.certificate("kubelet-client")),
        path_flag("kubelet-client-key", &pki.key("kubelet-client")),
        // Host names of nodes resolve nowhere.
        "--kubelet-preferred-address-types=InternalIP".to_owned(),
        flag("service-cluster-ip-range", &SERVICE_NETWORK),
        flag("service-account-issuer", &format!("https://kubernetes.default.svc.{CLUSTER_DOMAIN}")),
        path_flag("service-account-key-file", &pki.service_account_public_key()),
        path_flag("service-account-signing-key-file", &pki.service_account_key()),
        "--authorization-mode=Node,RBAC".to_owned(),
        "--enable-admission-plugins=NodeRestriction".to_owned(),
        "--allow-privileged=true".to_owned(),
    ];
    arguments.extend(aggregation(pki));
    Program { name: "kube-apiserver", arguments, after: vec![etcd_on(host)] }
}

/// What lets extension API servers believe the API server, which KubeVirt's needs.
fn aggregation(pki: &Pki) -> Vec<String> {
    vec![
        path_flag("requestheader-client-ca-file", &pki.authority(Authority::FrontProxy)),
        "--requestheader-allowed-names=front-proxy-client".to_owned(),
        "--requestheader-username-headers=X-Remote-User".to_owned(),
        "--requestheader-group-headers=X-Remote-Group".to_owned(),
        "--requestheader-extra-headers-prefix=X-Remote-Extra-".to_owned(),
        path_flag("proxy-client-cert-file", &pki.certificate("front-proxy-client")),
        path_flag("proxy-client-key-file", &pki.key("front-proxy-client")),
    ]
}

fn etcd_on(host: &Host) -> SocketAddr {
    (host.address, ETCD_CLIENT_PORT).into()
}

fn kube_controller_manager(layout: &Layout<'_>) -> Program {
    let pki = &layout.pki;
    let mut arguments = controller_arguments(layout, "kube-controller-manager");
    arguments.extend([
        "--use-service-account-credentials".to_owned(),
        // Its default lies outside what the host has for itself.
        flag("flex-volume-plugin-dir", &config::VOLUME_PLUGINS),
        path_flag("root-ca-file", &pki.authority(Authority::Cluster)),
        path_flag("service-account-private-key-file", &pki.service_account_key()),
        path_flag("cluster-signing-cert-file", &pki.authority(Authority::Cluster)),
        path_flag("cluster-signing-key-file", &pki.authority_key(Authority::Cluster)),
    ]);
    Program {
        name: "kube-controller-manager",
        arguments,
        after: api_servers(&layout.plan.topology),
    }
}

fn kube_scheduler(layout: &Layout<'_>) -> Program {
    Program {
        name: "kube-scheduler",
        arguments: controller_arguments(layout, "kube-scheduler"),
        after: api_servers(&layout.plan.topology),
    }
}

/// What controller-manager and scheduler have in common.
fn controller_arguments(layout: &Layout<'_>, program: &str) -> Vec<String> {
    let kubeconfig = layout.kubeconfig(program);
    // One of one need not be elected, and starts sooner.
    let has_rivals = layout.plan.topology.masters().count() > 1;
    vec![
        path_flag("kubeconfig", &kubeconfig),
        path_flag("authentication-kubeconfig", &kubeconfig),
        path_flag("authorization-kubeconfig", &kubeconfig),
        flag("bind-address", &Ipv4Addr::LOCALHOST),
        flag("leader-elect", &has_rivals),
    ]
}

fn kubelet(layout: &Layout<'_>) -> Program {
    Program {
        name: "kubelet",
        arguments: vec![
            path_flag("config", &layout.etc("kubelet.yaml")),
            path_flag("kubeconfig", &layout.kubeconfig("kubelet")),
            flag("hostname-override", &layout.host.name),
            flag("node-ip", &layout.host.address),
        ],
        after: api_servers(&layout.plan.topology),
    }
}

fn kube_proxy(layout: &Layout<'_>) -> Program {
    Program {
        name: "kube-proxy",
        arguments: vec![path_flag("config", &layout.etc("kube-proxy.yaml"))],
        after: api_servers(&layout.plan.topology),
    }
}

fn flag(name: &str, value: &dyn Display) -> String {
    format!("--{name}={value}")
}

fn path_flag(name: &str, path: &Path) -> String {
    flag(name, &path.display())
}

/// The files that a host's programs read: path and content.
pub(crate) fn config_files(layout: &Layout<'_>) -> Vec<(PathBuf, String)> {
    let Layout { paths, plan, host, pki, .. } = layout;
    let pause_image = plan.pause_image.as_deref().unwrap_or_default();
    let containerd = config::containerd(pause_image, &paths.registry_hosts(), &layout.cni());
    vec![
        (layout.etc("kubelet.yaml"), config::kubelet(host, pki, &layout.resolv_conf())),
        (layout.etc("kube-proxy.yaml"), config::kube_proxy(host, &layout.kubeconfig("kube-proxy"))),
        (layout.etc("containerd.toml"), containerd),
        (layout.cni().join("10-pods.conflist"), config::cni(host)),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rendered(masters: u8, host: &str) -> String {
        let paths = Paths::new("/lab", "/cache").unwrap();
        let plan = Plan {
            topology: Topology::new(masters, 2).unwrap(),
            pause_image: Some("192.168.123.1:5000/remora/pod@sha256:aa".to_owned()),
        };
        let layout = Layout::new(&paths, &plan, plan.topology.host(host).unwrap());
        let text = |program: &Program| {
            format!(
                "{} after {:?}\n  {}",
                program.name,
                program.after,
                program.arguments.join("\n  ")
            )
        };
        programs(&layout).iter().map(text).collect::<Vec<_>>().join("\n")
    }

    #[test]
    fn when_there_is_one_master_it_runs_these() {
        insta::assert_snapshot!(rendered(1, "master-1"));
    }

    #[test]
    fn when_there_are_three_masters_the_second_knows_the_others() {
        insta::assert_snapshot!(rendered(3, "master-2"));
    }

    #[test]
    fn when_the_host_is_a_worker_it_runs_no_control_plane() {
        insta::assert_snapshot!(rendered(1, "worker-2"));
    }
}
