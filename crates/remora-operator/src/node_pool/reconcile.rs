//! One pass over a NodePool: observe, plan, act, report.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::api::core::v1::{Node, Taint};
use k8s_openapi::jiff::Timestamp;
use kube::runtime::controller::Action;
use kube::{Client, ResourceExt};
use remora_api::conditions::Reason;
use remora_api::{HostedCluster, NodePool, names};
use remora_core::node::NodeSettings;
use remora_core::node_pool_status::{
    ClusterView, PayloadView, PoolView, ReleaseView, node_pool_status, not_ready,
};
use remora_core::pause::PoolPause;
use remora_core::pool::machine::Stay;
use remora_core::pool::{Machine, PoolRules, Problem, Wanted, names_machines, plan, validate};

use super::bootstrap::{self, Clusters, Revisions};
use super::error::PoolError;
use super::machines::{self, Blueprint, PoolPlace};
use super::observe::Template;
use super::removal::{self, Farewell};
use super::{deletion, nodes, observe, report};
use crate::context::Context;
use crate::error::chain;

/// How soon a drain that goes on is looked at again: nothing in the hosting cluster tells that a pod has ended.
pub(super) const DRAIN_RETRY: Duration = Duration::from_secs(2);

/// How many machines one pass makes.
const CREATED_AT_ONCE: usize = 50;

/// A hosted cluster whose API server answers.
pub(super) struct Hosted {
    /// Client to its API server.
    pub(super) client: Client,
    /// Its nodes.
    pub(super) nodes: Vec<Arc<Node>>,
}

/// One pass over a NodePool.
pub(super) async fn reconcile(
    pool: Arc<NodePool>,
    context: Arc<Context>,
) -> Result<Action, PoolError> {
    let now = Timestamp::now();
    let outcome = match observe::hosted_cluster(&context.client, &pool).await {
        Ok(cluster) if pool.metadata.deletion_timestamp.is_some() => {
            deletion::delete(&context, &pool, cluster.as_ref(), now).await
        }
        Ok(cluster) => Pass::begin(&context, &pool, cluster, now).await,
        Err(error) => Err(error),
    };
    if let Err(error) = &outcome {
        let present = pool.status.clone().unwrap_or_default();
        let generation = pool.metadata.generation;
        let status = not_ready(&present, generation, Reason::ReconcileError, &chain(error), now);
        report::write(&context.client, &pool, &status).await?;
    }
    outcome
}

/// The place of a pool.
pub(super) fn place(pool: &NodePool) -> PoolPlace {
    let namespace = pool.namespace().unwrap_or_default();
    PoolPlace {
        control_plane_namespace: names::control_plane_namespace(
            &namespace,
            &pool.spec.cluster_name,
        ),
        namespace,
        name: pool.name_any(),
        cluster_name: pool.spec.cluster_name.clone(),
    }
}

/// The hosted cluster of a pool, if its API server answers.
pub(super) async fn hosted(
    context: &Context,
    place: &PoolPlace,
) -> Result<Option<Hosted>, PoolError> {
    let namespace = &place.control_plane_namespace;
    if !context.sessions.is_of(namespace, &place.namespace, &place.cluster_name) {
        return Ok(None);
    }
    let Some(nodes) = context.node_pools.nodes(namespace) else {
        return Ok(None);
    };
    let client = context.hosted.client(&place.control_plane_namespace).await?;
    Ok(Some(Hosted { client, nodes }))
}

/// What one pass goes by and what it finds out.
struct Pass<'a> {
    context: &'a Context,
    pool: &'a NodePool,
    place: PoolPlace,
    now: Timestamp,
    pause: PoolPause,
    rules: Result<PoolRules, Vec<Problem>>,
    patches: Vec<(String, String)>,
    cluster: ClusterView,
    release: ReleaseView,
    template: Option<Result<Template, Problem>>,
    payload: PayloadView,
    machines: Vec<Machine>,
    drains: Vec<String>,
    failures: Vec<String>,
    wake: Option<Timestamp>,
}

