//! All programs and roots, built or found.

use std::collections::{BTreeMap, VecDeque};
use std::fs;
use std::path::PathBuf;
use std::sync::{Mutex, PoisonError};
use std::thread;

use super::component::{Component, Components, ComponentsError};
use super::debian::{ROOTS, Root};
use super::{
    Cache, CacheError, CommandError, GoError, Key, KeyHasher, Log, Made, RootError, Sources, go,
};
use crate::progress::{Outcome, Progress, Step};

/// Bumped when this program builds the same recipe differently.
const RECIPE: &str = "component-1";

/// Memory that one build may take at its peak: KubeVirt's cgo programs, linked side by side.
const MEMORY_PER_BUILD_KIB: u64 = 6 * 1024 * 1024;

/// Why something could not be built.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum BuildError {
    /// No checkout was found.
    #[error(
        "cannot find third-party/components.toml in {}: set REMORA_SOURCE_DIR to a checkout",
        folder.display()
    )]
    NoSources {
        /// Where it was looked for.
        folder: PathBuf,
    },
    /// `components.toml` is at fault.
    #[error(transparent)]
    Components(#[from] ComponentsError),
    /// The cache could not be used.
    #[error(transparent)]
    Cache(#[from] CacheError),
    /// Go is not usable.
    #[error("cannot ask go for its version")]
    GoVersion {
        /// Why.
        source: CommandError,
    },
    /// A component's folder could not be read.
    #[error("cannot read the folder of component {component}")]
    Inputs {
        /// Which.
        component: String,
        /// The system's answer.
        source: std::io::Error,
    },
    /// A component could not be built.
    #[error("cannot build {component}")]
    Component {
        /// Which.
        component: String,
        /// Why.
        source: Box<GoError>,
    },
    /// A root could not be made.
    #[error("cannot make the Debian root {root}")]
    Root {
        /// Which.
        root: &'static str,
        /// Why.
        source: Box<RootError>,
    },
    /// A log could not be opened.
    #[error("cannot keep a log")]
    Log {
        /// Why.
        source: CommandError,
    },
    /// Nothing of this name was built.
    #[error("component {component} has no {kind} {name}")]
    Unknown {
        /// The component.
        component: String,
        /// Program, file or root.
        kind: &'static str,
        /// The name asked for.
        name: String,
    },
}

/// Where each built thing is.
#[derive(Debug, Clone)]
pub struct Artifacts {
    sources: Sources,
    cache: Cache,
    components: Components,
    entries: BTreeMap<String, PathBuf>,
    roots: BTreeMap<&'static str, PathBuf>,
}

/// One entry of the cache that has to be there.
enum Job {
    Component(Box<Component>),
    Root(Root),
}

/// What a finished job leaves.
enum Ready {
    Component(String, PathBuf),
    Root(&'static str, PathBuf),
}

impl Artifacts {
    /// Builds what is not in the cache yet, several at once where memory allows. Blocks.
    ///
    /// # Errors
    /// The first failure; what was finished stays in the cache.
    pub fn build(
        sources: &Sources,
        cache: &Cache,
        progress: &dyn Progress,
    ) -> Result<Self, BuildError> {
        Self::build_only(sources, cache, progress, &|_| true)
    }

    /// Builds as [`Artifacts::build`] does, but only the components and roots whose name `wanted`
    /// accepts. Blocks.
    ///
    /// # Errors
    /// The first failure; what was finished stays in the cache.
    pub fn build_only(
        sources: &Sources,
        cache: &Cache,
        progress: &dyn Progress,
        wanted: &dyn Fn(&str) -> bool,
    ) -> Result<Self, BuildError> {
        let components = Components::read(&sources.components_file())?;
        let log = Log::create(&cache.root().join("logs/go-version.log"))
            .map_err(|source| BuildError::Log { source })?;
        let go_version = go::version(&log).map_err(|source| BuildError::GoVersion { source })?;
        let jobs = components
            .list
            .iter()
            .filter(|component| wanted(&component.name))
            .map(|component| Job::Component(Box::new(component.clone())))
            .chain(ROOTS.into_iter().filter(|root| wanted(root.name)).map(Job::Root))
            .collect();
        let driver = Driver { sources, cache, progress, go_version: &go_version };
        let mut entries = BTreeMap::new();
        let mut roots = BTreeMap::new();
        for ready in driver.run(jobs)? {
            match ready {
                Ready::Component(name, entry) => drop(entries.insert(name, entry)),
                Ready::Root(name, entry) => drop(roots.insert(name, entry)),
            }
        }
        Ok(Self { sources: sources.clone(), cache: cache.clone(), components, entries, roots })
    }

    /// A built program.
    ///
    /// # Errors
    /// When the component or program is unknown.
    pub fn program(&self, component: &str, name: &str) -> Result<PathBuf, BuildError> {
        self.built(component, "program", name, |entry| entry.join("bin").join(name))
    }

    /// A file that an image of the component needs, by its path in its module or folder.
    ///
    /// # Errors
    /// When the component or file is unknown.
    pub fn file(&self, component: &str, from: &str) -> Result<PathBuf, BuildError> {
        let own = self.sources.component(component).join(from);
        let entry = self.components.get(component)?;
        if entry.file.iter().any(|file| file.module.is_none() && file.from == from) {
            return Ok(own);
        }
        self.built(component, "file", from, |entry| entry.join("files").join(from))
    }

    fn built(
        &self,
        component: &str,
        kind: &'static str,
        name: &str,
        path: impl FnOnce(&PathBuf) -> PathBuf,
    ) -> Result<PathBuf, BuildError> {
        self.entries.get(component).map(path).filter(|path| path.is_file()).ok_or_else(|| {
            BuildError::Unknown { component: component.to_owned(), kind, name: name.to_owned() }
        })
    }

    /// The tar of a Debian root.
    ///
    /// # Errors
    /// When the root is unknown.
    pub fn root(&self, name: &str) -> Result<PathBuf, BuildError> {
        self.roots.get(name).map(|entry| entry.join("root.tar")).ok_or_else(|| {
            BuildError::Unknown {
                component: "debian".to_owned(),
                kind: "root",
                name: name.to_owned(),
            }
        })
    }

    /// What `components.toml` says of a component.
    ///
    /// # Errors
    /// When it is unknown.
    pub fn component(&self, name: &str) -> Result<&Component, BuildError> {
        Ok(self.components.get(name)?)
    }

    /// The cache that holds everything.
    #[must_use]
    pub fn cache(&self) -> &Cache {
        &self.cache
    }
}

/// What every job needs.
struct Driver<'a> {
    sources: &'a Sources,
    cache: &'a Cache,
    progress: &'a dyn Progress,
    go_version: &'a [u8],
}

impl Driver<'_> {
    /// Runs all jobs on a few threads. After a failure no further job starts.
    fn run(&self, jobs: VecDeque<Job>) -> Result<Vec<Ready>, BuildError> {
        let threads = parallel_builds().min(jobs.len());
        let queue = Mutex::new(jobs);
        let results = Mutex::new(Vec::new());
        thread::scope(|scope| {
            for _ in 0..threads {
                scope.spawn(|| {
                    // The guard must not live while the job runs, as it would in a `while let`.
                    loop {
                        let next = lock(&queue).pop_front();
                        let Some(job) = next else { break };
                        let result = self.run_one(job);
                        if result.is_err() {
                            lock(&queue).clear();
                        }
                        lock(&results).push(result);
                    }
                });
            }
        });
        results.into_inner().unwrap_or_else(PoisonError::into_inner).into_iter().collect()
    }

    fn run_one(&self, job: Job) -> Result<Ready, BuildError> {
        match job {
            Job::Component(component) => {
                let entry = self.component(&component)?;
                Ok(Ready::Component(component.name, entry))
            }
            Job::Root(root) => Ok(Ready::Root(root.name, self.root(root)?)),
        }
    }

    fn component(&self, component: &Component) -> Result<PathBuf, BuildError> {
        let key = component_key(component, self.sources, self.go_version)?;
        let at = ("builds", component.name.as_str(), &key);
        let step = Step::start(self.progress, format!("build {}", component.name));
        let (entry, made) = self.cache.make(at, |entry| {
            let failed = |source: GoError| BuildError::Component {
                component: component.name.clone(),
                source: Box::new(source),
            };
            let log = Log::create(&self.cache.log(&component.name, &key))
                .map_err(|source| failed(source.into()))?;
            go::build(component, self.sources, entry, &log, &step).map_err(failed)
        })?;
        step.finish(outcome(made));
        Ok(entry)
    }

    fn root(&self, root: Root) -> Result<PathBuf, BuildError> {
        let failed =
            |source: RootError| BuildError::Root { root: root.name, source: Box::new(source) };
        let packages = root.packages(self.sources).map_err(failed)?;
        let key = root.key(&packages);
        let at = ("roots", root.name, &key);
        let step = Step::start(self.progress, format!("Debian root {}", root.name));
        let (entry, made) = self.cache.make(at, |entry| {
            let log = Log::create(&self.cache.log(root.name, &key))
                .map_err(|source| failed(source.into()))?;
            root.make(&packages, entry, &log).map_err(failed)
        })?;
        step.finish(outcome(made));
        Ok(entry)
    }
}

