//! Waiting for objects, with a limit.

use std::fmt::Debug;
use std::str::FromStr;
use std::time::Duration;

use clap::Args;
use futures::{StreamExt, TryStreamExt};
use kube::api::ListParams;
use kube::core::DynamicObject;
use kube::runtime::{WatchStreamExt, watcher};
use kube::{Api, Client};
use serde::de::DeserializeOwned;
use serde_json::Value;

use crate::failure::{Failure, told};
use crate::{manifest, output};

/// Waiting for the outcome.
#[derive(Clone, Debug, Args)]
pub(crate) struct WaitOptions {
    /// Waits for the outcome.
    #[arg(long)]
    pub(crate) wait: bool,
    /// How long to wait, such as 30s, 10m or 1h.
    #[arg(long, default_value = "10m", value_name = "DURATION")]
    pub(crate) timeout: Limit,
}

/// A duration as Go writes it: 90s, 10m, 1h30m.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Limit(pub(crate) Duration);

impl FromStr for Limit {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let wrong = || format!("{text:?} is no duration: write 90s, 10m or 1h30m");
        let mut total = Duration::ZERO;
        let mut rest = text;
        while !rest.is_empty() {
            let end = rest.find(|c: char| !c.is_ascii_digit()).ok_or_else(wrong)?;
            let (number, tail) = rest.split_at(end);
            let number: u64 = number.parse().map_err(|_| wrong())?;
            let seconds = match tail.chars().next() {
                Some('h') => 3600,
                Some('m') => 60,
                Some('s') => 1,
                _ => return Err(wrong()),
            };
            total += Duration::from_secs(number.saturating_mul(seconds));
            rest = tail.get(1..).unwrap_or_default();
        }
        if total.is_zero() { Err(wrong()) } else { Ok(Self(total)) }
    }
}

/// Pause between two looks at a list.
const LOOK_PAUSE: Duration = Duration::from_secs(1);

/// What a look at an object tells.
pub(crate) enum Look {
    /// What was waited for is there.
    Done,
    /// Not yet; in words what is missing.
    NotYet(String),
}

/// Waits until `judge` is content with the object; `None` stands for an absent one.
pub(crate) async fn until(
    client: &Client,
    object: &DynamicObject,
    what: &str,
    limit: Duration,
    tell: &(dyn Fn(&str) + Sync),
    judge: impl Fn(Option<&DynamicObject>) -> Look,
) -> Result<(), Failure> {
    let name = object.metadata.name.clone().unwrap_or_default();
    let mut last = "nothing was seen".to_owned();
    let watching = async {
        let api = manifest::api(client, object);
        let mut seen = watcher::watch_object(api, &name).default_backoff().boxed();
        loop {
            let Ok(Some(found)) = seen.try_next().await else { continue };
            match judge(found.as_ref()) {
                Look::Done => return,
                Look::NotYet(why) if why == last => {}
                Look::NotYet(why) => {
                    tell(&why);
                    last = why;
                }
            }
        }
    };
    match tokio::time::timeout(limit, watching).await {
        Ok(()) => Ok(()),
        Err(_) => {
            let kind = object.types.as_ref().map(|types| types.kind.to_lowercase());
            let look = format!(
                "kubectl -n {} get {} {name} -o yaml",
                object.metadata.namespace.as_deref().unwrap_or_default(),
                kind.unwrap_or_default()
            );
            Err(Failure::TimedOut { what: what.to_owned(), limit, last, look })
        }
    }
}

/// Waits until `judge` is content with a list, and gives it; looks again every second.
pub(crate) async fn until_list<K>(
    api: &Api<K>,
    what: &str,
    limit: Duration,
    tell: &(dyn Fn(&str) + Sync),
    judge: impl Fn(&[K]) -> Look,
) -> Result<Vec<K>, Failure>
where
    K: Clone + DeserializeOwned + Debug,
{
    until_found(what, limit, tell, async || {
        let found = api.list(&ListParams::default()).await.map_err(|error| told(&error))?;
        match judge(&found.items) {
            Look::Done => Ok(found.items),
            Look::NotYet(why) => Err(why),
        }
    })
    .await
}

