//! Progress on the terminal: bars on stderr, nothing when it is not a terminal.

use fidgp_lab::record::EpochRecord;
use fidgp_lab::train::Watch;
use indicatif::{ProgressBar, ProgressStyle};

/// A bar over the epochs of a training.
pub struct EpochBar {
    bar: ProgressBar,
}

impl EpochBar {
    /// A bar for so many epochs.
    pub fn new(epochs: u64) -> Self {
        Self { bar: bar(epochs, "epoch {pos}/{len} {wide_bar} {elapsed} ({eta} left)  {msg}") }
    }
}

impl Watch for EpochBar {
    fn epoch(&mut self, record: &EpochRecord) {
        self.bar.set_position(record.epoch as u64);
        let mut parts = vec![format!("loss {:.3}  nll {:.3}", record.loss, record.nll)];
        if let (Some(low), Some(high)) = (record.lambda_min, record.lambda_max) {
            let (inducing, conditional, beta) = (record.kl_inducing, record.kl_conditional, record.beta);
            parts.push(format!("KL(U) {inducing:.0}  KL(W|U) {conditional:.0}  β {beta:.2}  λ {low:.4}–{high:.4}"));
        }
        if let Some(validation) = record.metric("validation", "NLL") {
            parts.push(format!("val nll {validation:.3}"));
        }
        self.bar.set_message(parts.join("  "));
    }
}

impl Drop for EpochBar {
    fn drop(&mut self) {
        self.bar.finish_and_clear();
    }
}

/// A bar over the splits of a data set.
pub struct SplitBar {
    bar: ProgressBar,
}

impl SplitBar {
    /// A bar whose length comes with the first step.
    pub fn new() -> Self {
        Self { bar: bar(0, "split {pos}/{len} {wide_bar} {elapsed} ({eta} left)  {msg}") }
    }
}

impl Watch for SplitBar {
    fn step(&mut self, _epoch: u64, step: u64, steps: u64, loss: f64) {
        self.bar.set_length(steps);
        self.bar.set_position(step);
        self.bar.set_message(format!("test nll {loss:.3}"));
    }
}

impl Drop for SplitBar {
    fn drop(&mut self) {
        self.bar.finish_and_clear();
    }
}

fn bar(length: u64, template: &str) -> ProgressBar {
    let style = ProgressStyle::with_template(template).unwrap_or_else(|_| ProgressStyle::default_bar());
    ProgressBar::new(length).with_style(style.progress_chars("━╸─"))
}
