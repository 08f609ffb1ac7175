use serde::{Deserialize, Serialize};

use super::{VectorScaling, VennAbers, VennSteps};
use crate::{Predictions, check, error::Result, standard_error};

/// Parts that examples are divided into: each is predicted by a map that was fitted to the others.
const PARTS: usize = 5;
/// More classes than these are not mended one by one: each would rest on too few examples.
const MOST_CLASSES: usize = 10;
/// So many examples say all that steps can hold.
const MOST_EXAMPLES: usize = 4000;
/// Smaller probabilities are as good as none, here and in exported graphs.
const FLOOR: f64 = f32::MIN_POSITIVE as f64;

/// A kind of map.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum MapKind {
    /// Vector scaling.
    VectorScaling,
    /// Venn–Abers.
    VennAbers,
}

impl MapKind {
    /// All of them.
    pub const ALL: [Self; 2] = [Self::VectorScaling, Self::VennAbers];

    /// Its name in words.
    pub fn name(self) -> &'static str {
        match self {
            Self::VectorScaling => "vector scaling",
            Self::VennAbers => "Venn–Abers",
        }
    }
}

/// A map of the probabilities that a model states to better ones.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "kebab-case")]
pub enum Recalibration {
    /// `softmax(w ⊙ ln p + b)`.
    VectorScaling(VectorScaling),
    /// For each class the merged Venn–Abers probability at its own, then normalised.
    VennAbers {
        /// Of each class.
        classes: Vec<VennSteps>,
    },
}

impl Recalibration {
    /// Fits one kind of map.
    ///
    /// # Shapes
    /// `probs [N, C]` row-major, `labels [N]`
    pub fn fit(kind: MapKind, probs: &[f64], classes: usize, labels: &[usize]) -> Result<Self> {
        Predictions::new(probs, classes, labels)?;
        match kind {
            MapKind::VectorScaling => {
                let logs: Vec<f64> = probs.iter().map(|&p| log(p)).collect();
                // factors and shifts as if known to about 1 beforehand: few examples move them little
                let pull = 1.0 / labels.len() as f64;
                Ok(Self::VectorScaling(VectorScaling::fit(&logs, classes, labels, pull)?))
            }
            MapKind::VennAbers => {
                let used = labels.len().min(MOST_EXAMPLES);
                let of_class = |class: usize| {
                    let own: Vec<f64> = probs.iter().skip(class).step_by(classes).take(used).copied().collect();
                    let yes: Vec<bool> = labels[..used].iter().map(|&label| label == class).collect();
                    Ok(VennAbers::new(&own, &yes)?.steps())
                };
                Ok(Self::VennAbers { classes: (0..classes).map(of_class).collect::<Result<_>>()? })
            }
        }
    }

    /// Its kind.
    pub fn kind(&self) -> MapKind {
        match self {
            Self::VectorScaling(_) => MapKind::VectorScaling,
            Self::VennAbers { .. } => MapKind::VennAbers,
        }
    }

    /// How many classes it is for.
    pub fn classes(&self) -> usize {
        match self {
            Self::VectorScaling(scaling) => scaling.factors.len(),
            Self::VennAbers { classes } => classes.len(),
        }
    }

    /// Whether its numbers can be used; a file can hold anything.
    ///
    /// # Errors
    /// When they are not finite, no probabilities, or of different lengths.
    pub fn check(&self) -> Result<()> {
        check::at_least_one("classes of the recalibration", self.classes())?;
        match self {
            Self::VectorScaling(VectorScaling { factors, shifts }) => {
                check::length("shifts", shifts, factors.len())?;
                check::finite("factors", factors)?;
                check::finite("shifts", shifts)
            }
            Self::VennAbers { classes } => classes.iter().try_for_each(VennSteps::check),
        }
    }

