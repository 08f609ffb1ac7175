//! Predictions of a linearised posterior.

use tch::{Kind, Tensor};

use super::{Directions, LinearisedPosterior, Tangent};
use crate::objective::NumberLikelihood;
use crate::predict::{ClassDraws, Classified, Gather};
use crate::{Error, Key, Result};

/// A Gaussian for each input, its variance in two parts.
#[derive(Debug)]
pub struct NormalForecast {
    /// `f_m(x)`. `[N]`
    pub mean: Tensor,
    /// `J Σ Jᵀ`, and what the conditional adds. `[N]`
    pub epistemic: Tensor,
    /// Variance of the noise. `[N]`
    pub noise: Tensor,
}

/// How logits with a Gaussian law become probabilities.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum LogitRule {
    /// The mean over draws of the logits, with the same normals for all inputs: no input depends on its batch.
    Draws {
        /// How many.
        count: i64,
        /// Where they come from.
        key: Key,
    },
    /// `softmax(f_k/√(1 + π/8·v_k))`, v the logits' variances; the mutual information to second order, `½ tr(ΛC)`.
    Probit,
}

impl LinearisedPosterior {
    /// Predicts a Gaussian for each input, in closed form.
    ///
    /// # Shapes
    /// batches of `[n_i, ..]` → fields of N rows
    ///
    /// # Errors
    /// When a batch does not fit the network, or the network is not the one of the fit.
    pub fn regress(
        &self,
        tangent: &Tangent,
        likelihood: &dyn NumberLikelihood,
        batches: &[Tensor],
    ) -> Result<NormalForecast> {
        let (mut means, mut epistemic, mut noise) = (Vec::new(), Vec::new(), Vec::new());
        self.laws(tangent, batches, |outputs, covariance| {
            let output = tch::no_grad(|| likelihood.output(outputs));
            means.push(output.mean.detach());
            noise.push(output.variance.detach().to_kind(Kind::Double) / self.precision.curvature);
            epistemic.push(covariance.select(1, 0).select(1, 0));
            Ok(())
        })?;
        let join = |parts: Vec<Tensor>| Tensor::f_cat(&parts, 0);
        Ok(NormalForecast { mean: join(means)?, epistemic: join(epistemic)?.clamp_min(0.0), noise: join(noise)? })
    }

    /// Classifies, without another pass through the network.
    ///
    /// # Shapes
    /// batches of `[n_i, ..]` → fields of N rows
    ///
    /// # Errors
    /// As [`Self::regress`], or when a covariance has no eigenvalues (NaN).
    pub fn classify(&self, tangent: &Tangent, batches: &[Tensor], rule: LogitRule) -> Result<Classified> {
        Ok(self.classify_with_error(tangent, batches, rule)?.0)
    }

    /// The same, and the largest Monte-Carlo error of a probability.
    ///
    /// # Errors
    /// As [`Self::classify`].
    pub fn classify_with_error(
        &self,
        tangent: &Tangent,
        batches: &[Tensor],
        rule: LogitRule,
    ) -> Result<(Classified, f64)> {
        let (mut parts, mut error) = (Vec::new(), 0.0_f64);
        self.laws(tangent, batches, |outputs, covariance| {
            parts.push(match rule {
                LogitRule::Draws { count, key } => {
                    let drawn = drawn(outputs, covariance, count, key)?;
                    error = error.max(drawn.error());
                    drawn.done()?
                }
                LogitRule::Probit => probit(outputs, &each_alike(covariance, outputs)),
            });
            Ok(())
        })?;
        Ok((Classified::joined(&parts)?, error))
    }

    /// Draws of the logits, without another pass through the network; the same normals for every input.
    ///
    /// # Shapes
    /// batches of `[n_i, ..]` → `[count, N, K]`, in f64
    ///
    /// # Errors
    /// As [`Self::classify`].
    pub fn logits(&self, tangent: &Tangent, batches: &[Tensor], count: i64, key: Key) -> Result<Tensor> {
        let mut parts = Vec::new();
        self.laws(tangent, batches, |outputs, covariance| {
            let mut own = Vec::new();
            each_drawn(outputs, covariance, (count, key), |logits| {
                own.push(logits);
                Ok(())
            })?;
            parts.push(Tensor::f_stack(&own, 0)?);
            Ok(())
        })?;
        Ok(Tensor::f_cat(&parts, 1)?)
    }

