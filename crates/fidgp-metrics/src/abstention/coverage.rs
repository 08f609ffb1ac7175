use serde::{Deserialize, Serialize};

use crate::{binomial::beta_quantile, bootstrap::Interval, check, conformal, error::Result};

/// Answer inputs whose uncertainty is at most a threshold, chosen for the share that is answered.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct AnswerRule {
    /// The share asked for.
    pub share: f64,
    /// Answer where the uncertainty is at most this; `None`: always.
    pub threshold: Option<f64>,
    /// The share that will really be answered, the central 95 % over choices of the examples.
    pub interval: Interval,
}

/// The threshold below which at least `share` of the inputs to come will lie, on average over choices of the examples.
///
/// # Shapes
/// `uncertainty [N]`, high = unsure
///
/// # Errors
/// When there are no examples, or the share is not between 0 and 1.
///
/// ```
/// use fidgp_metrics::abstention::answer_share;
///
/// let uncertainty: Vec<f64> = (1..=99).map(f64::from).collect();
/// assert_eq!(answer_share(&uncertainty, 0.8)?.threshold, Some(80.0));
/// # Ok::<(), fidgp_metrics::MetricError>(())
/// ```
pub fn answer_share(uncertainty: &[f64], share: f64) -> Result<AnswerRule> {
    let threshold = conformal::threshold(uncertainty, share)?;
    check::level(share)?;
    let (n, k) = (uncertainty.len(), conformal::rank(uncertainty.len(), share));
    if k > n {
        let interval = Interval { lo: 1.0, hi: 1.0, level: 0.95 };
        return Ok(AnswerRule { share, threshold: None, interval });
    }
    let end = |q| beta_quantile(k as f64, (n + 1 - k) as f64, q);
    let interval = Interval { lo: end(0.025), hi: end(0.975), level: 0.95 };
    Ok(AnswerRule { share, threshold: Some(threshold), interval })
}
