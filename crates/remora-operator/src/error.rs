//! How errors are told: the whole chain in one line, and which of them are worth another try.

use std::error::Error;
use std::fmt::Write;

use kube::core::Status;

/// Writes an error and all its causes in one line, each once.
///
/// Of an API server's answer the message alone: kube's own text would add the whole Status object.
pub fn chain(error: &(dyn Error + 'static)) -> String {
    let mut text = told(error);
    let mut cause = error.source();
    while let Some(current) = cause {
        let told = told(current);
        // Some libraries repeat the cause in their own message.
        if !text.contains(&told) {
            let _ = write!(text, ": {told}");
        }
        cause = current.source();
    }
    text
}

fn told(error: &(dyn Error + 'static)) -> String {
    let status = match error.downcast_ref::<kube::Error>() {
        Some(kube::Error::Api(status)) => Some(status),
        _ => error.downcast_ref::<Box<Status>>(),
    };
    status.map_or_else(|| error.to_string(), |status| status.message.clone())
}

/// Tells whether the API server said that the object does not exist.
pub fn is_not_found(error: &kube::Error) -> bool {
    matches!(error, kube::Error::Api(status) if status.code == 404)
}

/// Tells whether the API server said that someone else was faster (409).
pub fn is_conflict(error: &kube::Error) -> bool {
    matches!(error, kube::Error::Api(status) if status.code == 409)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Debug, thiserror::Error)]
    #[error("cannot apply")]
    struct Outer(#[source] Inner);
    #[derive(Debug, thiserror::Error)]
    #[error("connection refused")]
    struct Inner;

    #[test]
    fn when_an_error_has_a_cause_both_are_told_once() {
        assert_eq!(chain(&Outer(Inner)), "cannot apply: connection refused");
    }

    #[derive(Debug, thiserror::Error)]
    #[error("cannot read Secret clusters/pull")]
    struct Request(#[source] kube::Error);

    #[test]
    fn when_an_api_server_refuses_its_message_is_told_alone() {
        let status = Status::failure("secrets \"pull\" not found", "NotFound").with_code(404);
        let error = Request(kube::Error::Api(Box::new(status)));
        assert_eq!(chain(&error), "cannot read Secret clusters/pull: secrets \"pull\" not found");
    }
}
