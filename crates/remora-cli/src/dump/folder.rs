//! The directory that a dump is written to.

use std::fs::{self, File};
use std::path::{Path, PathBuf};

use flate2::Compression;
use flate2::write::GzEncoder;
use kube::core::DynamicObject;
use serde_json::json;

use super::redact::redacted;
use crate::failure::{Failure, told};
use crate::output;

/// Name of the archive, as scripts around HyperShift look for it.
const ARCHIVE: &str = "hypershift-dump.tar.gz";
/// What could not be read, a line each.
const PROBLEMS: &str = "problems.txt";

/// A directory that is being filled.
pub(super) struct Folder {
    root: PathBuf,
    /// Paths below the root, in the order of writing.
    written: Vec<String>,
    problems: Vec<String>,
}

/// What was written.
#[derive(Debug)]
pub(super) struct Done {
    root: PathBuf,
    files: usize,
    problems: usize,
    archive: Option<PathBuf>,
}

impl Folder {
    pub(super) fn open(root: &Path) -> Result<Self, Failure> {
        fs::create_dir_all(root).map_err(failed(root))?;
        Ok(Self { root: root.to_owned(), written: Vec::new(), problems: Vec::new() })
    }

    /// Notes what could not be read; the rest is written all the same.
    pub(super) fn problem(&mut self, what: &str) {
        self.problems.push(what.replace('\n', " "));
    }

    /// Writes objects as one List, what is confidential left out; none make no file.
    pub(super) fn objects(&mut self, path: &str, objects: &[DynamicObject]) -> Result<(), Failure> {
        if objects.is_empty() {
            return Ok(());
        }
        let items: Result<Vec<_>, _> = objects.iter().map(redacted).collect();
        let items = items.map_err(|source| Failure::Unreadable {
            object: path.to_owned(),
            source: Box::new(source),
        })?;
        let list = json!({"apiVersion": "v1", "kind": "List", "items": items});
        self.text(path, &output::yaml(&list)?)
    }

    /// Writes the objects, or notes why there are none.
    pub(super) fn objects_or_problem(
        &mut self,
        path: &str,
        objects: Result<Vec<DynamicObject>, Failure>,
    ) -> Result<(), Failure> {
        match objects {
            Ok(objects) => self.objects(path, &objects),
            Err(failure) => {
                self.problem(&told(&failure));
                Ok(())
            }
        }
    }

    pub(super) fn text(&mut self, path: &str, text: &str) -> Result<(), Failure> {
        let file = self.root.join(path);
        if let Some(parent) = file.parent() {
            fs::create_dir_all(parent).map_err(failed(parent))?;
        }
        fs::write(&file, text).map_err(failed(&file))?;
        self.written.push(path.to_owned());
        Ok(())
    }

    /// Writes what could not be read, and the archive when it is asked for.
    pub(super) fn close(mut self, is_archived: bool) -> Result<Done, Failure> {
        let problems = self.problems.len();
        if problems > 0 {
            let text = self.problems.join("\n") + "\n";
            self.text(PROBLEMS, &text)?;
        }
        let archive = if is_archived { Some(self.archive()?) } else { None };
        Ok(Done { root: self.root, files: self.written.len(), problems, archive })
    }

    /// Packs what this dump has written, and nothing else that lies there.
    fn archive(&self) -> Result<PathBuf, Failure> {
        let path = self.root.join(ARCHIVE);
        let pack = || {
            let gzip = GzEncoder::new(File::create(&path)?, Compression::default());
            let mut archive = tar::Builder::new(gzip);
            for file in &self.written {
                archive.append_path_with_name(self.root.join(file), file)?;
            }
            archive.into_inner()?.finish()?.sync_all()
        };
        pack().map_err(failed(&path))?;
        Ok(path)
    }
}

fn failed(path: &Path) -> impl FnOnce(std::io::Error) -> Failure {
    let path = path.to_owned();
    move |source| Failure::Write { path, source }
}

impl std::fmt::Display for Done {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { root, files, problems, archive } = self;
        write!(formatter, "{files} files are in {}", root.display())?;
        if let Some(archive) = archive {
            write!(formatter, ", and packed in {}", archive.display())?;
        }
        match problems {
            0 => write!(formatter, "."),
            _ => write!(formatter, "; {problems} things could not be read, see {PROBLEMS}."),
        }
    }
}
