//! Every process of the lab is killed from outside; namespaces, links, mounts and cgroups stay. `remora lab up`
//! brings it back with everything that ran on it.

use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::time::Duration;

use anyhow::ensure;
use remora_lab::ProcessId;

use crate::support::lab::{Lab, WORKERS, remora};
use crate::support::page::shows_the_picture;
use crate::support::wait::{BOOT, SOON, seen, until};
use crate::support::{Hosted, story};

/// Bringing the lab back takes a minute.
const LAB_UP: Duration = Duration::from_secs(1200);

#[tokio::test(flavor = "multi_thread")]
async fn a_lab_whose_processes_were_all_killed_comes_back_with_its_clusters() -> anyhow::Result<()>
{
    story(|lab| async move {
        let hosted = Hosted::demo(&lab).await?;
        let processes = processes_of_the_lab(lab.directory())?;
        ensure!(processes.len() > 1 + WORKERS.len(), "of the lab run only {processes:?}");
        let supervised = processes.iter().copied().filter_map(ProcessId::of).collect::<Vec<_>>();
        for process in processes {
            // One that is gone already was a child of one before it.
            let _ = kill(process);
        }
        until("every process has ended", SOON, || async {
            let alive = supervised.iter().filter(|process| process.is_alive()).count();
            Ok(seen(alive == 0, || format!("{alive} of them run")))
        })
        .await?;
        remora(&["lab", "up"], LAB_UP).await?;
        let lab = Lab::connect().await?;
        let hosted = Hosted::named(&lab, &hosted.namespace, &hosted.name);
        hosted.available().await?;
        for worker in WORKERS {
            shows_the_picture(&format!("http://{worker}:30001"), BOOT).await?;
        }
        Ok(())
    })
    .await
}

/// Every process that has a path of the lab in its command line: supervisor, registry, hosts and their programs.
/// The pods and machines of a host end with its first process.
fn processes_of_the_lab(directory: &Path) -> anyhow::Result<Vec<i32>> {
    let mut found = Vec::new();
    for entry in fs::read_dir("/proc")? {
        let entry = entry?;
        let Some(pid) = entry.file_name().to_str().and_then(|name| name.parse().ok()) else {
            continue;
        };
        // One that has ended meanwhile has none.
        let command = fs::read(entry.path().join("cmdline")).unwrap_or_default();
        let mut words = command.split(|byte| *byte == 0);
        if words.any(|word| Path::new(OsStr::from_bytes(word)).starts_with(directory)) {
            found.push(pid);
        }
    }
    Ok(found)
}

fn kill(pid: i32) -> std::io::Result<()> {
    let mut command = std::process::Command::new("kill");
    command.args(["-9", &pid.to_string()]).stderr(std::process::Stdio::null()).status().map(drop)
}
