//! `remora create cluster kubevirt`.

use std::path::PathBuf;

use clap::Args;
use k8s_openapi::api::core::v1::Node;
use kube::api::ListParams;
use kube::core::DynamicObject;
use kube::{Api, Client};
use remora_api::conditions::{HostedClusterConditionType, NodePoolConditionType};
use remora_api::names;
use serde_json::{Value, json};

use super::UpgradeType;
use super::cluster_options::{ControlPlaneOptions, NetworkOptions, Publishing, some_labels};
use super::node_pool::{PoolRequest, node_pool};
use crate::cli::object_name;
use crate::connect::Connection;
use crate::failure::Failure;
use crate::pool_options::PoolOptions;
use crate::wait::{WaitOptions, aloud, until_condition};
use crate::{manifest, output};

/// Label of what is removed together with the cluster.
pub(crate) const GOES_WITH_CLUSTER: &str = "hypershift.openshift.io/safe-to-delete-with-cluster";
/// A pull secret for registries that ask for none.
pub(crate) const EMPTY_PULL_SECRET: &str = r#"{"auths":{}}"#;

/// Creates a cluster whose nodes are virtual machines of the hosting cluster.
#[derive(Clone, Debug, Args)]
#[command(after_help = "Examples:
  remora create cluster kubevirt --name=cluster1 --node-pool-replicas=2 --release-image=... --wait
  remora create cluster kubevirt --name=cluster1 --service-publishing-strategy=NodePort \\
      --api-server-address=192.168.123.101 --release-image=...
  remora create cluster kubevirt --name=cluster1 --release-image=... --render > cluster1.yaml")]
pub(crate) struct ClusterCommand {
    #[command(flatten)]
    cluster: ClusterOptions,
    /// Prints the manifests, secrets left out, instead of applying them.
    #[arg(long)]
    render: bool,
    /// With --render: prints the secrets too.
    #[arg(long, requires = "render")]
    render_sensitive: bool,
    #[command(flatten)]
    waiting: WaitOptions,
}

/// What a cluster is made of.
#[derive(Clone, Debug, Args)]
pub(crate) struct ClusterOptions {
    /// Name of the cluster.
    #[arg(long, default_value = "example", value_parser = object_name)]
    name: String,
    /// Namespace of the cluster's objects; made when it is missing.
    #[arg(long, default_value = "clusters", value_parser = object_name)]
    namespace: String,
    /// Release image.
    #[arg(long, env = "REMORA_RELEASE_IMAGE", value_name = "IMAGE")]
    release_image: String,
    /// Pull secret file (.dockerconfigjson) [default: one that names no registry].
    #[arg(long, value_name = "FILE")]
    pull_secret: Option<PathBuf>,
    /// Public SSH key file for the nodes.
    #[arg(long, value_name = "FILE")]
    ssh_key: Option<PathBuf>,
    /// How many nodes the first pool has; below zero: no pool is created.
    #[arg(long, default_value_t = 0, allow_hyphen_values = true)]
    node_pool_replicas: i32,
    /// How nodes get another version.
    #[arg(long, value_enum, default_value = "Replace")]
    node_upgrade_type: UpgradeType,
    /// Replaces nodes that are not healthy.
    #[arg(long)]
    auto_repair: bool,
    /// Processor architecture of the nodes.
    #[arg(long, default_value = "amd64")]
    arch: String,
    #[command(flatten)]
    control_plane: ControlPlaneOptions,
    #[command(flatten)]
    network: NetworkOptions,
    #[command(flatten)]
    machines: PoolOptions,
    /// Annotation of the HostedCluster, as key=value; repeatable.
    #[arg(long, value_name = "KEY=VALUE")]
    annotations: Vec<String>,
    /// Label of the HostedCluster, as key=value; repeatable.
    #[arg(long, value_name = "KEY=VALUE")]
    labels: Vec<String>,
    /// Pauses reconciliation: true, or until a time (RFC 3339).
    #[arg(long = "pausedUntil", value_name = "TIME")]
    paused_until: Option<String>,
}

/// What the manifests take from outside the flags.
#[derive(Clone, Debug, Default)]
struct Found {
    pull_secret: String,
    ssh_key: Option<String>,
    /// Address of a hosting node, for NodePort.
    node_address: Option<String>,
}

impl ClusterCommand {
    pub(super) async fn run(self, connection: &Connection) -> Result<(), Failure> {
        let objects = self.cluster.manifests(connection).await?;
        if self.render {
            let shown: Vec<DynamicObject> = objects
                .into_iter()
                .filter(|object| self.render_sensitive || !is_secret(object))
                .collect();
            return output::manifests(&shown);
        }
        let client = connection.client().await?;
        let ours = |object: &&DynamicObject| {
            object.types.as_ref().is_some_and(|types| types.api_version.contains("hypershift"))
        };
        for object in objects.iter().filter(ours) {
            manifest::refuse_existing(&client, object).await?;
        }
        manifest::apply(&client, &objects).await?;
        for object in &objects {
            output::note(&format!("{} created.", manifest::told(object)));
        }
        if self.waiting.wait {
            self.wait(&client, &objects).await?;
        }
        Ok(())
    }

