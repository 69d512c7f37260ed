//! How each part of the lab fares.

use std::collections::BTreeMap;
use std::path::PathBuf;

use serde::Serialize;

use crate::cluster::{api, dns, kubevirt, metallb, nodes, workloads};
use crate::error::{LabError, with_causes};
use crate::host::status::{HostStatus, ProgramState, ProgramStatus};
use crate::network;
use crate::paths::Paths;
use crate::plan::Plan;
use crate::registry;
use crate::supervisor;
use crate::topology::{DNS_SERVICE, Host, REGISTRY, Role};

/// The lab and its parts.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct LabStatus {
    /// The lab's directory.
    pub directory: PathBuf,
    /// The kubeconfig of the hosting cluster's administrator.
    pub kubeconfig: PathBuf,
    /// Whether every part is as it should be.
    pub healthy: bool,
    /// Supervisor, registry, API server, DNS, KubeVirt, MetalLB.
    pub parts: Vec<Part>,
    /// The hosts.
    pub hosts: Vec<HostReport>,
    /// What a lab that is gone left on the machine.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub leftovers: Vec<String>,
}

/// One part of the lab.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Part {
    /// Its name.
    pub name: String,
    /// Whether it is as it should be.
    pub healthy: bool,
    /// More about it, or why it is not healthy.
    pub detail: String,
}

impl Part {
    fn new(name: &str, verdict: Result<String, String>) -> Self {
        let healthy = verdict.is_ok();
        let detail = verdict.unwrap_or_else(|why| why);
        Self { name: name.to_owned(), healthy, detail }
    }
}

/// One host of the lab.
#[derive(Clone, Debug, Serialize)]
pub struct HostReport {
    /// The host.
    #[serde(flatten)]
    pub host: Host,
    /// Whether its programs run and its node is Ready.
    pub healthy: bool,
    /// What its node says.
    pub node: String,
    /// Its programs.
    pub programs: Vec<ProgramStatus>,
}

/// Looks at every part of the lab.
pub async fn status(paths: &Paths) -> Result<LabStatus, LabError> {
    let Some(plan) = Plan::read(paths)? else {
        return Ok(LabStatus {
            directory: paths.lab().to_path_buf(),
            kubeconfig: paths.kubeconfig(),
            healthy: false,
            parts: vec![Part::new("lab", Err("there is none: `remora lab up`".to_owned()))],
            hosts: Vec::new(),
            leftovers: network::leftovers(),
        });
    };
    let supervisor = supervisor::running(paths);
    let supervisor = supervisor.map(|process| format!("pid {}", process.pid));
    let supervisor = supervisor.ok_or_else(|| "it does not run: `remora lab up`".to_owned());
    let registry = if registry::answers().await { Ok(REGISTRY) } else { Err(REGISTRY) };
    let registry = registry
        .map(|address| format!("http://{address}"))
        .map_err(|address| format!("{address} does not answer; see `remora lab logs registry`"));
    let (cluster, readiness) = cluster(paths, &plan).await;
    let mut parts = vec![Part::new("supervisor", supervisor), Part::new("registry", registry)];
    parts.extend(cluster);
    let hosts: Vec<_> =
        plan.topology.hosts.iter().map(|host| report(paths, host, &readiness)).collect();
    Ok(LabStatus {
        directory: paths.lab().to_path_buf(),
        kubeconfig: paths.kubeconfig(),
        healthy: parts.iter().all(|part| part.healthy) && hosts.iter().all(|host| host.healthy),
        parts,
        hosts,
        leftovers: Vec::new(),
    })
}

type Readiness = BTreeMap<String, Result<(), String>>;

async fn cluster(paths: &Paths, plan: &Plan) -> (Vec<Part>, Readiness) {
    let url = plan.topology.api_url();
    let answer = match api::client(paths).await {
        Ok(client) => api::ready(&client).await.map(|()| client),
        Err(error) => Err(with_causes(&error)),
    };
    let client = match answer {
        Ok(client) => client,
        Err(why) => return (vec![Part::new("API server", Err(why))], Readiness::new()),
    };
    let dns = workloads::available(&client, dns::NAMESPACE).await;
    let parts = vec![
        Part::new("API server", Ok(url)),
        Part::new("DNS", dns.map(|()| DNS_SERVICE.to_string())),
        Part::new("KubeVirt", kubevirt::health(&client).await),
        Part::new("MetalLB", metallb::health(&client).await),
    ];
    (parts, nodes::readiness(&client).await.unwrap_or_default())
}

fn report(paths: &Paths, host: &Host, readiness: &Readiness) -> HostReport {
    let alive = HostStatus::of(paths, host);
    let node = match (&alive, readiness.get(&host.name)) {
        (None, _) => Err("the host does not run".to_owned()),
        (Some(_), Some(Ok(()))) => Ok("Ready".to_owned()),
        (Some(_), Some(Err(why))) => Err(format!("NotReady: {why}")),
        (Some(_), None) => Err("its node is unknown".to_owned()),
    };
    let programs = alive.map(|status| status.programs).unwrap_or_default();
    let all_run = programs.iter().all(|program| program.state == ProgramState::Running);
    HostReport {
        host: host.clone(),
        healthy: node.is_ok() && all_run,
        node: node.unwrap_or_else(|why| why),
        programs,
    }
}

impl HostReport {
    /// What the host is for, in a word.
    pub fn role(&self) -> &'static str {
        match self.host.role {
            Role::Master => "master",
            Role::Worker => "worker",
        }
    }
}
