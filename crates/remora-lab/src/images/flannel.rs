//! The flannel image: flanneld and the tools it calls.

use super::ImagesError;
use super::image::Recipe;
use super::layer::Compression;
use super::recipes::{base, network_tools, program, version};
use crate::build::Artifacts;

/// The image.
pub(crate) fn recipe(artifacts: &Artifacts) -> Result<Recipe, ImagesError> {
    let (tools, iptables) = network_tools(artifacts)?;
    Ok(Recipe {
        name: "flannel".to_owned(),
        version: version(artifacts, "flannel")?,
        user: "0:0",
        command: vec!["flanneld"],
        layers: vec![
            (tools, Compression::Zstd),
            base(),
            (iptables, Compression::Zstd),
            program(artifacts, "flannel", "flanneld")?,
        ],
    })
}
