//! What all tests share: a hosting API server, a hosted one, a registry, and the operator at work.
//!
//! Each test has a namespace of its own; the operator is one for all of them, as in life.

use std::sync::LazyLock;
use std::time::Duration;

use anyhow::Context as _;
use k8s_openapi::api::core::v1::Namespace;
use kube::api::{ApiResource, DynamicObject, ListParams, Patch, PatchParams, PostParams};
use kube::core::GroupVersionKind;
use kube::{Api, Client};
use remora_operator::session::HostedClusterId;
use remora_testkit::{ApiServer, Registry, eventually, manifest};
use serde_json::{Value, json};
use tokio::sync::OnceCell;
use tracing_subscriber::EnvFilter;
use tracing_subscriber::filter::LevelFilter;

use crate::operator::{self, Operator};

/// Ten times what the slowest wait takes on a busy machine of two cores.
pub(crate) const DEADLINE: Duration = Duration::from_secs(120);

/// Everything that runs.
pub(crate) struct World {
    /// The hosting API server.
    pub(crate) hosting: &'static ApiServer,
    /// The registry that the operator speaks to over plain HTTP.
    pub(crate) registry: &'static Registry,
    operator: Operator,
}

static WORLD: OnceCell<World> = OnceCell::const_new();
static HOSTED: LazyLock<Result<ApiServer, String>> =
    LazyLock::new(|| ApiServer::start().map_err(|error| format!("{error:#}")));

impl World {
    /// The world of this test binary; the first call makes it.
    pub(crate) async fn shared() -> anyhow::Result<&'static Self> {
        WORLD.get_or_try_init(Self::make).await
    }

    async fn make() -> anyhow::Result<Self> {
        // RUST_LOG=remora_operator=debug shows what the operator says.
        let filter = EnvFilter::builder().with_default_directive(LevelFilter::OFF.into());
        tracing_subscriber::fmt().with_env_filter(filter.from_env_lossy()).init();
        let hosting = ApiServer::shared()?;
        operator::install(hosting).await?;
        let registry = Registry::shared().await?;
        let operator = Operator::start(hosting, registry).await?;
        Ok(Self { hosting, registry, operator })
    }

    /// A client of the hosting cluster's administrator.
    pub(crate) async fn client(&self) -> anyhow::Result<Client> {
        self.hosting.client().await
    }

    /// Makes a namespace.
    pub(crate) async fn namespace(&self, name: &str) -> anyhow::Result<()> {
        let namespace: Namespace = serde_json::from_value(json!({ "metadata": { "name": name } }))?;
        Api::all(self.client().await?)
            .create(&PostParams::default(), &namespace)
            .await
            .with_context(|| format!("cannot create namespace {name}"))?;
        Ok(())
    }

    /// Makes the operator believe that the API server of a HostedCluster answers, and is this one.
    pub(crate) async fn open_session(
        &self,
        (namespace, name): (&str, &str),
        infra_id: &str,
        hosted: &'static ApiServer,
    ) -> anyhow::Result<()> {
        let id = HostedClusterId {
            namespace: namespace.to_owned(),
            name: name.to_owned(),
            uid: format!("uid-of-{name}"),
            infra_id: infra_id.to_owned(),
        };
        let control_plane = remora_api::names::control_plane_namespace(namespace, name);
        let context = self.operator.context.clone();
        let open = async move {
            let client = (hosted.client().await?, "1".to_owned());
            context.sessions.ensure(&context, &id, &control_plane, client, Some(Vec::new()));
            anyhow::Ok(())
        };
        self.operator.run(open).await?
    }

    /// Makes the operator believe that the API server of a HostedCluster does not answer.
    pub(crate) fn close_session(&self, (namespace, name): (&str, &str)) {
        let control_plane = remora_api::names::control_plane_namespace(namespace, name);
        self.operator.context.sessions.end(&control_plane);
    }
}

/// The API server that HostedClusters share here, where they do not get in each other's way.
pub(crate) fn hosted() -> anyhow::Result<&'static ApiServer> {
    HOSTED.as_ref().map_err(|error| anyhow::anyhow!("{error}"))
}

