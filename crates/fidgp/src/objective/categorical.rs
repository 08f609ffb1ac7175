//! Class labels.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use tch::nn::Path;
use tch::{Kind, Reduction, Tensor};

use super::likelihood::{Given, Likelihood, LikelihoodSettings, Reading, Targets};
use crate::layer::Curvature;
use crate::{Error, Result};

/// Class probabilities.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CategoricalSettings {
    /// Label smoothing in training.
    #[serde(default)]
    pub smoothing: f64,
    /// How much an example of each class counts in training.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub class_weights: Option<ClassWeights>,
}

/// How much an example of each class counts.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(untagged, expecting = "class weights are a list of numbers, a table such as { rare = 5.0 }, or \"balanced\"")]
pub enum ClassWeights {
    /// A number for each class, in their order.
    Each(Vec<f64>),
    /// Numbers for some classes by their names; 1 for the others.
    Named(BTreeMap<String, f64>),
    /// By a rule that needs the training examples.
    Rule(WeightRule),
}

/// A rule for the weights of classes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum WeightRule {
    /// All classes count as much together: n examples of C classes, `n/(C·n_c)` for each of class c.
    Balanced,
}

impl ClassWeights {
    /// A number for each class, of which there are so many training examples.
    ///
    /// ```
    /// use fidgp::objective::{ClassWeights, WeightRule};
    ///
    /// let names = ["common".to_owned(), "rare".to_owned()];
    /// let balanced = ClassWeights::Rule(WeightRule::Balanced).of_classes(&names, &[90, 10])?;
    /// assert_eq!(balanced, [100.0 / 180.0, 5.0]);
    /// # Ok::<(), fidgp::Error>(())
    /// ```
    ///
    /// # Errors
    /// When a name is none of the classes, or the numbers cannot be weights.
    pub fn of_classes(&self, classes: &[String], counts: &[usize]) -> Result<Vec<f64>> {
        let weights = match self {
            Self::Each(weights) => weights.clone(),
            Self::Named(named) => {
                if let Some(other) = named.keys().find(|name| !classes.contains(name)) {
                    let why = format!("`{other}` is no class; there are {}", classes.join(", "));
                    return Err(Error::setting("likelihood.class_weights", other, why));
                }
                classes.iter().map(|name| named.get(name).copied().unwrap_or(1.0)).collect()
            }
            Self::Rule(WeightRule::Balanced) => {
                let present = counts.iter().filter(|count| **count > 0).count();
                let all = counts.iter().sum::<usize>() as f64 / present.max(1) as f64;
                counts.iter().map(|&count| if count > 0 { all / count as f64 } else { 1.0 }).collect()
            }
        };
        check_weights(Some(&weights), Some(classes.len()))?;
        Ok(weights)
    }

    fn check(&self, classes: Option<usize>) -> Result<()> {
        match self {
            Self::Each(weights) => check_weights(Some(weights), classes),
            Self::Named(named) => check_weights(Some(&named.values().copied().chain([1.0]).collect()), None),
            Self::Rule(_) => Ok(()),
        }
    }
}

/// Weights of classes: one for each, as far as their number is known.
pub(super) fn check_weights(weights: Option<&Vec<f64>>, classes: Option<usize>) -> Result<()> {
    let Some(weights) = weights else { return Ok(()) };
    let fits = classes.is_none_or(|classes| weights.len() == classes);
    let sound = weights.iter().all(|w| *w >= 0.0 && w.is_finite()) && weights.iter().any(|w| *w > 0.0);
    if fits && sound {
        return Ok(());
    }
    let needed = classes.map_or_else(|| "numbers of 0 or more".to_owned(), |classes| format!("{classes} numbers"));
    let why = format!("must be {needed}, one for each class, none negative, not all 0");
    Err(Error::setting("likelihood.class_weights", format!("{weights:?}"), why))
}

impl LikelihoodSettings for CategoricalSettings {
    fn targets(&self) -> Targets {
        Targets::Classes
    }

    /// Label smoothing that leaves something of the label.
    fn check(&self, classes: Option<usize>) -> Result<()> {
        if !(0.0..1.0).contains(&self.smoothing) {
            let why = "must lie in [0, 1); 0.1 is usual, 0 is none";
            return Err(Error::setting("likelihood.smoothing", self.smoothing, why));
        }
        self.class_weights.as_ref().map_or(Ok(()), |weights| weights.check(classes))
    }

    fn outputs(&self, classes: i64) -> i64 {
        classes
    }

    fn init(&self, path: &Path, given: &Given) -> Result<Box<dyn Likelihood>> {
        self.check(Some(given.classes as usize))?;
        let weights = match &self.class_weights {
            None => None,
            Some(ClassWeights::Each(weights)) => {
                Some(Tensor::from_slice(weights).to_kind(Kind::Float).to_device(path.device()))
            }
            Some(_) => {
                let why = "are filled in from training examples that are labelled by classes, and there are none here";
                return Err(Error::setting("likelihood.class_weights", "the class weights", why));
            }
        };
        Ok(Box::new(Categorical { smoothing: self.smoothing, weights }))
    }
}

