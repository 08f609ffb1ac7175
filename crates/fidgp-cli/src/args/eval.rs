//! `fidgp eval`, as it is typed.

use std::num::NonZeroUsize;
use std::path::PathBuf;

use clap::Args;

use super::Place;

/// Evaluate a trained network again, with other draws or on another device.
///
/// Reads a run folder (config and best or last checkpoint) or a model folder made by `fidgp export`. Writes nothing. With the
/// same number of draws it gives the numbers of results.json, up to rounding.
///
/// With --corrupt it measures a classifier of images on its test images made worse instead, as CIFAR-C does: accuracy, NLL,
/// calibration and uncertainty by severity, as a table, a document and a page with a figure.
#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  fidgp eval runs/houses --draws 32\n  fidgp eval models/cifar100-resnet18-fidgp --data ~/data --json\n  \
    fidgp eval runs/photos --corrupt=fog,jpeg --limit 1000"
)]
pub struct Eval {
    /// A run folder, or a model folder
    pub run: PathBuf,
    /// Weight draws K [default: as in the run's config]
    #[arg(long)]
    pub draws: Option<u64>,
    /// Corrupt the test images, in five severities: names with commas between, or all of them
    #[arg(long, value_name = "NAMES", num_args = 0..=1, default_missing_value = "", require_equals = true)]
    pub corrupt: Option<String>,
    /// With --corrupt: use at most this many test images, chosen by the seed
    #[arg(long, requires = "corrupt")]
    pub limit: Option<NonZeroUsize>,
    /// With --corrupt: seed of the choice and of the corruptions
    #[arg(long, default_value_t = 0, requires = "corrupt")]
    pub seed: u64,
    /// With --corrupt: where to write corruptions.json, report.html and the figure [default: corruptions/ in the folder]
    #[arg(long, requires = "corrupt")]
    pub out: Option<PathBuf>,
    #[command(flatten)]
    pub place: Place,
    /// The whole results document as JSON
    #[arg(long)]
    pub json: bool,
}
