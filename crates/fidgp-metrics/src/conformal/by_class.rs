use serde::{Deserialize, Serialize};

use super::{LastLabel, SetScore, TIE, classes::true_scores, smallest_count, threshold};
use crate::{
    classification::Predictions,
    error::{MetricError, Result},
};

/// Prediction sets that cover every class at the level, not only all of them together: one threshold per true class
/// (Mondrian; Vovk, Gammerman & Shafer 2005).
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct SetsByClass {
    /// The score.
    pub score: SetScore,
    /// What happens to the last class: [`LastLabel::Keep`] counts nothing of a class itself.
    pub last: LastLabel,
    /// The level that was asked for.
    pub level: f64,
    /// One for each class.
    pub thresholds: Vec<f64>,
    /// Examples of each class.
    pub examples: Vec<usize>,
}

impl SetsByClass {
    /// Finds a threshold for each class.
    ///
    /// # Errors
    /// When a class has too few examples for the level; the smallest one is named.
    pub fn calibrate(score: SetScore, last: LastLabel, examples: &Predictions, u: &[f64], level: f64) -> Result<Self> {
        let mut of_class = vec![Vec::new(); examples.rows().next().map_or(0, |(probs, _)| probs.len())];
        for ((_, label), score) in examples.rows().zip(true_scores(score, examples, u)?) {
            of_class[label].push(score);
        }
        let counts: Vec<usize> = of_class.iter().map(Vec::len).collect();
        let need = smallest_count(level)?;
        match counts.iter().enumerate().min_by_key(|(_, count)| **count) {
            Some((class, &got)) if got < need => return Err(MetricError::SmallClass { class, got, need, level }),
            _ => {}
        }
        let thresholds = of_class.iter().map(|scores| threshold(scores, level)).collect::<Result<_>>()?;
        Ok(Self { score, last, level, thresholds, examples: counts })
    }

    /// The classes that cannot be ruled out, the most likely first.
    pub fn set(&self, probs: &[f64], u: f64) -> Vec<usize> {
        let part = if self.last == LastLabel::Keep { 1.0 } else { u };
        let mut order: Vec<usize> = (0..probs.len()).collect();
        order.sort_by(|&a, &b| probs[b].total_cmp(&probs[a]));
        let kept = |&class: &usize| self.score.of(probs, class, part) - self.thresholds[class] <= TIE;
        order.into_iter().filter(kept).collect()
    }
}
