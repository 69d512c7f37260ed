//! The commands and what they share.

use std::process::ExitCode;

use clap::{Parser, Subcommand};

use crate::connect::Connection;
use crate::create::CreateCommand;
use crate::describe::DescribeCommand;
use crate::destroy::DestroyCommand;
use crate::dump::DumpCommand;
use crate::expose::ExposeCommand;
use crate::failure::Failure;
use crate::get::GetCommand;
use crate::install::InstallCommand;
use crate::lab::LabCommand;
use crate::render::RenderCommand;

/// Hosted Kubernetes control planes on Kubernetes, with their nodes as KubeVirt virtual machines.
#[derive(Debug, Parser)]
#[command(
    name = "remora",
    version,
    propagate_version = true,
    after_help = "Examples:
  remora lab demo                                        everything, on this machine
  remora install --image registry.example/remora/operator:0.1.0
  remora create cluster kubevirt --name=cluster1 --node-pool-replicas=2 --release-image=... --wait
  remora create kubeconfig --name=cluster1 > cluster1.kubeconfig
  remora get clusters
  remora expose --cluster-name=cluster1 --service=petclinic/petclinic-np --wait
  remora describe exposure petclinic
  remora render gitops/cluster1 --name=cluster1
  remora dump cluster --name=cluster1 --artifact-dir=/tmp/cluster1
  remora destroy cluster --name=cluster1"
)]
pub(crate) struct Cli {
    #[command(flatten)]
    connection: Connection,
    #[command(subcommand)]
    verb: Verb,
}

#[derive(Debug, Subcommand)]
enum Verb {
    /// Installs the operator in the hosting cluster.
    Install(InstallCommand),
    /// Creates clusters, node pools and kubeconfigs.
    Create(CreateCommand),
    /// Shows clusters, node pools and exposures.
    Get(GetCommand),
    /// Shows an exposure's way from outside to the pods, and where it is broken.
    Describe(DescribeCommand),
    /// Makes a hosted Service reachable on the hosting cluster's nodes.
    Expose(ExposeCommand),
    /// Writes a cluster's manifests into a directory, for GitOps.
    Render(RenderCommand),
    /// Writes what there is to know about a cluster into a directory, for whoever shall find a fault.
    Dump(DumpCommand),
    /// Destroys clusters, node pools and exposures.
    Destroy(DestroyCommand),
    /// Runs a hosting cluster on this machine.
    Lab(LabCommand),
}

impl Cli {
    /// Runs the command.
    pub(crate) async fn run(self) -> Result<ExitCode, Failure> {
        let done = match self.verb {
            Verb::Install(command) => command.run(&self.connection).await,
            Verb::Create(command) => command.run(&self.connection).await,
            Verb::Get(command) => command.run(&self.connection).await,
            Verb::Describe(command) => command.run(&self.connection).await,
            Verb::Expose(command) => command.run(&self.connection).await,
            Verb::Render(command) => command.run(&self.connection).await,
            Verb::Dump(command) => command.run(&self.connection).await,
            Verb::Destroy(command) => command.run(&self.connection).await,
            Verb::Lab(command) => return command.run().await,
        };
        done.map(|()| ExitCode::SUCCESS)
    }
}

/// Reads a name of an object or a namespace: a label of RFC 1123, which names of Services and pods are made of.
pub(crate) fn object_name(text: &str) -> Result<String, String> {
    let is_inner = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
    if (1..=63).contains(&text.len())
        && text.chars().all(is_inner)
        && !text.starts_with('-')
        && !text.ends_with('-')
    {
        Ok(text.to_owned())
    } else {
        Err("use up to 63 lower-case letters, digits and '-', with a letter or digit at both ends"
            .to_owned())
    }
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;

    #[test]
    fn the_commands_do_not_contradict_themselves() {
        Cli::command().debug_assert();
    }

    #[test]
    fn every_command_has_an_example_in_its_help() {
        fn check(command: &clap::Command) {
            let has_example =
                command.get_after_help().is_some_and(|text| text.to_string().contains("Example"));
            assert!(
                has_example || command.is_hide_set() || command.get_name() == "help",
                "no example: {}",
                command.get_name()
            );
            command.get_subcommands().for_each(check);
        }
        check(&Cli::command());
    }

    #[test]
    fn when_a_name_is_no_label_it_is_refused() {
        for name in ["a", "cluster-1", "0"] {
            assert_eq!(object_name(name).as_deref(), Ok(name));
        }
        for name in ["", "UPPER", "a.b", "-a", "a-", "ä", &"a".repeat(64)] {
            assert!(object_name(name).is_err(), "{name}");
        }
    }
}
