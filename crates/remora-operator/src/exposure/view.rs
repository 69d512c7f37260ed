//! What the controller needs of other objects of the hosting cluster: kept small, and told about only when it changes.

use std::collections::{HashMap, HashSet};
use std::fmt::Debug;
use std::sync::{Arc, PoisonError, RwLock};

use futures::{Stream, StreamExt};
use kube::runtime::{WatchStreamExt, watcher};
use kube::{Api, Resource, ResourceExt};
use serde::de::DeserializeOwned;
use tokio::sync::watch as flag;

use crate::error::chain;

/// Namespace and name.
type Key = (String, String);

/// The objects of one kind, each reduced to a value of type `V`; cheap to clone.
pub(crate) struct View<V> {
    values: Arc<RwLock<HashMap<Key, V>>>,
    is_ready: flag::Receiver<bool>,
}

impl<V> Clone for View<V> {
    fn clone(&self) -> Self {
        Self { values: self.values.clone(), is_ready: self.is_ready.clone() }
    }
}

impl<V: Clone> View<V> {
    /// One value.
    pub(crate) fn get(&self, namespace: &str, name: &str) -> Option<V> {
        let values = self.values.read().unwrap_or_else(PoisonError::into_inner);
        values.get(&(namespace.to_owned(), name.to_owned())).cloned()
    }

    /// All values, in no order.
    pub(crate) fn all(&self) -> Vec<V> {
        let values = self.values.read().unwrap_or_else(PoisonError::into_inner);
        values.values().cloned().collect()
    }

    /// The values that are meant, in no order.
    pub(crate) fn select(&self, is_meant: impl Fn(&V) -> bool) -> Vec<V> {
        let values = self.values.read().unwrap_or_else(PoisonError::into_inner);
        values.values().filter(|value| is_meant(value)).cloned().collect()
    }

    /// Ends when everything was listed once.
    pub(crate) fn ready(&self) -> impl Future<Output = ()> + Send + use<V> {
        let mut is_ready = self.is_ready.clone();
        async move {
            // The writer is gone only when the operator ends.
            let _ = is_ready.wait_for(|is_ready| *is_ready).await;
        }
    }
}

/// Follows the objects of one kind; the stream gives the values before and after each change.
///
/// `read` says what of an object matters; none: it does not count.
pub(crate) fn watch<K, V>(
    api: Api<K>,
    config: watcher::Config,
    read: fn(&K) -> Option<V>,
) -> (View<V>, impl Stream<Item = Vec<V>> + Send)
where
    K: Resource<DynamicType = ()> + Clone + Debug + DeserializeOwned + Send + 'static,
    V: Clone + PartialEq + Send + Sync + 'static,
{
    let (ready, is_ready) = flag::channel(false);
    let values: Arc<RwLock<HashMap<Key, V>>> = Arc::default();
    let view = View { values: values.clone(), is_ready };
    let mut follower = Follower { values, listed: HashSet::new(), read, ready };
    let changes = watcher(api, config).default_backoff().filter_map(move |event| {
        let changed = match event {
            Ok(event) => follower.take(event),
            Err(error) => {
                let kind = K::kind(&()).into_owned();
                tracing::warn!(kind, error = %chain(&error), "cannot watch");
                Vec::new()
            }
        };
        std::future::ready(Some(changed).filter(|changed| !changed.is_empty()))
    });
    (view, changes)
}

struct Follower<K, V> {
    values: Arc<RwLock<HashMap<Key, V>>>,
    listed: HashSet<Key>,
    read: fn(&K) -> Option<V>,
    ready: flag::Sender<bool>,
}

impl<K, V> Follower<K, V>
where
    K: Resource<DynamicType = ()>,
    V: Clone + PartialEq,
{
    fn take(&mut self, event: watcher::Event<K>) -> Vec<V> {
        match event {
            watcher::Event::Init => {
                self.listed.clear();
                Vec::new()
            }
            watcher::Event::InitApply(object) => {
                self.listed.insert(key(&object));
                self.set(key(&object), (self.read)(&object))
            }
            watcher::Event::InitDone => {
                let changed = self.drop_unlisted();
                self.ready.send_replace(true);
                changed
            }
            watcher::Event::Apply(object) => self.set(key(&object), (self.read)(&object)),
            watcher::Event::Delete(object) => self.set(key(&object), None),
        }
    }

    fn set(&mut self, key: Key, value: Option<V>) -> Vec<V> {
        let mut values = self.values.write().unwrap_or_else(PoisonError::into_inner);
        let before = match &value {
            Some(value) => values.insert(key, value.clone()),
            None => values.remove(&key),
        };
        if before == value { Vec::new() } else { before.into_iter().chain(value).collect() }
    }

    fn drop_unlisted(&mut self) -> Vec<V> {
        let listed = std::mem::take(&mut self.listed);
        let mut values = self.values.write().unwrap_or_else(PoisonError::into_inner);
        values.extract_if(|key, _| !listed.contains(key)).map(|(_, value)| value).collect()
    }
}

fn key<K: Resource<DynamicType = ()>>(object: &K) -> Key {
    (object.namespace().unwrap_or_default(), object.name_any())
}

#[cfg(test)]
mod tests {
    use k8s_openapi::api::core::v1::ConfigMap;
    use kube::core::ObjectMeta;

    use super::*;

    fn config_map(name: &str, value: &str) -> ConfigMap {
        ConfigMap {
            metadata: ObjectMeta { name: Some(name.to_owned()), ..ObjectMeta::default() },
            data: Some([("k".to_owned(), value.to_owned())].into()),
            ..ConfigMap::default()
        }
    }

    fn value(object: &ConfigMap) -> Option<String> {
        object.data.as_ref()?.get("k").cloned()
    }

    fn follower() -> Follower<ConfigMap, String> {
        let (ready, _) = flag::channel(false);
        Follower { values: Arc::default(), listed: HashSet::new(), read: value, ready }
    }

    #[test]
    fn a_change_gives_the_value_before_and_after_and_no_change_gives_nothing() {
        let mut follower = follower();
        let mut apply = |value| follower.take(watcher::Event::Apply(config_map("a", value)));
        assert_eq!(apply("1"), ["1"]);
        assert_eq!(apply("1"), Vec::<String>::new());
        assert_eq!(apply("2"), ["1", "2"]);
    }

    #[test]
    fn what_a_new_list_lacks_is_gone() {
        let mut follower = follower();
        follower.take(watcher::Event::Apply(config_map("a", "1")));
        follower.take(watcher::Event::Apply(config_map("b", "2")));
        follower.take(watcher::Event::Init);
        assert!(follower.take(watcher::Event::InitApply(config_map("b", "2"))).is_empty());
        assert_eq!(follower.take(watcher::Event::InitDone), ["1"]);
    }
}
