//! Progress on the terminal: bars on stderr, nothing when it is not a terminal.

use std::time::Instant;

use fidgp_lab::config::RunConfig;
use fidgp_lab::record::EpochRecord;
use fidgp_lab::train::Watch;
use indicatif::{ProgressBar, ProgressStyle};

/// A bar over the steps of a training.
pub struct EpochBar {
    bar: ProgressBar,
    epochs: u64,
    batch: usize,
    unit: &'static str,
    /// Where and when the epoch under way was first looked at.
    since: Option<(u64, u64, Instant)>,
    /// What the last epoch left: loss, KLs, λ.
    last: String,
}

impl EpochBar {
    /// A bar for the training of a config.
    pub fn new(config: &RunConfig) -> Self {
        let unit = if config.data.has_images() { "images/s" } else { "rows/s" };
        let bar = bar(0, "{prefix} {wide_bar} {elapsed} ({eta} left)\n{msg}");
        let (epochs, batch) = (config.train.epochs, config.train.batch_size);
        Self { bar, epochs, batch, unit, since: None, last: String::new() }
    }

    /// Examples a second in this epoch, once there are two looks to tell from.
    fn rate(&mut self, epoch: u64, step: u64) -> String {
        let begun = self.since.filter(|(of, _, _)| *of == epoch);
        let Some((_, first, when)) = begun else {
            self.since = Some((epoch, step, Instant::now()));
            return String::new();
        };
        let examples = (step - first) as f64 * self.batch as f64;
        format!("  {:.0} {}", examples / when.elapsed().as_secs_f64().max(1e-9), self.unit)
    }
}

impl Watch for EpochBar {
    fn step(&mut self, epoch: u64, step: u64, steps: u64, loss: f64) {
        if self.bar.length() != Some(self.epochs * steps) {
            self.bar.set_length(self.epochs * steps);
            self.bar.set_position(epoch * steps + step);
            self.bar.reset_eta(); // a resumed run has not made its first steps now
        }
        self.bar.set_position(epoch * steps + step);
        self.bar.set_prefix(format!("epoch {}/{}", epoch + 1, self.epochs));
        let rate = self.rate(epoch, step);
        self.bar.set_message(format!("loss {loss:.3}{}{rate}", self.last));
    }

    fn epoch(&mut self, record: &EpochRecord) {
        let mut parts = vec![format!("  nll {:.3}", record.nll)];
        if let (Some(low), Some(high)) = (record.lambda_min, record.lambda_max) {
            let (inducing, conditional, beta) = (record.kl_inducing, record.kl_conditional, record.beta);
            parts.push(format!("KL(U) {inducing:.0}  KL(W|U) {conditional:.0}  β {beta:.2}  λ {low:.4}–{high:.4}"));
        }
        if let Some(validation) = record.metric("validation", "NLL") {
            parts.push(format!("val nll {validation:.3}"));
        }
        self.last = parts.join("  ");
        self.bar.set_message(format!("loss {:.3}{}", record.loss, self.last));
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

/// A bar over the pictures of a folder that are decoded.
pub struct PictureBar {
    bar: ProgressBar,
}

impl PictureBar {
    /// A bar whose length comes with the first picture.
    pub fn new() -> Self {
        Self { bar: bar(0, "{pos}/{len} pictures {wide_bar} {elapsed} ({eta} left)") }
    }

    /// So many of so many are done; told from several threads.
    pub fn pictures(&self, done: usize, all: usize) {
        self.bar.set_length(all as u64);
        self.bar.set_position(done as u64);
    }
}

impl Drop for PictureBar {
    fn drop(&mut self) {
        self.bar.finish_and_clear();
    }
}

fn bar(length: u64, template: &str) -> ProgressBar {
    let style = ProgressStyle::with_template(template).unwrap_or_else(|_| ProgressStyle::default_bar());
    ProgressBar::new(length).with_style(style.progress_chars("━╸─"))
}