    async fn wait(&self, client: &Client, objects: &[DynamicObject]) -> Result<(), Failure> {
        let limit = self.waiting.timeout.0;
        for object in objects {
            let kind = object.types.as_ref().map(|types| types.kind.as_str());
            let condition = match kind {
                Some("HostedCluster") => HostedClusterConditionType::Available.as_str(),
                Some("NodePool") if self.cluster.node_pool_replicas > 0 => {
                    NodePoolConditionType::Ready.as_str()
                }
                _ => continue,
            };
            until_condition(client, object, condition, limit, &aloud).await?;
            output::note(&format!("{}: {}.", manifest::told(object), condition));
        }
        Ok(())
    }
}

impl ClusterOptions {
    /// The manifests, in the order in which they are applied; the Secrets have their content.
    ///
    /// The hosting cluster is asked for nothing but an address, where one is needed and none is given.
    pub(crate) async fn manifests(
        &self,
        connection: &Connection,
    ) -> Result<Vec<DynamicObject>, Failure> {
        self.check()?;
        let mut found = Found {
            pull_secret: match &self.pull_secret {
                Some(path) => read(path)?,
                None => EMPTY_PULL_SECRET.to_owned(),
            },
            ssh_key: self.ssh_key.as_ref().map(read).transpose()?,
            node_address: self.control_plane.api_server_address.clone(),
        };
        let publishing = self.control_plane.service_publishing_strategy;
        if publishing == Publishing::NodePort && found.node_address.is_none() {
            found.node_address = Some(first_node_address(&connection.client().await?).await?);
        }
        self.objects(&found)
    }

    fn check(&self) -> Result<(), Failure> {
        self.machines.platform()?;
        let publishing = self.control_plane.service_publishing_strategy;
        if self.control_plane.api_server_address.is_some() && publishing != Publishing::NodePort {
            return Err(Failure::Flag {
                flag: "--api-server-address",
                problem: "an address is only used for publishing by NodePort".to_owned(),
                remedy: "add --service-publishing-strategy=NodePort, or leave the address out."
                    .to_owned(),
            });
        }
        Ok(())
    }

    fn objects(&self, found: &Found) -> Result<Vec<DynamicObject>, Failure> {
        let mut objects = vec![
            json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": self.namespace}}),
            self.secret(
                &names::pull_secret(&self.name),
                "kubernetes.io/dockerconfigjson",
                (names::PULL_SECRET_KEY, &found.pull_secret),
            ),
        ];
        if let Some(key) = &found.ssh_key {
            let name = names::ssh_key_secret(&self.name);
            objects.push(self.secret(&name, "Opaque", (names::SSH_KEY_KEY, key)));
        }
        objects.push(self.hosted_cluster(found)?);
        if self.node_pool_replicas >= 0 {
            objects.push(node_pool(&PoolRequest {
                namespace: &self.namespace,
                name: &self.name,
                cluster_name: &self.name,
                replicas: self.node_pool_replicas,
                image: &self.release_image,
                upgrade_type: self.node_upgrade_type,
                auto_repair: self.auto_repair,
                arch: &self.arch,
                platform: self.machines.platform()?,
            }));
        }
        objects.into_iter().map(manifest::from_json).collect()
    }

    fn secret(&self, name: &str, type_: &str, (key, content): (&str, &str)) -> Value {
        json!({
            "apiVersion": "v1",
            "kind": "Secret",
            "metadata": {
                "namespace": self.namespace,
                "name": name,
                "labels": {GOES_WITH_CLUSTER: "true"},
            },
            "type": type_,
            "stringData": {key: content},
        })
    }

    fn hosted_cluster(&self, found: &Found) -> Result<Value, Failure> {
        let plane = &self.control_plane;
        let mut persistent = json!({"size": plane.etcd_storage_size});
        if let Some(class) = &plane.etcd_storage_class {
            persistent["storageClassName"] = json!(class);
        }
        let mut spec = json!({
            "release": {"image": self.release_image},
            "pullSecret": {"name": names::pull_secret(&self.name)},
            "platform": {
                "type": "KubeVirt",
                "kubevirt": {"baseDomainPassthrough": self.network.base_domain.is_none()},
            },
            "controllerAvailabilityPolicy": plane.control_plane_availability_policy.word(),
            "infrastructureAvailabilityPolicy": plane.infra_availability_policy.word(),
            "networking": self.network.networking(),
            "etcd": {
                "managementType": "Managed",
                "managed": {"storage": {"type": "PersistentVolume", "persistentVolume": persistent}},
            },
            "services": plane.services(found.node_address.as_deref()),
        });
        let optional = [
            ("dns", self.network.base_domain.as_ref().map(|domain| json!({"baseDomain": domain}))),
            ("infraID", plane.infra_id.as_ref().map(|id| json!(id))),
            ("kubeAPIServerDNSName", plane.kas_dns_name.as_ref().map(|name| json!(name))),
            ("pausedUntil", self.paused_until.as_ref().map(|time| json!(time))),
            (
                "sshKey",
                found.ssh_key.as_ref().map(|_| json!({"name": names::ssh_key_secret(&self.name)})),
            ),
            ("nodeSelector", some_labels("--node-selector", &plane.node_selector)?),
            ("labels", some_labels("--pods-labels", &plane.pods_labels)?),
        ];
        for (field, value) in optional {
            if let Some(value) = value {
                spec[field] = value;
            }
        }
        let mut metadata = json!({"namespace": self.namespace, "name": self.name});
        let extra = [
            ("annotations", some_labels("--annotations", &self.annotations)?),
            ("labels", some_labels("--labels", &self.labels)?),
        ];
        for (field, value) in extra {
            if let Some(value) = value {
                metadata[field] = value;
            }
        }
        Ok(json!({
            "apiVersion": "hypershift.openshift.io/v1beta1",
            "kind": "HostedCluster",
            "metadata": metadata,
            "spec": spec,
        }))
    }
}

