/// Slopes of the bets.
const SLOPES: [f64; 2] = [-1.5, 1.5];

/// A CUSUM on ranks: capital that is never below 1, so that a long quiet time costs no delay.
///
/// `S ← max(1, S)·(1 + ε(p − ½))`, averaged over two slopes. It raises false alarms in the long run, as every quick test
/// does; for independent uniform p they are on average at least c observations apart when the alarm is at `S ≥ c`.
#[derive(Debug, Clone, Copy)]
pub struct Cusum {
    log_sums: [f64; 2],
}

impl Default for Cusum {
    fn default() -> Self {
        Self { log_sums: [0.0; 2] }
    }
}

impl Cusum {
    /// Looks at the next p-value and returns the logarithm of S.
    ///
    /// ```
    /// use fidgp_metrics::drift::Cusum;
    ///
    /// let mut cusum = Cusum::default();
    /// let delay = (1..).find(|_| cusum.add(0.02) > 1000_f64.ln());
    /// assert!(delay < Some(20));
    /// ```
    pub fn add(&mut self, p: f64) -> f64 {
        for (sum, slope) in self.log_sums.iter_mut().zip(SLOPES) {
            *sum = sum.max(0.0) + (slope * (p.clamp(0.0, 1.0) - 0.5)).ln_1p();
        }
        let most = self.log_sums[0].max(self.log_sums[1]);
        most + (self.log_sums.iter().map(|sum| (sum - most).exp()).sum::<f64>() / 2.0).ln()
    }
}
