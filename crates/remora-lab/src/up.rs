//! Brings the lab up: makes what is missing, keeps what is there.

use std::time::Duration;

use kube::Client;

use crate::build::{Artifacts, BuildError, Cache, Sources};
use crate::cluster::{api, dns, kubevirt, metallb, nodes, storage};
use crate::error::{LabError, with_causes};
use crate::host::status::HostStatus;
use crate::host::trouble;
use crate::images::{self, ImagesError, Published, SharedProgress};
use crate::paths::Paths;
use crate::pki::Pki;
use crate::plan::Plan;
use crate::progress::{Outcome, Progress, Step};
use crate::topology::{REGISTRY, Topology};
use crate::{kubeconfig, lock, network, packages, probe, process, programs, registry, supervisor};

const DEFAULT_MASTERS: u8 = 1;
const DEFAULT_WORKERS: u8 = 3;
/// Ten times what was measured, as everywhere in the lab.
const SUPERVISOR_STARTS: Duration = Duration::from_secs(30);
const REGISTRY_ANSWERS: Duration = Duration::from_secs(30);
const API_READY: Duration = Duration::from_secs(180);

/// What the lab should be.
#[derive(Clone, Debug, Default)]
pub struct UpOptions {
    /// How many masters, 1 or 3. What the lab has, or 1, when not said.
    pub masters: Option<u8>,
    /// How many workers. What the lab has, or 3, when not said.
    pub workers: Option<u8>,
}

/// A lab that is up.
#[derive(Clone, Debug)]
pub struct Lab {
    /// Its hosts.
    pub topology: Topology,
    /// Where its files are.
    pub paths: Paths,
    /// The images in its registry.
    pub images: Published,
}

/// Brings the lab up. What runs already is left as it is.
pub async fn up(
    paths: &Paths,
    options: &UpOptions,
    progress: &SharedProgress,
) -> Result<Lab, LabError> {
    let _lock = lock::for_change(&paths.change_lock())?;
    refuse_second_lab(paths)?;
    let mut plan = decide(paths, options)?;
    install_packages(progress.as_ref())?;
    let artifacts = build(progress.as_ref()).await?;
    prepare(paths, &plan, &artifacts, progress.as_ref())?;
    start_registry(paths, progress.as_ref()).await?;
    let mut images = published(images::publish_hosting(&artifacts, REGISTRY, progress).await)?;
    plan.pause_image = Some(reference(&images, "pod")?.to_owned());
    plan.write(paths)?;

    // The release is for hosted clusters: the hosting one starts while it is made.
    let (cluster, release) = tokio::join!(
        start_cluster(&plan, paths, &artifacts, &images, progress.as_ref()),
        images::publish_release(&artifacts, REGISTRY, progress),
    );
    cluster?;
    images.extend(published(release)?);
    Ok(Lab { topology: plan.topology, paths: paths.clone(), images })
}

async fn start_cluster(
    plan: &Plan,
    paths: &Paths,
    artifacts: &Artifacts,
    images: &Published,
    progress: &dyn Progress,
) -> Result<(), LabError> {
    let client = start_hosts(paths, plan, progress).await?;
    add_basics(&plan.topology, &client, images, progress).await?;
    tokio::try_join!(
        add_kubevirt(&client, artifacts, images, progress),
        add_metallb(&client, artifacts, images, progress),
    )
    .map(drop)
}

/// Names of links and namespaces are the machine's, so one machine has one lab.
fn refuse_second_lab(paths: &Paths) -> Result<(), LabError> {
    let other = process::supervisors().into_iter().find(|(_, lab)| lab != paths.lab());
    match other {
        None => Ok(()),
        Some((_, lab)) => Err(LabError::Refused(format!(
            "another lab runs from {}: end it with `REMORA_LAB_DIR={} remora lab down`",
            lab.display(),
            lab.display()
        ))),
    }
}

