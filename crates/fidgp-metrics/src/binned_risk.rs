use crate::{RiskPoint, check, error::Result};

/// A risk-coverage curve of more predictions than can be sorted: counts and losses in bins of confidence.
///
/// Within a bin predictions count as equally confident, so the curve is exact at the bins' edges.
#[derive(Debug, Clone, PartialEq)]
pub struct BinnedRisk {
    points: Vec<RiskPoint>,
}

impl BinnedRisk {
    /// # Shapes
    /// `counts [bins]`, `losses [bins]` (sums), bins by **falling** confidence.
    ///
    /// # Errors
    /// When the lengths differ, all bins are empty, or a number is not finite.
    ///
    /// ```
    /// use fidgp_metrics::BinnedRisk;
    ///
    /// let risk = BinnedRisk::new(&[2.0, 0.0, 2.0], &[0.0, 0.0, 1.0])?;
    /// let points: Vec<_> = risk.curve().iter().map(|point| (point.coverage, point.risk)).collect();
    /// assert_eq!(points, [(0.5, 0.0), (1.0, 0.25)]);
    /// # Ok::<(), fidgp_metrics::MetricError>(())
    /// ```
    pub fn new(counts: &[f64], losses: &[f64]) -> Result<Self> {
        check::length("losses", losses, counts.len())?;
        check::finite("counts", counts)?;
        check::finite("losses", losses)?;
        let total: f64 = counts.iter().sum();
        check::positive("total count", &[total])?;
        let (mut count, mut loss) = (0.0, 0.0);
        let filled = counts.iter().zip(losses).filter(|(count, _)| **count > 0.0);
        let points = filled.map(|(own, lost)| {
            count += own;
            loss += lost;
            RiskPoint { coverage: count / total, risk: loss / count }
        });
        Ok(Self { points: points.collect() })
    }

    /// The points at the edges of filled bins, by rising coverage.
    pub fn curve(&self) -> &[RiskPoint] {
        &self.points
    }

    /// Area under the curve: within a bin, the risk moves evenly from one edge to the next.
    pub fn aurc(&self) -> f64 {
        let mut before = RiskPoint { coverage: 0.0, risk: self.points.first().map_or(0.0, |point| point.risk) };
        self.points.iter().fold(0.0, |area, &point| {
            let part = (point.coverage - before.coverage) * f64::midpoint(point.risk, before.risk);
            before = point;
            area + part
        })
    }
}
