//! What every controller shares.

use std::sync::Arc;

use k8s_openapi::api::core::v1::ObjectReference;
use kube::Client;
use kube::runtime::events::{Event, EventType, Recorder, Reporter};

use crate::apply::Ledger;
use crate::exposure::{HostedServices, HostedSlices};
use crate::hosted::HostedClients;
use crate::hosted_cluster::release::Releases;
use crate::node_pool::NodePoolEvents;
use crate::options::Options;
use crate::session::Sessions;

/// Shared by all controllers; cheap to hand around as an [`Arc`].
pub struct Context {
    /// Client to the hosting cluster's API server.
    pub client: Client,
    /// What the operator was told at its start.
    pub options: Options,
    /// Clients to the hosted API servers.
    pub hosted: HostedClients,
    /// Writes events on the hosting cluster.
    pub recorder: Recorder,
    /// What was applied to the hosting cluster and is known to be unchanged since.
    pub applied: Ledger,
    /// Resolved release images.
    pub releases: Releases,
    /// The hosted clusters whose API server answers, and the tasks that serve them.
    pub sessions: Sessions,
    /// What wakes the NodePool controller from inside the hosted clusters.
    pub node_pools: NodePoolEvents,
    /// The Services inside the hosted clusters.
    pub exposures: HostedServices,
    /// Their EndpointSlices.
    pub hosted_slices: HostedSlices,
}

impl Context {
    /// Makes the shared state around a client to the hosting cluster.
    pub fn new(client: Client, options: Options, sessions: Sessions) -> Arc<Self> {
        Arc::new(Self {
            hosted: HostedClients::new(client.clone()),
            recorder: Recorder::new(client.clone(), reporter(&options)),
            applied: Ledger::default(),
            releases: Releases::new(&options.insecure_registries),
            sessions,
            node_pools: NodePoolEvents::default(),
            exposures: HostedServices::default(),
            hosted_slices: HostedSlices::default(),
            client,
            options,
        })
    }

    /// Who writes events, also inside the hosted clusters.
    pub fn reporter(&self) -> Reporter {
        reporter(&self.options)
    }

    /// Writes an event about an object; an event that cannot be written is logged and forgotten.
    pub async fn event(
        &self,
        regarding: &ObjectReference,
        type_: EventType,
        reason: &str,
        action: &str,
        note: &str,
    ) {
        let event = Event {
            type_,
            reason: reason.to_owned(),
            note: Some(note.chars().take(1000).collect()),
            action: action.to_owned(),
            secondary: None,
        };
        if let Err(error) = self.recorder.publish(&event, regarding).await {
            tracing::warn!(reason, error = %crate::error::chain(&error), "cannot write event");
        }
    }
}

fn reporter(options: &Options) -> Reporter {
    Reporter { controller: "remora".to_owned(), instance: Some(options.instance.clone()) }
}
