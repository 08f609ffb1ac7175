//! The loss: NLL and KL, and how much the KL counts over a training.

use serde::{Deserialize, Serialize};
use tch::Tensor;

use crate::weight::Kl;
use crate::{Error, Result};

/// β, the weight of the KL, over a training: 0 for `ml_epochs`, then linear to `weight` over `annealing_epochs`.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct KlSchedule {
    /// Epochs of maximum likelihood at the start.
    pub ml_epochs: f64,
    /// Epochs over which β rises.
    pub annealing_epochs: f64,
    /// Where β ends: 1 is the ELBO; anything else is a tempered posterior and is named so in reports.
    pub weight: f64,
}

impl Default for KlSchedule {
    fn default() -> Self {
        Self { ml_epochs: 0.0, annealing_epochs: 0.0, weight: 1.0 }
    }
}

impl KlSchedule {
    /// β at a moment of the training, in epochs (fractions allowed).
    pub fn beta(&self, epoch: f64) -> f64 {
        let risen = epoch - self.ml_epochs;
        let fraction = match self.annealing_epochs {
            _ if risen < 0.0 => 0.0,
            length if length > 0.0 => (risen / length).min(1.0),
            _ => 1.0,
        };
        self.weight * fraction
    }

    /// Checks that β reaches its final weight within a training.
    ///
    /// # Errors
    /// When the schedule is longer than the training, or a number is negative.
    pub fn check(&self, epochs: f64) -> Result<()> {
        for (name, number) in
            [("ml_epochs", self.ml_epochs), ("annealing_epochs", self.annealing_epochs), ("weight", self.weight)]
        {
            if number < 0.0 || !number.is_finite() {
                return Err(Error::setting(format!("train.kl.{name}"), number, "must be 0 or greater"));
            }
        }
        let needed = self.ml_epochs + self.annealing_epochs;
        if needed > epochs {
            let advice =
                format!("the KL would not reach its weight within {epochs} epochs; shorten it or train longer");
            return Err(Error::setting("train.kl.ml_epochs + train.kl.annealing_epochs", needed, advice));
        }
        Ok(())
    }
}

/// Both KL parts summed over layers.
#[derive(Debug)]
pub struct KlSum {
    /// Σ KL(q(U) ‖ p(U)). Scalar.
    pub inducing: Tensor,
    /// Σ KL(q(W|U) ‖ p(W|U)). Scalar.
    pub conditional: Tensor,
}

/// Sums a pass's ledger; `None` for a network without Bayesian weights.
pub fn sum_kl(ledger: &[(String, Kl)]) -> Option<KlSum> {
    let sum = |part: fn(&Kl) -> &Tensor| {
        let parts: Vec<_> = ledger.iter().map(|(_, kl)| part(kl)).collect();
        Tensor::stack(&parts, 0).sum(parts[0].kind())
    };
    (!ledger.is_empty()).then(|| KlSum { inducing: sum(|kl| &kl.inducing), conditional: sum(|kl| &kl.conditional) })
}

/// The number of training examples. It is asked for by name because dividing the KL by the batch size instead is the
/// commonest way to ruin a posterior.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DatasetSize(u64);

impl DatasetSize {
    /// # Errors
    /// When there are no examples.
    pub fn new(examples: usize) -> Result<Self> {
        if examples == 0 {
            return Err(Error::setting(
                "training examples",
                0,
                "the KL is divided by the data-set size: it cannot be empty",
            ));
        }
        Ok(Self(examples as u64))
    }

    /// The number.
    pub fn get(self) -> u64 {
        self.0
    }
}

/// `loss = mean NLL + β · KL / N_train`: the negative ELBO per example at β = 1. β is a tensor of the loss's kind, so
/// that a captured step can be replayed with another one.
///
/// # Shapes
/// all scalars
pub fn negative_elbo(nll: &Tensor, kl: Option<&KlSum>, beta: &Tensor, size: DatasetSize) -> Tensor {
    match kl {
        Some(kl) => nll + (&kl.inducing + &kl.conditional) * (beta / size.0 as f64),
        None => nll.shallow_clone(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn beta_rises_linearly_and_reaches_one() {
        let schedule = KlSchedule { ml_epochs: 100.0, annealing_epochs: 50.0, weight: 1.0 };
        let betas: Vec<_> = [0.0, 99.9, 100.0, 125.0, 150.0, 199.0].iter().map(|&e| schedule.beta(e)).collect();
        assert_eq!(betas, [0.0, 0.0, 0.0, 0.5, 1.0, 1.0]);
        assert!((KlSchedule::default().beta(0.0) - 1.0).abs() < f64::EPSILON);
        assert!(schedule.check(200.0).is_ok());
        assert!(schedule.check(149.0).unwrap_err().to_string().contains("149"));
    }

    #[test]
    fn the_kl_is_divided_by_the_data_set() {
        let scalar = |x: f64| Tensor::from(x);
        let kl = KlSum { inducing: scalar(30.0), conditional: scalar(20.0) };
        let loss = negative_elbo(&scalar(1.0), Some(&kl), &scalar(0.5), DatasetSize::new(100).unwrap());
        assert!((loss.double_value(&[]) - 1.25).abs() < 1e-12);
        assert!(DatasetSize::new(0).is_err());
    }
}
