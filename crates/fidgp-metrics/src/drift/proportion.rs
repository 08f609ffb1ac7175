use serde::{Deserialize, Serialize};
use statrs::function::beta::ln_beta;

use crate::{bootstrap::Interval, check, error::Result};

/// A share that is watched while it is counted, such as the coverage of prediction sets when labels arrive.
///
/// The e-value of "the share is q" after s hits and f misses is `B(1 + s, 1 + f)/(q^s (1 − q)^f)`, a uniform mixture of
/// likelihood ratios; the values of q that it does not refute are an interval that is right at every moment at once.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Proportion {
    /// Hits.
    pub hits: u64,
    /// Misses.
    pub misses: u64,
}

impl Proportion {
    /// Counts one more.
    pub fn add(&mut self, hit: bool) {
        if hit { self.hits += 1 } else { self.misses += 1 }
    }

    /// The share so far; `None` before the first.
    pub fn share(&self) -> Option<f64> {
        let all = self.hits + self.misses;
        (all > 0).then(|| self.hits as f64 / all as f64)
    }

    /// Logarithm of the e-value of "the share is q".
    pub fn log_e_value(&self, q: f64) -> f64 {
        let (s, f) = (self.hits as f64, self.misses as f64);
        let term = |count: f64, p: f64| if count > 0.0 { count * p.ln() } else { 0.0 };
        ln_beta(1.0 + s, 1.0 + f) - term(s, q) - term(f, 1.0 - q)
    }

    /// The confidence sequence: holds the true share at all times with probability ≥ `level`.
    ///
    /// ```
    /// use fidgp_metrics::drift::Proportion;
    ///
    /// let interval = Proportion { hits: 900, misses: 100 }.interval(0.95)?;
    /// assert!(interval.contains(0.9) && interval.lo > 0.86 && interval.hi < 0.94);
    /// # Ok::<(), fidgp_metrics::MetricError>(())
    /// ```
    pub fn interval(&self, level: f64) -> Result<Interval> {
        check::level(level)?;
        let limit = -(1.0 - level).ln();
        let centre = self.share().unwrap_or(0.5);
        let edge = |outside: f64| self.edge(outside, centre, limit);
        Ok(Interval { lo: edge(0.0), hi: edge(1.0), level })
    }

    /// Where the e-value passes the limit, between a value outside and one inside, by bisection.
    fn edge(&self, mut outside: f64, mut inside: f64, limit: f64) -> f64 {
        if self.log_e_value(outside) < limit {
            return outside;
        }
        for _ in 0..60 {
            let mid = 0.5 * (outside + inside);
            if self.log_e_value(mid) < limit { inside = mid } else { outside = mid }
        }
        outside
    }
}
