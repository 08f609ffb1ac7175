use super::ranks::Ranks;
use crate::{check, drift::Bets, error::Result};

/// Tests whether a stream of values is exchangeable with a reference, and with itself: a conformal test martingale (Vovk
/// et al. 2003).
///
/// Each value's rank among *all before it*, `p = (#{above} + u · #{equal})/n`, is exactly uniform and independent of the
/// ranks before it as long as nothing changes, for any distribution and any size of the reference; so the bets against
/// that are sound at every moment.
#[derive(Debug, Clone)]
pub struct Exchangeability {
    ranks: Ranks,
    bets: Bets,
}

impl Exchangeability {
    /// A test against values from before, such as scores of the calibration examples.
    ///
    /// ```
    /// use fidgp_metrics::drift::Exchangeability;
    ///
    /// let before: Vec<f64> = (0..500).map(|i| f64::from(i * 37 % 101)).collect();
    /// let mut test = Exchangeability::new(&before)?;
    /// let higher = (0..200).find(|i| { test.add(90.0 + f64::from(i % 10), 0.5); test.alarm(0.01) });
    /// assert!(higher.is_some_and(|seen| seen < 60));
    /// # Ok::<(), fidgp_metrics::MetricError>(())
    /// ```
    pub fn new(reference: &[f64]) -> Result<Self> {
        check::non_empty("reference", reference)?;
        check::not_nan("reference", reference)?;
        Ok(Self { ranks: Ranks::new(reference), bets: Bets::new() })
    }

    /// Looks at the next value; `u` is uniform on [0, 1) and breaks ties. Returns the p-value of its rank. A value that is
    /// no number ranks above all.
    pub fn add(&mut self, value: f64, u: f64) -> f64 {
        let value = if value.is_nan() { f64::INFINITY } else { value };
        let n = self.ranks.len();
        let [below, up_to] = self.ranks.insert(value);
        let p = ((n - up_to) as f64 + u * (up_to - below + 1) as f64) / (n + 1) as f64;
        self.bets.add(p);
        p
    }

    /// Logarithm of the e-value now.
    pub fn log_e_value(&self) -> f64 {
        self.bets.log_capital()
    }

    /// Logarithm of the largest e-value so far.
    pub fn log_largest(&self) -> f64 {
        self.bets.log_best()
    }

    /// Whether it was ever above `1/alpha`: false with probability ≥ 1 − alpha as long as nothing changes, forever.
    pub fn alarm(&self, alpha: f64) -> bool {
        self.bets.log_best() >= -alpha.ln()
    }
}
