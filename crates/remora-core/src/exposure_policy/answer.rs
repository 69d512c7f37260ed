//! What a hosted user is told on the Service that asked to be exposed.

use std::collections::BTreeMap;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use remora_api::conditions::ExposureConditionType;
use remora_api::labels;
use remora_api::service_exposure::{ExposureEndpoint, ServiceExposureStatus};

use super::Verdict;
use crate::exposure_status::told;

/// Most characters of an annotation's text: enough for every endpoint of a large hosting cluster.
const TEXT_LIMIT: usize = 16_384;

/// What an exposure says about itself, reduced to what its Service's user is told.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Outcome {
    exposed_at: Option<String>,
    problem: Option<String>,
}

impl Outcome {
    /// Reads an exposure's status; none: it has said nothing yet.
    pub fn of(status: &ServiceExposureStatus) -> Option<Self> {
        let find = |type_: ExposureConditionType| {
            status.conditions.iter().find(|found| found.type_ == type_.as_str())
        };
        let is_false = |found: &&Condition| found.status == "False";
        let accepted = find(ExposureConditionType::Accepted)?;
        let programmed = find(ExposureConditionType::Programmed).filter(is_false);
        let reachable = find(ExposureConditionType::Reachable).filter(is_false);
        let problem = Some(accepted).filter(is_false).or(programmed).or(reachable);
        Some(Self {
            exposed_at: exposed_at(&status.endpoints),
            problem: problem.map(|found| found.message.chars().take(TEXT_LIMIT).collect()),
        })
    }
}

fn exposed_at(endpoints: &[ExposureEndpoint]) -> Option<String> {
    let mut text = String::new();
    for endpoint in endpoints {
        let told = told(endpoint);
        if text.len() + told.len() >= TEXT_LIMIT {
            break;
        }
        if !text.is_empty() {
            text.push(',');
        }
        text.push_str(&told);
    }
    Some(text).filter(|text| !text.is_empty())
}

/// What a Service's annotations have to become.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Answer {
    /// The annotations that change; none: it goes.
    pub changes: BTreeMap<&'static str, Option<String>>,
    /// What an event tells; none: there is nothing new to tell.
    pub news: Option<News>,
}

/// Something that a user waits for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum News {
    /// It is reached at these addresses.
    Exposed(String),
    /// It is not reached, and why.
    Problem(String),
}

/// Compares what a Service is told with what it shall be told; none: nothing has to change.
///
/// `outcome` is that of the exposure which the verdict names.
pub fn answer(
    annotations: &BTreeMap<String, String>,
    verdict: Option<&Verdict>,
    outcome: Option<&Outcome>,
) -> Option<Answer> {
    let has_asked = annotations.contains_key(labels::EXPOSE);
    let outcome = match (has_asked, verdict) {
        (false, _) | (true, None) => Outcome::default(),
        (true, Some(Verdict::Refused(refusal))) => {
            Outcome { exposed_at: None, problem: Some(refusal.to_string()) }
        }
        // An exposure that has not been looked at yet changes nothing of what was said before.
        (true, Some(Verdict::Exposed { .. } | Verdict::Left { .. })) => outcome?.clone(),
    };
    let Outcome { exposed_at, problem } = outcome;
    let mut changes = BTreeMap::new();
    for (key, value) in [(labels::EXPOSED_AT, &exposed_at), (labels::EXPOSURE_PROBLEM, &problem)] {
        if annotations.get(key) != value.as_ref() {
            changes.insert(key, value.clone());
        }
    }
    let told = |key| changes.get(key).cloned().flatten();
    let news = told(labels::EXPOSURE_PROBLEM)
        .map(News::Problem)
        .or_else(|| told(labels::EXPOSED_AT).filter(|_| problem.is_none()).map(News::Exposed))
        // What was in the way is gone.
        .or_else(|| {
            let is_mended = changes.get(labels::EXPOSURE_PROBLEM) == Some(&None);
            exposed_at.filter(|_| is_mended && problem.is_none()).map(News::Exposed)
        });
    Some(Answer { changes, news }).filter(|answer| !answer.changes.is_empty())
}

