use serde::{Deserialize, Serialize};

use super::threshold;
use crate::{bootstrap::Interval, check, error::Result};

/// What an interval is made of.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum IntervalScore {
    /// `|y − μ|/σ`: mean and deviation are predicted, the interval is `μ ± q σ`.
    Normalised,
    /// `max(lo − y, y − hi)`: two quantiles are predicted, the interval is `[lo − q, hi + q]` (CQR; Romano, Patterson &
    /// Candès 2019).
    Quantiles,
}

/// Two columns of predictions: means and deviations, or lower and upper quantiles.
#[derive(Debug, Clone, Copy)]
pub struct Bounds<'a> {
    /// μ, or the lower quantile.
    pub first: &'a [f64],
    /// σ, or the upper quantile.
    pub second: &'a [f64],
}

impl IntervalScore {
    /// How far off a prediction is.
    pub fn of(self, first: f64, second: f64, y: f64) -> f64 {
        match self {
            Self::Normalised => (y - first).abs() / second,
            Self::Quantiles => (first - y).max(y - second),
        }
    }
}

/// Prediction intervals at one level.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Intervals {
    /// What they are made of.
    pub score: IntervalScore,
    /// The level that was asked for.
    pub level: f64,
    /// q; `None`: too few examples for the level, the interval is everything.
    pub threshold: Option<f64>,
    /// Examples it was calibrated on.
    pub examples: usize,
}

impl Intervals {
    /// Finds q on examples that were not trained on.
    ///
    /// # Shapes
    /// both columns and `target`: `[N]`
    ///
    /// ```
    /// use fidgp_metrics::conformal::{Bounds, Intervals, IntervalScore};
    ///
    /// let y: Vec<f64> = (1..=9).map(f64::from).collect();
    /// let forecast = Bounds { first: &[0.0; 9], second: &[1.0; 9] };
    /// let intervals = Intervals::calibrate(IntervalScore::Normalised, forecast, &y, 0.8)?;
    /// let around = intervals.interval(100.0, 0.5);
    /// assert_eq!((around.lo, around.hi), (96.0, 104.0));
    /// # Ok::<(), fidgp_metrics::MetricError>(())
    /// ```
    pub fn calibrate(score: IntervalScore, forecast: Bounds, target: &[f64], level: f64) -> Result<Self> {
        check::pair(("forecast", forecast.first), ("target", target))?;
        check::length("forecast", forecast.second, target.len())?;
        match score {
            IntervalScore::Normalised => check::positive("deviation", forecast.second)?,
            IntervalScore::Quantiles => check::finite("upper quantile", forecast.second)?,
        }
        let columns = forecast.first.iter().zip(forecast.second).zip(target);
        let scores: Vec<f64> = columns.map(|((&a, &b), &y)| score.of(a, b, y)).collect();
        let threshold = Some(threshold(&scores, level)?).filter(|threshold| threshold.is_finite());
        Ok(Self { score, level, threshold, examples: target.len() })
    }

    /// The interval of one prediction: mean and deviation, or two quantiles.
    pub fn interval(&self, first: f64, second: f64) -> Interval {
        let q = self.threshold.unwrap_or(f64::INFINITY);
        let (lo, hi) = match self.score {
            IntervalScore::Normalised => (first - q * second, first + q * second),
            IntervalScore::Quantiles => (first - q, second + q),
        };
        Interval { lo, hi, level: self.level }
    }
}
