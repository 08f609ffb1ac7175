//! From a trained model to metrics.

mod regression;

pub use regression::{Forecast, forecast, metrics};
