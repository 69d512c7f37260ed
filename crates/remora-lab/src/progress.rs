//! How long steps tell whoever watches that they began, where they are and what they took.

use std::time::{Duration, Instant};

/// How a step ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Outcome {
    /// The work was done now.
    Done,
    /// An earlier run had left the result.
    Reused,
    /// It could not be done; the error says why.
    Failed,
}

/// Receives what long steps report. All methods may be called from several threads at once.
pub trait Progress: Send + Sync {
    /// A step begins.
    fn started(&self, step: &str);
    /// A running step says where it is.
    fn note(&self, step: &str, text: &str);
    /// A step ended.
    fn finished(&self, step: &str, elapsed: Duration, outcome: Outcome);
}

/// Hears everything and shows nothing.
#[derive(Debug, Clone, Copy, Default)]
pub struct Silent;

impl Progress for Silent {
    fn started(&self, _step: &str) {}
    fn note(&self, _step: &str, _text: &str) {}
    fn finished(&self, _step: &str, _elapsed: Duration, _outcome: Outcome) {}
}

/// One running step; reports `Failed` when dropped unfinished.
pub struct Step<'a> {
    progress: &'a dyn Progress,
    name: String,
    began: Instant,
    is_finished: bool,
}

impl<'a> Step<'a> {
    /// Reports the start of a step.
    pub fn start(progress: &'a dyn Progress, name: impl Into<String>) -> Self {
        let name = name.into();
        progress.started(&name);
        Self { progress, name, began: Instant::now(), is_finished: false }
    }

    /// Says where the step is.
    pub fn note(&self, text: &str) {
        self.progress.note(&self.name, text);
    }

    /// Reports the end of the step.
    pub fn finish(mut self, outcome: Outcome) {
        self.is_finished = true;
        self.progress.finished(&self.name, self.began.elapsed(), outcome);
    }
}

impl Drop for Step<'_> {
    fn drop(&mut self) {
        if !self.is_finished {
            self.progress.finished(&self.name, self.began.elapsed(), Outcome::Failed);
        }
    }
}
