use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha8Rng;
use serde::{Deserialize, Serialize};

use crate::{check, error::Result};

/// A central interval and the level it was asked for.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Interval {
    /// Lower end.
    pub lo: f64,
    /// Upper end.
    pub hi: f64,
    /// Nominal level, such as 0.95.
    pub level: f64,
}

impl Interval {
    /// Whether a value lies inside, ends included.
    pub fn contains(&self, value: f64) -> bool {
        (self.lo..=self.hi).contains(&value)
    }
}

/// How to resample. The same seed gives the same interval, always.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Bootstrap {
    /// Number of resamples.
    pub resamples: usize,
    /// Nominal level of the interval.
    pub level: f64,
    /// Seed of the resampling.
    pub seed: u64,
}

impl Bootstrap {
    /// 1000 resamples and a 95 % interval.
    pub fn seeded(seed: u64) -> Self {
        Self { resamples: 1000, level: 0.95, seed }
    }

    /// Percentile interval of a statistic that is recomputed on every resample.
    ///
    /// `draw` receives the random numbers and returns the statistic of one resample; [`resample`] picks the indices.
    ///
    /// ```
    /// use fidgp_metrics::{Bootstrap, bootstrap::resample};
    ///
    /// let x = [1.0, 2.0, 3.0, 4.0];
    /// let mean = |i: Vec<usize>| i.iter().map(|&i| x[i]).sum::<f64>() / i.len() as f64;
    /// let interval = Bootstrap::seeded(0).interval(|rng| mean(resample(rng, x.len())))?;
    /// assert!(interval.contains(2.5) && interval.lo >= 1.0 && interval.hi <= 4.0);
    /// # Ok::<(), fidgp_metrics::MetricError>(())
    /// ```
    pub fn interval(&self, mut draw: impl FnMut(&mut ChaCha8Rng) -> f64) -> Result<Interval> {
        check::at_least_one("resamples", self.resamples)?;
        check::level(self.level)?;
        let mut rng = ChaCha8Rng::seed_from_u64(self.seed);
        let mut values: Vec<f64> = (0..self.resamples).map(|_| draw(&mut rng)).collect();
        values.sort_by(f64::total_cmp);
        let tail = (1.0 - self.level) / 2.0;
        Ok(Interval { lo: quantile(&values, tail), hi: quantile(&values, 1.0 - tail), level: self.level })
    }
}

/// `n` indices below `n`, drawn with replacement.
pub fn resample(rng: &mut impl Rng, n: usize) -> Vec<usize> {
    (0..n).map(|_| rng.random_range(0..n)).collect()
}

/// Quantile of sorted, non-empty values by linear interpolation between neighbours.
pub(crate) fn quantile(sorted: &[f64], q: f64) -> f64 {
    let position = q * (sorted.len() - 1) as f64;
    let below = position.floor() as usize;
    let above = (below + 1).min(sorted.len() - 1);
    let fraction = position - below as f64;
    sorted[below] * (1.0 - fraction) + sorted[above] * fraction
}