/// What the lab is to be: as it is, when it is there.
fn decide(paths: &Paths, options: &UpOptions) -> Result<Plan, LabError> {
    let Some(plan) = Plan::read(paths)? else {
        let masters = options.masters.unwrap_or(DEFAULT_MASTERS);
        let workers = options.workers.unwrap_or(DEFAULT_WORKERS);
        let plan = Plan { topology: Topology::new(masters, workers)?, pause_image: None };
        plan.write(paths)?;
        return Ok(plan);
    };
    let has = (plan.topology.masters().count(), plan.topology.workers().count());
    let wants =
        (options.masters.map_or(has.0, usize::from), options.workers.map_or(has.1, usize::from));
    if has == wants {
        return Ok(plan);
    }
    Err(LabError::Refused(format!(
        "the lab has {} masters and {} workers, not {} and {}: run `remora lab down` first",
        has.0, has.1, wants.0, wants.1
    )))
}

/// Installs the Debian packages that the lab and its builds need; none of them starts a service.
pub fn install_packages(progress: &dyn Progress) -> Result<(), LabError> {
    let step = Step::start(progress, "host packages");
    let missing = packages::missing()?;
    if missing.is_empty() {
        step.finish(Outcome::Reused);
        return Ok(());
    }
    packages::install(&missing, &|text| step.note(text))?;
    step.finish(Outcome::Done);
    Ok(())
}

async fn build(progress: &dyn Progress) -> Result<Artifacts, LabError> {
    let failed = |reason| LabError::Build { action: "build the lab's programs".to_owned(), reason };
    let sources = Sources::find().map_err(|error| failed(with_causes(&error)))?;
    let cache = Cache::open().map_err(|error| failed(with_causes(&error)))?;
    // It runs compilers and waits for them; nothing else has to go on meanwhile.
    tokio::task::block_in_place(|| Artifacts::build(&sources, &cache, progress))
        .map_err(|error| failed(with_causes(&error)))
}

fn prepare(
    paths: &Paths,
    plan: &Plan,
    artifacts: &Artifacts,
    progress: &dyn Progress,
) -> Result<(), LabError> {
    let step = Step::start(progress, "network and certificates");
    programs::install(paths, artifacts)?;
    let pki = Pki::at(paths.pki());
    pki.ensure(&plan.topology)?;
    kubeconfig::write(&paths.kubeconfig(), &plan.topology.api_url(), &pki, "admin")?;
    storage::create_directories(paths, &plan.topology)?;
    registry::configure(paths)?;
    network::ensure(&plan.topology, &paths.saved_forwarding())?;
    step.finish(Outcome::Done);
    Ok(())
}

async fn start_registry(paths: &Paths, progress: &dyn Progress) -> Result<(), LabError> {
    let step = Step::start(progress, "registry");
    let is_new = supervisor::ensure(paths, SUPERVISOR_STARTS)?;
    api::eventually("an answer of the registry", REGISTRY_ANSWERS, || async {
        if registry::answers().await { Ok(()) } else { Err(format!("{REGISTRY} is silent")) }
    })
    .await?;
    step.finish(if is_new { Outcome::Done } else { Outcome::Reused });
    Ok(())
}

fn published(images: Result<Published, ImagesError>) -> Result<Published, LabError> {
    images.map_err(|error| LabError::Build {
        action: "publish the lab's images".to_owned(),
        reason: with_causes(&error),
    })
}

fn reference<'a>(images: &'a Published, name: &str) -> Result<&'a str, LabError> {
    images.reference(name).map_err(|error| LabError::Build {
        action: format!("find image {name}"),
        reason: with_causes(&error),
    })
}

