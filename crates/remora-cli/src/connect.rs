//! Which cluster is talked to.

use std::path::{Path, PathBuf};

use clap::Args;
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::{Client, Config};
use remora_lab::paths::Paths;

use crate::failure::Failure;

/// How the hosting cluster is found.
#[derive(Clone, Debug, Args)]
pub(crate) struct Connection {
    /// Kubeconfig of the hosting cluster [default: KUBECONFIG, ~/.kube/config, the cluster this runs in, the lab].
    #[arg(long, global = true, value_name = "FILE")]
    kubeconfig: Option<PathBuf>,
    /// Context of the kubeconfig.
    #[arg(long, global = true, value_name = "NAME")]
    context: Option<String>,
}

impl Connection {
    /// The connection to the lab of this machine.
    pub(crate) fn to_lab(paths: &Paths) -> Self {
        Self { kubeconfig: Some(paths.kubeconfig()), context: None }
    }

    /// Makes a client.
    pub(crate) async fn client(&self) -> Result<Client, Failure> {
        let config = match (&self.kubeconfig, lab_kubeconfig()) {
            (Some(file), _) => self.read_file(file.clone()).await?,
            (None, lab) => match (self.find_config().await, lab) {
                (Ok(config), _) => config,
                (Err(_), Some(lab)) if self.names_nothing() => self.read_file(lab).await?,
                (Err(failure), _) => return Err(failure),
            },
        };
        Client::try_from(config).map_err(|error| Failure::NoCluster { source: Box::new(error) })
    }

    /// Tells whether this is the lab of this machine, without asking it.
    pub(crate) async fn is_lab(&self) -> bool {
        let Some(lab) = lab_kubeconfig() else { return false };
        let lab_url = self.read_file(lab).await.map(|config| config.cluster_url);
        let own = match &self.kubeconfig {
            Some(file) => self.read_file(file.clone()).await,
            None => match self.find_config().await {
                Ok(config) => Ok(config),
                Err(_) => return self.names_nothing(),
            },
        };
        matches!((lab_url, own), (Ok(lab), Ok(own)) if lab == own.cluster_url)
    }

    /// Neither options nor environment name a cluster. One that is named and cannot be read is an error, and no
    /// reason to go to another.
    fn names_nothing(&self) -> bool {
        let has_default = || {
            std::env::var_os("HOME")
                .is_some_and(|home| Path::new(&home).join(".kube/config").exists())
        };
        let is_named = std::env::var_os("KUBECONFIG").is_some_and(|value| !value.is_empty());
        self.context.is_none() && !is_named && !has_default()
    }

    async fn read_file(&self, path: PathBuf) -> Result<Config, Failure> {
        let kubeconfig = Kubeconfig::read_from(&path)
            .map_err(|error| Failure::NoCluster { source: Box::new(error) })?;
        Config::from_custom_kubeconfig(kubeconfig, &self.options())
            .await
            .map_err(|error| Failure::NoCluster { source: Box::new(error) })
    }

    async fn find_config(&self) -> Result<Config, Failure> {
        if self.context.is_some() {
            return Config::from_kubeconfig(&self.options())
                .await
                .map_err(|error| Failure::NoCluster { source: Box::new(error) });
        }
        Config::infer().await.map_err(|error| Failure::NoCluster { source: Box::new(error) })
    }

    fn options(&self) -> KubeConfigOptions {
        KubeConfigOptions { context: self.context.clone(), ..KubeConfigOptions::default() }
    }
}

/// The kubeconfig of this machine's lab, if there is one.
fn lab_kubeconfig() -> Option<PathBuf> {
    let file = Paths::from_environment().ok()?.kubeconfig();
    file.is_file().then_some(file)
}
