//! Volumes: directories on the workers, made beforehand and used again after their release.
//!
//! ```text
//!  Available ──(claimed)──▶ Bound ──(claim deleted)──▶ Released ──(emptied here)──▶ Available
//! ```

use std::fs;
use std::path::Path;
use std::time::Duration;

use k8s_openapi::api::core::v1::PersistentVolume;
use kube::api::{ListParams, Patch, PatchParams};
use kube::{Api, Client};
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

use crate::cluster::api;
use crate::error::{LabError, with_causes};
use crate::files;
use crate::paths::Paths;
use crate::plan::Plan;
use crate::topology::{Host, Topology};

/// The StorageClass of the lab's volumes, which is the default one.
pub(crate) const STORAGE_CLASS: &str = "local";
/// Volumes per worker.
const VOLUMES: u8 = 12;
/// What each promises; nothing enforces it.
const CAPACITY: &str = "32Gi";
/// Says which directory a volume is, by worker and number.
const LABEL_HOST: &str = "lab.remora.dev/host";
const LABEL_NUMBER: &str = "lab.remora.dev/number";
/// How often released volumes are looked for.
const LOOK: Duration = Duration::from_secs(3);

/// The StorageClass and every volume.
pub(crate) fn objects(topology: &Topology) -> Vec<Value> {
    let class = json!({
        "apiVersion": "storage.k8s.io/v1",
        "kind": "StorageClass",
        "metadata": {
            "name": STORAGE_CLASS,
            "annotations": {"storageclass.kubernetes.io/is-default-class": "true"},
        },
        "provisioner": "kubernetes.io/no-provisioner",
        "volumeBindingMode": "WaitForFirstConsumer",
        "reclaimPolicy": "Retain",
    });
    let volumes = topology
        .workers()
        .flat_map(|host| (1..=VOLUMES).map(move |number| volume(host, &number.to_string())));
    std::iter::once(class).chain(volumes).collect()
}

fn volume(host: &Host, number: &str) -> Value {
    let name = format!("{}-{number}", host.name);
    json!({
        "apiVersion": "v1",
        "kind": "PersistentVolume",
        "metadata": {
            "name": name,
            "labels": {LABEL_HOST: host.name, LABEL_NUMBER: number},
        },
        "spec": {
            "capacity": {"storage": CAPACITY},
            "accessModes": ["ReadWriteOnce"],
            "volumeMode": "Filesystem",
            "persistentVolumeReclaimPolicy": "Retain",
            "storageClassName": STORAGE_CLASS,
            "local": {"path": format!("/var/lib/volumes/{number}")},
            "nodeAffinity": {"required": {"nodeSelectorTerms": [{"matchExpressions": [{
                "key": "kubernetes.io/hostname",
                "operator": "In",
                "values": [host.name],
            }]}]}},
        },
    })
}

/// Makes the volumes' directories.
pub(crate) fn create_directories(paths: &Paths, topology: &Topology) -> Result<(), LabError> {
    use std::os::unix::fs::PermissionsExt;
    for host in topology.workers() {
        for number in 1..=VOLUMES {
            let directory = directory(paths, &host.name, &number.to_string());
            files::create_dir(&directory)?;
            // Whoever claims it may run as any user.
            fs::set_permissions(&directory, fs::Permissions::from_mode(0o777))
                .map_err(LabError::file("open to all", &directory))?;
        }
    }
    Ok(())
}

fn directory(paths: &Paths, host: &str, number: &str) -> std::path::PathBuf {
    paths.host(host).var_lib().join("volumes").join(number)
}

/// Empties released volumes and offers them again, until the token is cancelled.
pub(crate) async fn recycle(paths: Paths, stop: CancellationToken) {
    while !stop.is_cancelled() {
        if let Err(error) = recycle_once(&paths).await {
            // The API server is away whenever it starts anew.
            tracing::debug!(error = %with_causes(&error), "cannot look for released volumes");
        }
        tokio::select! {
            () = stop.cancelled() => {}
            () = tokio::time::sleep(LOOK) => {}
        }
    }
}

async fn recycle_once(paths: &Paths) -> Result<(), LabError> {
    let topology = Plan::require(paths)?.topology;
    let client = api::client(paths).await?;
    loop {
        let volumes: Api<PersistentVolume> = Api::all(client.clone());
        let list = volumes
            .list(&ListParams::default().labels(LABEL_HOST))
            .await
            .map_err(LabError::api("list volumes"))?;
        for released in list.items.iter().filter(|volume| is_released(volume)) {
            offer_again(paths, &topology, &client, released).await?;
        }
        tokio::time::sleep(LOOK).await;
    }
}

fn is_released(volume: &PersistentVolume) -> bool {
    let phase = volume.status.as_ref().and_then(|status| status.phase.as_deref());
    phase == Some("Released") || phase == Some("Failed")
}

async fn offer_again(
    paths: &Paths,
    topology: &Topology,
    client: &Client,
    volume: &PersistentVolume,
) -> Result<(), LabError> {
    let label = |key| volume.metadata.labels.as_ref().and_then(|labels| labels.get(key));
    let (Some(host), Some(number)) = (label(LABEL_HOST), label(LABEL_NUMBER)) else {
        return Ok(());
    };
    // Labels can be edited: only a directory that this lab made is emptied.
    if topology.host(host).is_err() || !number.parse::<u8>().is_ok_and(|n| n <= VOLUMES) {
        return Ok(());
    }
    empty(&directory(paths, host, number))?;
    let name = volume.metadata.name.as_deref().unwrap_or_default();
    let free = Patch::Merge(json!({
        // Somebody else's claim must not be lost to an old list.
        "metadata": {"resourceVersion": volume.metadata.resource_version},
        "spec": {"claimRef": null},
    }));
    let volumes: Api<PersistentVolume> = Api::all(client.clone());
    volumes
        .patch(name, &PatchParams::default(), &free)
        .await
        .map_err(LabError::api(format!("free volume {name}")))?;
    tracing::info!(volume = %name, "emptied and offered again");
    Ok(())
}

fn empty(directory: &Path) -> Result<(), LabError> {
    for entry in fs::read_dir(directory).map_err(LabError::file("list", directory))?.flatten() {
        let path = entry.path();
        let is_directory = entry.file_type().is_ok_and(|kind| kind.is_dir());
        let removed = if is_directory { fs::remove_dir_all(&path) } else { fs::remove_file(&path) };
        removed.map_err(LabError::file("remove", &path))?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn when_there_are_two_workers_both_get_their_volumes() {
        let objects = objects(&Topology::new(1, 2).unwrap());
        assert_eq!(objects.len(), 1 + 2 * usize::from(VOLUMES));
        insta::assert_json_snapshot!(objects.get(..2));
    }

    #[test]
    fn when_a_volume_is_emptied_the_directory_itself_stays() {
        let dir = tempfile::tempdir().unwrap();
        fs::create_dir_all(dir.path().join("member/wal")).unwrap();
        fs::write(dir.path().join("file"), "x").unwrap();
        std::os::unix::fs::symlink("/etc", dir.path().join("link")).unwrap();
        empty(dir.path()).unwrap();
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 0);
        assert!(Path::new("/etc/passwd").exists());
    }
}
