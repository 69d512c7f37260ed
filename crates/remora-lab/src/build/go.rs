//! Builds one component: patched copies of modules, one `go build`, its C programs.

use std::fs;
use std::io;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde::Deserialize;

use super::cache::CacheError;
use super::component::{Component, Patch};
use super::{CommandError, Log, Sources, capture, run};
use crate::progress::Step;

/// Why a component could not be built.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum GoError {
    /// A tool failed.
    #[error(transparent)]
    Command(#[from] CommandError),
    /// A file operation failed.
    #[error(transparent)]
    File(#[from] CacheError),
    /// `go mod download` answered something else than a module.
    #[error("cannot understand go's answer about module {module}")]
    Module {
        /// The module asked for.
        module: String,
        /// What is wrong with the answer.
        source: serde_json::Error,
    },
    /// A file that the build should have made is not there.
    #[error("cannot find {} which the build should have made", path.display())]
    Missing {
        /// The file.
        path: PathBuf,
    },
}

/// The part of `go mod download -json` that is used.
#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct DownloadedModule {
    dir: PathBuf,
}

/// Builds `component` into `entry`: `bin/` and `files/`.
pub(crate) fn build(
    component: &Component,
    sources: &Sources,
    entry: &Path,
    log: &Log,
    step: &Step<'_>,
) -> Result<(), GoError> {
    let folder = sources.component(&component.name);
    let work = entry.join("work");
    let programs = entry.join("bin");
    copy_tree(&folder, &work)?;
    fs::create_dir_all(&programs).map_err(CacheError::io("make", &programs))?;
    for (number, patch) in component.patch.iter().enumerate() {
        step.note(&format!("patching {}", patch.module));
        apply_patch(patch, number, &folder, &work, log)?;
    }
    if !component.programs.is_empty() {
        step.note(&format!("compiling {}", names(component.programs.keys())));
        compile_go(component, &work, &programs, log)?;
    }
    for (program, source) in &component.c_programs {
        let output = programs.join(program);
        let mut cc = Command::new("cc");
        cc.args(component.c_flags.split_whitespace());
        run(cc.arg("-o").arg(&output).arg(folder.join(source)), log)?;
    }
    copy_module_files(component, &work, &entry.join("files"), log)?;
    super::cache::remove(&work)?;
    Ok(())
}

/// Copies a module, changes the copy, and has the build use it.
fn apply_patch(
    patch: &Patch,
    number: usize,
    folder: &Path,
    work: &Path,
    log: &Log,
) -> Result<(), GoError> {
    let module = download(&patch.module, work, log)?;
    let relative = format!("patched/{number}");
    let copy = work.join(&relative);
    copy_tree(&module, &copy)?;
    // A workspace file of upstream would name folders that the module does not carry.
    for name in ["go.work", "go.work.sum"] {
        remove_file(&copy.join(name))?;
    }
    let patch_file = folder.join(&patch.file);
    run(
        Command::new("patch")
            .args(["--strip=1", "--batch", "--no-backup-if-mismatch", "--directory"])
            .arg(&copy)
            .arg("--input")
            .arg(&patch_file),
        log,
    )?;
    let replacement = format!("-replace={}=./{relative}", patch.module);
    run(go(work).args(["mod", "edit", &replacement]), log)?;
    Ok(())
}

fn compile_go(
    component: &Component,
    work: &Path,
    programs: &Path,
    log: &Log,
) -> Result<(), GoError> {
    let mut build = go(work);
    build
        .args(["build", "-mod=readonly", "-trimpath", "-buildvcs=false"])
        .args(["-tags", &component.tags.join(",")])
        .args(["-ldflags", &component.ldflags])
        .arg("-o")
        // The slash says that it is a folder.
        .arg(programs.join(""))
        .args(component.programs.values())
        .env("CGO_ENABLED", if component.cgo { "1" } else { "0" })
        .envs(&component.env);
    run(&mut build, log)?;
    for (program, package) in &component.programs {
        let made = programs.join(output_name(package));
        let wanted = programs.join(program);
        if made != wanted {
            fs::rename(&made, &wanted).map_err(CacheError::io("rename", &made))?;
        }
        if !wanted.is_file() {
            return Err(GoError::Missing { path: wanted });
        }
    }
    Ok(())
}

