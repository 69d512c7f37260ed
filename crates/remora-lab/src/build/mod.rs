//! Builds the upstream programs and the Debian roots once, into a cache keyed by their pins.
//!
//! `third-party/` says what and how; nothing about a component is written here. An entry of the
//! cache appears by one rename, so a half-made one is never seen:
//!
//! ```text
//! builds/<name>-<key>/bin/<program>    what `go build` and `cc` made
//! builds/<name>-<key>/files/<path>     files taken from the component's Go modules
//! roots/<name>-<key>/root.tar          a Debian root
//! logs/<name>-<key>.log                everything the tools said
//! ```

mod artifacts;
mod cache;
mod command;
mod component;
mod debian;
mod go;
mod key;
mod sources;

pub use artifacts::{Artifacts, BuildError};
pub use cache::{Cache, CacheError};
pub use command::CommandError;
pub use component::{Component, ComponentFile, Components, ComponentsError};
pub use debian::RootError;
pub use go::GoError;
pub use key::Key;
pub use sources::Sources;

pub(crate) use cache::Made;
pub(crate) use command::{Log, capture, run, run_with_input};
pub(crate) use key::{KeyHasher, hex, sha256_of_file};
