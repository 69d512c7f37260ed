//! Which endpoints answered, read back from the condition `Reachable`.
//!
//! The status says it once for all endpoints, and names those that do not answer. This is the counterpart of what
//! writes the message, so that whoever shows endpoints one by one says of each what the operator found.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use remora_api::service_exposure::{ExposureEndpoint, Protocol};

use super::{DO_NOT_ANSWER, told};

/// What the operator found at one endpoint.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Answer {
    /// A connection came through.
    Yes,
    /// None came through; why.
    No(String),
    /// Nothing is said about this one.
    Unknown,
}

/// What `Reachable` says about one of the endpoints that it is about.
pub fn answer(reachable: &Condition, endpoint: &ExposureEndpoint) -> Answer {
    if endpoint.protocol != Protocol::Tcp {
        return Answer::Unknown;
    }
    if reachable.status == "True" {
        return Answer::Yes;
    }
    let Some((_, failures)) = reachable.message.split_once(DO_NOT_ANSWER) else {
        return Answer::Unknown;
    };
    match failure_of(failures, &told(endpoint)) {
        Some(why) => Answer::No(why.to_owned()),
        None if is_whole(failures) => Answer::Yes,
        None => Answer::Unknown,
    }
}

/// What stands in parentheses behind an endpoint; it may have parentheses of its own.
fn failure_of<'a>(failures: &'a str, endpoint: &str) -> Option<&'a str> {
    let begin = format!("{endpoint} (");
    let is_entry = |start: usize| {
        start == 0 || failures.get(..start).is_some_and(|before| before.ends_with(", "))
    };
    let (start, _) = failures.match_indices(&begin).find(|(start, _)| is_entry(*start))?;
    let rest = failures.get(start + begin.len()..)?;
    let ends = ["), ", "); ", ") and "].into_iter().filter_map(|end| rest.find(end));
    rest.get(..ends.min()?)
}

/// Every endpoint that does not answer is named.
fn is_whole(failures: &str) -> bool {
    !failures.contains(" more; ")
}
