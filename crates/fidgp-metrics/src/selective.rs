use serde::{Deserialize, Serialize};

use crate::{check, error::Result};

/// One point of the risk-coverage curve: answer the most confident part, refuse the rest.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct RiskPoint {
    /// Fraction of inputs answered, `i/N`.
    pub coverage: f64,
    /// Mean loss of the inputs answered.
    pub risk: f64,
}

/// Losses accumulated from the most confident prediction to the least.
///
/// Among equal confidences the losses are spread evenly, which gives the expectation over random tie-breaking: the
/// result does not depend on the order of the rows.
#[derive(Debug, Clone)]
pub struct RiskCoverage {
    cumulative: Vec<f64>, // Σ of the i + 1 most confident losses
}

impl RiskCoverage {
    /// Sorts losses (0-1 errors, squared errors, …) by falling confidence.
    ///
    /// # Shapes
    /// `confidence [rows]` (any scale, high = sure), `loss [rows]`.
    ///
    /// ```
    /// use fidgp_metrics::RiskCoverage;
    ///
    /// let curve = RiskCoverage::new(&[0.9, 0.8, 0.4], &[0.0, 0.0, 1.0])?;
    /// assert!((curve.aurc() - 1.0 / 9.0).abs() < 1e-12);
    /// assert!((curve.augrc() - 1.0 / 18.0).abs() < 1e-12);
    /// # Ok::<(), fidgp_metrics::MetricError>(())
    /// ```
    pub fn new(confidence: &[f64], loss: &[f64]) -> Result<Self> {
        check::non_empty("confidence", confidence)?;
        check::length("loss", loss, confidence.len())?;
        check::not_nan("confidence", confidence)?;
        check::finite("loss", loss)?;
        let mut order: Vec<usize> = (0..confidence.len()).collect();
        order.sort_by(|&a, &b| confidence[b].total_cmp(&confidence[a]));
        Ok(Self { cumulative: accumulate(&order, confidence, loss) })
    }

    /// The N points of the curve, by rising coverage.
    pub fn curve(&self) -> Vec<RiskPoint> {
        let n = self.cumulative.len() as f64;
        self.risks().enumerate().map(|(i, risk)| RiskPoint { coverage: (i + 1) as f64 / n, risk }).collect()
    }

    /// Area under the risk-coverage curve `(1/N) Σ_i (1/i) Σ_{j ≤ i} ℓ_j` (Geifman & El-Yaniv 2017).
    pub fn aurc(&self) -> f64 {
        self.risks().sum::<f64>() / self.cumulative.len() as f64
    }

    /// Area under the generalised risk `(1/N) Σ_{j ≤ i} ℓ_j` over coverage, by trapezes from (0, 0) (Traub et al. 2024).
    ///
    /// For 0-1 losses this is exactly `(1 − AUROC_f) · acc · (1 − acc) + (1 − acc)²/2`, where AUROC_f is the
    /// probability that a right answer is more confident than a wrong one.
    pub fn augrc(&self) -> f64 {
        let n = self.cumulative.len() as f64;
        let last = self.cumulative.last().copied().unwrap_or(0.0);
        (self.cumulative.iter().sum::<f64>() - last / 2.0) / (n * n)
    }

    /// Risk of the ⌈coverage · N⌉ most confident inputs.
    pub fn risk_at_coverage(&self, coverage: f64) -> Result<f64> {
        check::level(coverage)?;
        Ok(self.curve().iter().find(|point| point.coverage >= coverage).map_or(0.0, |point| point.risk))
    }

    /// Largest coverage whose risk is at most `risk`; 0 when no coverage is good enough.
    pub fn coverage_at_risk(&self, risk: f64) -> f64 {
        self.curve().iter().rev().find(|point| point.risk <= risk).map_or(0.0, |point| point.coverage)
    }

    fn risks(&self) -> impl Iterator<Item = f64> {
        self.cumulative.iter().enumerate().map(|(i, sum)| sum / (i + 1) as f64)
    }
}

fn accumulate(order: &[usize], confidence: &[f64], loss: &[f64]) -> Vec<f64> {
    let mut cumulative = Vec::with_capacity(order.len());
    let mut before = 0.0;
    #[expect(clippy::float_cmp, reason = "a tie is exact equality")]
    for tied in order.chunk_by(|&a, &b| confidence[a] == confidence[b]) {
        let sum: f64 = tied.iter().map(|&i| loss[i]).sum();
        cumulative.extend((1..=tied.len()).map(|i| before + sum * (i as f64 / tied.len() as f64)));
        before += sum;
    }
    cumulative
}