fn component_key(
    component: &Component,
    sources: &Sources,
    go_version: &[u8],
) -> Result<Key, BuildError> {
    let failed = |source| BuildError::Inputs { component: component.name.clone(), source };
    let mut hasher = KeyHasher::new(RECIPE).with(go_version);
    let recipe =
        serde_json::to_vec(&component.build_recipe()).map_err(|error| failed(error.into()))?;
    hasher.add(recipe);
    hasher
        .add_folder(&sources.component(&component.name), &|path| component.is_build_input(path))
        .map_err(failed)?;
    Ok(hasher.finish())
}

/// How many builds run at once: one per processor, as far as free memory goes.
fn parallel_builds() -> usize {
    let processors = thread::available_parallelism().map_or(1, usize::from);
    let available = fs::read_to_string("/proc/meminfo").ok().and_then(|text| available_kib(&text));
    let by_memory = available.map_or(1, |kib| kib / MEMORY_PER_BUILD_KIB);
    processors.min(usize::try_from(by_memory).unwrap_or(usize::MAX)).clamp(1, 4)
}

fn available_kib(meminfo: &str) -> Option<u64> {
    meminfo
        .lines()
        .find_map(|line| line.strip_prefix("MemAvailable:"))?
        .split_whitespace()
        .next()?
        .parse()
        .ok()
}

