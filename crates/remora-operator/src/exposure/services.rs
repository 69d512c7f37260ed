//! Watches the Services of one hosted cluster, as long as its session lives.

use futures::{StreamExt, TryStreamExt};
use k8s_openapi::api::core::v1::Service;
use kube::runtime::{WatchStreamExt, watcher};
use kube::{Api, ResourceExt};
use remora_core::expose::HostedService;

use super::HostedServices;
use crate::error::chain;
use crate::session::HostedSession;

/// Reports the hosted Services until the session ends; what was seen last holds while the API server is silent.
pub async fn run(session: HostedSession) {
    let registry = session.context.exposures.clone();
    let namespace = session.control_plane_namespace.clone();
    let number = registry.open(&namespace);
    tokio::select! {
        () = session.cancel.cancelled() => {}
        () = follow(&session, &registry, number) => {}
    }
    registry.close(&namespace, number);
}

async fn follow(session: &HostedSession, registry: &HostedServices, number: u64) {
    let namespace = &session.control_plane_namespace;
    let api: Api<Service> = Api::all(session.client.clone());
    let mut events = watcher(api, watcher::Config::default()).default_backoff().boxed();
    let mut listed = Vec::new();
    loop {
        let event = match events.try_next().await {
            Ok(Some(event)) => event,
            Ok(None) => return,
            Err(error) => {
                tracing::debug!(%namespace, error = %chain(&error), "cannot watch hosted services");
                continue;
            }
        };
        match event {
            watcher::Event::Init => listed.clear(),
            watcher::Event::InitApply(service) => listed.extend(HostedService::of(&service)),
            watcher::Event::InitDone => {
                registry.replace(namespace, number, std::mem::take(&mut listed));
            }
            watcher::Event::Apply(service) => {
                let seen = HostedService::of(&service);
                registry.set(namespace, number, key(&service), seen.as_ref());
            }
            watcher::Event::Delete(service) => {
                registry.set(namespace, number, key(&service), None);
            }
        }
    }
}

fn key(service: &Service) -> (String, String) {
    (service.namespace().unwrap_or_default(), service.name_any())
}
