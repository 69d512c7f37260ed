//! Notices that waiting is in vain: a program of a host that ends again and again.

use std::collections::BTreeMap;
use std::convert::Infallible;
use std::future::Future;
use std::time::Duration;

use crate::error::LabError;
use crate::host::status::{HostStatus, ProgramState};
use crate::paths::Paths;
use crate::topology::Topology;

/// How often the hosts' reports are looked at.
const LOOK: Duration = Duration::from_secs(1);
/// Starts that may fail while a lab comes up, as when a program's peer is not there yet.
const TOLERATED: u32 = 4;

/// How often each program of each host had failed.
type Failures = BTreeMap<(String, String), u32>;

/// Waits for `work`, but no longer than the hosts' programs can be kept running.
pub(crate) async fn unless<T>(
    paths: &Paths,
    topology: &Topology,
    work: impl Future<Output = Result<T, LabError>>,
) -> Result<T, LabError> {
    tokio::select! {
        result = work => result,
        result = watch(paths, topology) => result.map(|never| match never {}),
    }
}

async fn watch(paths: &Paths, topology: &Topology) -> Result<Infallible, LabError> {
    // What failed before this wait began may have been mended since.
    let before = failures(&reports(paths, topology));
    loop {
        tokio::time::sleep(LOOK).await;
        if let Some(trouble) = find(&reports(paths, topology), &before) {
            return Err(trouble);
        }
    }
}

fn reports(paths: &Paths, topology: &Topology) -> Vec<(String, HostStatus)> {
    let report = |host| HostStatus::of(paths, host).map(|status| (host.name.clone(), status));
    topology.hosts.iter().filter_map(report).collect()
}

fn failures(reports: &[(String, HostStatus)]) -> Failures {
    let of_host = |(host, status): &(String, HostStatus)| {
        let host = host.clone();
        let programs = status.programs.clone().into_iter();
        programs.map(move |program| ((host.clone(), program.name), program.failures))
    };
    reports.iter().flat_map(of_host).collect()
}

/// The first program, in the order of starting, that failed too often since `before`: those after
/// it may fail for its sake.
fn find(reports: &[(String, HostStatus)], before: &Failures) -> Option<LabError> {
    reports.iter().find_map(|(host, status)| {
        let program = status.programs.iter().find(|program| {
            let key = (host.clone(), program.name.clone());
            let earlier = before.get(&key).copied().unwrap_or(0);
            program.state == ProgramState::Restarting
                && program.failures.saturating_sub(earlier) >= TOLERATED
        })?;
        Some(LabError::Program {
            host: host.clone(),
            program: program.name.clone(),
            how: program.last_exit.clone().unwrap_or_default(),
            lines: program.last_lines.clone(),
        })
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::host::status::ProgramStatus;
    use crate::process::own_process;

    fn reports(programs: &[(&str, u32)]) -> Vec<(String, HostStatus)> {
        let program = |(name, failures): &(&str, u32)| ProgramStatus {
            name: (*name).to_owned(),
            state: ProgramState::Restarting,
            restarts: *failures,
            failures: *failures,
            last_exit: Some("ended with status 1".to_owned()),
            last_lines: vec![format!("{name} is unhappy")],
        };
        let programs = programs.iter().map(program).collect();
        let status = HostStatus {
            init: own_process().unwrap(),
            began: 7,
            fingerprint: String::new(),
            programs,
        };
        vec![("master-1".to_owned(), status)]
    }

    #[test]
    fn when_two_programs_fail_the_one_started_first_is_named_with_its_last_words() {
        let reports = reports(&[("kube-apiserver", 4), ("kube-controller-manager", 9)]);
        assert_eq!(
            find(&reports, &Failures::new()).unwrap().to_string(),
            "kube-apiserver of master-1 keeps ending: it ended with status 1\n\
             kube-apiserver is unhappy"
        );
    }

    #[test]
    fn when_the_failures_are_old_they_do_not_count() {
        let old = reports(&[("etcd", 7)]);
        assert!(find(&old, &failures(&old)).is_none());
        assert!(find(&reports(&[("etcd", 10)]), &failures(&old)).is_none());
        assert!(find(&reports(&[("etcd", 11)]), &failures(&old)).is_some());
    }
}
