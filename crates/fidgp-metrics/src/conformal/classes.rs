use serde::{Deserialize, Serialize};

use super::threshold;
use crate::{check, classification::Predictions, error::Result};

/// Scores that differ by no more count as equal, and the doubtful class is kept: rounding must not break the promise.
/// (MAPIE's value.)
pub const TIE: f64 = 1e-8;

/// How strange a class is for an input.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase", tag = "kind")]
pub enum SetScore {
    /// `1 − p_y`: the smallest sets on average (Sadinle, Lei & Wasserman 2019).
    Lac,
    /// Probability of the classes up to y, of y only a random part: sets that grow with the difficulty (Romano, Sesia &
    /// Candès 2020).
    Aps,
    /// APS plus `penalty · max(0, rank_y − free)`: without the long tail of unlikely classes (Angelopoulos et al. 2021).
    Raps {
        /// λ.
        penalty: f64,
        /// Classes that cost nothing.
        free: usize,
    },
}

/// What happens to the class at which an APS or RAPS set crosses the threshold. (LAC has no such class.)
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum LastLabel {
    /// Kept: the same set every time, never empty, covers a little more than the level.
    Keep,
    /// Kept with the probability that makes the coverage exact; a set can be empty.
    Random,
}

/// A class on the way from the most likely to the least.
struct Step {
    class: usize,
    p: f64,
    up_to: f64, // score with the whole of this class
}

impl SetScore {
    fn penalty(self, rank: usize) -> f64 {
        match self {
            Self::Raps { penalty, free } => penalty * rank.saturating_sub(free) as f64,
            Self::Lac | Self::Aps => 0.0,
        }
    }

    fn check(self) -> Result<()> {
        match self {
            Self::Raps { penalty, .. } => check::finite("penalty", &[penalty.abs()]),
            Self::Lac | Self::Aps => Ok(()),
        }
    }

    /// Classes by falling probability; equal ones by their index.
    fn walk(self, probs: &[f64]) -> impl Iterator<Item = Step> + '_ {
        let mut order: Vec<usize> = (0..probs.len()).collect();
        order.sort_by(|&a, &b| probs[b].total_cmp(&probs[a]));
        let mut sum = 0.0;
        order.into_iter().enumerate().map(move |(i, class)| {
            sum += probs[class];
            Step { class, p: probs[class], up_to: sum + self.penalty(i + 1) }
        })
    }

    /// The score of one class; `u` in [0, 1) is the part of the class that does not count (LAC does not use it).
    pub fn of(self, probs: &[f64], class: usize, u: f64) -> f64 {
        if self == Self::Lac {
            return 1.0 - probs[class];
        }
        self.walk(probs).find(|step| step.class == class).map_or(f64::INFINITY, |step| step.up_to - u * step.p)
    }
}

/// Prediction sets at one level.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct ClassSets {
    /// The score.
    pub score: SetScore,
    /// What happens to the last class.
    pub last: LastLabel,
    /// The level that was asked for.
    pub level: f64,
    /// Classes whose score is at most this are in the set; `None`: too few examples for the level, every class is.
    pub threshold: Option<f64>,
    /// Examples it was calibrated on.
    pub examples: usize,
}

impl ClassSets {
    /// Finds the threshold on labelled examples that were not trained on.
    ///
    /// # Shapes
    /// `u [rows]`, uniform on [0, 1) and independent of everything else; LAC does not look at it.
    ///
    /// ```
    /// use fidgp_metrics::{Predictions, conformal::{ClassSets, LastLabel, SetScore}};
    ///
    /// let probs: Vec<f64> = (1..=9).flat_map(|i| [f64::from(i) / 10.0, 1.0 - f64::from(i) / 10.0]).collect();
    /// let examples = Predictions::new(&probs, 2, &[0; 9])?; // the true class has .1, .2, … .9
    /// let sets = ClassSets::calibrate(SetScore::Lac, LastLabel::Keep, &examples, &[0.5; 9], 0.8)?;
    /// assert_eq!(sets.set(&[0.85, 0.15], 0.5), [0]);
    /// assert_eq!(sets.set(&[0.6, 0.4], 0.5), [0, 1]);
    /// # Ok::<(), fidgp_metrics::MetricError>(())
    /// ```
    pub fn calibrate(score: SetScore, last: LastLabel, examples: &Predictions, u: &[f64], level: f64) -> Result<Self> {
        let scores = true_scores(score, examples, u)?;
        let threshold = Some(threshold(&scores, level)?).filter(|threshold| threshold.is_finite());
        Ok(Self { score, last, level, threshold, examples: scores.len() })
    }

    /// The classes that cannot be ruled out, the most likely first.
    pub fn set(&self, probs: &[f64], u: f64) -> Vec<usize> {
        let limit = self.threshold.unwrap_or(f64::INFINITY);
        match (self.score, self.last) {
            (SetScore::Lac, _) => {
                let walk = self.score.walk(probs).take_while(|step| (1.0 - step.p) - limit <= TIE);
                walk.map(|step| step.class).collect()
            }
            (_, LastLabel::Random) => {
                let walk = self.score.walk(probs).take_while(|step| step.up_to - u * step.p - limit <= TIE);
                walk.map(|step| step.class).collect()
            }
            (_, LastLabel::Keep) => {
                let mut crossed = false;
                let walk = self.score.walk(probs).take_while(|step| {
                    let keep = !crossed;
                    crossed = step.up_to - limit >= -TIE;
                    keep
                });
                walk.map(|step| step.class).collect()
            }
        }
    }
}

/// Scores of the true classes. `[rows]`
pub(super) fn true_scores(score: SetScore, examples: &Predictions, u: &[f64]) -> Result<Vec<f64>> {
    score.check()?;
    check::length("u", u, examples.len())?;
    check::shares("u", u)?;
    Ok(examples.rows().zip(u).map(|((probs, label), &u)| score.of(probs, label, u)).collect())
}
