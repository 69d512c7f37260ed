//! Shows long steps: moving lines on a terminal, plain lines elsewhere.

use std::collections::BTreeMap;
use std::io::{IsTerminal, Write};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use indicatif::{MultiProgress, ProgressBar, ProgressStyle};
use remora_lab::progress::{Outcome, Progress};

/// How often a moving line moves.
const TICK: Duration = Duration::from_millis(120);

/// Progress on the standard error output.
pub(crate) struct Console {
    /// `None` where the output is no terminal.
    bars: Option<MultiProgress>,
    running: Mutex<BTreeMap<String, ProgressBar>>,
}

impl Console {
    pub(crate) fn new() -> Self {
        let bars = std::io::stderr().is_terminal().then(MultiProgress::new);
        Self { bars, running: Mutex::default() }
    }

    fn line(&self, text: &str) {
        // Progress that cannot be shown is no reason to end the work.
        let _ = match &self.bars {
            Some(bars) => bars.println(text),
            None => writeln!(std::io::stderr(), "{text}"),
        };
    }
}

impl Progress for Console {
    fn started(&self, step: &str) {
        let Some(bars) = &self.bars else { return };
        let bar = bars.add(ProgressBar::new_spinner());
        if let Ok(style) = ProgressStyle::with_template("{spinner} {prefix} {elapsed} {wide_msg}") {
            bar.set_style(style);
        }
        bar.set_prefix(step.to_owned());
        bar.enable_steady_tick(TICK);
        let mut running = self.running.lock().unwrap_or_else(PoisonError::into_inner);
        running.insert(step.to_owned(), bar);
    }

    fn note(&self, step: &str, text: &str) {
        let running = self.running.lock().unwrap_or_else(PoisonError::into_inner);
        match running.get(step) {
            Some(bar) => bar.set_message(text.to_owned()),
            None => self.line(&format!("… {step}: {text}")),
        }
    }

    fn finished(&self, step: &str, elapsed: Duration, outcome: Outcome) {
        let bar = {
            let mut running = self.running.lock().unwrap_or_else(PoisonError::into_inner);
            running.remove(step)
        };
        if let Some(bar) = bar {
            bar.finish_and_clear();
        }
        let seconds = elapsed.as_secs_f64();
        self.line(&match outcome {
            Outcome::Done => format!("✓ {step} {seconds:.1} s"),
            Outcome::Reused => format!("✓ {step} (was there)"),
            Outcome::Failed => format!("✗ {step} after {seconds:.1} s"),
        });
    }
}
