use serde::{Deserialize, Serialize};

use crate::{check, error::Result, ranking::OodScores};

/// One point of the ROC curve: inputs with `score ≥ threshold` are called OoD.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct RocPoint {
    /// The threshold; `None` at the first point, where nothing is called OoD.
    pub threshold: Option<f64>,
    /// Fraction of the ID inputs flagged by mistake.
    pub id_flagged: f64,
    /// Fraction of the OoD inputs caught.
    pub ood_caught: f64,
}

impl OodScores {
    /// The ROC curve from (0, 0) to (1, 1), one point per distinct score.
    ///
    /// ```
    /// use fidgp_metrics::OodScores;
    ///
    /// let roc = OodScores::new(&[0.0, 1.0], &[1.0, 2.0])?.roc_curve();
    /// let points: Vec<_> = roc.iter().map(|p| (p.id_flagged, p.ood_caught)).collect();
    /// assert_eq!(points, [(0.0, 0.0), (0.0, 0.5), (0.5, 1.0), (1.0, 1.0)]);
    /// # Ok::<(), fidgp_metrics::MetricError>(())
    /// ```
    pub fn roc_curve(&self) -> Vec<RocPoint> {
        let start = RocPoint { threshold: None, id_flagged: 0.0, ood_caught: 0.0 };
        std::iter::once(start).chain(self.operating_points()).collect()
    }

    /// FPR at 95 % of the **ID** inputs kept (most papers): the fraction of OoD inputs that pass as ID.
    pub fn fpr95_id_kept(&self) -> f64 {
        self.missed_at(0.95)
    }

    /// FPR at 95 % of the **OoD** inputs caught (OpenOOD, torch-uncertainty): the fraction of ID inputs flagged.
    pub fn fpr95_ood_caught(&self) -> f64 {
        self.flagged_at(0.95)
    }

    /// As [`fpr95_id_kept`](Self::fpr95_id_kept), at any fraction kept.
    pub fn fpr_at_id_kept(&self, kept: f64) -> Result<f64> {
        check::level(kept)?;
        Ok(self.missed_at(kept))
    }

    /// As [`fpr95_ood_caught`](Self::fpr95_ood_caught), at any fraction caught.
    pub fn fpr_at_ood_caught(&self, caught: f64) -> Result<f64> {
        check::level(caught)?;
        Ok(self.flagged_at(caught))
    }

    /// Highest threshold that catches enough; no interpolation between thresholds.
    fn flagged_at(&self, caught: f64) -> f64 {
        self.operating_points().find(|p| p.ood_caught >= caught).map_or(1.0, |p| p.id_flagged)
    }

    /// Lowest threshold that keeps enough, from the ID end: an input is kept when `score ≤ threshold`.
    fn missed_at(&self, enough: f64) -> f64 {
        let (mut kept, mut missed) = (0, 0);
        for tie in self.ties.iter().rev() {
            kept += tie.id;
            missed += tie.ood;
            if kept as f64 / self.id_count() as f64 >= enough {
                break;
            }
        }
        missed as f64 / self.ood_count() as f64
    }

    fn operating_points(&self) -> impl Iterator<Item = RocPoint> {
        let (n, m) = (self.id_count() as f64, self.ood_count() as f64);
        self.thresholds.iter().zip(&self.ties).scan((0, 0), move |(id, ood), (&threshold, tie)| {
            *id += tie.id;
            *ood += tie.ood;
            Some(RocPoint { threshold: Some(threshold), id_flagged: *id as f64 / n, ood_caught: *ood as f64 / m })
        })
    }
}