    /// The better probabilities. `[C]` → `[C]`
    ///
    /// ```
    /// use fidgp_metrics::recalibration::{MapKind, Recalibration};
    ///
    /// let probs = [0.98, 0.02].repeat(200); // sure of class 0, which is right in three of four
    /// let labels: Vec<usize> = (0..200).map(|i| usize::from(i % 4 == 0)).collect();
    /// for kind in MapKind::ALL {
    ///     let map = Recalibration::fit(kind, &probs, 2, &labels)?;
    ///     assert!((map.probabilities(&[0.98, 0.02])[0] - 0.75).abs() < 0.02);
    /// }
    /// # Ok::<(), fidgp_metrics::MetricError>(())
    /// ```
    pub fn probabilities(&self, p: &[f64]) -> Vec<f64> {
        match self {
            Self::VectorScaling(scaling) => scaling.probabilities(&p.iter().map(|&p| log(p)).collect::<Vec<_>>()),
            Self::VennAbers { classes } => {
                let own: Vec<f64> = p.iter().zip(classes).map(|(&p, steps)| steps.value(p).max(FLOOR)).collect();
                let sum: f64 = own.iter().sum();
                own.iter().map(|p| p / sum).collect()
            }
        }
    }
}

fn log(p: f64) -> f64 {
    p.max(FLOOR).ln()
}

/// How a map does on examples that it was not fitted to.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Candidate {
    /// The map.
    pub kind: MapKind,
    /// Mean NLL of the examples, each by a map that was fitted without it.
    pub nll: f64,
    /// How much that is below the NLL of the probabilities as they are; negative where it is above.
    pub gain: f64,
    /// The gain's standard error.
    pub gain_error: f64,
}

/// The map that examples speak for.
#[derive(Debug, Clone, PartialEq)]
pub struct Choice {
    /// Fitted to all examples; none where none helps.
    pub map: Option<Recalibration>,
    /// NLL of the probabilities as they are.
    pub nll: f64,
    /// What was tried.
    pub tried: Vec<Candidate>,
}

/// Tries maps on examples that they were not fitted to, each fifth by a map of the other four, and takes the one with the
/// lowest NLL if it gains more than its standard error. Venn–Abers is tried for at most ten classes. The order of the examples
/// must be random.
///
/// # Shapes
/// `probs [N, C]` row-major, `labels [N]`
///
/// # Errors
/// When they are no predictions.
pub fn choose(probs: &[f64], classes: usize, labels: &[usize], kinds: &[MapKind]) -> Result<Choice> {
    let before = Predictions::new(probs, classes, labels)?;
    let plain: Vec<f64> = before.rows().map(|(p, label)| -log(p[label])).collect();
    let nll = mean(&plain);
    let mut tried = Vec::new();
    let possible = |kind: &&MapKind| **kind != MapKind::VennAbers || classes <= MOST_CLASSES;
    for &kind in kinds.iter().filter(possible).filter(|_| labels.len() >= 2 * PARTS) {
        let mapped = nll_of_each(kind, &before, classes)?;
        let gains: Vec<f64> = plain.iter().zip(&mapped).map(|(plain, mapped)| plain - mapped).collect();
        let gain_error = standard_error(&gains)?;
        tried.push(Candidate { kind, nll: mean(&mapped), gain: mean(&gains), gain_error });
    }
    let best = tried.iter().filter(|one| one.gain > one.gain_error).min_by(|a, b| a.nll.total_cmp(&b.nll));
    let map = best.map(|best| Recalibration::fit(best.kind, probs, classes, labels)).transpose()?;
    Ok(Choice { map, nll, tried })
}

/// The NLL of each example, by a map that was fitted without it.
fn nll_of_each(kind: MapKind, all: &Predictions, classes: usize) -> Result<Vec<f64>> {
    let mut found = vec![0.0; all.len()];
    for part in 0..PARTS {
        let (mut probs, mut labels) = (Vec::new(), Vec::new());
        for (_, (p, label)) in all.rows().enumerate().filter(|(row, _)| row % PARTS != part) {
            probs.extend_from_slice(p);
            labels.push(label);
        }
        let map = Recalibration::fit(kind, &probs, classes, &labels)?;
        for (row, (p, label)) in all.rows().enumerate().filter(|(row, _)| row % PARTS == part) {
            found[row] = -log(map.probabilities(p)[label]);
        }
    }
    Ok(found)
}

fn mean(values: &[f64]) -> f64 {
    values.iter().sum::<f64>() / values.len() as f64
}
