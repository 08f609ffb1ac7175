//! Class labels.

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
    pub class_weights: Option<Vec<f64>>,
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
        check_weights(self.class_weights.as_ref(), classes)
    }

    fn outputs(&self, classes: i64) -> i64 {
        classes
    }

    fn init(&self, path: &Path, given: &Given) -> Result<Box<dyn Likelihood>> {
        self.check(Some(given.classes as usize))?;
        let to = |weights: &Vec<f64>| Tensor::from_slice(weights).to_kind(Kind::Float).to_device(path.device());
        let weights = self.class_weights.as_ref().map(to);
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
        let logits = outputs.to_kind(Kind::Float);
        let sum = logits.cross_entropy_loss(targets, Some(weights), Reduction::Sum, -100, self.smoothing);
        let mass = weights.index_select(0, targets).sum(Kind::Float);
        let counts = mass.gt(0.0).to_kind(Kind::Float);
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

/// Mean cross-entropy of a batch with label smoothing. `[N, classes]`, `[N]` → scalar
pub fn categorical_nll(logits: &Tensor, labels: &Tensor, smoothing: f64) -> Tensor {
    logits.to_kind(Kind::Float).cross_entropy_loss(labels, None::<&Tensor>, Reduction::Mean, -100, smoothing)
}

/// Second derivatives of the cross-entropy by the logits: `diag(p) − ppᵀ`. `[N, C]`
pub fn categorical_curvature(logits: &Tensor) -> Curvature {
    let p = logits.softmax(-1, logits.kind());
    Curvature { diagonal: p.shallow_clone(), outer: Some(p) }
}

#[cfg(test)]
mod tests {
    use super::*;

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
