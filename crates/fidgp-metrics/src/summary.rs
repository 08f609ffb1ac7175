use serde::{Deserialize, Serialize};
use statrs::distribution::{ContinuousCDF, StudentsT};

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

/// Pairs from which on an interval is the bootstrap's; of fewer, its percentiles are too narrow.
pub const BOOTSTRAP_PAIRS: usize = 30;

/// How an interval of a mean difference was found.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum IntervalRule {
    /// `mean ± t·sd/√n`, Student's t of n − 1 degrees: for few pairs, exact where differences are normal.
    StudentT,
    /// Percentiles over resampled pairs: for many.
    Bootstrap,
    /// Student's t of splits that share rows, see [`paired_difference_of_splits`].
    ResampledT,
}

/// Mean of `a − b` over matched repetitions, with an interval.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct PairedDifference {
    /// Mean difference `(1/n) Σ (a_i − b_i)`.
    pub mean: f64,
    /// Where the mean of further pairs is expected.
    pub interval: Interval,
    /// How it was found.
    pub rule: IntervalRule,
}

/// Compares two methods on the same seeds, splits or inputs: by Student's t below [`BOOTSTRAP_PAIRS`], else by the bootstrap.
///
/// # Errors
/// When there are fewer than two pairs, the lengths differ or a number is not finite.
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
    let mean = plain_mean(&gaps);
    if gaps.len() < BOOTSTRAP_PAIRS {
        let half = central_t(settings.level, gaps.len())? * standard_error(&gaps)?;
        let interval = Interval { lo: mean - half, hi: mean + half, level: settings.level };
        return Ok(PairedDifference { mean, interval, rule: IntervalRule::StudentT });
    }
    let of_resample = |indices: Vec<usize>| indices.iter().map(|&i| gaps[i]).sum::<f64>() / gaps.len() as f64;
    let interval = settings.interval(|rng| of_resample(resample(rng, gaps.len())))?;
    Ok(PairedDifference { mean, interval, rule: IntervalRule::Bootstrap })
}

/// Compares two methods on random splits of one table. Their training parts share most rows, so the mean varies by more than
/// `sd/√n`: the corrected t of Nadeau & Bengio (2003) takes `sd·√(1/n + test/train)`.
///
/// # Errors
/// As [`paired_difference`].
///
/// ```
/// use fidgp_metrics::{Bootstrap, paired_difference, paired_difference_of_splits};
///
/// let (a, b) = ([0.80, 0.82, 0.79], [0.70, 0.71, 0.70]);
/// let plain = paired_difference(&a, &b, &Bootstrap::seeded(1))?.interval;
/// let wider = paired_difference_of_splits(&a, &b, 0.95, 1.0 / 9.0)?.interval;
/// assert!(((wider.hi - wider.lo) / (plain.hi - plain.lo) - (1.0 + 3.0 / 9.0_f64).sqrt()).abs() < 1e-12);
/// # Ok::<(), fidgp_metrics::MetricError>(())
/// ```
pub fn paired_difference_of_splits(a: &[f64], b: &[f64], level: f64, test_per_train: f64) -> Result<PairedDifference> {
    check::pair(("a", a), ("b", b))?;
    let gaps: Vec<f64> = a.iter().zip(b).map(|(a, b)| a - b).collect();
    let (mean, n) = (plain_mean(&gaps), gaps.len() as f64);
    let half = central_t(level, gaps.len())? * standard_error(&gaps)? * (1.0 + n * test_per_train).sqrt();
    let interval = Interval { lo: mean - half, hi: mean + half, level };
    Ok(PairedDifference { mean, interval, rule: IntervalRule::ResampledT })
}

/// Half width, in standard errors, of the interval of a mean of `n` values: `t` with `P(|T| > t) = 1 − level`, T of n − 1
/// degrees of freedom.
fn central_t(level: f64, n: usize) -> Result<f64> {
    check::level(level)?;
    let too_few = MetricError::TooFew { what: "pairs", need: 2, got: n };
    let student = StudentsT::new(0.0, 1.0, n.saturating_sub(1) as f64).map_err(|_| too_few)?;
    Ok(student.inverse_cdf(0.5 + level / 2.0))
}

fn plain_mean(values: &[f64]) -> f64 {
    values.iter().sum::<f64>() / values.len() as f64
}
