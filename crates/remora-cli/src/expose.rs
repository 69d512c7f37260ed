//! `remora expose`.

use clap::Args;
use kube::core::DynamicObject;
use remora_api::conditions::ExposureConditionType;
use serde_json::{Value, json};

use crate::cli::object_name;
use crate::connect::Connection;
use crate::failure::Failure;
use crate::wait::{WaitOptions, aloud, until_condition};
use crate::{manifest, output};

/// Makes a Service of a hosted cluster reachable on every node of the hosting cluster.
#[derive(Clone, Debug, Args)]
#[command(after_help = "Examples:
  remora expose --cluster-name=cluster1 --service=petclinic/petclinic-np --wait
  remora expose --cluster-name=cluster1 --service=petclinic/petclinic-np --port=http:31080
  remora expose --cluster-name=cluster1 --service=petclinic/petclinic-np --node-pool=big --render")]
pub(crate) struct ExposeCommand {
    /// HostedCluster that the Service is in.
    #[arg(long, value_parser = object_name)]
    cluster_name: String,
    /// The Service of the hosted cluster; it has to be of type NodePort.
    #[arg(long, value_name = "NAMESPACE/NAME")]
    service: String,
    /// Name of the exposure [default: the Service's].
    #[arg(long)]
    name: Option<String>,
    /// Namespace of the HostedCluster.
    #[arg(long, default_value = "clusters", value_parser = object_name)]
    namespace: String,
    /// Port of the Service, by name or number, and after a colon the hosting node port; repeatable [default: all ports].
    #[arg(long = "port", value_name = "PORT[:NODEPORT]")]
    ports: Vec<String>,
    /// NodePool whose nodes take the traffic; repeatable [default: all of the cluster].
    #[arg(long = "node-pool", value_name = "NAME")]
    node_pools: Vec<String>,
    /// Prints the manifest instead of applying it.
    #[arg(long)]
    render: bool,
    #[command(flatten)]
    waiting: WaitOptions,
}

impl ExposeCommand {
    /// Runs the command.
    pub(crate) async fn run(self, connection: &Connection) -> Result<(), Failure> {
        let exposure = self.exposure()?;
        if self.render {
            return output::manifests(&[exposure]);
        }
        let client = connection.client().await?;
        manifest::apply(&client, std::slice::from_ref(&exposure)).await?;
        output::note(&format!("{} created.", manifest::told(&exposure)));
        if self.waiting.wait {
            let reachable = ExposureConditionType::Reachable.as_str();
            until_condition(&client, &exposure, reachable, self.waiting.timeout.0, &aloud).await?;
            output::note(&format!("{}: {}.", manifest::told(&exposure), reachable));
        }
        Ok(())
    }

    fn exposure(&self) -> Result<DynamicObject, Failure> {
        let (service_namespace, service_name) = self
            .service
            .split_once('/')
            .filter(|(namespace, name)| !namespace.is_empty() && !name.is_empty())
            .ok_or_else(|| Failure::Flag {
                flag: "--service",
                problem: format!("{:?} names no Service", self.service),
                remedy: "write <namespace>/<name>, as in the hosted cluster.".to_owned(),
            })?;
        let mut spec = json!({
            "clusterName": self.cluster_name,
            "service": {"namespace": service_namespace, "name": service_name},
            "via": "NodePort",
        });
        if !self.ports.is_empty() {
            let ports = self.ports.iter().map(|text| port(text)).collect::<Result<Vec<_>, _>>()?;
            spec["ports"] = json!(ports);
        }
        if !self.node_pools.is_empty() {
            spec["nodePools"] = json!(self.node_pools);
        }
        manifest::from_json(json!({
            "apiVersion": "remora.dev/v1alpha1",
            "kind": "ServiceExposure",
            "metadata": {
                "namespace": self.namespace,
                "name": self.name.as_deref().unwrap_or(service_name),
            },
            "spec": spec,
        }))
    }
}

/// Reads `<name or number>[:<node port>]`.
fn port(text: &str) -> Result<Value, Failure> {
    let wrong = || Failure::Flag {
        flag: "--port",
        problem: format!("{text:?} is no port"),
        remedy:
            "write the Service's port by name or number, and after a colon the hosting node port."
                .to_owned(),
    };
    let (port, node_port) = match text.split_once(':') {
        Some((port, node_port)) => (port, Some(node_port.parse::<u16>().map_err(|_| wrong())?)),
        None => (text, None),
    };
    if port.is_empty() || node_port == Some(0) {
        return Err(wrong());
    }
    let mut entry = match port.parse::<u16>() {
        Ok(number) => json!({"port": number}),
        Err(_) => json!({"port": port}),
    };
    if let Some(number) = node_port {
        entry["nodePort"] = json!(number);
    }
    Ok(entry)
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Parser)]
    struct Command {
        #[command(flatten)]
        command: ExposeCommand,
    }

    fn exposure(flags: &[&str]) -> Result<DynamicObject, Failure> {
        let fixed = ["test", "--cluster-name=cluster1"];
        Command::try_parse_from(fixed.iter().chain(flags)).unwrap().command.exposure()
    }

    #[test]
    fn ports_and_pools_become_fields() {
        let exposure = exposure(&[
            "--service=petclinic/petclinic-np",
            "--name=pets",
            "--port=http:31080",
            "--port=8443",
            "--node-pool=big",
        ])
        .unwrap();
        exposure.clone().try_parse::<remora_api::ServiceExposure>().unwrap();
        insta::assert_snapshot!(output::rendered(&[exposure]).unwrap());
    }

    #[test]
    fn wrong_values_are_refused() {
        assert!(exposure(&["--service=petclinic-np"]).is_err());
        for port in ["--port=", "--port=http:", "--port=http:x", "--port=http:0"] {
            assert!(exposure(&["--service=a/b", port]).is_err(), "{port}");
        }
    }
}
