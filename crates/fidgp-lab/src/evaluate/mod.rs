//! From a trained model to metrics.

mod classification;
mod members;
mod regression;

pub use classification::{BINS, Evaluation, classify};
pub use members::{classify as classify_members, regress as regress_members};
pub use regression::{Forecast, forecast, metrics, notes};
