use serde::{Deserialize, Serialize};

use crate::{
    check,
    error::{MetricError, Result},
};

/// The cheapest setting whose expected loss is at most what was asked for.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct RiskControl {
    /// Its place among the settings.
    pub index: usize,
    /// Mean loss of the calibration examples at it.
    pub risk: f64,
    /// `(n·risk + 1)/(n + 1)`: what is kept below the risk asked for.
    pub bound: f64,
}

/// Conformal risk control (Angelopoulos et al. 2022): of settings ordered from cheap to safe, the first from which on
/// `(n·R + 1)/(n + 1) ≤ risk`, R the mean loss; then `E loss ≤ risk` for an exchangeable new example.
///
/// For pixels an example is a *picture*, since pixels of one picture are not exchangeable with those of another; its
/// loss is a share of its pixels: those of a class that the setting misses, or those outside their sets.
///
/// # Shapes
/// `losses [settings, examples]`, each in [0, 1] and, for one example, never rising from a setting to the next.
///
/// # Errors
/// When a loss rises or is no share, or no setting is safe enough.
///
/// ```
/// use fidgp_metrics::conformal::control_risk;
///
/// let losses = [[0.5; 19], [0.05; 19], [0.0; 19]].concat();
/// let found = control_risk(&losses, 19, 0.1)?;
/// assert_eq!(found.index, 1); // (19 · 0.05 + 1)/20 = 0.0975
/// # Ok::<(), fidgp_metrics::MetricError>(())
/// ```
pub fn control_risk(losses: &[f64], examples: usize, risk: f64) -> Result<RiskControl> {
    check::level(risk)?;
    check::at_least_one("examples", examples)?;
    check::non_empty("losses", losses)?;
    let settings = losses.len() / examples;
    check::length("losses", losses, settings.max(1) * examples)?;
    check::shares("losses", losses)?;
    falling(losses, examples)?;
    let n = examples as f64;
    let mut chosen = None;
    for (index, losses) in losses.chunks_exact(examples).enumerate().rev() {
        let mean = losses.iter().sum::<f64>() / n;
        let bound = (n * mean + 1.0) / (n + 1.0);
        if bound > risk {
            break;
        }
        chosen = Some(RiskControl { index, risk: mean, bound });
    }
    chosen.ok_or(MetricError::TooFewForLevel {
        got: examples,
        need: (1.0 / risk - 1.0).ceil() as usize,
        level: 1.0 - risk,
    })
}

fn falling(losses: &[f64], examples: usize) -> Result<()> {
    match (examples..losses.len()).find(|&i| losses[i] > losses[i - examples]) {
        Some(index) => Err(MetricError::Order { what: "losses", index, value: losses[index] }),
        None => Ok(()),
    }
}
