use serde::{Deserialize, Serialize};

use crate::{binomial, check, error::Result};

/// Starts of the search at most, spread evenly over the coverage; each has an equal part of δ.
const STARTS: usize = 8;

/// Steps from no coverage to all of it.
const STEPS: usize = 200;

/// Answer inputs whose uncertainty is below a threshold; of those answered, no more than a stated share is wrong.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct RiskRule {
    /// The risk asked for: wrong answers per answer.
    pub risk: f64,
    /// The probability, over choices of the examples, that the promise holds.
    pub confidence: f64,
    /// Answer where the uncertainty is below this; `None`: always.
    pub threshold: Option<f64>,
    /// Share of the examples that are answered.
    pub answered: f64,
    /// Share of wrong answers among them.
    pub seen: f64,
    /// The exact upper bound that the test used; at most `risk`.
    pub bound: f64,
    /// Examples it was chosen on.
    pub examples: usize,
}

/// The threshold with the largest coverage for which "the risk is above `risk`" is refuted; `None` where none is.
///
/// Learn then test (Angelopoulos et al. 2021). Given that the threshold is the (k+1)-th smallest uncertainty, the errors
/// of the k examples below it are `Bin(k, R)`, R the risk below this threshold: `P(Bin(k, risk) ≤ errors)` is a p-value.
/// Thresholds are tested upwards from several starts, at most eight, which share δ, until the first that is not refuted, so
/// that `P(any wrong one is accepted) ≤ δ = 1 − confidence`. Starts with so few examples that not even none wrong would do
/// are left out: which these are is known before the labels are looked at.
///
/// # Shapes
/// `uncertainty [N]` (any scale, high = unsure), `wrong [N]`
///
/// ```
/// use fidgp_metrics::abstention::bound_risk;
///
/// let uncertainty: Vec<f64> = (0..1000).map(f64::from).collect();
/// let wrong: Vec<bool> = (0..1000).map(|i| i >= 800).collect();
/// let rule = bound_risk(&uncertainty, &wrong, 0.05, 0.95)?.unwrap();
/// assert!(rule.answered > 0.75 && rule.bound <= 0.05);
/// assert!(bound_risk(&uncertainty[..20], &wrong[..20], 0.05, 0.95)?.is_none()); // too few to promise anything
/// # Ok::<(), fidgp_metrics::MetricError>(())
/// ```
pub fn bound_risk(uncertainty: &[f64], wrong: &[bool], risk: f64, confidence: f64) -> Result<Option<RiskRule>> {
    check::non_empty("uncertainty", uncertainty)?;
    check::not_nan("uncertainty", uncertainty)?;
    check::length("wrong", &vec![0.0; wrong.len()], uncertainty.len())?;
    check::level(risk)?;
    check::level(confidence)?;
    let curve = Curve::new(uncertainty, wrong);
    let starts = starts(&curve, risk, 1.0 - confidence);
    let delta = (1.0 - confidence) / starts.len().max(1) as f64;
    let mut best: Option<RiskRule> = None;
    for start in starts {
        for step in start..=STEPS {
            let (threshold, answered, errors) = curve.at(step, STEPS);
            let bound = binomial::upper_bound(errors, answered, delta)?;
            if answered == 0 || bound > risk {
                break;
            }
            if best.is_none_or(|best| best.answered < answered as f64 / curve.len() as f64) {
                best = Some(RiskRule {
                    risk,
                    confidence,
                    threshold,
                    answered: answered as f64 / curve.len() as f64,
                    seen: errors as f64 / answered as f64,
                    bound,
                    examples: curve.len(),
                });
            }
        }
    }
    Ok(best)
}

/// The steps to start from: the most of the last of eight that can pass when nothing is wrong, else the first step that can.
fn starts(curve: &Curve, risk: f64, delta: f64) -> Vec<usize> {
    let can_pass = |step: usize, delta: f64| (1.0 - risk).powf(curve.at(step, STEPS).1 as f64) <= delta;
    let all: Vec<usize> = (0..STARTS).map(|start| (start * STEPS / STARTS).max(1)).collect();
    let last = |count: usize| &all[STARTS - count..];
    let most = (1..=STARTS).rev().find(|&count| can_pass(last(count)[0], delta / count as f64));
    most.map_or_else(
        || (1..=STEPS).find(|&step| can_pass(step, delta)).into_iter().collect(),
        |most| last(most).to_vec(),
    )
}

/// Examples by rising uncertainty, with the errors so far.
pub(super) struct Curve {
    sorted: Vec<f64>,
    errors: Vec<usize>, // of the first i
}

impl Curve {
    pub fn new(uncertainty: &[f64], wrong: &[bool]) -> Self {
        let mut order: Vec<usize> = (0..uncertainty.len()).collect();
        order.sort_by(|&a, &b| uncertainty[a].total_cmp(&uncertainty[b]));
        let mut errors = vec![0];
        for &i in &order {
            errors.push(errors[errors.len() - 1] + usize::from(wrong[i]));
        }
        Self { sorted: order.iter().map(|&i| uncertainty[i]).collect(), errors }
    }

    pub fn len(&self) -> usize {
        self.sorted.len()
    }

    /// Threshold of a step of so many, the examples strictly below it, and the errors among them.
    pub fn at(&self, step: usize, steps: usize) -> (Option<f64>, usize, usize) {
        let k = self.len() * step / steps;
        let threshold = self.sorted.get(k).copied();
        let below = threshold.map_or(self.len(), |t| self.sorted.partition_point(|&s| s < t));
        (threshold, below, self.errors[below])
    }
}
