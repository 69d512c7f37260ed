//! The files of the directory.

use std::collections::BTreeMap;
use std::fs::{self, OpenOptions};
use std::io::Write;
use std::path::Path;

use kube::ResourceExt;
use kube::core::DynamicObject;
use serde_json::json;

use super::secrets;
use crate::failure::Failure;
use crate::output;

const KUSTOMIZATION: &str = "kustomization.yaml";

/// What happens to files that are there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Overwriting {
    Yes,
    No,
}

/// Name and text of each file: one for each object, a template for each Secret that has none, and what lists them.
///
/// Only the namespace has to be there before the others. Its name sorts first, for whoever applies file by file.
pub(super) fn files(objects: &[DynamicObject]) -> Result<BTreeMap<String, String>, Failure> {
    let mut files = BTreeMap::new();
    for object in objects {
        files.insert(file_name(object), output::document(object)?);
    }
    let resources: Vec<&String> = files.keys().collect();
    let kustomization = output::yaml(&json!({
        "apiVersion": "kustomize.config.k8s.io/v1beta1",
        "kind": "Kustomization",
        "resources": resources,
    }))?;
    files.insert(KUSTOMIZATION.to_owned(), kustomization);
    let clusters = objects.iter().filter(|object| kind(object) == "HostedCluster");
    for cluster in clusters {
        let namespace = cluster.namespace().unwrap_or_default();
        for secret in secrets::named(cluster) {
            let manifest = format!("secret-{}.yaml", secret.name);
            if !files.contains_key(&manifest) {
                let template = secret.template(&cluster.name_any(), &namespace);
                files.insert(format!("{manifest}.template"), template);
            }
        }
    }
    Ok(files)
}

fn file_name(object: &DynamicObject) -> String {
    match kind(object) {
        "Namespace" => "00-namespace.yaml".to_owned(),
        kind => format!("{}-{}.yaml", kind.to_lowercase(), object.name_any()),
    }
}

fn kind(object: &DynamicObject) -> &str {
    object.types.as_ref().map_or("object", |types| types.kind.as_str())
}

/// Writes the files; without leave to overwrite, all of them or none.
pub(super) fn write(
    directory: &Path,
    files: &BTreeMap<String, String>,
    overwriting: Overwriting,
) -> Result<(), Failure> {
    let there: Vec<&str> = files
        .keys()
        .filter(|name| directory.join(name).symlink_metadata().is_ok())
        .map(String::as_str)
        .collect();
    if overwriting == Overwriting::No && !there.is_empty() {
        return Err(Failure::Flag {
            flag: "--force",
            problem: format!("{} has {} already", directory.display(), there.join(", ")),
            remedy: "name another directory, or add --force to overwrite them.".to_owned(),
        });
    }
    let failed = |path: &Path| {
        let path = path.to_owned();
        move |source| Failure::Write { path, source }
    };
    fs::create_dir_all(directory).map_err(failed(directory))?;
    for (name, text) in files {
        let path = directory.join(name);
        let mut options = OpenOptions::new();
        match overwriting {
            Overwriting::Yes => options.write(true).create(true).truncate(true),
            Overwriting::No => options.write(true).create_new(true),
        };
        let mut file = options.open(&path).map_err(failed(&path))?;
        file.write_all(text.as_bytes()).map_err(failed(&path))?;
    }
    Ok(())
}
