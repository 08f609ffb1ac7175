//! From a trained model to metrics.

mod classification;
mod regression;

pub use classification::{Evaluation, classify};
pub use regression::{Forecast, forecast, metrics, notes};
