use fidgp_metrics::{MetricError, Predictions, ReliabilityTable, RiskCoverage, RiskPoint};
use serde::{Deserialize, Serialize};

use super::nullable::numbers;

/// One-dimensional regression: the prediction on a grid, and the points.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct Regression1d {
    /// The prediction.
    pub grid: Grid,
    /// Points fitted.
    pub train: Points,
    /// Points used for choosing.
    pub validation: Points,
    /// Points held back.
    pub test: Points,
    /// Ranges of `x` without training points, `[from, to]`, shaded in the figure.
    #[serde(default)]
    pub gaps: Vec<[f64; 2]>,
    /// Weight of the KL in the objective; any value but 1 is named in the figure's title.
    pub kl_weight: f64,
}

/// A prediction over a grid; all lists have the same length.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct Grid {
    /// Inputs, rising.
    #[serde(with = "numbers")]
    pub x: Vec<f64>,
    /// The noiseless truth.
    #[serde(with = "numbers")]
    pub truth: Vec<f64>,
    /// Mean of the prediction.
    #[serde(with = "numbers")]
    pub mean: Vec<f64>,
    /// Standard deviation of the mean over weight draws: what more data would reduce.
    #[serde(with = "numbers")]
    pub epistemic_sd: Vec<f64>,
    /// Standard deviation of the noise as the model sees it: what no data would reduce.
    #[serde(with = "numbers")]
    pub noise_sd: Vec<f64>,
}

/// Points in the plane.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct Points {
    /// Inputs.
    #[serde(with = "numbers")]
    pub x: Vec<f64>,
    /// Targets.
    #[serde(with = "numbers")]
    pub y: Vec<f64>,
}

/// Predictions of test rows, and how often central intervals hold what they should. Lists of rows have one length; they are the
/// first where there are many.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct Forecasts {
    /// All test rows.
    pub rows: usize,
    /// True targets.
    #[serde(with = "numbers")]
    pub observed: Vec<f64>,
    /// Means of the predictions.
    #[serde(with = "numbers")]
    pub mean: Vec<f64>,
    /// Standard deviations of the mean over weight draws.
    #[serde(with = "numbers")]
    pub epistemic_sd: Vec<f64>,
    /// Standard deviations of the noise as the model sees it.
    #[serde(with = "numbers")]
    pub noise_sd: Vec<f64>,
    /// Levels of central intervals, `[level, part of all test rows inside]`.
    pub coverage: Vec<[f64; 2]>,
}

/// Confidence against truth, in three tables.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Classification {
    /// Confidence against accuracy, bin by bin.
    pub reliability: ReliabilityTable,
    /// How sure the network is, right and wrong answers apart.
    pub confidence: ConfidenceHistogram,
    /// Error rate among the most confident answers.
    pub risk_coverage: Vec<RiskPoint>,
}

/// Counts of top-label confidences.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct ConfidenceHistogram {
    /// Bin edges, one more than bins.
    pub edges: Vec<f64>,
    /// Right answers per bin.
    pub correct: Vec<usize>,
    /// Wrong answers per bin.
    pub wrong: Vec<usize>,
}

/// Points kept of a risk-coverage curve: enough for a figure, small enough for a file.
const CURVE_POINTS: usize = 200;

impl Classification {
    /// The three tables of a set of predictions.
    ///
    /// ```
    /// use fidgp_report::record::Classification;
    ///
    /// let predictions = fidgp_metrics::Predictions::new(&[0.9, 0.1, 0.4, 0.6], 2, &[0, 0])?;
    /// let figure = Classification::new(&predictions, 15)?;
    /// assert_eq!(figure.confidence.wrong.iter().sum::<usize>(), 1);
    /// # Ok::<(), fidgp_metrics::MetricError>(())
    /// ```
    pub fn new(predictions: &Predictions, bins: usize) -> Result<Self, MetricError> {
        let reliability = ReliabilityTable::equal_width(predictions, bins)?;
        let curve = RiskCoverage::new(&predictions.confidences(), &predictions.errors())?.curve();
        Ok(Self { confidence: ConfidenceHistogram::of(&reliability), reliability, risk_coverage: thinned(&curve) })
    }
}

impl ConfidenceHistogram {
    /// The counts of a reliability table.
    pub fn of(table: &ReliabilityTable) -> Self {
        let bins = table.bins();
        Self {
            edges: bins.iter().take(1).map(|bin| bin.lo).chain(bins.iter().map(|bin| bin.hi)).collect(),
            correct: bins.iter().map(|bin| bin.correct).collect(),
            wrong: bins.iter().map(|bin| bin.count.saturating_sub(bin.correct)).collect(),
        }
    }
}

/// Every k-th point, and always the last.
pub fn thinned(curve: &[RiskPoint]) -> Vec<RiskPoint> {
    let stride = curve.len().div_ceil(CURVE_POINTS).max(1);
    let skipped = curve.len().saturating_sub(1) % stride;
    curve.iter().skip(skipped).step_by(stride).copied().collect()
}
