//! Metrics for predictive uncertainty: numbers from numbers, no tensors.
//!
//! Inputs are plain slices, checked once when a small struct is built; after that every metric is a method that
//! cannot fail on data. Bad input (empty, NaN, wrong length, …) is a [`MetricError`] that says what to do, never a
//! panic. Entropies and likelihoods are in nats. OoD scores run **high = out of distribution**.
//!
//! ```
//! use fidgp_metrics::{OodScores, Predictions, ReliabilityTable};
//!
//! let probs = [0.9, 0.1, 0.2, 0.8, 0.6, 0.4]; // [rows, classes], row-major
//! let predictions = Predictions::new(&probs, 2, &[0, 1, 1])?;
//! assert!((predictions.accuracy() - 2.0 / 3.0).abs() < 1e-12);
//! assert_eq!(ReliabilityTable::equal_width(&predictions, 15)?.ece().bins, 15);
//!
//! let scores = OodScores::new(&[0.1, 0.3], &[0.3, 0.7])?;
//! assert_eq!(scores.auroc(), 0.875);
//! # Ok::<(), fidgp_metrics::MetricError>(())
//! ```

/// Which predictions to act on: thresholds for a stated risk or coverage, and the score to threshold.
pub mod abstention;
/// Risk against coverage of more predictions than can be sorted.
pub mod binned_risk;
/// Exact bounds of a probability that was counted.
pub mod binomial;
/// Seeded resampling: [`Bootstrap`] settings and percentile [`Interval`]s.
pub mod bootstrap;
/// ECE, adaptive ECE and the table behind a reliability diagram.
pub mod calibration;
/// Whether Markov chains have converged: R̂ and the effective number of draws.
pub mod chains;
/// Accuracy, NLL, Brier score, entropy of class probabilities.
pub mod classification;
/// Prediction sets and intervals with a guarantee.
pub mod conformal;
/// Overlap of segmentations: IoU, accuracies.
pub mod confusion;
/// Whether what comes in still is what the model was calibrated on, looked at as often as one likes.
pub mod drift;
/// The one error type, each variant with advice.
pub mod error;
/// Equal-weight Gaussian mixtures (K weight draws): NLL, CRPS, coverage.
pub mod mixture;
/// Metric names as they appear in results and reports.
pub mod names;
/// The standard normal: density, distribution function, quantile.
pub mod normal;
/// p-values of single inputs against held-out in-distribution scores.
pub mod outlier;
/// ID against OoD scores: AUROC, AUPR, bootstrap intervals.
pub mod ranking;
/// Probabilities mended on held-out examples: vector scaling, isotonic regression, Venn–Abers.
pub mod recalibration;
/// RMSE, MAE, and Gaussian forecasts: NLL, CRPS, coverage, width.
pub mod regression;
/// ROC curve and the false-positive rate at 95 %, both conventions.
pub mod roc;
/// Risk-coverage curve, AURC, AUGRC.
pub mod selective;
/// Mean, sample sd, standard error, median, paired differences.
pub mod summary;
/// Total = aleatoric + epistemic, for classes and for regression.
pub mod uncertainty;

mod check;

pub use binned_risk::BinnedRisk;
pub use bootstrap::{Bootstrap, Interval};
pub use calibration::{Ece, ReliabilityBin, ReliabilityTable};
pub use classification::{Predictions, argmax, entropy};
pub use confusion::Confusion;
pub use error::{MetricError, Result};
pub use mixture::{MixtureForecast, Noise};
pub use ranking::OodScores;
pub use regression::{GaussianForecast, mae, rmse};
pub use roc::RocPoint;
pub use selective::{RiskCoverage, RiskPoint};
pub use summary::{
    IntervalRule, PairedDifference, mean, median, paired_difference, paired_difference_of_splits, sample_sd,
    standard_error,
};
pub use uncertainty::{DrawProbs, EntropySplit, VarianceSplit, total_variance};
