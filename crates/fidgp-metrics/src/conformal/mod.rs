//! Sets and intervals that hold the truth as often as they say, whatever the model and the data.
//!
//! The only assumption: the examples they are calibrated on and those to come are exchangeable, and the model was not
//! trained on them. Of the promise this is left to chance: with n calibration examples the coverage of all data to
//! come follows `Beta(k, n + 1 − k)`, `k = ⌈(n + 1)·level⌉` (`coverage_law`).

mod by_class;
mod classes;
mod numbers;
mod risk_control;
mod shift;
mod threshold;

pub use by_class::SetsByClass;
pub use classes::{ClassSets, LastLabel, SetScore, TIE};
pub use numbers::{Bounds, IntervalScore, Intervals};
pub use risk_control::{RiskControl, control_risk};
pub use shift::{ShiftedThreshold, density_ratio, effective_size, resampled};
pub use threshold::{CoverageLaw, coverage_law, rank, smallest_count, threshold};