fn outcome(made: Made) -> Outcome {
    match made {
        Made::Now => Outcome::Done,
        Made::Before => Outcome::Reused,
    }
}

/// A panic of another job does not make the queue or the results unusable.
fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::progress::Silent;

    /// A component of one C program, so that the test needs no module.
    fn checkout(source: &str) -> (tempfile::TempDir, Sources) {
        let folder = tempfile::tempdir().unwrap();
        let third_party = folder.path().join("third-party");
        fs::create_dir_all(third_party.join("pause")).unwrap();
        fs::write(third_party.join("pause/pause.c"), source).unwrap();
        fs::write(
            third_party.join("components.toml"),
            "[[component]]\nname = \"pause\"\nversion = \"v0\"\nc_flags = \"-O1\"\n\
             [component.c_programs]\npause = \"pause.c\"\n",
        )
        .unwrap();
        (folder, Sources::at(third_party))
    }

    #[test]
    fn when_nothing_changed_the_second_run_builds_nothing() {
        let (folder, sources) = checkout("int main(void) { return 0; }\n");
        let cache = Cache::at(folder.path().join("cache")).unwrap();
        let build =
            || Artifacts::build_only(&sources, &cache, &Silent, &|name| name == "pause").unwrap();
        let first = build().program("pause", "pause").unwrap();
        let made = fs::metadata(&first).unwrap().modified().unwrap();
        let second = build().program("pause", "pause").unwrap();
        assert_eq!(first, second);
        assert_eq!(fs::metadata(&second).unwrap().modified().unwrap(), made);
        assert!(build().program("pause", "other").is_err());
    }

    #[test]
    fn when_a_source_is_wrong_the_error_names_component_and_log() {
        let (folder, sources) = checkout("no C at all\n");
        let cache = Cache::at(folder.path().join("cache")).unwrap();
        let error =
            Artifacts::build_only(&sources, &cache, &Silent, &|name| name == "pause").unwrap_err();
        assert_eq!(error.to_string(), "cannot build pause");
        let cause = std::error::Error::source(&error).unwrap().to_string();
        assert!(cause.contains("/logs/pause-"), "{cause}");
    }

    #[test]
    fn when_meminfo_says_what_is_available_it_is_read() {
        let text = "MemTotal:       24000000 kB\nMemAvailable:   13000000 kB\n";
        assert_eq!(available_kib(text), Some(13_000_000));
    }
}
