use serde::{Deserialize, Serialize};

use crate::{
    bootstrap::{Bootstrap, Interval, quantile, resample},
    check,
    error::{MetricError, Result},
};

/// Arithmetic mean.
///
/// ```
/// use fidgp_metrics::{mean, median, sample_sd, standard_error};
///
/// let x = [1.0, 2.0, 3.0, 6.0];
/// assert_eq!(mean(&x)?, 3.0);
/// assert_eq!(median(&x)?, 2.5);
/// assert!((sample_sd(&x)? - (14.0_f64 / 3.0).sqrt()).abs() < 1e-12);
/// assert!((standard_error(&x)? - sample_sd(&x)? / 2.0).abs() < 1e-12);
/// # Ok::<(), fidgp_metrics::MetricError>(())
/// ```
pub fn mean(values: &[f64]) -> Result<f64> {
    check::non_empty("values", values)?;
    check::finite("values", values)?;
    Ok(plain_mean(values))
}

/// Sample standard deviation `sqrt(Σ (x − x̄)² / (n − 1))`; needs two values.
pub fn sample_sd(values: &[f64]) -> Result<f64> {
    let centre = mean(values)?;
    if values.len() < 2 {
        return Err(MetricError::TooFew { what: "values", need: 2, got: values.len() });
    }
    let squares: f64 = values.iter().map(|v| (v - centre).powi(2)).sum();
    Ok((squares / (values.len() - 1) as f64).sqrt())
}

/// Standard error of the mean, `sd / √n`.
pub fn standard_error(values: &[f64]) -> Result<f64> {
    Ok(sample_sd(values)? / (values.len() as f64).sqrt())
}

/// Median; the mean of the middle two when their number is even.
pub fn median(values: &[f64]) -> Result<f64> {
    check::non_empty("values", values)?;
    check::finite("values", values)?;
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    Ok(quantile(&sorted, 0.5))
}

/// Mean of `a − b` over matched repetitions, with its bootstrap interval.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct PairedDifference {
    /// Mean difference `(1/n) Σ (a_i − b_i)`.
    pub mean: f64,
    /// Percentile interval; the pairs are resampled.
    pub interval: Interval,
}

/// Compares two methods on the same seeds, splits or inputs.
///
/// ```
/// use fidgp_metrics::{Bootstrap, paired_difference};
///
/// let difference = paired_difference(&[0.80, 0.82, 0.79], &[0.70, 0.71, 0.70], &Bootstrap::seeded(1))?;
/// assert!((difference.mean - 0.1).abs() < 1e-12 && difference.interval.lo > 0.0);
/// # Ok::<(), fidgp_metrics::MetricError>(())
/// ```
pub fn paired_difference(a: &[f64], b: &[f64], settings: &Bootstrap) -> Result<PairedDifference> {
    check::pair(("a", a), ("b", b))?;
    let gaps: Vec<f64> = a.iter().zip(b).map(|(a, b)| a - b).collect();
    let of_resample = |indices: Vec<usize>| indices.iter().map(|&i| gaps[i]).sum::<f64>() / gaps.len() as f64;
    let interval = settings.interval(|rng| of_resample(resample(rng, gaps.len())))?;
    Ok(PairedDifference { mean: plain_mean(&gaps), interval })
}

fn plain_mean(values: &[f64]) -> f64 {
    values.iter().sum::<f64>() / values.len() as f64
}