async fn start_hosts(
    paths: &Paths,
    plan: &Plan,
    progress: &dyn Progress,
) -> Result<Client, LabError> {
    let step = Step::start(progress, "control plane");
    for host in &plan.topology.hosts {
        if supervisor::end_if_outdated(paths, plan, host)? {
            step.note(&format!("{} starts again: what it runs has changed", host.name));
        }
    }
    let client = api::client(paths).await?;
    let ready = api::eventually("the API server", API_READY, || api::ready(&client));
    trouble::unless(paths, &plan.topology, ready).await?;
    step.finish(Outcome::Done);

    let step = Step::start(progress, "nodes");
    trouble::unless(paths, &plan.topology, async {
        nodes::describe(&client, &plan.topology).await?;
        let born = |host: &_| HostStatus::of(paths, host).map(|status| status.began);
        nodes::all_ready(&client, &plan.topology, born).await
    })
    .await?;
    step.finish(Outcome::Done);
    Ok(client)
}

async fn add_basics(
    topology: &Topology,
    client: &Client,
    images: &Published,
    progress: &dyn Progress,
) -> Result<(), LabError> {
    let step = Step::start(progress, "storage and DNS");
    api::apply_all(client, &storage::objects(topology)).await?;
    api::apply_all(client, &dns::objects(reference(images, "coredns")?)).await?;
    step.finish(Outcome::Done);
    Ok(())
}

async fn add_kubevirt(
    client: &Client,
    artifacts: &Artifacts,
    images: &Published,
    progress: &dyn Progress,
) -> Result<(), LabError> {
    let step = Step::start(progress, "KubeVirt");
    let acceleration = if probe::kvm_works()? {
        kubevirt::Acceleration::Kvm
    } else {
        step.note("KVM runs no guest here: guests are emulated");
        kubevirt::Acceleration::Emulation
    };
    let generator =
        artifacts.program("kubevirt", "manifests").map_err(unbuilt("KubeVirt's generator"))?;
    let images = kubevirt::Images {
        control: reference(images, "kubevirt-control")?,
        node: reference(images, "kubevirt-node")?,
    };
    kubevirt::install(client, &generator, &images, acceleration).await?;
    kubevirt::deployed(client).await?;
    step.finish(Outcome::Done);
    Ok(())
}

async fn add_metallb(
    client: &Client,
    artifacts: &Artifacts,
    images: &Published,
    progress: &dyn Progress,
) -> Result<(), LabError> {
    let step = Step::start(progress, "MetalLB");
    let manifest = artifacts
        .file("metallb", "config/manifests/metallb-native.yaml")
        .map_err(unbuilt("MetalLB's manifest"))?;
    let images = metallb::Images {
        controller: reference(images, "metallb-controller")?,
        speaker: reference(images, "metallb-speaker")?,
    };
    metallb::install(client, &manifest, &images).await?;
    metallb::deployed(client).await?;
    step.finish(Outcome::Done);
    Ok(())
}

/// Something of a component that was to be built is not there.
fn unbuilt(what: &'static str) -> impl Fn(BuildError) -> LabError {
    move |error| LabError::Build { action: format!("find {what}"), reason: with_causes(&error) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn paths() -> (tempfile::TempDir, Paths) {
        let dir = tempfile::tempdir().unwrap();
        let paths = Paths::new(dir.path().join("lab"), dir.path().join("cache")).unwrap();
        (dir, paths)
    }

    #[test]
    fn when_nothing_is_said_a_lab_stays_as_it_is() {
        let (_dir, paths) = paths();
        let three = UpOptions { masters: Some(3), workers: Some(2) };
        let plan = decide(&paths, &three).unwrap();
        assert_eq!(decide(&paths, &UpOptions::default()).unwrap(), plan);
        assert_eq!(plan.topology, Topology::new(3, 2).unwrap());
    }

    #[test]
    fn when_another_size_is_asked_for_it_is_refused() {
        let (_dir, paths) = paths();
        decide(&paths, &UpOptions::default()).unwrap();
        let five = UpOptions { masters: None, workers: Some(5) };
        assert_eq!(
            decide(&paths, &five).unwrap_err().to_string(),
            "the lab has 1 masters and 3 workers, not 1 and 5: run `remora lab down` first"
        );
    }
}
