//! Progress on stderr: bars on a terminal, a line now and then in a log.

use std::time::{Duration, Instant};

use fidgp_lab::config::RunConfig;
use fidgp_lab::train::Watch;
use fidgp_report::record::EpochRecord;
use indicatif::{FormattedDuration, ProgressBar, ProgressStyle};

/// Between two lines of a log at least.
const LINE_EVERY: Duration = Duration::from_secs(10);

/// A bar, in whose place a line is written now and then where there is no terminal to draw it on.
struct Shown {
    bar: ProgressBar,
    /// When the last line was written, or the bar was made.
    last: Instant,
    /// Between two lines at least.
    every: Duration,
}

impl Shown {
    fn new(template: &str) -> Self {
        Self { bar: bar(0, template), last: Instant::now(), every: LINE_EVERY }
    }

    /// Shows where things stand: `what` is how far they are, `message` what is to be said of them.
    fn show(&mut self, what: &str, message: &str) {
        self.bar.set_prefix(what.to_owned());
        self.bar.set_message(message.to_owned());
        if let Some(line) = self.line(what, message) {
            tell!("{line}");
        }
    }

    /// The line that is due in place of the bar.
    fn line(&mut self, what: &str, message: &str) -> Option<String> {
        if !self.bar.is_hidden() || self.last.elapsed() < self.every {
            return None;
        }
        self.last = Instant::now();
        Some(format!("{what} ({} left)  {message}", FormattedDuration(self.bar.eta())))
    }
}

impl Drop for Shown {
    fn drop(&mut self) {
        self.bar.finish_and_clear();
    }
}

/// A bar over the steps of a training.
pub struct EpochBar {
    shown: Shown,
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
        let shown = Shown::new("{prefix} {wide_bar} {elapsed} ({eta} left)\n{msg}");
        let (epochs, batch) = (config.train.epochs, config.train.batch_size);
        Self { shown, epochs, batch, unit, since: None, last: String::new() }
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
    fn says(&mut self, what: &str) {
        self.shown.bar.suspend(|| tell!("{what}"));
    }

    fn step(&mut self, epoch: u64, step: u64, steps: u64, loss: f64) {
        let bar = &self.shown.bar;
        if bar.length() != Some(self.epochs * steps) {
            bar.set_length(self.epochs * steps);
            bar.set_position(epoch * steps + step);
            bar.reset_eta(); // a resumed run has not made its first steps now
        }
        bar.set_position(epoch * steps + step);
        let rate = self.rate(epoch, step);
        self.shown.show(&format!("epoch {}/{}", epoch + 1, self.epochs), &format!("loss {loss:.3}{}{rate}", self.last));
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
        self.shown
            .show(&format!("epoch {}/{}", record.epoch, self.epochs), &format!("loss {:.3}{}", record.loss, self.last));
    }
}

/// A bar over the splits of a data set.
pub struct SplitBar {
    shown: Shown,
}

impl SplitBar {
    /// A bar whose length comes with the first step.
    pub fn new() -> Self {
        Self { shown: Shown::new("{prefix} {wide_bar} {elapsed} ({eta} left)  {msg}") }
    }
}

impl Watch for SplitBar {
    fn step(&mut self, _epoch: u64, step: u64, steps: u64, loss: f64) {
        self.shown.bar.set_length(steps);
        self.shown.bar.set_position(step);
        self.shown.show(&format!("split {step}/{steps}"), &format!("test nll {loss:.3}"));
    }
}

/// A bar over examples that go through a model, in whose place a line is written now and then in a log.
pub struct ExampleBar {
    shown: Shown,
    what: &'static str,
}

impl ExampleBar {
    /// A bar whose length comes with the first examples.
    pub fn new(what: &'static str) -> Self {
        Self { shown: Shown::new("{prefix} {wide_bar} {elapsed} ({eta} left)"), what }
    }

    /// So many of so many are done.
    pub fn show(&mut self, done: usize, all: usize) {
        self.shown.bar.set_length(all as u64);
        self.shown.bar.set_position(done as u64);
        self.shown.show(&format!("{done}/{all} {}", self.what), "");
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

/// The time that has passed, for work whose length is not known beforehand.
pub struct Clock {
    bar: ProgressBar,
}

impl Clock {
    /// A clock that runs until it is dropped; it shows on a terminal only.
    pub fn start(what: &'static str) -> Self {
        let bar = bar(0, "{msg} {elapsed}").with_message(what);
        bar.enable_steady_tick(Duration::from_millis(500));
        Self { bar }
    }
}

impl Drop for Clock {
    fn drop(&mut self) {
        self.bar.finish_and_clear();
    }
}

fn bar(length: u64, template: &str) -> ProgressBar {
    let style = ProgressStyle::with_template(template).unwrap_or_else(|_| ProgressStyle::default_bar());
    let bar = if crate::words::is_quiet() { ProgressBar::hidden() } else { ProgressBar::new(length) };
    bar.with_style(style.progress_chars("━╸─"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_log_gets_a_line_now_and_then() {
        let mut shown = Shown::new("{prefix}");
        shown.bar.set_draw_target(indicatif::ProgressDrawTarget::hidden());
        assert_eq!(shown.line("epoch 1/9", "loss 2.000"), None);
        shown.every = Duration::ZERO;
        let line = shown.line("epoch 2/9", "loss 1.000").expect("due");
        assert!(line.starts_with("epoch 2/9 (") && line.ends_with(" left)  loss 1.000"), "{line}");
        shown.every = LINE_EVERY;
        assert_eq!(shown.line("epoch 3/9", "loss 0.500"), None);
    }
}
