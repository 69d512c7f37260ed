//! What the hosted Service is told: its address, a condition, and an Event when the condition changes.

use k8s_openapi::api::core::v1::{LoadBalancerIngress, Service};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};
use k8s_openapi::jiff::Timestamp;
use serde_json::{Value, json};

use super::{Problem, asks_for_ours, service_name};

/// Condition of a hosted Service: whether its load balancer serves.
pub const CONDITION: &str = "remora.dev/LoadBalancer";

/// Status fields to write, and what to tell beside.
#[derive(Clone, Debug, PartialEq)]
pub struct Report {
    /// Strategic merge patch of the status: conditions of others stay.
    pub patch: Value,
    /// Something new.
    pub news: Option<News>,
}

/// An Event on the hosted Service.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct News {
    /// Something is wrong.
    pub is_warning: bool,
    /// The words of the cloud controllers.
    pub reason: &'static str,
    /// What happened.
    pub note: String,
}

struct State {
    is_true: bool,
    reason: &'static str,
    message: String,
}

/// What is to be written to a hosted Service that Remora serves, or cannot serve; none when it is there already.
pub fn report(
    hosted: &Service,
    own: Option<&Service>,
    problem: Option<&Problem>,
    now: Timestamp,
) -> Option<Report> {
    let ingress = own.map(ingress).unwrap_or_default();
    let state = state(hosted, &ingress, problem);
    let before = condition(hosted);
    let status = if state.is_true { "True" } else { "False" };
    let is_told = before.is_some_and(|known| {
        known.status == status && known.reason == state.reason && known.message == state.message
    });
    if is_told && ingress == self::ingress(hosted) {
        return None;
    }
    let since = before.filter(|known| known.status == status);
    let condition = Condition {
        type_: CONDITION.to_owned(),
        status: status.to_owned(),
        reason: state.reason.to_owned(),
        message: state.message.clone(),
        observed_generation: None,
        last_transition_time: since.map_or(Time(now), |known| known.last_transition_time.clone()),
    };
    let news = (!is_told).then(|| News {
        is_warning: problem.is_some(),
        reason: match (problem, state.is_true) {
            (Some(_), _) => "SyncLoadBalancerFailed",
            (None, true) => "EnsuredLoadBalancer",
            (None, false) => "EnsuringLoadBalancer",
        },
        note: state.message,
    });
    Some(Report { patch: patch(hosted, &ingress, &json!(condition)), news })
}

/// What is to be written to a hosted Service that Remora lets go; none when nothing of Remora's is there.
///
/// An address goes only while the Service is one that Remora serves: elsewhere it is of whoever serves it now.
pub fn release(hosted: &Service) -> Option<Report> {
    let has_address = asks_for_ours(hosted) && !ingress(hosted).is_empty();
    let is_clean = !has_condition(hosted) && !has_address;
    // Nobody reads what is said about an object that goes.
    if is_clean || hosted.metadata.deletion_timestamp.is_some() {
        return None;
    }
    let condition = json!({ "type": CONDITION, "$patch": "delete" });
    let mut patch = patch(hosted, &[], &condition);
    if let (false, Some(status)) = (has_address, patch["status"].as_object_mut()) {
        status.remove("loadBalancer");
    }
    Some(Report { patch, news: None })
}

/// Tells whether the hosted Service carries Remora's condition.
pub(super) fn has_condition(hosted: &Service) -> bool {
    condition(hosted).is_some()
}

fn state(hosted: &Service, ingress: &[LoadBalancerIngress], problem: Option<&Problem>) -> State {
    if let Some(problem) = problem {
        return State { is_true: false, reason: problem.reason(), message: problem.to_string() };
    }
    let addresses: Vec<&str> = ingress
        .iter()
        .filter_map(|entry| entry.ip.as_deref().or(entry.hostname.as_deref()))
        .collect();
    if addresses.is_empty() {
        let name = service_name(hosted.metadata.uid.as_deref().unwrap_or_default());
        let message = format!(
            "Service {name} of the hosting cluster has no address yet; if it gets none, ask who runs the hosting \
             cluster whether it has a load balancer with a free address"
        );
        return State { is_true: false, reason: "Pending", message };
    }
    let message = format!("reached from outside at {}", addresses.join(", "));
    State { is_true: true, reason: "Ensured", message }
}

fn patch(hosted: &Service, ingress: &[LoadBalancerIngress], condition: &Value) -> Value {
    let ingress = (!ingress.is_empty()).then_some(ingress);
    json!({
        // One made anew under the same name does not get the address of the old one.
        "metadata": { "uid": hosted.metadata.uid },
        "status": { "loadBalancer": { "ingress": ingress }, "conditions": [condition] },
    })
}

fn ingress(service: &Service) -> Vec<LoadBalancerIngress> {
    let status = service.status.as_ref().and_then(|status| status.load_balancer.as_ref());
    status.and_then(|status| status.ingress.clone()).unwrap_or_default()
}

fn condition(hosted: &Service) -> Option<&Condition> {
    let conditions = hosted.status.as_ref()?.conditions.as_ref()?;
    conditions.iter().find(|condition| condition.type_ == CONDITION)
}
