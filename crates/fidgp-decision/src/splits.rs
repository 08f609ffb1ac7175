use fidgp_metrics::conformal::coverage_law;
use serde::{Deserialize, Serialize};

use crate::calibration::Calibration;
use crate::error::Result;

/// A promise over many divisions of the same examples.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct OverSplits {
    /// The promise, in words.
    pub promise: String,
    /// The share promised.
    pub promised: f64,
    /// Divisions in which there was something to count.
    pub splits: usize,
    /// Mean of the shares seen.
    pub mean: f64,
    /// Their standard deviation.
    pub sd: f64,
    /// The deviation that the theory gives, of the rule and of the examples it is counted on: coverage only.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sd_expected: Option<f64>,
    /// Share of the divisions in which the promise was not refuted.
    pub kept: f64,
    /// Share of the divisions in which the share seen was on the good side of the promise.
    pub on_good_side: f64,
    /// Mean size of the sets or width of the intervals.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mean_size: Option<f64>,
}

/// Sums up the checks of calibrations that differ in their division only.
///
/// # Errors
/// When a level is impossible.
pub fn over_splits(found: &[Calibration]) -> Result<Vec<OverSplits>> {
    let Some(first) = found.first() else { return Ok(Vec::new()) };
    let kinds = first.check.len();
    (0..kinds).map(|place| sum_up(found, place)).collect()
}

fn sum_up(found: &[Calibration], place: usize) -> Result<OverSplits> {
    let all = || found.iter().filter_map(|one| one.check.get(place)).filter(|kept| kept.examples > 0);
    let n = all().count().max(1) as f64;
    let mean = all().map(|kept| kept.seen).sum::<f64>() / n;
    let sd = (all().map(|kept| (kept.seen - mean).powi(2)).sum::<f64>() / (n - 1.0).max(1.0)).sqrt();
    let first = &found[0].check[place];
    let is_coverage = first.mean_size.is_some();
    let examples = &found[0].examples;
    let sd_expected =
        if is_coverage { Some(expected(examples.fitted, examples.held_back, first.promised)?) } else { None };
    let good = |seen: f64| if is_coverage { seen >= first.promised } else { seen <= first.promised };
    let share = |count: usize| count as f64 / n;
    let sizes: Option<Vec<f64>> = all().map(|kept| kept.mean_size).collect();
    Ok(OverSplits {
        promise: if is_coverage {
            first.promise.clone()
        } else {
            first.promise.split(',').next().unwrap_or_default().to_owned()
        },
        promised: first.promised,
        splits: all().count(),
        mean,
        sd,
        sd_expected,
        kept: share(all().filter(|kept| kept.kept).count()),
        on_good_side: share(all().filter(|kept| good(kept.seen)).count()),
        mean_size: sizes.map(|sizes| sizes.iter().sum::<f64>() / n),
    })
}

/// √(Beta's variance + that of the examples it is counted on).
fn expected(fitted: usize, held: usize, level: f64) -> Result<f64> {
    let law = coverage_law(fitted, level)?;
    let mean = law.mean();
    Ok((law.sd().powi(2) + (mean * (1.0 - mean) - law.sd().powi(2)) / held as f64).sqrt())
}
