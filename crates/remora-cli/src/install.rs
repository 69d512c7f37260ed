//! `remora install`.

use std::sync::Arc;

use clap::Args;
use k8s_openapi::api::apps::v1::Deployment;
use kube::core::DynamicObject;
use remora_core::install::{InstallOptions, objects};
use remora_lab::build::Cache;
use remora_lab::images::{self, App, SharedProgress};
use remora_lab::topology::REGISTRY;

use crate::connect::Connection;
use crate::failure::{Failure, told};
use crate::progress::Console;
use crate::wait::{Look, WaitOptions, aloud, until};
use crate::{manifest, output};

/// Field manager of the installation.
const FIELD_MANAGER: &str = "remora-install";

/// Installs the operator: namespace, CRDs, RBAC and Deployment. Repeating it brings everything up to date.
#[derive(Clone, Debug, Args)]
#[command(after_help = "Examples:
  remora install                                   in the lab: with the operator that lies beside this program
  remora install --image registry.example/remora/operator:0.1.0 --wait
  remora install --image registry.example/remora/operator:0.1.0 --render | kubectl apply --server-side -f -")]
pub(crate) struct InstallCommand {
    /// Image of the operator [default: in the lab the program beside this one; elsewhere required].
    #[arg(long, value_name = "IMAGE")]
    image: Option<String>,
    /// Registry (host:port) that the operator speaks to over plain HTTP; repeatable [default: in the lab its own].
    #[arg(long = "insecure-registry", value_name = "HOST:PORT")]
    insecure_registries: Vec<String>,
    /// Prints the manifests instead of applying them.
    #[arg(long)]
    render: bool,
    #[command(flatten)]
    waiting: WaitOptions,
}

impl InstallCommand {
    /// The installation that the demo makes.
    pub(crate) fn for_demo(waiting: WaitOptions) -> Self {
        Self { image: None, insecure_registries: Vec::new(), render: false, waiting }
    }

    /// Runs the command.
    pub(crate) async fn run(self, connection: &Connection) -> Result<(), Failure> {
        let options = self.options(connection).await?;
        let objects = objects(&options);
        if self.render {
            return output::manifests(&objects);
        }
        let client = connection.client().await?;
        for object in &objects {
            manifest::apply_one(&client, object, FIELD_MANAGER).await?;
        }
        output::note(&format!("operator installed: {}", options.image));
        if self.waiting.wait
            && let Some(deployment) = objects.last()
        {
            let limit = self.waiting.timeout.0;
            until(&client, deployment, "operator available", limit, &aloud, judge).await?;
        }
        Ok(())
    }

    async fn options(&self, connection: &Connection) -> Result<InstallOptions, Failure> {
        let mut insecure_registries = self.insecure_registries.clone();
        let is_lab = connection.is_lab().await;
        if is_lab && insecure_registries.is_empty() {
            insecure_registries.push(REGISTRY.to_owned());
        }
        let image = match &self.image {
            Some(image) => image.clone(),
            None if is_lab => publish(App::Operator, &(Arc::new(Console::new()) as _)).await?,
            None => {
                return Err(Failure::Flag {
                    flag: "--image",
                    problem: "outside the lab the operator's image has to be named".to_owned(),
                    remedy: "add --image <registry>/<repository>:<tag>.".to_owned(),
                });
            }
        };
        Ok(InstallOptions { image, insecure_registries })
    }
}

/// Publishes one of our own programs in the lab's registry; the reference by digest changes with the program.
pub(crate) async fn publish(app: App, progress: &SharedProgress) -> Result<String, Failure> {
    let unusable = |error: &dyn std::error::Error| Failure::Flag {
        flag: "--image",
        problem: format!("cannot publish {} in the lab's registry: {}", app.image(), told(error)),
        remedy: "build the workspace with `cargo build --release`, or name an image.".to_owned(),
    };
    let cache = Cache::open().map_err(|error| unusable(&error))?;
    let published = images::publish_app(app, &cache, REGISTRY, progress).await;
    let published = published.map_err(|error| unusable(&error))?;
    published.reference(app.image()).map(str::to_owned).map_err(|error| unusable(&error))
}

/// The newest version of the Deployment is rolled out.
fn judge(found: Option<&DynamicObject>) -> Look {
    let parsed = found.and_then(|found| found.clone().try_parse::<Deployment>().ok());
    let Some(deployment) = parsed else { return Look::NotYet("it does not exist".to_owned()) };
    let status = deployment.status.unwrap_or_default();
    let is_current = status.observed_generation == deployment.metadata.generation;
    let wanted = deployment.spec.and_then(|spec| spec.replicas).unwrap_or(1);
    let available = status.available_replicas.unwrap_or_default();
    let updated = status.updated_replicas.unwrap_or_default();
    let all = status.replicas.unwrap_or_default();
    if is_current && available == wanted && updated == wanted && all == wanted {
        return Look::Done;
    }
    let conditions = status.conditions.unwrap_or_default();
    let message = conditions
        .into_iter()
        .find(|condition| condition.status == "False")
        .and_then(|condition| condition.message);
    Look::NotYet(message.unwrap_or_else(|| format!("{available} of {wanted} pods are available")))
}
