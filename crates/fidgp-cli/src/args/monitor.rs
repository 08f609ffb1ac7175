//! `fidgp monitor`

use std::path::PathBuf;

use clap::Args;

/// Detect drift from logs of predictions.
///
/// Reads lines of `fidgp predict --jsonl` or `fidgp serve --log`, oldest first. Compares inputs (if logged), uncertainty and
/// predictions with the calibration examples. You may look as often as you like: --false-alarms bounds the probability of any
/// false alarm, ever. Accuracy is estimated without labels. With labels (a field `label` in the lines, or --labels) it also tests
/// how far predictions are off, the coverage of sets and intervals, and the guaranteed error rate of accepted predictions.
/// Exit code: 0 nothing changed, 3 alarm, 2 misuse, 1 failure.
#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  fidgp monitor models/cats predictions.jsonl\n  fidgp monitor runs/houses log.jsonl.2 log.jsonl.1 log.jsonl --out monitor.html || mail -s 'the model drifts' me"
)]
pub struct Monitor {
    /// A calibrated run or model folder
    pub model: PathBuf,
    /// Logs, the oldest first; `-` is standard input
    #[arg(required = true, value_name = "LOG")]
    pub logs: Vec<PathBuf>,
    /// Of logs with several models, as a server writes them: the model by its name there
    #[arg(long)]
    pub name: Option<String>,
    /// Labels that came later: a table with a column `label`; its other columns name fields of the log lines, such as
    /// `input` and `row`, or `id`
    #[arg(long, value_name = "FILE.csv")]
    pub labels: Option<PathBuf>,
    /// Largest probability of a false alarm, over all tests and all times
    #[arg(long, default_value_t = 0.05)]
    pub false_alarms: f64,
    /// Write a page with time lines
    #[arg(long, value_name = "PAGE.html")]
    pub out: Option<PathBuf>,
    /// As JSON
    #[arg(long)]
    pub json: bool,
}
