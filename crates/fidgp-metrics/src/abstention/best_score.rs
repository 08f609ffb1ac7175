use serde::{Deserialize, Serialize};

use crate::{
    bootstrap::{Bootstrap, Interval, resample},
    check,
    error::{MetricError, Result},
    selective::RiskCoverage,
};

/// Resamples of the comparison.
const RESAMPLES: usize = 200;

/// How well an uncertainty puts wrong predictions last.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct RankedScore {
    /// Its name.
    pub name: String,
    /// Area under its risk–coverage curve; low is good.
    pub aurc: f64,
    /// Its AURC minus that of the first score, paired bootstrap, 95 %.
    pub over_first: Interval,
}

/// Measures which uncertainty ranks errors best, and picks one: the first, unless another's whole interval lies below it.
///
/// # Shapes
/// each score `[N]`, high = unsure; `loss [N]`, such as 1 for a wrong answer
///
/// ```
/// use fidgp_metrics::abstention::best_score;
///
/// let loss: Vec<f64> = (0..200).map(|i| f64::from(u8::from(i % 4 == 0))).collect();
/// let noise: Vec<f64> = (0..200).map(|i| f64::from(i * 37 % 101)).collect();
/// let (best, ranked) = best_score(&[("noise", &noise), ("oracle", &loss)], &loss, 0)?;
/// assert_eq!(ranked[best].name, "oracle");
/// # Ok::<(), fidgp_metrics::MetricError>(())
/// ```
pub fn best_score(scores: &[(&str, &[f64])], loss: &[f64], seed: u64) -> Result<(usize, Vec<RankedScore>)> {
    let Some((_, first)) = scores.first() else { return Err(MetricError::Empty { what: "scores" }) };
    let mut ranked = Vec::new();
    for (name, values) in scores {
        check::length("score", values, loss.len())?;
        let aurc = aurc(values, loss)?;
        let over_first = difference(values, first, loss, seed)?;
        ranked.push(RankedScore { name: (*name).to_owned(), aurc, over_first });
    }
    let better = (1..ranked.len()).filter(|&i| ranked[i].over_first.hi < 0.0);
    let best = better.min_by(|&a, &b| ranked[a].aurc.total_cmp(&ranked[b].aurc)).unwrap_or(0);
    Ok((best, ranked))
}

fn aurc(uncertainty: &[f64], loss: &[f64]) -> Result<f64> {
    let confidence: Vec<f64> = uncertainty.iter().map(|u| -u).collect();
    Ok(RiskCoverage::new(&confidence, loss)?.aurc())
}

fn difference(score: &[f64], first: &[f64], loss: &[f64], seed: u64) -> Result<Interval> {
    let settings = Bootstrap { resamples: RESAMPLES, ..Bootstrap::seeded(seed) };
    settings.interval(|rng| {
        let rows = resample(rng, loss.len());
        let take = |values: &[f64]| rows.iter().map(|&i| values[i]).collect::<Vec<f64>>();
        let loss = take(loss);
        aurc(&take(score), &loss).unwrap_or(f64::NAN) - aurc(&take(first), &loss).unwrap_or(f64::NAN)
    })
}
