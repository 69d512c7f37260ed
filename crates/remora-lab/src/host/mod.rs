//! One host of the hosting cluster: what runs in it, and its first process.

pub(crate) mod config;
pub(crate) mod fingerprint;
pub(crate) mod forwarder;
pub(crate) mod init;
pub(crate) mod programs;
pub(crate) mod reaper;
pub(crate) mod status;
pub(crate) mod trouble;
pub(crate) mod watchman;
