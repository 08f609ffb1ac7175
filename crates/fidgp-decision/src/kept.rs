use fidgp_metrics::Interval;
use fidgp_metrics::binomial;
use fidgp_metrics::conformal::CoverageLaw;
use serde::{Deserialize, Serialize};

use crate::error::Result;

/// Counts that chance alone makes more rarely than this speak against a promise.
pub const LEAST_CHANCE: f64 = 0.025;

/// A promise beside what the examples that were held back say of it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Kept {
    /// What was promised, in words.
    pub promise: String,
    /// The share that was promised.
    pub promised: f64,
    /// The share seen.
    pub seen: f64,
    /// Its exact interval at 95 %.
    pub interval: Interval,
    /// Examples it was seen on.
    pub examples: usize,
    /// Whether the examples agree with the promise: chance alone sees less of it more often than once in forty.
    pub kept: bool,
    /// Mean number of classes in a set, or mean width of an interval.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mean_size: Option<f64>,
}

/// Which side of the promise is good.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Good {
    /// Coverage.
    Above,
    /// Errors and alarms.
    Below,
}

impl Kept {
    /// Compares a promise with a count.
    ///
    /// # Errors
    /// Never for a count within its examples.
    pub fn new(promise: String, promised: f64, good: Good, hits: usize, examples: usize) -> Result<Self> {
        let interval = binomial::interval(hits, examples, 0.95)?;
        let kept = match good {
            Good::Above => interval.hi >= promised,
            Good::Below => interval.lo <= promised,
        };
        let seen = if examples > 0 { hits as f64 / examples as f64 } else { f64::NAN };
        let seen = if seen.is_nan() { promised } else { seen };
        Ok(Self { promise, promised, seen, interval, examples, kept, mean_size: None })
    }

    /// Judged by the law of the count, where the rule's own share depends on the choice of its examples. So many of the examples
    /// are on the good side.
    #[must_use]
    pub fn by_law(self, law: Option<CoverageLaw>, good: usize) -> Self {
        let kept = law.map_or(self.kept, |law| law.at_most(good, self.examples) >= LEAST_CHANCE);
        Self { kept, ..self }
    }

    /// With the mean size of its sets.
    #[must_use]
    pub fn of_size(self, sizes: impl IntoIterator<Item = f64>) -> Self {
        let (count, sum) = sizes.into_iter().fold((0.0, 0.0), |(count, sum), size| (count + 1.0, sum + size));
        let mean = sum / f64::max(count, 1.0);
        Self { mean_size: Some(mean).filter(|mean| mean.is_finite()), ..self }
    }
}