    /// How far the logits may move, in the geometry of the softmax, `tr(ΛC)`; of features the variance that they all have. One
    /// forward pass, and for gradients as many backward passes as there are classes. `[N]`
    ///
    /// # Errors
    /// As [`Self::classify`].
    pub fn variance(&self, tangent: &Tangent, batches: &[Tensor]) -> Result<Tensor> {
        let mut parts = Vec::new();
        self.laws(tangent, batches, |outputs, covariance| {
            let shared = covariance.size()[1] != outputs.size()[1];
            let own = if shared { covariance.flatten(0, -1) } else { felt(outputs, covariance) };
            parts.push(own);
            Ok(())
        })?;
        Ok(Tensor::f_cat(&parts, 0)?)
    }

    /// The Gaussian law of the outputs, in f64: means `[n, K]`, covariances `[n, K, K]`; of features `[n, 1, 1]`, the variance
    /// that all outputs have, independently of each other.
    ///
    /// # Errors
    /// When a batch does not fit the network, or the network is not the one of the fit.
    pub fn laws(
        &self,
        tangent: &Tangent,
        batches: &[Tensor],
        mut each: impl FnMut(&Tensor, &Tensor) -> Result<()>,
    ) -> Result<()> {
        if batches.is_empty() {
            return Err(Error::setting("batches", 0, "prediction needs at least one batch of inputs"));
        }
        for batch in batches {
            tangent.each(batch, |_, linearised| {
                let covariance = self.structure.covariance(&linearised.jacobian)?;
                let covariance = match self.directions {
                    Directions::Gradients => covariance,
                    Directions::Features => covariance / (tangent.temperature * tangent.temperature),
                };
                let covariance =
                    linearised.conditional.map_or_else(|| covariance.shallow_clone(), |own| &covariance + own);
                each(&linearised.outputs.to_kind(Kind::Double), &covariance)
            })?;
        }
        Ok(())
    }
}

/// The covariance of all outputs where one number is that of each of them. `[n, 1, 1]` → `[n, K, K]`
fn each_alike(covariance: &Tensor, outputs: &Tensor) -> Tensor {
    let count = outputs.size()[1];
    if covariance.size()[1] == count {
        return covariance.shallow_clone();
    }
    covariance * Tensor::eye(count, (Kind::Double, covariance.device()))
}

/// Draws of the logits, the same normals for every input.
fn drawn(outputs: &Tensor, covariance: &Tensor, count: i64, key: Key) -> Result<ClassDraws> {
    let mut draws = ClassDraws::new(1).with_error();
    each_drawn(outputs, covariance, (count, key), |logits| draws.add(&logits))?;
    Ok(draws)
}

/// Draw after draw of the logits, the same normals for every input.
fn each_drawn(
    outputs: &Tensor,
    covariance: &Tensor,
    (count, key): (i64, Key),
    mut each: impl FnMut(Tensor) -> Result<()>,
) -> Result<()> {
    if count < 1 {
        return Err(Error::setting("draws", count, "prediction needs at least one draw"));
    }
    let classes = outputs.size()[1];
    let shared = covariance.size()[1] != classes;
    let root = if shared {
        covariance.clamp_min(0.0).sqrt().squeeze_dim(2) // [n, 1]
    } else {
        let (values, vectors) = covariance.f_linalg_eigh("L")?;
        (&vectors * values.clamp_min(0.0).sqrt().unsqueeze(1)).matmul(&vectors.mt()) // [n, K, K]
    };
    (0..count).try_for_each(|draw| {
        let normal = key.at(draw as u64).normal(&[classes], Kind::Double, outputs.device());
        each(outputs + if shared { &root * normal } else { root.matmul(&normal) })
    })
}

fn probit(outputs: &Tensor, covariance: &Tensor) -> Classified {
    let variance = covariance.diagonal(0, -2, -1).clamp_min(0.0);
    let log_p = (outputs / (&variance * std::f64::consts::FRAC_PI_8 + 1.0).sqrt()).log_softmax(-1, Kind::Double);
    let total = -(log_p.exp() * &log_p).sum_dim_intlist(-1, false, Kind::Double);
    let aleatoric = (&total - felt(outputs, covariance) * 0.5).clamp_min(0.0);
    let epistemic = (&total - &aleatoric).clamp_min(0.0);
    Classified { probs: log_p.exp(), total, aleatoric, epistemic, mean_nll: None }
}

/// `tr(ΛC)`, Λ the curvature of the softmax. `[N, K]`, `[N, K, K]` → `[N]`
fn felt(outputs: &Tensor, covariance: &Tensor) -> Tensor {
    let p = outputs.softmax(-1, Kind::Double);
    let sum = |tensor: Tensor| tensor.sum_dim_intlist(-1, false, Kind::Double);
    let variance = covariance.diagonal(0, -2, -1).clamp_min(0.0);
    sum(variance * &p) - sum(covariance.matmul(&p.unsqueeze(-1)).squeeze_dim(-1) * &p)
}