/// The API of a kind in a namespace, or of a kind without namespaces when that is empty.
pub(crate) fn api(
    client: &Client,
    api_version: &str,
    kind: &str,
    namespace: &str,
) -> Api<DynamicObject> {
    let (group, version) = api_version.split_once('/').unwrap_or(("", api_version));
    let kind = ApiResource::from_gvk(&GroupVersionKind::gvk(group, version, kind));
    if namespace.is_empty() {
        return Api::all_with(client.clone(), &kind);
    }
    Api::namespaced_with(client.clone(), namespace, &kind)
}

/// The API of the manifest's kind and namespace.
pub(crate) fn api_of(client: &Client, object: &Value) -> anyhow::Result<Api<DynamicObject>> {
    let text = |path: &str| object.pointer(path).and_then(Value::as_str).unwrap_or_default();
    let (api_version, kind) = (text("/apiVersion"), text("/kind"));
    anyhow::ensure!(!api_version.is_empty() && !kind.is_empty(), "this is no manifest: {object}");
    Ok(api(client, api_version, kind, text("/metadata/namespace")))
}

/// Applies a manifest as a user does.
pub(crate) async fn apply(client: &Client, object: &Value) -> anyhow::Result<DynamicObject> {
    write(client, object, false).await
}

/// Applies the status of a manifest, as the one whose status it is would.
pub(crate) async fn apply_status(client: &Client, object: &Value) -> anyhow::Result<DynamicObject> {
    write(client, object, true).await
}

async fn write(client: &Client, object: &Value, is_status: bool) -> anyhow::Result<DynamicObject> {
    let name = object.pointer("/metadata/name").and_then(Value::as_str).unwrap_or_default();
    let params = PatchParams::apply("user").force();
    let api = api_of(client, object)?;
    let patch = Patch::Apply(object);
    let result = if is_status {
        api.patch_status(name, &params, &patch).await
    } else {
        api.patch(name, &params, &patch).await
    };
    result.with_context(|| format!("cannot apply {name}"))
}

/// Applies a minimal manifest with a patch.
pub(crate) async fn apply_patched(
    client: &Client,
    base: &str,
    patch: &Value,
) -> anyhow::Result<DynamicObject> {
    apply(client, &manifest::patched(manifest::yaml(base)?, patch)).await
}

/// Status, reason and message of a condition.
pub(crate) fn condition(object: &DynamicObject, type_: &str) -> Option<(String, String, String)> {
    let conditions = object.data.pointer("/status/conditions").and_then(Value::as_array)?;
    let found = conditions.iter().find(|found| found.get("type") == Some(&json!(type_)))?;
    let text = |key: &str| found.get(key).and_then(Value::as_str).unwrap_or_default().to_owned();
    Some((text("status"), text("reason"), text("message")))
}

/// Waits until a condition has this status and reason, and gives its message.
pub(crate) async fn wait_for_condition(
    api: &Api<DynamicObject>,
    name: &str,
    (type_, status, reason): (&str, &str, &str),
) -> anyhow::Result<String> {
    eventually(&format!("{name}: {type_}={status} ({reason})"), DEADLINE, async || {
        let object = api.get(name).await?;
        let (seen_status, seen_reason, message) = condition(&object, type_)
            .with_context(|| format!("no such condition: {}", object.data))?;
        anyhow::ensure!(
            (seen_status.as_str(), seen_reason.as_str()) == (status, reason),
            "it is {seen_status} ({seen_reason}): {message}"
        );
        Ok(message)
    })
    .await
}

/// Waits until a kind has exactly so many objects under a label selector.
pub(crate) async fn wait_for_count(
    api: &Api<DynamicObject>,
    selector: &str,
    count: usize,
) -> anyhow::Result<Vec<DynamicObject>> {
    let params = ListParams::default().labels(selector);
    eventually(&format!("{count} objects with {selector}"), DEADLINE, async || {
        let list = api.list(&params).await?;
        anyhow::ensure!(list.items.len() == count, "there are {}", list.items.len());
        Ok(list.items)
    })
    .await
}

/// Waits until an object is gone.
pub(crate) async fn wait_until_gone(api: &Api<DynamicObject>, name: &str) -> anyhow::Result<()> {
    eventually(&format!("the end of {name}"), DEADLINE, async || {
        let object = api.get_opt(name).await?;
        anyhow::ensure!(object.is_none(), "it is still there: {object:?}");
        Ok(())
    })
    .await
}
