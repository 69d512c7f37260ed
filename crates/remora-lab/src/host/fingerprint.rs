//! Tells whether a running host is what the lab would start now.

use sha2::{Digest, Sha256};

use crate::host::programs::{Layout, config_files, programs};

/// A digest of everything that a host runs: programs, arguments and configuration. It changes
/// when any of them does, and only then: a host that has it may stay as it is.
pub(crate) fn fingerprint(layout: &Layout<'_>) -> String {
    let mut digest = Sha256::new();
    let mut add = |text: &str| {
        digest.update(text.len().to_be_bytes());
        digest.update(text);
    };
    for program in programs(layout) {
        add(program.name);
        // The links lead into the cache, where other content has another name.
        let target = std::fs::read_link(layout.paths.bin().join(program.name)).unwrap_or_default();
        add(&target.display().to_string());
        program.arguments.iter().for_each(|argument| add(argument));
    }
    for (path, content) in config_files(layout) {
        add(&path.display().to_string());
        add(&content);
    }
    let hex = |text: String, byte: &u8| format!("{text}{byte:02x}");
    digest.finalize().iter().take(16).fold(String::new(), hex)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::paths::Paths;
    use crate::plan::Plan;
    use crate::topology::Topology;

    #[test]
    fn when_the_pause_image_changes_every_host_has_another_fingerprint() {
        let paths = Paths::new("/lab", "/cache").unwrap();
        let of = |image: &str, host: &str| {
            let topology = Topology::new(1, 2).unwrap();
            let plan = Plan { topology, pause_image: Some(image.to_owned()) };
            fingerprint(&Layout::new(&paths, &plan, plan.topology.host(host).unwrap()))
        };
        assert_eq!(of("pod@sha256:aa", "worker-1"), of("pod@sha256:aa", "worker-1"));
        assert_ne!(of("pod@sha256:aa", "worker-1"), of("pod@sha256:bb", "worker-1"));
        assert_ne!(of("pod@sha256:aa", "worker-1"), of("pod@sha256:aa", "worker-2"));
    }
}
