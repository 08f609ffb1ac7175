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
        let mut order: Vec<usize> = (0..scores.len()).collect();
        order.sort_by(|&a, &b| scores[a].total_cmp(&scores[b]));
        let sorted = |values: &[f64]| order.iter().map(|&i| values[i]).collect();
        Ok(Self { scores: sorted(scores), yes: sorted(&yes) })
    }

    /// All that [`merged`](VennInterval::merged) can be, so that the examples are no longer needed.
    pub fn steps(&self) -> VennSteps {
        let mut scores = self.scores.clone();
        scores.dedup();
        let merged = |score: f64| self.at(score).merged();
        let mut found = VennSteps { below: merged(scores[0] - 1.0), scores: vec![], at: vec![], above: vec![] };
        for (i, &score) in scores.iter().enumerate() {
            let next = scores.get(i + 1).copied();
            let between = next.map_or(score + 1.0, |next| score.midpoint(next));
            let at = merged(score);
            // neighbours may have no number between them
            let above = if next.is_some_and(|next| between >= next) || between <= score { at } else { merged(between) };
            let before = found.above.last().copied().unwrap_or(found.below);
            if [at, above].iter().any(|value| value.to_bits() != before.to_bits()) {
                found.scores.push(score);
                found.at.push(at);
                found.above.push(above);
            }
        }
        found
    }

    /// Both probabilities for a new score.
    pub fn at(&self, score: f64) -> VennInterval {
        VennInterval { lo: self.with(score, 0.0), hi: self.with(score, 1.0) }
    }

    fn with(&self, score: f64, answer: f64) -> f64 {
        let place = self.scores.partition_point(|own| *own < score); // sorted, so that nothing needs to be moved
        let scores = [&self.scores[..place], &[score], &self.scores[place..]].concat();
        let yes = [&self.yes[..place], &[answer], &self.yes[place..]].concat();
        Isotonic::fit(&scores, &yes).map_or(answer, |fitted| fitted.at(score))
    }
}

/// The one probability for every score: a value at each of some scores, and one between them.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct VennSteps {
    /// Below all of them.
    pub below: f64,
    /// Rising.
    pub scores: Vec<f64>,
    /// At each of them.
    pub at: Vec<f64>,
    /// Above each of them, up to the next.
    pub above: Vec<f64>,
}

impl VennSteps {
    /// The probability of "yes" at a score.
    #[expect(clippy::float_cmp, reason = "a step stands at the very score")]
    pub fn value(&self, score: f64) -> f64 {
        let reached = self.scores.partition_point(|own| *own <= score);
        match reached.checked_sub(1) {
            None => self.below,
            Some(last) if self.scores[last] == score => self.at[last],
            Some(last) => self.above[last],
        }
    }

    /// # Errors
    /// When the numbers are no steps of probabilities; a file can hold anything.
    pub(super) fn check(&self) -> Result<()> {
        check::length("steps", &self.at, self.scores.len())?;
        check::length("steps", &self.above, self.scores.len())?;
        check::finite("scores of steps", &self.scores)?;
        check::shares("steps", &self.at)?;
        check::shares("steps", &self.above)?;
        check::shares("steps", &[self.below])
    }
}
