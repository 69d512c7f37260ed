//! Assembles OCI images from built programs and Debian roots and pushes them to the lab's registry.
//!
//! Images are reproducible: the same inputs give the same digest (the node disk excepted, whose
//! file system carries times; its cache entry keeps it stable). Layers are shared: each Kubernetes
//! program is a layer of one link over the layer of the binary that they all are.

mod flannel;
mod image;
mod kubevirt;
mod layer;
mod node_disk;
mod recipes;
mod registry;
mod release;
mod store;
mod tree;

use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

pub use image::Image;
pub use node_disk::NodeDiskError;
pub use registry::PushError;
pub use store::StoreError;

use crate::build::{Artifacts, BuildError, Cache, CacheError};
use crate::progress::{Outcome, Progress, Silent, Step};
use image::Recipe;
use registry::Registry;
use store::Store;

/// A progress that blocking work on another thread reports to as well.
pub type SharedProgress = Arc<dyn Progress>;

/// Why images could not be made or published.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ImagesError {
    /// A program or root was not built.
    #[error(transparent)]
    Build(#[from] BuildError),
    /// The cache could not be used.
    #[error(transparent)]
    Cache(#[from] CacheError),
    /// The store could not be used.
    #[error("cannot make image {image}")]
    Store {
        /// Which image.
        image: String,
        /// Why.
        source: StoreError,
    },
    /// The store could not be opened.
    #[error("cannot open the store of images")]
    OpenStore {
        /// Why.
        source: StoreError,
    },
    /// A Debian root is not as expected.
    #[error("cannot use the Debian root {}", path.display())]
    Root {
        /// Where it is.
        path: PathBuf,
        /// What is wrong.
        source: io::Error,
    },
    /// A program or file could not be read.
    #[error("cannot read {}", path.display())]
    Program {
        /// Where it is.
        path: PathBuf,
        /// The system's answer.
        source: io::Error,
    },
    /// The node disk could not be made.
    #[error("cannot make the node disk")]
    NodeDisk(#[from] NodeDiskError),
    /// An image could not be pushed.
    #[error(transparent)]
    Push(#[from] PushError),
    /// One of our own programs is not built.
    #[error("cannot find program {program} in {}: build it with `cargo build --release`, or set REMORA_BIN_DIR", folder.display())]
    NoProgram {
        /// Which.
        program: &'static str,
        /// Where it was looked for.
        folder: PathBuf,
    },
    /// The program does not know its own place.
    #[error("cannot find the running program")]
    NoSelf {
        /// The system's answer.
        source: io::Error,
    },
    /// Nothing of this name was published.
    #[error("no image {0} was published")]
    Unpublished(String),
    /// The work ended without a result.
    #[error("the work on an image was cut off")]
    CutOff {
        /// Why.
        source: tokio::task::JoinError,
    },
}

/// One of our own programs that runs in a cluster.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum App {
    /// Remora's operator.
    Operator,
    /// The sample application.
    Petclinic,
}

impl App {
    /// The name of its image.
    #[must_use]
    pub fn image(self) -> &'static str {
        match self {
            Self::Operator => "operator",
            Self::Petclinic => "petclinic",
        }
    }

    /// The name of its program.
    #[must_use]
    pub fn program(self) -> &'static str {
        match self {
            Self::Operator => "remora-operator",
            Self::Petclinic => "petclinic",
        }
    }
}

/// The images in the registry, by name.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Published {
    references: BTreeMap<String, PublishedImage>,
}

/// One image in the registry.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PublishedImage {
    /// `<registry>/remora/<name>@sha256:...`: what pods and releases use.
    pub by_digest: String,
    /// `<registry>/remora/<name>:<version>`: what people write.
    pub by_tag: String,
}

impl Published {
    /// The reference of an image by digest.
    ///
    /// # Errors
    /// When it was not published.
    pub fn reference(&self, name: &str) -> Result<&str, ImagesError> {
        Ok(&self.image(name)?.by_digest)
    }

    /// Both references of an image.
    ///
    /// # Errors
    /// When it was not published.
    pub fn image(&self, name: &str) -> Result<&PublishedImage, ImagesError> {
        self.references.get(name).ok_or_else(|| ImagesError::Unpublished(name.to_owned()))
    }

    /// All images by name.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &PublishedImage)> {
        self.references.iter().map(|(name, image)| (name.as_str(), image))
    }

    /// Takes over what another publication made known.
    pub fn extend(&mut self, other: Self) {
        self.references.extend(other.references);
    }
}

/// Publishes what a hosting cluster needs: pod, CoreDNS, KubeVirt and MetalLB.
///
/// # Errors
/// When an image cannot be made or pushed.
pub async fn publish_hosting(
    artifacts: &Artifacts,
    registry: &str,
    progress: &SharedProgress,
) -> Result<Published, ImagesError> {
    let publisher = Publisher::new(artifacts.cache(), registry, progress)?;
    let mut recipes = recipes::release_components(artifacts)?;
    recipes.retain(|recipe| ["pod", "coredns"].contains(&recipe.name.as_str()));
    recipes.push(kubevirt::control(artifacts)?);
    recipes.push(kubevirt::node(artifacts)?);
    recipes.extend(recipes::metallb(artifacts)?);
    publisher.publish(recipes).await.map(|(published, _)| published)
}

