//! The client of the hosting cluster's API.

use std::collections::BTreeMap;
use std::future::Future;
use std::time::{Duration, Instant};

use kube::api::{DynamicObject, Patch, PatchParams};
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::core::{ApiResource, GroupVersionKind};
use kube::discovery::Scope;
use kube::{Api, Client, Config};
use serde_json::Value;

use crate::error::{LabError, with_causes};
use crate::paths::Paths;

/// The field manager of everything that the lab applies.
const FIELD_MANAGER: &str = "remora-lab";
const REQUEST_TIMEOUT: Duration = Duration::from_secs(30);
const PAUSE: Duration = Duration::from_millis(300);

/// A client with the rights of the lab's administrator.
pub(crate) async fn client(paths: &Paths) -> Result<Client, LabError> {
    let path = paths.kubeconfig();
    let unusable = |reason: String| LabError::Kubeconfig { path: path.clone(), reason };
    let kubeconfig = Kubeconfig::read_from(&path).map_err(|error| unusable(with_causes(&error)))?;
    let mut config = Config::from_custom_kubeconfig(kubeconfig, &KubeConfigOptions::default())
        .await
        .map_err(|error| unusable(with_causes(&error)))?;
    // The lab is on this machine, whatever proxy leads out of it.
    config.proxy_url = None;
    config.connect_timeout = Some(Duration::from_secs(3));
    config.read_timeout = Some(REQUEST_TIMEOUT);
    Client::try_from(config).map_err(|error| unusable(with_causes(&error)))
}

/// Asks `probe` until it says `Ok`; its error says what is there instead.
pub(crate) async fn eventually<T, F, R>(
    awaited: &str,
    deadline: Duration,
    mut probe: F,
) -> Result<T, LabError>
where
    F: FnMut() -> R,
    R: Future<Output = Result<T, String>>,
{
    let began = Instant::now();
    loop {
        match probe().await {
            Ok(value) => return Ok(value),
            Err(state) if began.elapsed() > deadline => {
                return Err(LabError::Deadline {
                    awaited: awaited.to_owned(),
                    after: deadline,
                    state,
                });
            }
            Err(_) => tokio::time::sleep(PAUSE).await,
        }
    }
}

/// Whether the API server is ready, or why not.
pub(crate) async fn ready(client: &Client) -> Result<(), String> {
    let request = http::Request::get("/readyz").body(Vec::new()).map_err(|e| e.to_string())?;
    client.request_text(request).await.map(drop).map_err(|error| with_causes(&error))
}

/// Applies objects in the order given, taking over their fields.
pub(crate) async fn apply_all(client: &Client, objects: &[Value]) -> Result<(), LabError> {
    let mut kinds = Kinds::default();
    for object in objects {
        let text = |pointer: &str| object.pointer(pointer).and_then(Value::as_str).unwrap_or("");
        let (namespace, name) = (text("/metadata/namespace"), text("/metadata/name"));
        let what = format!("apply {} {namespace}/{name}", text("/kind"));
        let (resource, scope) = kinds.find(client, text("/apiVersion"), text("/kind")).await?;
        let api: Api<DynamicObject> = match scope {
            Scope::Namespaced => Api::namespaced_with(client.clone(), namespace, &resource),
            Scope::Cluster => Api::all_with(client.clone(), &resource),
        };
        let parameters = PatchParams::apply(FIELD_MANAGER).force();
        api.patch(name, &parameters, &Patch::Apply(object)).await.map_err(LabError::api(what))?;
    }
    Ok(())
}

/// The kinds that were asked for, so that each is looked up once.
#[derive(Default)]
struct Kinds(BTreeMap<(String, String), (ApiResource, Scope)>);

impl Kinds {
    async fn find(
        &mut self,
        client: &Client,
        api_version: &str,
        kind: &str,
    ) -> Result<(ApiResource, Scope), LabError> {
        let key = (api_version.to_owned(), kind.to_owned());
        if let Some(known) = self.0.get(&key) {
            return Ok(known.clone());
        }
        let (group, version) = api_version.split_once('/').unwrap_or(("", api_version));
        let wanted = GroupVersionKind::gvk(group, version, kind);
        let (resource, capabilities) = kube::discovery::pinned_kind(client, &wanted)
            .await
            .map_err(LabError::api(format!("find kind {kind} of {api_version}")))?;
        let found = (resource, capabilities.scope);
        self.0.insert(key, found.clone());
        Ok(found)
    }
}
