//! The lab and the programs a user has there.

use std::io::Write;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, ensure};
use kube::api::DynamicObject;
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::core::{ApiResource, GroupVersionKind};
use kube::{Api, Client, Config};
use tokio::io::AsyncWriteExt;
use tokio::process::Command;

/// One call of kubectl or remora that waits for nothing.
const CALL: Duration = Duration::from_secs(120);
/// The lab from nothing, everything built: an hour on two cores would be a hang.
const LAB_UP: Duration = Duration::from_secs(3600);
/// Addresses of the hosting workers, as `remora lab up` gives them.
pub(crate) const WORKERS: [&str; 3] = ["192.168.123.104", "192.168.123.105", "192.168.123.106"];
/// The machine that the stories run on, as the lab sees it.
pub(crate) const BASTION: &str = "192.168.123.1";
/// The lab's registry.
pub(crate) const REGISTRY: &str = "192.168.123.1:5000";

/// The running lab.
#[derive(Clone)]
pub(crate) struct Lab {
    /// Administrator of the hosting cluster.
    pub(crate) client: Client,
    paths: Arc<remora_lab::paths::Paths>,
}

impl Lab {
    /// The lab with the operator installed, brought up if it is not.
    pub(crate) async fn ready() -> anyhow::Result<Self> {
        remora(&["lab", "up"], LAB_UP).await?;
        let lab = Self::connect().await?;
        let kubeconfig = lab.kubeconfig();
        let kubeconfig = kubeconfig.to_str().context("the lab's path is no text")?;
        remora(&["--kubeconfig", kubeconfig, "install", "--wait"], LAB_UP).await?;
        Ok(lab)
    }

    /// The lab as it is.
    pub(crate) async fn connect() -> anyhow::Result<Self> {
        let _ = rustls::crypto::ring::default_provider().install_default();
        let paths = Arc::new(remora_lab::paths::Paths::from_environment()?);
        let kubeconfig = Kubeconfig::read_from(paths.kubeconfig())?;
        let mut config =
            Config::from_custom_kubeconfig(kubeconfig, &KubeConfigOptions::default()).await?;
        config.proxy_url = None;
        Ok(Self { client: Client::try_from(config)?, paths })
    }

    /// The hosting administrator's kubeconfig.
    pub(crate) fn kubeconfig(&self) -> PathBuf {
        self.paths.kubeconfig()
    }

    /// Where the lab's files are.
    pub(crate) fn directory(&self) -> &Path {
        self.paths.lab()
    }

    /// Writes a kubeconfig for nobody else to read, in a place that goes with the lab.
    pub(crate) fn write_kubeconfig(&self, name: &str, content: &[u8]) -> anyhow::Result<PathBuf> {
        let directory = self.directory().join("e2e");
        std::fs::create_dir_all(&directory)?;
        let path = directory.join(format!("{name}.kubeconfig"));
        let mut options = std::fs::OpenOptions::new();
        let mut file = options.write(true).create(true).truncate(true).mode(0o600).open(&path)?;
        file.write_all(content)?;
        Ok(path)
    }

    /// kubectl on the hosting cluster.
    pub(crate) async fn kubectl(&self, arguments: &[&str]) -> anyhow::Result<String> {
        self.kubectl_with(&self.kubeconfig(), arguments, None).await
    }

    /// `kubectl apply` of a text on the hosting cluster.
    pub(crate) async fn apply(&self, manifest: &str) -> anyhow::Result<String> {
        self.kubectl_with(&self.kubeconfig(), &["apply", "-f", "-"], Some(manifest)).await
    }

    /// kubectl with a kubeconfig; an exit code other than 0 is an error with what it printed.
    pub(crate) async fn kubectl_with(
        &self,
        kubeconfig: &Path,
        arguments: &[&str],
        input: Option<&str>,
    ) -> anyhow::Result<String> {
        let mut command = self.kubectl_command(kubeconfig);
        command.args(arguments);
        run(command, input, CALL).await
    }

    /// kubectl, to be started by the caller.
    pub(crate) fn kubectl_command(&self, kubeconfig: &Path) -> Command {
        let mut command = Command::new(self.paths.bin().join("kubectl"));
        command.arg("--kubeconfig").arg(kubeconfig).kill_on_drop(true);
        command
    }

    /// Objects of a kind in a namespace.
    pub(crate) fn objects(
        &self,
        api_version: &str,
        kind: &str,
        namespace: &str,
    ) -> Api<DynamicObject> {
        objects(&self.client, api_version, kind, namespace)
    }
}

/// Objects of a kind in a namespace of any cluster.
pub(crate) fn objects(
    client: &Client,
    api_version: &str,
    kind: &str,
    namespace: &str,
) -> Api<DynamicObject> {
    let (group, version) = api_version.split_once('/').unwrap_or(("", api_version));
    let resource = ApiResource::from_gvk(&GroupVersionKind::gvk(group, version, kind));
    Api::namespaced_with(client.clone(), namespace, &resource)
}

/// Runs `remora`; an exit code other than 0 is an error with what it printed. Returns its standard output.
pub(crate) async fn remora(arguments: &[&str], deadline: Duration) -> anyhow::Result<String> {
    let mut command = Command::new(program("remora")?);
    command.args(arguments);
    run(command, None, deadline).await
}

/// A program of this workspace, built beside the tests.
pub(crate) fn program(name: &str) -> anyhow::Result<PathBuf> {
    let test = std::env::current_exe()?;
    let directory = test.parent().and_then(Path::parent).context("the test is in no directory")?;
    let program = directory.join(name);
    ensure!(program.exists(), "{} is missing: build the workspace first", program.display());
    Ok(program)
}

async fn run(
    mut command: Command,
    input: Option<&str>,
    deadline: Duration,
) -> anyhow::Result<String> {
    let shown = format!("{:?}", command.as_std());
    command.kill_on_drop(true).stdout(Stdio::piped()).stderr(Stdio::piped());
    command.stdin(if input.is_some() { Stdio::piped() } else { Stdio::null() });
    let mut child = command.spawn().with_context(|| format!("cannot start {shown}"))?;
    if let (Some(text), Some(mut stdin)) = (input, child.stdin.take()) {
        stdin.write_all(text.as_bytes()).await?;
    }
    let output = tokio::time::timeout(deadline, child.wait_with_output())
        .await
        .with_context(|| format!("{shown} did not end in {} s", deadline.as_secs()))??;
    let stdout = String::from_utf8_lossy(&output.stdout).into_owned();
    ensure!(
        output.status.success(),
        "{shown}: {}\n{stdout}{}",
        output.status,
        String::from_utf8_lossy(&output.stderr)
    );
    Ok(stdout)
}