/// Waits until `look` finds what is waited for, and gives it; what is missing is told in words. Looks again every second.
pub(crate) async fn until_found<T>(
    what: &str,
    limit: Duration,
    tell: &(dyn Fn(&str) + Sync),
    look: impl AsyncFn() -> Result<T, String>,
) -> Result<T, Failure> {
    let mut last = "nothing was seen".to_owned();
    let looking = async {
        let mut pause = tokio::time::interval(LOOK_PAUSE);
        loop {
            pause.tick().await;
            let why = match look().await {
                Ok(found) => return found,
                Err(why) => why,
            };
            if why != last {
                tell(&why);
                last = why;
            }
        }
    };
    tokio::time::timeout(limit, looking).await.map_err(|_| Failure::TimedOut {
        what: what.to_owned(),
        limit,
        last,
        look: "kubectl get nodes -o wide".to_owned(),
    })
}

/// Waits until a condition is True for the object's current spec.
pub(crate) async fn until_condition(
    client: &Client,
    object: &DynamicObject,
    type_: &str,
    limit: Duration,
    tell: &(dyn Fn(&str) + Sync),
) -> Result<(), Failure> {
    let what = format!("{} {type_}", manifest::told(object));
    until(client, object, &what, limit, tell, |found| match found {
        None => Look::NotYet("it does not exist".to_owned()),
        Some(found) => judge_condition(found, type_),
    })
    .await
}

/// Waits until the object is gone.
pub(crate) async fn until_gone(
    client: &Client,
    object: &DynamicObject,
    limit: Duration,
) -> Result<(), Failure> {
    let what = format!("{} gone", manifest::told(object));
    until(client, object, &what, limit, &aloud, |found| match found {
        None => Look::Done,
        Some(found) if found.metadata.deletion_timestamp.is_none() => {
            Look::NotYet("its deletion is not requested yet".to_owned())
        }
        Some(found) => Look::NotYet(format!(
            "waits for {}",
            found.metadata.finalizers.clone().unwrap_or_default().join(", ")
        )),
    })
    .await
}

/// Tells each new reason to wait on the terminal.
pub(crate) fn aloud(why: &str) {
    output::note(&format!("  {why}"));
}

fn judge_condition(object: &DynamicObject, type_: &str) -> Look {
    let Some(condition) = condition(object, type_) else {
        return Look::NotYet(format!("{type_} is not reported yet"));
    };
    let word = |field: &str| condition.get(field).and_then(Value::as_str).unwrap_or_default();
    let observed = condition.get("observedGeneration").and_then(Value::as_i64);
    let is_current = observed.is_none() || observed == object.metadata.generation;
    match word("status") {
        "True" if is_current => Look::Done,
        "True" => Look::NotYet(format!("{type_} is about an older spec")),
        status => {
            Look::NotYet(format!("{type_} is {status} ({}): {}", word("reason"), word("message")))
        }
    }
}

/// A condition of an object.
pub(crate) fn condition<'a>(object: &'a DynamicObject, type_: &str) -> Option<&'a Value> {
    let conditions = object.data.pointer("/status/conditions")?.as_array()?;
    conditions.iter().find(|condition| condition.get("type").and_then(Value::as_str) == Some(type_))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_are_read_as_go_writes_them() {
        assert_eq!("1h30m".parse(), Ok(Limit(Duration::from_secs(5400))));
        assert_eq!("45s".parse(), Ok(Limit(Duration::from_secs(45))));
        for wrong in ["", "10", "m", "0s", "5d"] {
            assert!(wrong.parse::<Limit>().is_err(), "{wrong:?}");
        }
    }

    #[test]
    fn a_verdict_on_an_older_spec_does_not_count() {
        let object = |observed| {
            manifest::from_json(serde_json::json!({
                "apiVersion": "v1", "kind": "A",
                "metadata": {"name": "a", "generation": 2},
                "status": {"conditions": [
                    {"type": "Ready", "status": "True", "observedGeneration": observed},
                ]},
            }))
            .unwrap()
        };
        assert!(matches!(judge_condition(&object(1), "Ready"), Look::NotYet(_)));
        assert!(matches!(judge_condition(&object(2), "Ready"), Look::Done));
    }
}
