//! What the controller remembers about each exposure between two looks at it. Nothing of it has to survive a restart.

use std::collections::{BTreeMap, HashMap};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use remora_api::service_exposure::ServiceExposureStatus;
use remora_core::exposure_status::Probing;

/// Pause before the first new attempt.
const FIRST_PAUSE: Duration = Duration::from_millis(250);
/// Longest pause between attempts.
const LONGEST_PAUSE: Duration = Duration::from_secs(30);

/// What is remembered, by the exposure's UID.
#[derive(Default)]
pub(super) struct Progress {
    exposures: Mutex<HashMap<String, Memory>>,
}

/// What is remembered about one exposure.
#[derive(Clone, Default)]
pub(super) struct Memory {
    /// What was applied last, and the version that came of it.
    pub(super) applied: Option<Applied>,
    /// The same of its EndpointSlices, by name.
    pub(super) slices: BTreeMap<String, Applied>,
    /// Result of the last attempt to connect, and what it was about.
    pub(super) probed: Option<(u64, Probing)>,
    /// The status as it was written last: newer than what a lagging watch shows.
    pub(super) written: Option<ServiceExposureStatus>,
    /// Attempts without success since something changed.
    failures: u32,
}

/// An applied Service.
#[derive(Clone, PartialEq, Eq)]
pub(crate) struct Applied {
    /// Hash of the desired object.
    pub(crate) desired: u64,
    /// The version that the API server answered with.
    pub(crate) resource_version: Option<String>,
}

impl Memory {
    /// Counts a failure, and says how long to wait before the next attempt.
    pub(super) fn pause_after_failure(&mut self) -> Duration {
        let pause = FIRST_PAUSE.saturating_mul(1_u32 << self.failures.min(16));
        self.failures = self.failures.saturating_add(1);
        pause.min(LONGEST_PAUSE)
    }

    /// Starts counting anew.
    pub(super) fn forget_failures(&mut self) {
        self.failures = 0;
    }
}

impl Progress {
    /// A copy of what is remembered.
    pub(super) fn recall(&self, uid: &str) -> Memory {
        self.lock().get(uid).cloned().unwrap_or_default()
    }

    /// Remembers; an exposure is never looked at twice at once, so that nothing is lost between.
    pub(super) fn remember(&self, uid: &str, memory: Memory) {
        self.lock().insert(uid.to_owned(), memory);
    }

    /// Forgets an exposure that is gone.
    pub(super) fn forget(&self, uid: &str) {
        self.lock().remove(uid);
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<String, Memory>> {
        // Single inserts and removals: never half-done.
        self.exposures.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A hash that tells equal values from others within this process.
pub(crate) fn fingerprint(value: &impl Hash) -> u64 {
    let mut hasher = DefaultHasher::new();
    value.hash(&mut hasher);
    hasher.finish()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_double_to_a_bound_and_start_anew_after_a_change() {
        let mut memory = Memory::default();
        let pauses: Vec<u128> = (0..9).map(|_| memory.pause_after_failure().as_millis()).collect();
        assert_eq!(pauses, [250, 500, 1000, 2000, 4000, 8000, 16000, 30000, 30000]);
        memory.forget_failures();
        assert_eq!(memory.pause_after_failure(), FIRST_PAUSE);
    }
}
