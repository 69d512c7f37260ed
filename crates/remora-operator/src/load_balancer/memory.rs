//! What is remembered about each hosted Service between two looks at it. Nothing of it has to survive a restart.

use std::collections::{BTreeSet, HashMap};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use k8s_openapi::api::core::v1::Service;
use kube::ResourceExt;
use kube::core::DynamicObject;
use remora_core::load_balancer::News;

use crate::apply::ObjectName;
use crate::exposure::progress::{Applied, fingerprint};

/// Pause before the first new attempt.
const FIRST_PAUSE: Duration = Duration::from_millis(250);
/// Longest pause between attempts.
const LONGEST_PAUSE: Duration = Duration::from_secs(30);

/// What is remembered, by the hosted Service's UID.
#[derive(Default)]
pub(super) struct Memories {
    services: Mutex<HashMap<String, Memory>>,
}

#[derive(Default)]
struct Memory {
    applied: HashMap<ObjectName, Applied>,
    /// The Event that was written last: newer than the condition that a lagging watch shows.
    told: Option<News>,
    failures: u32,
}

impl Memories {
    /// Tells whether an object was applied as desired, and nobody has changed it since.
    pub(super) fn is_applied(
        &self,
        hosted: &Service,
        desired: &DynamicObject,
        seen: Option<&str>,
    ) -> bool {
        self.lock()
            .get(&uid(hosted))
            .and_then(|memory| memory.applied.get(&ObjectName::of(desired)))
            .is_some_and(|applied| {
                applied.desired == hash(desired) && applied.resource_version.as_deref() == seen
            })
    }

    /// Remembers what the API server has made of a desired object.
    pub(super) fn applied(&self, hosted: &Service, desired: &DynamicObject, live: &DynamicObject) {
        let applied = Applied { desired: hash(desired), resource_version: live.resource_version() };
        let mut services = self.lock();
        let memory = services.entry(uid(hosted)).or_default();
        memory.applied.insert(ObjectName::of(desired), applied);
    }

    /// Tells whether an Event says something else than the last one, and remembers it.
    pub(super) fn is_new(&self, hosted: &Service, news: &News) -> bool {
        let mut services = self.lock();
        let told = &mut services.entry(uid(hosted)).or_default().told;
        told.replace(news.clone()).as_ref() != Some(news)
    }

    /// Counts a failure, and says how long to wait before the next attempt.
    pub(super) fn pause_after_failure(&self, hosted: &Service) -> Duration {
        let mut services = self.lock();
        let memory = services.entry(uid(hosted)).or_default();
        let pause = FIRST_PAUSE.saturating_mul(1_u32 << memory.failures.min(16));
        memory.failures = memory.failures.saturating_add(1);
        pause.min(LONGEST_PAUSE)
    }

    /// Starts counting anew.
    pub(super) fn forget_failures(&self, hosted: &Service) {
        if let Some(memory) = self.lock().get_mut(&uid(hosted)) {
            memory.failures = 0;
        }
    }

    /// Forgets all but these.
    pub(super) fn retain(&self, uids: &BTreeSet<String>) {
        self.lock().retain(|uid, _| uids.contains(uid));
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<String, Memory>> {
        // Single inserts and removals: never half-done.
        self.services.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn uid(hosted: &Service) -> String {
    hosted.uid().unwrap_or_default()
}

fn hash(desired: &DynamicObject) -> u64 {
    fingerprint(&serde_json::to_string(desired).unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::apply::reference;

    fn hosted() -> Service {
        let mut service = Service::default();
        service.metadata.uid = Some("u".to_owned());
        service
    }

    #[test]
    fn pauses_double_to_a_bound_and_start_anew_after_success() {
        let memories = Memories::default();
        let pauses: Vec<u128> =
            (0..9).map(|_| memories.pause_after_failure(&hosted()).as_millis()).collect();
        assert_eq!(pauses, [250, 500, 1000, 2000, 4000, 8000, 16000, 30000, 30000]);
        memories.forget_failures(&hosted());
        assert_eq!(memories.pause_after_failure(&hosted()), FIRST_PAUSE);
    }

    #[test]
    fn an_object_is_applied_again_when_it_is_to_be_another_or_was_changed_or_deleted() {
        let memories = Memories::default();
        let desired = reference::<Service>(Some("clusters-a"), "a1");
        let mut live = desired.clone();
        live.metadata.resource_version = Some("7".to_owned());
        memories.applied(&hosted(), &desired, &live);
        assert!(memories.is_applied(&hosted(), &desired, Some("7")));
        assert!(!memories.is_applied(&hosted(), &desired, Some("8")));
        assert!(!memories.is_applied(&hosted(), &desired, None));
        let mut other = desired.clone();
        other.data = serde_json::json!({ "spec": {} });
        assert!(!memories.is_applied(&hosted(), &other, Some("7")));
    }
}
