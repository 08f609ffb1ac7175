//! `fidgp monitor`

use std::path::PathBuf;

use clap::Args;

/// Say from logs of predictions whether a model is still used on what it was calibrated for.
///
/// Reads lines of `fidgp predict --jsonl` or of `fidgp serve --log`, in the order in which they were made. Inputs (where they are
/// logged), uncertainty and predictions are compared with the calibration examples by tests that one may look at every day: over
/// all of them and for ever, the probability of a false alarm is what --false-alarms says. Accuracy is estimated without labels;
/// where lines have a field `label`, accuracy and the coverage of the sets are watched. The exit code is 0 where nothing has
/// changed, 3 on an alarm, 2 for misuse and 1 for a failure.
#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  fidgp monitor models/cats predictions.jsonl\n  fidgp monitor runs/houses log.jsonl.2 log.jsonl.1 log.jsonl --out monitor.html || mail -s 'the model drifts' me"
)]
pub struct Monitor {
    /// The folder of a run or a model that was calibrated
    pub model: PathBuf,
    /// Logs, the oldest first; `-` is standard input
    #[arg(required = true, value_name = "LOG")]
    pub logs: Vec<PathBuf>,
    /// Probability of a false alarm, over all tests and however often one looks
    #[arg(long, default_value_t = 0.05)]
    pub false_alarms: f64,
    /// Write a page with time lines
    #[arg(long, value_name = "PAGE.html")]
    pub out: Option<PathBuf>,
    /// As JSON
    #[arg(long)]
    pub json: bool,
}
