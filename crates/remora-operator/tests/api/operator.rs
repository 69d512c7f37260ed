//! The operator in this process.

use std::sync::Arc;

use anyhow::Context as _;
use clap::Parser;
use kube::Client;
use remora_core::install::{self, InstallOptions};
use remora_operator::context::Context;
use remora_operator::options::Options;
use remora_operator::session::Sessions;
use remora_operator::{exposure, hosted_cluster, node_pool};
use remora_testkit::{ApiServer, Registry};
use tokio::runtime::Runtime;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::stand_ins;
use crate::world::apply;

/// A running operator. It has a runtime of its own, which outlives that of the test that starts it.
pub(crate) struct Operator {
    /// What its controllers share.
    pub(crate) context: Arc<Context>,
    runtime: Option<Runtime>,
}

impl Operator {
    /// Starts it with what its pod would have: its ServiceAccount and its options.
    pub(crate) async fn start(
        hosting: &'static ApiServer,
        registry: &Registry,
    ) -> anyhow::Result<Self> {
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(2)
            .enable_all()
            .build()
            .context("cannot make a runtime")?;
        let arguments = ["remora-operator", "--insecure-registry", registry.host()];
        let options = Options::try_parse_from(arguments).context("wrong options")?;
        let work = async move {
            let shutdown = CancellationToken::new();
            let tracker = TaskTracker::new();
            let sessions = Sessions::new(shutdown.clone(), tracker.clone());
            let context = Context::new(own_client(hosting).await?, options, sessions);
            tracker.spawn(hosted_cluster::controller::run(context.clone(), shutdown.clone()));
            tracker.spawn(node_pool::controller::run(context.clone(), shutdown.clone()));
            tracker.spawn(exposure::controller::run(context.clone(), shutdown.clone()));
            tracker.spawn(exposure::policy::controller::run(context.clone(), shutdown));
            anyhow::Ok(context)
        };
        let context = runtime.spawn(work).await.context("the operator cannot run")??;
        Ok(Self { context, runtime: Some(runtime) })
    }

    /// Runs something on the operator's runtime.
    pub(crate) async fn run<T: Send + 'static>(
        &self,
        work: impl Future<Output = T> + Send + 'static,
    ) -> anyhow::Result<T> {
        let runtime = self.runtime.as_ref().context("the operator was killed")?;
        runtime.spawn(work).await.context("the operator's runtime has ended")
    }

    /// Ends it wherever it is, as the loss of its host does.
    pub(crate) fn kill(self) {
        drop(self);
    }
}

impl Drop for Operator {
    fn drop(&mut self) {
        if let Some(runtime) = self.runtime.take() {
            // The plain drop waits for tasks, which no runtime may do inside of another.
            runtime.shutdown_background();
        }
    }
}

/// Prepares a hosting cluster: KubeVirt's kinds, and what `remora install` applies.
pub(crate) async fn install(hosting: &ApiServer) -> anyhow::Result<()> {
    hosting.start_controllers()?;
    hosting.install(&remora_api::crds::all()).await?;
    hosting.install(&stand_ins::kubevirt()?).await?;
    let client = hosting.client().await?;
    let options = InstallOptions {
        image: "registry.test/remora/operator:1".to_owned(),
        insecure_registries: Vec::new(),
    };
    for object in install::objects(&options) {
        apply(&client, &serde_json::to_value(&object)?).await?;
    }
    Ok(())
}

/// The operator as API servers know it.
pub(crate) fn user() -> String {
    format!("system:serviceaccount:{}:{}", install::NAMESPACE, install::OPERATOR)
}

/// The client that the operator's pod would have.
async fn own_client(hosting: &ApiServer) -> anyhow::Result<Client> {
    let user = user();
    let namespace_group = format!("system:serviceaccounts:{}", install::NAMESPACE);
    let groups = ["system:serviceaccounts", &namespace_group, "system:authenticated"];
    hosting.client_as(&user, &groups).await
}