impl<'a> Pass<'a> {
    async fn begin(
        context: &'a Context,
        pool: &'a NodePool,
        cluster: Option<HostedCluster>,
        now: Timestamp,
    ) -> Result<Action, PoolError> {
        let place = place(pool);
        let has_place = names_machines(&place.name) && place.is_own(&context.client).await?;
        let (hosted, machines) = if has_place {
            let hosted = hosted(context, &place).await?;
            let known_nodes = hosted.as_ref().map(|hosted| hosted.nodes.as_slice());
            let machines = machines::observe(&context.client, &place, known_nodes).await?;
            (hosted, machines)
        } else {
            (None, Vec::new())
        };
        let patches =
            cluster.as_ref().map(|cluster| observe::patches(cluster, pool)).unwrap_or_default();
        let carried: Vec<(&str, &str)> =
            patches.iter().map(|(carrier, patch)| (carrier.as_str(), patch.as_str())).collect();
        let mut pass = Pass {
            rules: validate(&place.name, &pool.spec, &carried),
            pause: PoolPause::read(&pool.spec, cluster.as_ref(), now),
            cluster: observe::cluster_view(cluster.as_ref(), hosted.is_some()),
            release: ReleaseView::Unknown,
            template: None,
            payload: PayloadView::Waiting,
            drains: Vec::new(),
            failures: Vec::new(),
            wake: None,
            context,
            pool,
            place,
            now,
            patches,
            machines,
        };
        let is_workable = pass.cluster != ClusterView::Deleting && names_machines(&pass.place.name);
        let worked = match cluster {
            Some(cluster) if is_workable => pass.work(&cluster, hosted.as_ref()).await,
            Some(_) | None => Ok(()),
        };
        if let Err(error) = &worked {
            pass.failures.push(chain(error));
        }
        pass.report().await?;
        worked.map(|()| pass.next())
    }

    /// When the pool is looked at again although nothing happens.
    fn next(&self) -> Action {
        let wake = self.pause.next_end().or(self.wake);
        if !self.drains.is_empty() {
            return Action::requeue(DRAIN_RETRY);
        }
        match wake.map(|wake| Duration::try_from(wake.duration_since(self.now))) {
            Some(Ok(wait)) => Action::requeue(wait),
            Some(Err(_)) => Action::requeue(Duration::ZERO),
            None => Action::await_change(),
        }
    }

    async fn work(
        &mut self,
        cluster: &HostedCluster,
        hosted: Option<&Hosted>,
    ) -> Result<(), PoolError> {
        report::claim(&self.context.client, self.pool, cluster).await?;
        self.read_template(cluster).await?;
        if self.pause.is_paused() {
            return Ok(());
        }
        let Some(hosted) = hosted else { return Ok(()) };
        self.settle_nodes(hosted).await?;
        let is_made = self.refresh_bootstrap(cluster, hosted).await?;
        if is_made {
            self.scale(cluster, hosted).await?;
        }
        Ok(())
    }

    async fn read_template(&mut self, cluster: &HostedCluster) -> Result<(), PoolError> {
        let release = match observe::release(self.context, cluster, self.pool).await {
            Ok(release) => release,
            Err(view) => {
                self.release = view;
                return Ok(());
            }
        };
        self.release = ReleaseView::Resolved { version: release.version().to_owned() };
        let patches: Vec<&str> = self.patches.iter().map(|(_, patch)| patch.as_str()).collect();
        self.template =
            Some(observe::template(self.context, cluster, self.pool, &release, &patches).await?);
        Ok(())
    }

    async fn settle_nodes(&self, hosted: &Hosted) -> Result<(), PoolError> {
        let settings = NodeSettings {
            namespace: self.place.namespace.clone(),
            node_pool: self.place.name.clone(),
            labels: self.pool.spec.node_labels.clone(),
            taints: taints(self.pool),
        };
        for node in &hosted.nodes {
            let name = node.name_any();
            if self.machines.iter().any(|machine| machine.name == name) {
                nodes::settle(&hosted.client, node, &settings).await?;
            }
        }
        removal::delete_orphans(&hosted.client, &self.place, &hosted.nodes, &self.machines).await
    }

