//! What a run leaves behind: `results.json` (one document, versioned) and `metrics.jsonl` (one line per epoch).
//!
//! Every field is described in `docs/results-schema.md`. A number that is not finite is written `not finite`, because
//! JSON has no other word for it, and read back as `None` (a metric) or NaN (a point of a curve).

/// Which code ran.
pub mod commit;
/// The document of a comparison.
pub mod comparison;
/// The document of a complexity table.
pub mod complexity;
/// The document of corrupted images.
pub mod corruptions;
/// `metrics.jsonl`: one line per epoch.
pub mod epochs;
/// What can go wrong when reading or writing, each variant with advice.
pub mod error;
/// `examples.json`: metrics of each test example.
pub mod examples;
/// The kinds of figures.
pub mod figure;
/// The data behind the figures of a report.
pub mod figures;
/// The document of times that grow.
pub mod growth;
/// Where it ran.
pub mod hardware;
/// The document of an out-of-distribution benchmark.
pub mod ood;
/// The document itself.
pub mod results;
/// The tables of a segmentation.
pub mod segmentation;
/// Metrics of several splits, with mean and standard error.
pub mod splits;
/// Files that are either old or new, never half written.
pub mod store;
/// The epistemic share of the predictive uncertainty.
pub mod uncertainty;

mod nullable;
mod schema;

pub use commit::{built_from, commit};
pub use epochs::{EpochRecord, EpochWriter, read_epochs};
pub use error::{RecordError, Result};
pub use examples::{EXAMPLES_FILE, Examples};
pub use figure::Figure;
pub use figures::{Classification, ConfidenceHistogram, Forecasts, Grid, Points, Regression1d, thinned};
pub use hardware::Hardware;
pub use ood::{Chosen, Group, MeasuredOod, OOD_SCHEMA, OodDocument, OodMetrics, OodScoreRecord, OodSetRecord};
pub use results::{Cost, MetricNotes, Published, Results, Time};
pub use schema::{SCHEMA, Schema};
pub use segmentation::{Boundary, ClassScore, Segmentation};
pub use splits::{Metrics, SplitMetrics, Splits};
pub use store::{check_writable, write_atomically, write_json};
pub use uncertainty::Uncertainty;

/// The name of the document in a run folder.
pub const RESULTS_FILE: &str = "results.json";
/// The folder of maps in a run folder.
pub const MAPS_FOLDER: &str = "maps";
/// What the panels of a map are, in order; truth and errors only where the truth is known.
pub const MAP_PANELS: &str =
    "picture, truth, prediction, errors (red; void black); total, aleatoric, epistemic uncertainty";
/// The name of the epoch log in a run folder.
pub const EPOCHS_FILE: &str = "metrics.jsonl";
