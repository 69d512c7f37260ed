//! The lab's image registry: Debian's docker-registry, on the bastion's address.

use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::timeout;

use crate::error::LabError;
use crate::files::{self, Access};
use crate::host::config;
use crate::paths::Paths;
use crate::topology::REGISTRY;

/// The registry's name among the lab's parts.
pub(crate) const NAME: &str = "registry";

const ANSWER_TIMEOUT: Duration = Duration::from_secs(2);

/// Writes the registry's configuration, and the one with which containerd finds it.
pub(crate) fn configure(paths: &Paths) -> Result<(), LabError> {
    let root = paths.registry();
    let images = root.join("images");
    files::create_dir(&images)?;
    files::write(&root.join("config.yml"), &render(&images.display().to_string()), Access::Public)?;
    let hosts = paths.registry_hosts().join(REGISTRY).join("hosts.toml");
    files::write(&hosts, &config::registry_host(REGISTRY), Access::Public).map(drop)
}

fn render(images: &str) -> String {
    format!(
        "version: 0.1\n\
         log: {{level: error, accesslog: {{disabled: true}}}}\n\
         storage:\n\
         \x20 filesystem: {{rootdirectory: {images}}}\n\
         \x20 delete: {{enabled: true}}\n\
         http: {{addr: '{REGISTRY}'}}\n"
    )
}

/// The command that runs the registry.
pub(crate) fn command(paths: &Paths) -> Vec<String> {
    let config = paths.registry().join("config.yml");
    vec!["docker-registry".to_owned(), "serve".to_owned(), config.display().to_string()]
}

/// Whether the registry answers as a registry does.
pub(crate) async fn answers() -> bool {
    timeout(ANSWER_TIMEOUT, ask()).await.is_ok_and(|answer| answer.is_ok_and(|is_ok| is_ok))
}

async fn ask() -> std::io::Result<bool> {
    let mut connection = TcpStream::connect(REGISTRY).await?;
    let request = format!("GET /v2/ HTTP/1.1\r\nHost: {REGISTRY}\r\nConnection: close\r\n\r\n");
    connection.write_all(request.as_bytes()).await?;
    let mut answer = String::new();
    connection.read_to_string(&mut answer).await?;
    Ok(answer.starts_with("HTTP/1.1 200"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn when_rendered_the_registry_listens_to_the_lab_only() {
        insta::assert_snapshot!(render("/lab/registry/images"));
    }
}