    /// Keeps bootstrap data fresh; tells whether machines can be made with it.
    async fn refresh_bootstrap(
        &mut self,
        cluster: &HostedCluster,
        hosted: &Hosted,
    ) -> Result<bool, PoolError> {
        let Some(Ok(template)) = &self.template else { return Ok(false) };
        let clusters = Clusters {
            hosting: &self.context.client,
            hosted: &hosted.client,
            control_plane_namespace: &self.place.control_plane_namespace,
        };
        let in_use: BTreeSet<&str> =
            self.machines.iter().map(|machine| machine.template_hash.as_str()).collect();
        let revisions =
            Revisions { node_pool: &self.place.name, current: &template.view.hash, in_use };
        let outcome = async {
            let Some(content) = bootstrap::content(&clusters, cluster, taints(self.pool)).await?
            else {
                return Ok(None);
            };
            bootstrap::refresh(&clusters, &content, &revisions, self.now).await.map(Some)
        };
        match outcome.await {
            Ok(Some(renewal)) => {
                self.payload = PayloadView::Made;
                self.wake = Some(renewal);
                Ok(true)
            }
            Ok(None) => Ok(false),
            Err(error) => {
                self.payload = PayloadView::Failed(chain(&error));
                Err(error)
            }
        }
    }

    /// Makes machines, chooses machines that leave, and takes the next step with those that do.
    async fn scale(&mut self, cluster: &HostedCluster, hosted: &Hosted) -> Result<(), PoolError> {
        let (Ok(rules), Some(Ok(template))) = (&self.rules, &self.template) else { return Ok(()) };
        let (ReleaseView::Resolved { version }, Some(infra_id)) =
            (&self.release, cluster.spec.infra_id.as_deref())
        else {
            return Ok(());
        };
        let present = self.machines.iter().filter(|machine| !machine.is_leaving()).count();
        let wanted = Wanted {
            replicas: rules.size.wanted(present),
            template_hash: &template.view.hash,
            replacement: rules.replacement,
        };
        let plan = plan(wanted, &self.machines);
        let client = &self.context.client;
        for name in &plan.remove {
            removal::mark(client, &self.place, name, self.now).await?;
            for machine in self.machines.iter_mut().filter(|machine| machine.name == *name) {
                machine.stay = Stay::Leaves(self.now);
            }
        }
        let patches: Vec<&str> = self.patches.iter().map(|(_, patch)| patch.as_str()).collect();
        let blueprint = Blueprint {
            infra_id,
            template_hash: &template.view.hash,
            release_version: version,
            template: &template.machine,
            patches: &patches,
        };
        // The events of these bring the next pass, and with it what was changed meanwhile.
        for _ in 0..plan.create.min(CREATED_AT_ONCE) {
            machines::create(client, &self.place, &blueprint).await?;
        }
        let farewell = Farewell {
            hosting: client,
            hosted: Some(&hosted.client),
            drain_timeout: rules.drain_timeout,
            now: self.now,
        };
        for machine in &self.machines {
            self.drains.extend(farewell.advance(&self.place, machine).await?);
        }
        Ok(())
    }

    async fn report(&self) -> Result<(), PoolError> {
        let template = self.template.as_ref().map(|template| match template {
            Ok(template) => Ok(template.view.clone()),
            Err(problem) => Err(problem.clone()),
        });
        let view = PoolView {
            generation: self.pool.metadata.generation,
            namespace: &self.place.namespace,
            spec: &self.pool.spec,
            annotations: self.pool.annotations(),
            pause: self.pause,
            rules: &self.rules,
            cluster: &self.cluster,
            release: &self.release,
            template: template.as_ref(),
            payload: &self.payload,
            machines: &self.machines,
            drains: &self.drains,
            failures: &self.failures,
        };
        let present = self.pool.status.clone().unwrap_or_default();
        let status = node_pool_status(&view, &present, self.now);
        report::write(&self.context.client, self.pool, &status).await
    }
}

/// The taints of a pool as Kubernetes writes them.
fn taints(pool: &NodePool) -> Vec<Taint> {
    pool.spec
        .taints
        .iter()
        .map(|remora_api::node_pool::Taint { key, value, effect }| Taint {
            key: key.clone(),
            value: Some(value.clone()).filter(|value| !value.is_empty()),
            effect: effect.to_string(),
            time_added: None,
        })
        .collect()
}
