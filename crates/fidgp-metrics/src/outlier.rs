//! How unusual a score is, measured against scores of held-out in-distribution examples: no OoD examples are needed.

use serde::{Deserialize, Serialize};

use crate::{binomial::beta_quantile, bootstrap::Interval, check, error::Result};

/// Scores of in-distribution examples that were not trained on. High = out of distribution.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(try_from = "Vec<f64>", into = "Vec<f64>")]
pub struct Reference {
    sorted: Vec<f64>,
}

impl TryFrom<Vec<f64>> for Reference {
    type Error = crate::MetricError;
    fn try_from(scores: Vec<f64>) -> Result<Self> {
        Self::new(&scores)
    }
}

impl From<Reference> for Vec<f64> {
    fn from(reference: Reference) -> Self {
        reference.sorted
    }
}

impl Reference {
    /// Sorts the scores.
    ///
    /// ```
    /// use fidgp_metrics::outlier::Reference;
    ///
    /// let reference = Reference::new(&[1.0, 2.0, 3.0, 4.0])?;
    /// assert_eq!(reference.p_value(3.5), 2.0 / 5.0); // one of four is as high, and the input itself
    /// assert_eq!(reference.p_value(9.0), 1.0 / 5.0);
    /// # Ok::<(), fidgp_metrics::MetricError>(())
    /// ```
    pub fn new(scores: &[f64]) -> Result<Self> {
        check::non_empty("scores", scores)?;
        check::not_nan("scores", scores)?;
        let mut sorted = scores.to_vec();
        sorted.sort_by(f64::total_cmp);
        Ok(Self { sorted })
    }

    /// Number of examples.
    #[expect(clippy::len_without_is_empty, reason = "never empty by construction")]
    pub fn len(&self) -> usize {
        self.sorted.len()
    }

    /// `(1 + #{s_i ≥ s})/(n + 1)`: of in-distribution inputs, at most a share α has a p-value ≤ α. A score that is no
    /// number is the strangest of all.
    pub fn p_value(&self, score: f64) -> f64 {
        let n = self.sorted.len();
        let below = if score.is_nan() { n } else { self.sorted.partition_point(|&s| s < score) };
        (1 + n - below) as f64 / (n + 1) as f64
    }

    /// The same with ties broken by `u` in [0, 1): exactly uniform for in-distribution inputs.
    pub fn smoothed_p_value(&self, score: f64, u: f64) -> f64 {
        let n = self.sorted.len();
        let below = self.sorted.partition_point(|&s| s < score);
        let up_to = self.sorted.partition_point(|&s| s <= score);
        ((n - up_to) as f64 + u * (up_to - below + 1) as f64) / (n + 1) as f64
    }

    /// The rule `p ≤ alarms` as a number, with what it will really do.
    ///
    /// # Errors
    /// When there are too few examples for the rate.
    pub fn rule(&self, alarms: f64) -> Result<AlarmRule> {
        check::level(alarms)?;
        let n = self.sorted.len();
        let flagged = ((n + 1) as f64 * alarms + 1e-9).floor() as usize; // ranks from the top that are flagged
        if flagged == 0 {
            let need = (1.0 / alarms - 1.0 - 1e-9).ceil() as usize;
            return Err(crate::MetricError::TooFewForLevel { got: n, need, level: 1.0 - alarms });
        }
        let (a, b) = (flagged as f64, (n + 1 - flagged) as f64);
        let end = |q| beta_quantile(a, b, q);
        let interval = Interval { lo: end(0.025), hi: end(0.975), level: 0.95 };
        Ok(AlarmRule { alarms, threshold: self.sorted[n - flagged], expected: a / (a + b), interval, examples: n })
    }
}

/// Inputs whose score lies above a threshold are called out of distribution.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct AlarmRule {
    /// The share of false alarms that was asked for.
    pub alarms: f64,
    /// Scores above this are flagged.
    pub threshold: f64,
    /// The share of in-distribution inputs that will be flagged, on average over choices of the examples.
    pub expected: f64,
    /// And where that share lies for one choice: `Beta(k, n + 1 − k)`, the central 95 %.
    pub interval: Interval,
    /// Examples it rests on.
    pub examples: usize,
}