/// Logits of classes.
#[derive(Debug)]
struct Categorical {
    smoothing: f64,
    /// `[classes]`
    weights: Option<Tensor>,
}

impl Likelihood for Categorical {
    /// 0 for a batch whose classes all have the weight 0.
    fn nll(&self, outputs: &Tensor, targets: &Tensor) -> Tensor {
        let Some(weights) = &self.weights else { return categorical_nll(outputs, targets, self.smoothing) };
        let logits = in_full(outputs);
        let weights = weights.to_kind(logits.kind());
        let sum = logits.cross_entropy_loss(targets, Some(&weights), Reduction::Sum, -100, self.smoothing);
        let mass = weights.index_select(0, targets).sum(logits.kind());
        let counts = mass.gt(0.0).to_kind(logits.kind());
        sum * &counts / (mass + (1.0 - counts))
    }

    /// Examples, by the weight of their class.
    fn mass(&self, targets: &Tensor) -> f64 {
        match &self.weights {
            Some(weights) => weights.index_select(0, targets).sum(Kind::Double).double_value(&[]),
            None => targets.size().first().copied().unwrap_or(0) as f64,
        }
    }

    fn curvature(&self, outputs: &Tensor) -> Curvature {
        categorical_curvature(outputs)
    }

    fn reading(&self) -> Reading<'_> {
        Reading::Classes
    }
}

/// Logits in f32 at least: half precision is too coarse for a loss.
pub(super) fn in_full(logits: &Tensor) -> Tensor {
    if logits.kind() == Kind::Double { logits.shallow_clone() } else { logits.to_kind(Kind::Float) }
}

/// Mean cross-entropy of a batch with label smoothing. `[N, classes]`, `[N]` → scalar
pub fn categorical_nll(logits: &Tensor, labels: &Tensor, smoothing: f64) -> Tensor {
    in_full(logits).cross_entropy_loss(labels, None::<&Tensor>, Reduction::Mean, -100, smoothing)
}

/// Second derivatives of the cross-entropy by the logits: `diag(p) − ppᵀ`. `[N, C]`
pub fn categorical_curvature(logits: &Tensor) -> Curvature {
    let p = logits.softmax(-1, logits.kind());
    Curvature { diagonal: p.shallow_clone(), outer: Some(p) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn weighted(weights: &[f32], targets: &[i64]) -> f64 {
        let likelihood = Categorical { smoothing: 0.0, weights: Some(Tensor::from_slice(weights)) };
        let logits = Tensor::from_slice(&[2.0_f32, 0.0, 0.0, 1.0, 0.5, -0.5]).view([3, 2]);
        likelihood.nll(&logits, &Tensor::from_slice(targets)).double_value(&[])
    }

    /// A batch may hold examples of classes alone that do not count.
    #[test]
    fn a_batch_without_weight_costs_nothing() {
        assert!(weighted(&[0.0, 1.0], &[0, 0, 0]).abs() < 1e-30);
        let own = |logits: [f64; 2], class: usize| (logits[0].exp() + logits[1].exp()).ln() - logits[class];
        let mean = (3.0 * own([2.0, 0.0], 0) + own([0.0, 1.0], 1) + 3.0 * own([0.5, -0.5], 0)) / 7.0;
        assert!((weighted(&[3.0, 1.0], &[0, 1, 0]) - mean).abs() < 1e-6);
    }

    #[test]
    fn weights_are_lists_names_or_balanced() {
        let read = |text: &str| serde_json::from_str::<ClassWeights>(text);
        let classes = ["a", "b", "c"].map(str::to_owned);
        let of = |text: &str| read(text).expect(text).of_classes(&classes, &[10, 30, 0]);
        assert_eq!(of("\"balanced\"").unwrap(), [2.0, 20.0 / 30.0, 1.0]);
        assert_eq!(of("{\"b\": 5}").unwrap(), [1.0, 5.0, 1.0]);
        assert_eq!(of("[1, 2, 0]").unwrap(), [1.0, 2.0, 0.0]);
        assert!(of("{\"d\": 5}").unwrap_err().to_string().contains("`d` is no class; there are a, b, c"));
        assert!(of("[1, 2]").is_err() && of("{\"a\": -1}").is_err());
        assert!(read("\"even\"").unwrap_err().to_string().contains("\"balanced\""));
    }

    #[test]
    fn classes_without_weight_do_not_count() {
        let own = Categorical { smoothing: 0.1, weights: Some(Tensor::from_slice(&[0f32, 2.0, 1.0])) };
        let logits = Tensor::from_slice(&[1f32, 2.0, -1.0, 0.5, 0.0, 3.0]).view([2, 3]);
        let nll = |targets: &[i64]| own.nll(&logits, &Tensor::from_slice(targets));
        let mean = logits.cross_entropy_loss(
            &Tensor::from_slice(&[1_i64, 2]),
            own.weights.as_ref(),
            Reduction::Mean,
            -100,
            0.1,
        );
        assert!((nll(&[1, 2]) - mean).abs().double_value(&[]) < 1e-6);
        assert_eq!(nll(&[0, 0]).double_value(&[]).to_bits(), 0f64.to_bits(), "libtorch's mean is 0 / 0");
    }
}
