//! From a trained model to metrics.

/// What to do about a network whose outputs are no numbers although its weights are.
pub(crate) const NOT_FINITE: &str = "its weights are so large that sums overflow: train it with a lower learning rate";

mod classification;
mod meter;
mod regression;
mod segmentation;
mod spread;
mod tally;

pub use classification::{BINS, Evaluation, classify, classify_by};
pub use meter::Meter;
pub(crate) use regression::regress_by;
pub use regression::{Forecast, examples, figure, forecast, metrics, notes};
pub use segmentation::{EachSegmented, PixelEvaluation, pixel_classes, segment_set};
pub use spread::{Spread, permuted_pixels, shuffled_columns};
pub use tally::{BOUNDARY_REACH, RISK_BINS, Tally};