fn is_secret(object: &DynamicObject) -> bool {
    object.types.as_ref().is_some_and(|types| types.kind == "Secret")
}

fn read(path: &PathBuf) -> Result<String, Failure> {
    let text = std::fs::read_to_string(path);
    text.map_err(|source| Failure::File { path: path.clone(), source })
}

async fn first_node_address(client: &Client) -> Result<String, Failure> {
    let nodes = Api::<Node>::all(client.clone()).list(&ListParams::default()).await;
    let nodes = nodes.map_err(Failure::request("list", "the hosting cluster's nodes"))?;
    let addresses = nodes.items.iter().filter_map(|node| node.status.as_ref());
    let mut internal = addresses
        .flat_map(|status| status.addresses.iter().flatten())
        .filter(|address| address.type_ == "InternalIP");
    internal.next().map(|found| found.address.clone()).ok_or_else(|| Failure::Missing {
        object: "a hosting node with an InternalIP".to_owned(),
        remedy: "name an address with --api-server-address.".to_owned(),
    })
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Parser)]
    struct Command {
        #[command(flatten)]
        command: ClusterCommand,
    }

    fn options(flags: &[&str]) -> ClusterOptions {
        let fixed = ["test", "--name=cluster1", "--release-image=registry.example/release:1"];
        Command::try_parse_from(fixed.iter().chain(flags)).unwrap().command.cluster
    }

    fn rendered(flags: &[&str], found: &Found) -> String {
        let objects = options(flags).objects(found).unwrap();
        for object in &objects {
            let kind = object.types.as_ref().unwrap().kind.as_str();
            if kind == "HostedCluster" {
                object.clone().try_parse::<remora_api::HostedCluster>().unwrap();
            }
        }
        output::rendered(&objects).unwrap()
    }

    #[test]
    fn the_defaults_make_this_cluster() {
        let found = Found { pull_secret: EMPTY_PULL_SECRET.to_owned(), ..Found::default() };
        insta::assert_snapshot!(rendered(&[], &found));
    }

    #[test]
    fn every_option_has_its_field() {
        let found = Found {
            pull_secret: EMPTY_PULL_SECRET.to_owned(),
            ssh_key: Some("ssh-ed25519 AAAA".to_owned()),
            node_address: Some("192.168.123.101".to_owned()),
        };
        insta::assert_snapshot!(rendered(
            &[
                "--namespace=team-a",
                "--node-pool-replicas=2",
                "--node-upgrade-type=InPlace",
                "--auto-repair",
                "--control-plane-availability-policy=SingleReplica",
                "--infra-availability-policy=HighlyAvailable",
                "--etcd-storage-class=fast",
                "--etcd-storage-size=4Gi",
                "--infra-id=cluster1-abcde",
                "--node-selector=role=control",
                "--pods-labels=team=a",
                "--service-publishing-strategy=NodePort",
                "--kas-dns-name=api.example",
                "--service-cidr=10.1.0.0/16",
                "--cluster-cidr=10.2.0.0/16",
                "--machine-cidr=10.3.0.0/16",
                "--network-type=Other",
                "--base-domain=example.com",
                "--annotations=a=b",
                "--labels=c=d",
                "--pausedUntil=true",
            ],
            &found
        ));
    }

    #[test]
    fn below_zero_replicas_no_pool_is_made() {
        let objects = options(&["--node-pool-replicas=-1"]).objects(&Found::default()).unwrap();
        let kinds: Vec<String> =
            objects.into_iter().map(|object| object.types.unwrap().kind).collect();
        assert_eq!(kinds, ["Namespace", "Secret", "HostedCluster"]);
    }

    #[test]
    fn an_address_without_node_ports_is_refused() {
        let failure = options(&["--api-server-address=10.0.0.1"]).check().unwrap_err();
        assert_eq!(
            failure.to_string(),
            "--api-server-address: an address is only used for publishing by NodePort"
        );
    }
}
