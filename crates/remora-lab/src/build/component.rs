//! Reads `components.toml`: which programs there are and how each is built.

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

/// Why `components.toml` could not be used.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ComponentsError {
    /// It could not be read.
    #[error("cannot read {}", path.display())]
    Read {
        /// Where it is.
        path: PathBuf,
        /// The system's answer.
        source: io::Error,
    },
    /// It does not say what it should.
    #[error("cannot understand {}", path.display())]
    Parse {
        /// Where it is.
        path: PathBuf,
        /// What is wrong with it.
        source: Box<toml::de::Error>,
    },
    /// No component has this name.
    #[error("components.toml has no component {0}")]
    UnknownComponent(String),
}

/// What `components.toml` says.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Components {
    /// The components in order of the file.
    #[serde(rename = "component")]
    pub list: Vec<Component>,
}

/// One upstream project: one `go build`, one folder under `third-party/`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "snake_case")]
pub struct Component {
    /// Its name and that of its folder.
    pub name: String,
    /// The upstream version.
    pub version: String,
    /// Whether it is built with cgo.
    #[serde(default)]
    pub cgo: bool,
    /// Go's build tags.
    #[serde(default)]
    pub tags: Vec<String>,
    /// Go's linker flags.
    #[serde(default)]
    pub ldflags: String,
    /// Further environment of the build.
    #[serde(default)]
    pub env: BTreeMap<String, String>,
    /// Program name to Go package.
    #[serde(default)]
    pub programs: BTreeMap<String, String>,
    /// Flags for the C compiler.
    #[serde(default)]
    pub c_flags: String,
    /// Program name to C source.
    #[serde(default)]
    pub c_programs: BTreeMap<String, String>,
    /// Changes to upstream modules.
    #[serde(default)]
    pub patch: Vec<Patch>,
    /// Files that an image needs beside the programs.
    #[serde(default)]
    pub file: Vec<ComponentFile>,
}

/// A change to an upstream module.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Patch {
    /// The module to copy and change.
    pub module: String,
    /// The patch in the component's folder.
    pub file: String,
}

/// A file that an image needs, or the lab itself.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ComponentFile {
    /// The Go module it is in; without one it is in the component's folder.
    #[serde(default)]
    pub module: Option<String>,
    /// Its path there.
    pub from: String,
    /// Which of the component's images gets it; empty where the lab reads it itself.
    #[serde(default)]
    pub image: String,
    /// Its absolute path in the image.
    #[serde(default)]
    pub to: String,
    /// Its mode, octal.
    #[serde(default, deserialize_with = "octal", serialize_with = "as_octal")]
    pub mode: u32,
}

impl Components {
    /// Reads the file.
    ///
    /// # Errors
    /// When it cannot be read or has a field that nobody knows.
    pub fn read(path: &Path) -> Result<Self, ComponentsError> {
        let text = fs::read_to_string(path)
            .map_err(|source| ComponentsError::Read { path: path.to_owned(), source })?;
        toml::from_str(&text).map_err(|source| ComponentsError::Parse {
            path: path.to_owned(),
            source: Box::new(source),
        })
    }

    /// The component of a name.
    ///
    /// # Errors
    /// When there is none.
    pub fn get(&self, name: &str) -> Result<&Component, ComponentsError> {
        self.list
            .iter()
            .find(|component| component.name == name)
            .ok_or_else(|| ComponentsError::UnknownComponent(name.to_owned()))
    }
}

impl Component {
    /// Says whether a file of the component's folder takes part in its build. Documentation does
    /// not, nor do files that only an image wants.
    pub(crate) fn is_build_input(&self, path: &Path) -> bool {
        path.extension() != Some("md".as_ref())
            && !self.file.iter().any(|file| file.module.is_none() && Path::new(&file.from) == path)
    }

    /// The entry as far as it decides what is built.
    pub(crate) fn build_recipe(&self) -> Self {
        let mut recipe = self.clone();
        recipe.file.retain(|file| file.module.is_some());
        for file in &mut recipe.file {
            // Where an image puts the file does not change the file.
            file.to.clear();
            file.image.clear();
            file.mode = 0;
        }
        recipe
    }
}

fn octal<'de, D: serde::Deserializer<'de>>(deserializer: D) -> Result<u32, D::Error> {
    let text = String::deserialize(deserializer)?;
    u32::from_str_radix(&text, 8).map_err(|_| {
        serde::de::Error::custom(format!("mode {text} is no octal number such as \"0644\""))
    })
}

fn as_octal<S: serde::Serializer>(mode: &u32, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_str(&format!("{mode:04o}"))
}

#[cfg(test)]
mod tests {
    use super::super::Sources;
    use super::*;

    const KUBEVIRT: &str = r#"
        [[component]]
        name = "kubevirt"
        version = "v1.7.0"
        cgo = true
        tags = ["netgo"]
        ldflags = "-s"
        c_flags = "-static"
        [component.programs]
        virt-api = "kubevirt.io/kubevirt/cmd/virt-api"
        [component.c_programs]
        container-disk = "container-disk.c"
        [[component.patch]]
        module = "kubevirt.io/kubevirt"
        file = "no-dummy.patch"
        [[component.file]]
        module = "kubevirt.io/kubevirt"
        from = "cmd/virt-launcher/qemu.conf"
        image = "node"
        to = "/etc/libvirt/qemu.conf"
        mode = "0644"
        [[component.file]]
        from = "virtqemud"
        image = "node"
        to = "/usr/sbin/virtqemud"
        mode = "0755"
    "#;

    #[test]
    fn when_a_component_has_everything_all_of_it_is_read() {
        let components: Components = toml::from_str(KUBEVIRT).unwrap();
        let component = components.get("kubevirt").unwrap();
        assert!(component.cgo);
        assert_eq!(component.tags, ["netgo"]);
        assert_eq!(component.programs["virt-api"], "kubevirt.io/kubevirt/cmd/virt-api");
        assert_eq!(component.c_programs["container-disk"], "container-disk.c");
        assert_eq!(component.patch[0].file, "no-dummy.patch");
        assert_eq!((component.file[1].mode, component.file[0].mode), (0o755, 0o644));
        assert!(components.get("kubernetes").is_err());
    }

    #[test]
    fn when_a_field_is_unknown_or_a_mode_no_number_it_is_refused() {
        for (before, after, word) in
            [("cgo = true", "cgoo = true", "cgoo"), ("\"0755\"", "\"rwx\"", "rwx")]
        {
            let error = toml::from_str::<Components>(&KUBEVIRT.replace(before, after)).unwrap_err();
            assert!(error.to_string().contains(word), "{error}");
        }
    }

    #[test]
    fn when_only_an_image_wants_a_file_it_is_no_input_of_the_build() {
        let components: Components = toml::from_str(KUBEVIRT).unwrap();
        let component = components.get("kubevirt").unwrap();
        assert!(component.is_build_input(Path::new("go.sum")));
        assert!(component.is_build_input(Path::new("no-dummy.patch")));
        assert!(!component.is_build_input(Path::new("virtqemud")));
        assert!(!component.is_build_input(Path::new("README.md")));
        assert_eq!(component.build_recipe().file.len(), 1);
    }

    #[test]
    fn the_checkout_s_own_file_is_understood_and_complete() {
        let sources = Sources::find().unwrap();
        let components = Components::read(&sources.components_file()).unwrap();
        for component in &components.list {
            assert!(sources.component(&component.name).is_dir(), "{}", component.name);
            for file in component.file.iter().filter(|file| file.module.is_none()) {
                assert!(sources.component(&component.name).join(&file.from).is_file());
            }
        }
    }
}
