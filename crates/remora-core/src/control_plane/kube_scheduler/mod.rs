//! kube-scheduler: places the pods of the hosted cluster.

use kube::core::DynamicObject;

use super::pod::{self, Access, Container, Pod, Readiness, Volume};
use super::{Availability, ControlPlane, kubeconfig};
use crate::pki::{self, Authority};

/// Name of the component and of its Deployment.
pub const NAME: &str = "kube-scheduler";

const PORT: u16 = 10259;
const PKI_PATH: &str = "/etc/kubernetes/pki";

/// Builds the Deployment.
pub fn objects(control_plane: &ControlPlane) -> Vec<DynamicObject> {
    let pod = Pod {
        component: NAME,
        containers: vec![container(control_plane)],
        volumes: vec![(
            "pki",
            Volume::Secrets(vec![
                (kubeconfig::KUBE_SCHEDULER, remora_api::names::KUBECONFIG_KEY, "kubeconfig"),
                (Authority::Root.secret(), pki::CERTIFICATE_KEY, "root-ca.crt"),
                (Authority::Aggregator.secret(), pki::CERTIFICATE_KEY, "aggregator-ca.crt"),
            ]),
        )],
    };
    vec![pod::deployment(control_plane, &pod)]
}

fn container(control_plane: &ControlPlane) -> Container {
    Container {
        name: NAME,
        image: control_plane.images.kube_scheduler.clone(),
        program: "kube-scheduler",
        args: args(control_plane),
        // Some 15 MB of live data at idle; see kube-apiserver.
        env: vec![pod::env("GOGC", "50")],
        ports: vec![("metrics", PORT)],
        probes: pod::probes("HTTPS", PORT, "/readyz", "/livez", Readiness::OnceStarted),
        requests: ("10m", "48Mi"),
        mounts: vec![("pki", PKI_PATH, Access::Read)],
    }
}

fn args(control_plane: &ControlPlane) -> Vec<String> {
    let mut args = vec![
        format!("--kubeconfig={PKI_PATH}/kubeconfig"),
        format!("--authentication-kubeconfig={PKI_PATH}/kubeconfig"),
        format!("--authorization-kubeconfig={PKI_PATH}/kubeconfig"),
        format!("--client-ca-file={PKI_PATH}/root-ca.crt"),
        format!("--requestheader-client-ca-file={PKI_PATH}/aggregator-ca.crt"),
        format!("--leader-elect={}", control_plane.availability == Availability::HighlyAvailable),
        format!("--secure-port={PORT}"),
        "--profiling=false".to_owned(),
    ];
    if !control_plane.feature_gates.is_empty() {
        args.push(format!("--feature-gates={}", control_plane.feature_gates.join(",")));
    }
    args
}

#[cfg(test)]
mod tests {
    use k8s_openapi::api::apps::v1::Deployment;

    use super::*;
    use crate::control_plane::testing::{assert_is, control_plane};

    #[test]
    fn when_one_replica_is_asked_for_it_elects_no_leader() {
        let objects = objects(&control_plane());
        assert_is::<Deployment>(objects.last().unwrap());
        insta::assert_yaml_snapshot!(objects);
    }
}