#[cfg(test)]
mod tests {
    use super::super::{Refusal, Verdict};
    use super::*;
    use remora_api::service_exposure::ExposureVia;

    fn annotations(list: &[(&str, &str)]) -> BTreeMap<String, String> {
        list.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect()
    }

    fn status(reachable: &str) -> ServiceExposureStatus {
        serde_saphyr::from_str(&format!(
            "
endpoints:
- {{ address: 192.168.123.104, port: 30001, servicePort: 80, targetPort: 30001, protocol: TCP }}
- {{ address: 'fd00::4', port: 30001, servicePort: 80, targetPort: 30001, protocol: TCP }}
conditions:
- {{ type: Accepted, status: 'True', reason: AsExpected, message: fine, lastTransitionTime: '2026-01-01T00:00:00Z' }}
- {{ type: Reachable, status: '{reachable}', reason: X, message: no VM serves, lastTransitionTime: '2026-01-01T00:00:00Z' }}
"
        ))
        .unwrap()
    }

    fn left() -> Verdict {
        Verdict::Left { exposure: "web".to_owned() }
    }

    #[test]
    fn who_asked_is_told_every_address_once() {
        let asked = annotations(&[(labels::EXPOSE, "NodePort")]);
        let outcome = Outcome::of(&status("True")).unwrap();
        let first = answer(&asked, Some(&left()), Some(&outcome)).unwrap();
        let addresses = "192.168.123.104:30001,[fd00::4]:30001";
        assert_eq!(first.changes, [(labels::EXPOSED_AT, Some(addresses.to_owned()))].into());
        assert_eq!(first.news, Some(News::Exposed(addresses.to_owned())));
        let told = annotations(&[(labels::EXPOSE, "NodePort"), (labels::EXPOSED_AT, addresses)]);
        assert_eq!(answer(&told, Some(&left()), Some(&outcome)), None);
    }

    #[test]
    fn who_is_not_reached_is_told_why_and_when_that_ends() {
        let asked = annotations(&[(labels::EXPOSE, "NodePort")]);
        let outcome = Outcome::of(&status("False")).unwrap();
        let found = answer(&asked, Some(&left()), Some(&outcome)).unwrap();
        assert_eq!(found.news, Some(News::Problem("no VM serves".to_owned())));

        let mut told = asked;
        told.extend(found.changes.into_iter().filter_map(|(k, v)| Some((k.to_owned(), v?))));
        let mended = Outcome::of(&status("True")).unwrap();
        let found = answer(&told, Some(&left()), Some(&mended)).unwrap();
        assert_eq!(found.changes, [(labels::EXPOSURE_PROBLEM, None)].into());
        assert!(matches!(found.news, Some(News::Exposed(_))), "{found:?}");
    }

    #[test]
    fn a_refusal_is_told_and_taken_back_when_nothing_is_asked_any_more() {
        let refusal =
            Refusal::NotAllowed { namespace: "shop".to_owned(), via: ExposureVia::NodePort };
        let text = refusal.to_string();
        let asked = annotations(&[(labels::EXPOSE, "NodePort")]);
        let found = answer(&asked, Some(&Verdict::Refused(refusal)), None).unwrap();
        assert_eq!(found.news, Some(News::Problem(text.clone())));
        let gone = annotations(&[(labels::EXPOSURE_PROBLEM, &text)]);
        let found = answer(&gone, None, None).unwrap();
        assert_eq!(found.changes, [(labels::EXPOSURE_PROBLEM, None)].into());
        assert_eq!(found.news, None);
    }

    #[test]
    fn an_exposure_that_has_said_nothing_changes_nothing() {
        let told = annotations(&[(labels::EXPOSE, "NodePort"), (labels::EXPOSED_AT, "10.0.0.1:1")]);
        assert_eq!(answer(&told, Some(&left()), None), None);
        assert_eq!(Outcome::of(&ServiceExposureStatus::default()), None);
    }
}
