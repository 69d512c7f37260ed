//! The operator's Deployment.

use k8s_openapi::api::apps::v1::{Deployment, DeploymentSpec, DeploymentStrategy};
use k8s_openapi::api::core::v1::{
    Capabilities, Container, ContainerPort, EnvVar, EnvVarSource, HTTPGetAction,
    ObjectFieldSelector, PodSecurityContext, PodSpec, PodTemplateSpec, Probe, ResourceRequirements,
    SeccompProfile, SecurityContext,
};
use k8s_openapi::apimachinery::pkg::api::resource::Quantity;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{LabelSelector, ObjectMeta};
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;

use super::{InstallOptions, NAME_LABEL, OPERATOR, named};

/// Port of /healthz and /readyz.
const HEALTH_PORT: i32 = 8080;
/// User of the program in its image.
const USER: i64 = 65532;

pub(super) fn deployment(options: &InstallOptions) -> Deployment {
    let pod_labels = [(NAME_LABEL.to_owned(), OPERATOR.to_owned())];
    Deployment {
        metadata: named(OPERATOR),
        spec: Some(DeploymentSpec {
            replicas: Some(1),
            selector: LabelSelector {
                match_labels: Some(pod_labels.clone().into()),
                ..LabelSelector::default()
            },
            // Two operators of different versions must not work at the same time.
            strategy: Some(DeploymentStrategy {
                type_: Some("Recreate".to_owned()),
                ..DeploymentStrategy::default()
            }),
            template: PodTemplateSpec {
                metadata: Some(ObjectMeta {
                    labels: Some(pod_labels.into()),
                    ..ObjectMeta::default()
                }),
                spec: Some(pod(options)),
            },
            ..DeploymentSpec::default()
        }),
        status: None,
    }
}

fn pod(options: &InstallOptions) -> PodSpec {
    PodSpec {
        service_account_name: Some(OPERATOR.to_owned()),
        security_context: Some(PodSecurityContext {
            run_as_non_root: Some(true),
            run_as_user: Some(USER),
            run_as_group: Some(USER),
            seccomp_profile: Some(SeccompProfile {
                type_: "RuntimeDefault".to_owned(),
                localhost_profile: None,
            }),
            ..PodSecurityContext::default()
        }),
        containers: vec![container(options)],
        ..PodSpec::default()
    }
}

fn container(options: &InstallOptions) -> Container {
    let registries = options.insecure_registries.iter();
    let args: Vec<String> = registries.map(|name| format!("--insecure-registry={name}")).collect();
    Container {
        name: "operator".to_owned(),
        image: Some(options.image.clone()),
        command: Some(vec![OPERATOR.to_owned()]),
        args: Some(args).filter(|args| !args.is_empty()),
        env: Some(vec![
            from_field("POD_NAMESPACE", "metadata.namespace"),
            from_field("POD_NAME", "metadata.name"),
        ]),
        ports: Some(vec![ContainerPort {
            name: Some("health".to_owned()),
            container_port: HEALTH_PORT,
            ..ContainerPort::default()
        }]),
        liveness_probe: Some(probe("/healthz", 10, 6)),
        readiness_probe: Some(probe("/readyz", 2, 3)),
        resources: Some(ResourceRequirements {
            requests: Some(quantities([("cpu", "50m"), ("memory", "64Mi")])),
            // Memory that is never given back is a fault; processor time is shared by need.
            limits: Some(quantities([("memory", "512Mi")])),
            ..ResourceRequirements::default()
        }),
        security_context: Some(SecurityContext {
            allow_privilege_escalation: Some(false),
            read_only_root_filesystem: Some(true),
            capabilities: Some(Capabilities {
                drop: Some(vec!["ALL".to_owned()]),
                ..Capabilities::default()
            }),
            ..SecurityContext::default()
        }),
        ..Container::default()
    }
}

fn from_field(name: &str, path: &str) -> EnvVar {
    EnvVar {
        name: name.to_owned(),
        value_from: Some(EnvVarSource {
            field_ref: Some(ObjectFieldSelector {
                field_path: path.to_owned(),
                ..ObjectFieldSelector::default()
            }),
            ..EnvVarSource::default()
        }),
        ..EnvVar::default()
    }
}

fn probe(path: &str, period_seconds: i32, failures: i32) -> Probe {
    Probe {
        http_get: Some(HTTPGetAction {
            path: Some(path.to_owned()),
            port: IntOrString::String("health".to_owned()),
            ..HTTPGetAction::default()
        }),
        period_seconds: Some(period_seconds),
        timeout_seconds: Some(5),
        failure_threshold: Some(failures),
        ..Probe::default()
    }
}

fn quantities<const N: usize>(
    list: [(&str, &str); N],
) -> std::collections::BTreeMap<String, Quantity> {
    list.map(|(name, amount)| (name.to_owned(), Quantity(amount.to_owned()))).into()
}
