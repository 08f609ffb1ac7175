use serde::{Deserialize, Serialize};

use super::Isotonic;
use crate::{check, error::Result};

/// Two probabilities of "yes", one of which is perfectly calibrated: as if the answer were no, and as if it were yes.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct VennInterval {
    /// If it were no.
    pub lo: f64,
    /// If it were yes.
    pub hi: f64,
}

impl VennInterval {
    /// The one probability that loses least whichever is right: `hi/(1 − lo + hi)`.
    pub fn merged(&self) -> f64 {
        self.hi / (1.0 - self.lo + self.hi)
    }
}

/// Inductive Venn–Abers predictors (Vovk & Petej 2014): isotonic regression of the calibration examples and the new one,
/// with either answer. For many classes: one for each, then normalised.
#[derive(Debug, Clone, PartialEq)]
pub struct VennAbers {
    scores: Vec<f64>,
    yes: Vec<f64>,
}

impl VennAbers {
    /// Keeps the calibration examples.
    ///
    /// # Shapes
    /// `scores` (high = yes), `yes [N]`
    ///
    /// ```
    /// use fidgp_metrics::recalibration::VennAbers;
    ///
    /// let fitted = VennAbers::new(&[0.2, 0.4, 0.6, 0.8], &[false, false, true, true])?;
    /// let found = fitted.at(0.7);
    /// assert!(found.lo <= found.merged() && found.merged() <= found.hi);
    /// # Ok::<(), fidgp_metrics::MetricError>(())
    /// ```
    pub fn new(scores: &[f64], yes: &[bool]) -> Result<Self> {
        let yes: Vec<f64> = yes.iter().map(|&yes| f64::from(u8::from(yes))).collect();
        check::pair(("scores", scores), ("yes", &yes))?;
        Ok(Self { scores: scores.to_vec(), yes })
    }

    /// Both probabilities for a new score.
    pub fn at(&self, score: f64) -> VennInterval {
        VennInterval { lo: self.with(score, 0.0), hi: self.with(score, 1.0) }
    }

    fn with(&self, score: f64, answer: f64) -> f64 {
        let scores = [self.scores.as_slice(), &[score]].concat();
        let yes = [self.yes.as_slice(), &[answer]].concat();
        Isotonic::fit(&scores, &yes).map_or(answer, |fitted| fitted.at(score))
    }
}