/// Go names a program after the last element of its package's path.
fn output_name(package: &str) -> &str {
    package.rsplit('/').next().unwrap_or(package)
}

fn copy_module_files(
    component: &Component,
    work: &Path,
    files: &Path,
    log: &Log,
) -> Result<(), GoError> {
    for file in &component.file {
        let Some(module) = &file.module else { continue };
        let from = download(module, work, log)?.join(&file.from);
        let to = files.join(&file.from);
        if let Some(parent) = to.parent() {
            fs::create_dir_all(parent).map_err(CacheError::io("make", parent))?;
        }
        fs::copy(&from, &to).map_err(CacheError::io("copy", &from))?;
    }
    Ok(())
}

/// Where Go keeps a module, fetched if need be; go.sum is checked. The untouched copy is meant, so
/// that a module's replacement by its patched copy is left out of account.
fn download(module: &str, work: &Path, log: &Log) -> Result<PathBuf, GoError> {
    let dropped = format!("-dropreplace={module}");
    let original = work.join("original.mod");
    fs::copy(work.join("go.mod"), &original).map_err(CacheError::io("copy", &original))?;
    let sums = work.join("original.sum");
    fs::copy(work.join("go.sum"), &sums).map_err(CacheError::io("copy", &sums))?;
    run(go(work).args(["mod", "edit", &dropped, "original.mod"]), log)?;
    let answer =
        capture(go(work).args(["mod", "download", "-modfile=original.mod", "-json", module]), log)?;
    serde_json::from_slice::<DownloadedModule>(&answer)
        .map(|downloaded| downloaded.dir)
        .map_err(|source| GoError::Module { module: module.to_owned(), source })
}

/// Go, working in `folder`, with nothing of the user's own flags.
fn go(folder: &Path) -> Command {
    let mut command = Command::new("go");
    command.current_dir(folder).env("GOFLAGS", "").env("GOWORK", "off");
    // Compilers live for seconds and need little memory: collecting their garbage less often takes a quarter off their time.
    command.env("GOGC", "400");
    command
}

/// Go's version and platform, for the key.
pub(crate) fn version(log: &Log) -> Result<Vec<u8>, CommandError> {
    capture(Command::new("go").arg("version"), log)
}

fn names<'a>(names: impl Iterator<Item = &'a String>) -> String {
    names.map(String::as_str).collect::<Vec<_>>().join(", ")
}

/// Copies a folder with all it holds; the copy can be written to (Go keeps modules read-only).
fn copy_tree(from: &Path, to: &Path) -> Result<(), CacheError> {
    fs::create_dir_all(to).map_err(CacheError::io("make", to))?;
    let entries = fs::read_dir(from).map_err(CacheError::io("list", from))?;
    for entry in entries {
        let entry = entry.map_err(CacheError::io("list", from))?;
        let (source, target) = (entry.path(), to.join(entry.file_name()));
        if source.is_dir() {
            copy_tree(&source, &target)?;
            continue;
        }
        fs::copy(&source, &target).map_err(CacheError::io("copy", &source))?;
        let mode = fs::metadata(&target).map_err(CacheError::io("read", &target))?.permissions();
        fs::set_permissions(&target, fs::Permissions::from_mode(mode.mode() | 0o600))
            .map_err(CacheError::io("make writable", &target))?;
    }
    Ok(())
}

fn remove_file(path: &Path) -> Result<(), CacheError> {
    match fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => {
            Err(CacheError::io("remove", path)(error))
        }
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn when_a_package_is_relative_its_program_has_its_folder_s_name() {
        assert_eq!(output_name("./hyperkube"), "hyperkube");
        assert_eq!(output_name("sigs.k8s.io/apiserver-network-proxy/cmd/agent"), "agent");
    }

    #[test]
    fn when_a_tree_is_copied_the_copy_is_writable_and_keeps_the_executable_bit() {
        let folder = tempfile::tempdir().unwrap();
        let (from, to) = (folder.path().join("from"), folder.path().join("to"));
        fs::create_dir_all(from.join("hack")).unwrap();
        fs::write(from.join("hack/run.sh"), "#!/bin/sh\n").unwrap();
        fs::set_permissions(from.join("hack/run.sh"), fs::Permissions::from_mode(0o555)).unwrap();
        copy_tree(&from, &to).unwrap();
        let mode = fs::metadata(to.join("hack/run.sh")).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o755);
    }
}
