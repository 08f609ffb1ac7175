use serde::{Deserialize, Serialize};
use statrs::function::gamma::ln_gamma;

use crate::{
    binomial::beta_quantile,
    bootstrap::Interval,
    check,
    error::{MetricError, Result},
};

/// Rounding of `(n + 1)·level` that must not cost a rank.
const ROUNDING: f64 = 1e-9;

/// Which of n sorted scores is the threshold: `⌈(n + 1)·level⌉`, counted from 1; n + 1 where n is too small.
pub fn rank(n: usize, level: f64) -> usize {
    ((n + 1) as f64 * level - ROUNDING).ceil().max(1.0) as usize
}

/// The fewest examples that give a finite threshold: the least n with `⌈(n + 1)·level⌉ ≤ n`.
///
/// ```
/// use fidgp_metrics::conformal::smallest_count;
///
/// assert_eq!(smallest_count(0.9)?, 9);
/// assert_eq!(smallest_count(0.95)?, 19);
/// # Ok::<(), fidgp_metrics::MetricError>(())
/// ```
pub fn smallest_count(level: f64) -> Result<usize> {
    check::level(level)?;
    Ok((level / (1.0 - level) - ROUNDING).ceil().max(1.0) as usize)
}

/// The `⌈(n + 1)·level⌉`-th smallest score; +∞ where n is too small for the level, which every score is below.
///
/// A new score, exchangeable with these, is at most this with probability ≥ `level`.
///
/// ```
/// use fidgp_metrics::conformal::threshold;
///
/// let scores: Vec<f64> = (1..=9).map(f64::from).collect();
/// assert_eq!(threshold(&scores, 0.8)?, 8.0);
/// assert_eq!(threshold(&scores, 0.95)?, f64::INFINITY);
/// # Ok::<(), fidgp_metrics::MetricError>(())
/// ```
pub fn threshold(scores: &[f64], level: f64) -> Result<f64> {
    check::level(level)?;
    check::non_empty("scores", scores)?;
    check::not_nan("scores", scores)?;
    let k = rank(scores.len(), level);
    if k > scores.len() {
        return Ok(f64::INFINITY);
    }
    let mut sorted = scores.to_vec();
    let (_, value, _) = sorted.select_nth_unstable_by(k - 1, f64::total_cmp);
    Ok(*value)
}

/// How the coverage of all data to come is spread over the choice of n calibration examples: `Beta(k, n + 1 − k)`.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct CoverageLaw {
    /// k.
    pub a: f64,
    /// n + 1 − k.
    pub b: f64,
}

impl CoverageLaw {
    /// `k/(n + 1)`: at least the level, and above it by less than 1/(n + 1).
    pub fn mean(&self) -> f64 {
        self.a / (self.a + self.b)
    }

    /// Standard deviation of the coverage over choices of calibration examples.
    pub fn sd(&self) -> f64 {
        let sum = self.a + self.b;
        (self.a * self.b / (sum * sum * (sum + 1.0))).sqrt()
    }

    /// The probability that at most `hits` of `of` new examples are covered, over choices of all of them (Beta-binomial).
    ///
    /// ```
    /// use fidgp_metrics::conformal::coverage_law;
    ///
    /// let law = coverage_law(9, 0.9)?; // Beta(9, 1): of one new example nine tenths are covered
    /// assert!((law.at_most(0, 1) - 0.1).abs() < 1e-12);
    /// # Ok::<(), fidgp_metrics::MetricError>(())
    /// ```
    pub fn at_most(&self, hits: usize, of: usize) -> f64 {
        if hits >= of {
            return 1.0;
        }
        let (a, b, n) = (self.a, self.b, of as f64);
        let x = hits as f64;
        let ln_beta = |a: f64, b: f64| ln_gamma(a) + ln_gamma(b) - ln_gamma(a + b);
        let ln_choose = ln_gamma(n + 1.0) - ln_gamma(x + 1.0) - ln_gamma(n - x + 1.0);
        let mut term = (ln_choose + ln_beta(x + a, n - x + b) - ln_beta(a, b)).exp();
        let mut sum = term;
        for x in (0..hits).rev().map(|x| x as f64) {
            term *= (x + 1.0) / (n - x) * (n - x - 1.0 + b) / (x + a); // of x from that of x + 1
            sum += term;
        }
        sum.min(1.0)
    }

    /// Central interval of the coverage.
    pub fn interval(&self, level: f64) -> Result<Interval> {
        check::level(level)?;
        let tail = (1.0 - level) / 2.0;
        let end = |q| beta_quantile(self.a, self.b, q);
        Ok(Interval { lo: end(tail), hi: end(1.0 - tail), level })
    }
}

/// The law of the coverage, for continuous scores; ties only raise it.
///
/// # Errors
/// When n is too small for the level.
pub fn coverage_law(n: usize, level: f64) -> Result<CoverageLaw> {
    let need = smallest_count(level)?;
    if n < need {
        return Err(MetricError::TooFewForLevel { got: n, need, level });
    }
    let k = rank(n, level);
    Ok(CoverageLaw { a: k as f64, b: (n + 1 - k) as f64 })
}
