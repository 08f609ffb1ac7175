use serde::{Deserialize, Serialize};

use crate::{check, classification::Predictions, error::Result};

/// An expected calibration error, never without its number of bins: the two only mean something together.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Ece {
    /// The error, a fraction in [0, 1].
    pub value: f64,
    /// Number of bins it was computed with, empty ones included.
    pub bins: usize,
}

/// One bar of a reliability diagram: the predictions with confidence in `(lo, hi]`.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct ReliabilityBin {
    /// Lower edge, excluded (0 itself belongs to the first bin).
    pub lo: f64,
    /// Upper edge, included.
    pub hi: f64,
    /// Number of predictions.
    pub count: usize,
    /// Number of correct predictions.
    pub correct: usize,
    /// Sum of the confidences.
    pub confidence_sum: f64,
}

impl ReliabilityBin {
    fn empty(lo: f64, hi: f64) -> Self {
        Self { lo, hi, count: 0, correct: 0, confidence_sum: 0.0 }
    }

    fn add(&mut self, confidence: f64, correct: bool) {
        self.count += 1;
        self.correct += usize::from(correct);
        self.confidence_sum += confidence;
    }

    /// Mean confidence; `None` for an empty bin.
    pub fn mean_confidence(&self) -> Option<f64> {
        (self.count > 0).then(|| self.confidence_sum / self.count as f64)
    }

    /// Accuracy; `None` for an empty bin.
    pub fn accuracy(&self) -> Option<f64> {
        (self.count > 0).then(|| self.correct as f64 / self.count as f64)
    }

    /// `count · |accuracy − confidence|`.
    fn weighted_gap(&self) -> f64 {
        (self.correct as f64 - self.confidence_sum).abs()
    }
}

/// Top-label confidence against accuracy, bin by bin.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ReliabilityTable {
    bins: Vec<ReliabilityBin>,
}

impl ReliabilityTable {
    /// Bins of equal width `((b−1)/B, b/B]`. Confidence 1 falls in the last bin, 0 in the first.
    ///
    /// ```
    /// use fidgp_metrics::{Predictions, ReliabilityTable};
    ///
    /// let predictions = Predictions::new(&[1.0, 0.0, 0.7, 0.3], 2, &[0, 1])?;
    /// let table = ReliabilityTable::equal_width(&predictions, 10)?;
    /// assert_eq!(table.bins()[9].count, 1); // (0.9, 1.0]
    /// assert_eq!(table.bins()[6].count, 1); // (0.6, 0.7]: closed on the right
    /// assert!((table.ece().value - 0.35).abs() < 1e-12);
    /// # Ok::<(), fidgp_metrics::MetricError>(())
    /// ```
    pub fn equal_width(predictions: &Predictions, bins: usize) -> Result<Self> {
        let mut table = Self::with_bins(bins)?;
        table.extend(predictions);
        Ok(table)
    }

    /// An empty equal-width table, to be filled batch by batch with [`extend`](Self::extend).
    pub fn with_bins(bins: usize) -> Result<Self> {
        check::at_least_one("bins", bins)?;
        let edge = |b: usize| b as f64 / bins as f64;
        Ok(Self { bins: (0..bins).map(|b| ReliabilityBin::empty(edge(b), edge(b + 1))).collect() })
    }

    /// Adds sums that were made elsewhere, bin by bin: of pixels, which are too many to be handed over one by one.
    ///
    /// # Shapes
    /// each `[bins]`
    ///
    /// # Errors
    /// When a length differs, or a number is not finite.
    pub fn add_sums(&mut self, counts: &[f64], correct: &[f64], confidence: &[f64]) -> Result<()> {
        for (what, values) in [("counts", counts), ("correct", correct), ("confidence", confidence)] {
            check::length(what, values, self.bins.len())?;
            check::finite(what, values)?;
        }
        for (b, bin) in self.bins.iter_mut().enumerate() {
            bin.count += counts[b] as usize;
            bin.correct += correct[b] as usize;
            bin.confidence_sum += confidence[b];
        }
        Ok(())
    }

    /// Adds a batch to the table; the edges stay as they are.
    pub fn extend(&mut self, predictions: &Predictions) {
        let last = self.bins.len().saturating_sub(1);
        for (confidence, correct) in predictions.top_labels() {
            let b = self.bins.partition_point(|bin| bin.hi < confidence).min(last);
            if let Some(bin) = self.bins.get_mut(b) {
                bin.add(confidence, correct);
            }
        }
    }

    /// Bins of equal mass: the b-th edge is the ⌈N·b/B⌉-th smallest confidence. Equal confidences stay together, so
    /// the table does not depend on the order of the rows, and a bin may stay empty.
    pub fn equal_mass(predictions: &Predictions, bins: usize) -> Result<Self> {
        check::at_least_one("bins", bins)?;
        let mut confidences = predictions.confidences();
        confidences.sort_by(f64::total_cmp);
        let n = confidences.len();
        let edge = |b: usize| if b == 0 { 0.0 } else { confidences[(n * b).div_ceil(bins) - 1] };
        let mut table = Self { bins: (0..bins).map(|b| ReliabilityBin::empty(edge(b), edge(b + 1))).collect() };
        table.extend(predictions);
        Ok(table)
    }

    /// The bins, by rising confidence.
    pub fn bins(&self) -> &[ReliabilityBin] {
        &self.bins
    }

    /// Number of predictions in the table.
    pub fn count(&self) -> usize {
        self.bins.iter().map(|bin| bin.count).sum()
    }

    /// Expected calibration error `Σ_b (n_b/N) |acc_b − conf_b|`; 0 for an empty table.
    ///
    /// On an [`equal_mass`](Self::equal_mass) table this is the adaptive ECE.
    pub fn ece(&self) -> Ece {
        let gaps: f64 = self.bins.iter().map(ReliabilityBin::weighted_gap).sum();
        Ece { value: gaps / self.count().max(1) as f64, bins: self.bins.len() }
    }

    /// Maximum calibration error `max_b |acc_b − conf_b|`.
    pub fn mce(&self) -> f64 {
        self.bins.iter().map(|bin| bin.weighted_gap() / bin.count.max(1) as f64).fold(0.0, f64::max)
    }
}
