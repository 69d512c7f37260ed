//! `remora describe`.

mod path;
mod read;
mod view;

use clap::{Args, Subcommand};
use kube::Api;
use remora_api::ServiceExposure;

use crate::connect::Connection;
use crate::failure::Failure;
use crate::output::{self, ListFormat};

/// Shows one object with everything that it depends on.
#[derive(Clone, Debug, Args)]
#[command(after_help = "Examples:
  remora describe exposure petclinic
  remora describe exposure petclinic -n team-a -o yaml")]
pub(crate) struct DescribeCommand {
    #[command(subcommand)]
    what: What,
}

#[derive(Clone, Debug, Subcommand)]
enum What {
    /// Shows the way of an exposure from outside to the pods, hop by hop, and where it is broken.
    #[command(
        visible_alias = "svx",
        alias = "exposures",
        alias = "serviceexposure",
        alias = "serviceexposures",
        after_help = "Examples:
  remora describe exposure petclinic
  remora describe exposure petclinic -n team-a
  remora describe exposure petclinic -o json | jq -r '.path[] | select(.remedy) | .remedy'"
    )]
    Exposure {
        /// Name of the ServiceExposure.
        name: String,
        /// Namespace of the ServiceExposure.
        #[arg(short, long, default_value = "clusters")]
        namespace: String,
        /// Shows it as data.
        #[arg(short, long, value_enum)]
        output: Option<ListFormat>,
    },
}

impl DescribeCommand {
    /// Runs the command.
    pub(crate) async fn run(self, connection: &Connection) -> Result<(), Failure> {
        let What::Exposure { name, namespace, output } = self.what;
        let client = connection.client().await?;
        let api: Api<ServiceExposure> = Api::namespaced(client.clone(), &namespace);
        let object = format!("ServiceExposure {namespace}/{name}");
        let exposure = api.get(&name).await.map_err(Failure::request("read", object))?;
        let facts = read::facts(&client, exposure).await;
        let description = path::describe(&facts);
        match output {
            Some(format) => output::data(&description, format),
            None => output::text(&view::text(&description)),
        }
    }
}

#[cfg(test)]
mod tests;
