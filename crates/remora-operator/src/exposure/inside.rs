//! Watches what concerns exposures inside one hosted cluster, as long as its session lives.

use std::collections::HashMap;
use std::fmt::Debug;

use futures::{StreamExt, TryStreamExt};
use k8s_openapi::NamespaceResourceScope;
use kube::runtime::{WatchStreamExt, watcher};
use kube::{Api, Resource, ResourceExt};
use remora_core::expose::{HostedService, ServiceNodes};
use serde::de::DeserializeOwned;

use super::hosted::{Hosted, Registry};
use crate::error::chain;
use crate::session::HostedSession;

/// Reports Services, and EndpointSlices once somebody needs them, until the session ends; what was seen last holds while
/// the API server is silent.
pub async fn run(session: HostedSession) {
    let context = &session.context;
    let slices = async {
        tokio::select! {
            () = session.cancel.cancelled() => {}
            () = context.hosted_slices.needed(&session.control_plane_namespace) => {
                report(&session, &context.hosted_slices, ServiceNodes::of).await;
            }
        }
    };
    tokio::join!(report(&session, &context.exposures, HostedService::of), slices);
}

/// Reports the objects of one kind, each reduced to what matters of it; none: it does not count.
async fn report<K, V>(session: &HostedSession, registry: &Registry<V>, read: fn(&K) -> Option<V>)
where
    K: Resource<DynamicType = (), Scope = NamespaceResourceScope>
        + Clone
        + Debug
        + DeserializeOwned
        + Send
        + 'static,
    V: Hosted,
{
    let namespace = &session.control_plane_namespace;
    let number = registry.open(namespace);
    tokio::select! {
        () = session.cancel.cancelled() => {}
        () = follow(session, registry, number, read) => {}
    }
    registry.close(namespace, number);
}

async fn follow<K, V>(
    session: &HostedSession,
    registry: &Registry<V>,
    number: u64,
    read: fn(&K) -> Option<V>,
) where
    K: Resource<DynamicType = (), Scope = NamespaceResourceScope>
        + Clone
        + Debug
        + DeserializeOwned
        + Send
        + 'static,
    V: Hosted,
{
    let namespace = &session.control_plane_namespace;
    let api: Api<K> = Api::all(session.client.clone());
    let mut events = watcher(api, watcher::Config::default()).default_backoff().boxed();
    let mut listed = HashMap::new();
    loop {
        let event = match events.try_next().await {
            Ok(Some(event)) => event,
            Ok(None) => return,
            Err(error) => {
                let kind = K::kind(&()).into_owned();
                tracing::debug!(%namespace, kind, error = %chain(&error), "cannot watch inside");
                continue;
            }
        };
        match event {
            watcher::Event::Init => listed.clear(),
            watcher::Event::InitApply(object) => {
                listed.extend(read(&object).map(|seen| (key(&object), seen)));
            }
            watcher::Event::InitDone => {
                registry.replace(namespace, number, std::mem::take(&mut listed));
            }
            watcher::Event::Apply(object) => {
                registry.set(namespace, number, key(&object), read(&object));
            }
            watcher::Event::Delete(object) => registry.set(namespace, number, key(&object), None),
        }
    }
}

fn key<K: Resource<DynamicType = ()>>(object: &K) -> (String, String) {
    (object.namespace().unwrap_or_default(), object.name_any())
}