/// Publishes the components of a hosted cluster, its node disk and the release that names them.
///
/// # Errors
/// When an image cannot be made or pushed.
pub async fn publish_release(
    artifacts: &Artifacts,
    registry: &str,
    progress: &SharedProgress,
) -> Result<Published, ImagesError> {
    let publisher = Publisher::new(artifacts.cache(), registry, progress)?;
    let recipes = recipes::release_components(artifacts)?;
    let (mut published, images) = publisher.publish(recipes).await?;
    let disk = {
        let (artifacts, store) = (artifacts.clone(), publisher.store.clone());
        let (registry, progress) = (registry.to_owned(), Arc::clone(progress));
        blocking(move || {
            node_disk::recipe(&artifacts, &store, &images, &registry, progress.as_ref())
        })
        .await?
    };
    published.extend(publisher.publish(vec![disk]).await?.0);
    let release = release::recipe(artifacts, &published)?;
    published.extend(publisher.publish(vec![release]).await?.0);
    Ok(published)
}

/// Publishes everything that comes from upstream and the release made of it.
///
/// # Errors
/// When an image cannot be made or pushed.
pub async fn publish_all(
    artifacts: &Artifacts,
    registry: &str,
    progress: &SharedProgress,
) -> Result<Published, ImagesError> {
    let mut published = publish_hosting(artifacts, registry, progress).await?;
    published.extend(publish_release(artifacts, registry, progress).await?);
    Ok(published)
}

/// Publishes one of our own programs, as built last.
///
/// # Errors
/// When the program is not built or its image cannot be made or pushed.
pub async fn publish_app(
    app: App,
    cache: &Cache,
    registry: &str,
    progress: &SharedProgress,
) -> Result<Published, ImagesError> {
    let publisher = Publisher::new(cache, registry, progress)?;
    let recipe = recipes::application(app.image(), app.program(), &own_program(app)?)?;
    publisher.publish(vec![recipe]).await.map(|(published, _)| published)
}

/// Publishes any static program as an image of that name; returns its reference by digest.
///
/// # Errors
/// When the program cannot be read or its image cannot be made or pushed.
pub async fn publish_program(
    registry: &str,
    name: &str,
    program: &Path,
) -> Result<String, ImagesError> {
    let silent: SharedProgress = Arc::new(Silent);
    let publisher = Publisher::new(&Cache::open()?, registry, &silent)?;
    let recipe = recipes::application(name, name, program)?;
    let (published, _) = publisher.publish(vec![recipe]).await?;
    published.reference(name).map(str::to_owned)
}

/// Finds one of our own programs: in `REMORA_BIN_DIR`, else beside the running one, or one folder
/// up where that is a test in `deps/`.
fn own_program(app: App) -> Result<PathBuf, ImagesError> {
    let program = app.program();
    let folder = match std::env::var_os("REMORA_BIN_DIR") {
        Some(folder) => PathBuf::from(folder),
        None => {
            let own = std::env::current_exe().map_err(|source| ImagesError::NoSelf { source })?;
            own.parent().map(PathBuf::from).unwrap_or_default()
        }
    };
    let folder = match folder.file_name() {
        Some(name) if name == "deps" || name == "examples" => {
            folder.parent().map(PathBuf::from).unwrap_or_default()
        }
        _ => folder,
    };
    let path = folder.join(program);
    if path.is_file() { Ok(path) } else { Err(ImagesError::NoProgram { program, folder }) }
}

/// Makes images and pushes them.
struct Publisher {
    store: Store,
    registry: Arc<Registry>,
    progress: SharedProgress,
}

impl Publisher {
    fn new(cache: &Cache, registry: &str, progress: &SharedProgress) -> Result<Self, ImagesError> {
        let store = Store::open(cache).map_err(|source| ImagesError::OpenStore { source })?;
        let registry = Arc::new(Registry::new(registry));
        Ok(Self { store, registry, progress: Arc::clone(progress) })
    }

    /// Makes and pushes images one after another: both keep the disk busy.
    async fn publish(&self, recipes: Vec<Recipe>) -> Result<(Published, Vec<Image>), ImagesError> {
        let mut published = Published::default();
        let mut images = Vec::new();
        for recipe in recipes {
            let step = Step::start(self.progress.as_ref(), format!("image {}", recipe.name));
            let store = self.store.clone();
            let image = blocking(move || {
                recipe
                    .build(&store)
                    .map_err(|source| ImagesError::Store { image: recipe.name.clone(), source })
            })
            .await?;
            step.note("pushing");
            let (by_digest, is_sent) = self.registry.push(&self.store, &image).await?;
            step.finish(if is_sent { Outcome::Done } else { Outcome::Reused });
            let by_tag = format!("{}:{}", self.registry.repository(&image), image.version);
            published.references.insert(image.name.clone(), PublishedImage { by_digest, by_tag });
            images.push(image);
        }
        self.store.enter(&images).map_err(|source| ImagesError::OpenStore { source })?;
        Ok((published, images))
    }
}

/// Runs work that blocks on a thread for such work.
async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, ImagesError> + Send + 'static,
) -> Result<T, ImagesError> {
    tokio::task::spawn_blocking(work).await.map_err(|source| ImagesError::CutOff { source })?
}
