use serde::{Deserialize, Serialize};

use crate::{
    bootstrap::{Bootstrap, Interval, resample},
    check,
    error::Result,
    recalibration::Isotonic,
};

/// Resamples of the calibration examples.
const RESAMPLES: usize = 200;

/// Accuracy of predictions whose labels are not known.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct AccuracyEstimate {
    /// The estimate.
    pub accuracy: f64,
    /// Its interval: calibration examples resampled, and the chance of the predictions themselves.
    pub interval: Interval,
}

/// Estimates the accuracy from confidences alone: how often predictions of such a confidence were right among the
/// calibration examples (isotonic regression), averaged over the new ones.
///
/// Right as long as a confidence means what it meant; not if the relation of inputs to classes itself has changed.
///
/// # Shapes
/// `calibration`, `right [N]`; `confidences [M]`
///
/// ```
/// use fidgp_metrics::drift::estimate_accuracy;
///
/// let calibration: Vec<f64> = (0..400).map(|i| if i % 2 == 0 { 0.9 } else { 0.5 }).collect();
/// let right: Vec<bool> = (0..400).map(|i| if i % 2 == 0 { i % 20 != 0 } else { i % 4 == 1 }).collect();
/// let found = estimate_accuracy(&calibration, &right, &[0.5; 1000], 0.95, 0)?;
/// assert!((found.accuracy - 0.5).abs() < 1e-12 && found.interval.contains(0.5));
/// # Ok::<(), fidgp_metrics::MetricError>(())
/// ```
pub fn estimate_accuracy(
    calibration: &[f64],
    right: &[bool],
    confidences: &[f64],
    level: f64,
    seed: u64,
) -> Result<AccuracyEstimate> {
    check::non_empty("confidences", confidences)?;
    check::finite("confidences", confidences)?;
    let right: Vec<f64> = right.iter().map(|&right| f64::from(u8::from(right))).collect();
    let fitted = Isotonic::fit(calibration, &right)?;
    let accuracy = confidences.iter().map(|&c| fitted.at(c)).sum::<f64>() / confidences.len() as f64;
    let settings = Bootstrap { resamples: RESAMPLES, level, seed };
    let interval = settings.interval(|rng| {
        let rows = resample(rng, calibration.len());
        let take = |values: &[f64]| rows.iter().map(|&i| values[i]).collect::<Vec<f64>>();
        let fitted = Isotonic::fit(&take(calibration), &take(&right)).ok();
        fitted.map_or(f64::NAN, |fitted| outcome(&fitted, confidences, rng))
    })?;
    Ok(AccuracyEstimate { accuracy, interval })
}

/// The accuracy that comes about when each prediction is right with its probability.
fn outcome(fitted: &Isotonic, confidences: &[f64], rng: &mut impl rand::Rng) -> f64 {
    let hits = confidences.iter().filter(|&&c| rng.random::<f64>() < fitted.at(c)).count();
    hits as f64 / confidences.len() as f64
}
