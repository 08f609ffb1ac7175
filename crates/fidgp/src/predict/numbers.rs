//! Numbers: a Gaussian for each draw.

use tch::{Kind, Tensor};

use super::{Draws, Gather, offsets};
use crate::objective::{GaussianOutput, NumberLikelihood};
use crate::{Error, Result};

/// Means and noise variances of every draw, from which all regression metrics follow.
#[derive(Debug)]
pub struct Regressed {
    /// `[K, N]`
    pub means: Tensor,
    /// `[K, N]`
    pub noise: Tensor,
    /// Variance of the mean, of a law that states it instead of drawing; K is then 1. `[N]`
    pub variance: Option<Tensor>,
}

impl Regressed {
    /// Several parts of a set as one.
    ///
    /// # Errors
    /// When there is no part, or they are of other numbers of draws.
    pub fn joined(parts: &[Self]) -> Result<Self> {
        let join = |part: fn(&Self) -> &Tensor| Tensor::f_cat(&parts.iter().map(part).collect::<Vec<_>>(), 1);
        let variances: Vec<_> = parts.iter().filter_map(|part| part.variance.as_ref()).collect();
        let variance = if variances.is_empty() { None } else { Some(Tensor::f_cat(&variances, 0)?) };
        Ok(Self { means: join(|part| &part.means)?, noise: join(|part| &part.noise)?, variance })
    }

    /// Mean of the draws' means. `[N]`
    pub fn mean(&self) -> Tensor {
        self.means.mean_dim(0, false, Kind::Double)
    }

    /// Variance of the draws' means, or of the mean where the law states it. `[N]`
    pub fn epistemic(&self) -> Tensor {
        let of_draws = || self.means.var_dim(0, false, false);
        self.variance.as_ref().map_or_else(of_draws, Tensor::shallow_clone)
    }

    /// Mean of the draws' noise variances. `[N]`
    pub fn aleatoric(&self) -> Tensor {
        self.noise.mean_dim(0, false, Kind::Double)
    }
}

/// Predicts a Gaussian for each input with K draws (and the network's members, which count as draws).
///
/// # Shapes
/// batches of `[n_i, features]` → `[K, N]`
///
/// # Errors
/// When there is no batch, or one does not fit the network.
pub fn regress(draws: &Draws, likelihood: &dyn NumberLikelihood, batches: &[Tensor]) -> Result<Regressed> {
    offsets(batches)?;
    let mut all: Vec<_> = batches.iter().map(|_| NumberDraws::new(draws.network.members(), likelihood)).collect();
    draws.outputs(batches, |index, outputs| all[index].add(&outputs))?;
    Regressed::joined(&all.into_iter().map(NumberDraws::done).collect::<Result<Vec<_>>>()?)
}

/// Gaussians of draws as they come. A draw of a network of M members has `M·N` rows.
#[derive(Debug)]
pub struct NumberDraws<'a> {
    members: i64,
    likelihood: &'a dyn NumberLikelihood,
    means: Vec<Tensor>,
    noise: Vec<Tensor>,
}

impl<'a> NumberDraws<'a> {
    /// Nothing yet, of a network of so many members.
    pub fn new(members: i64, likelihood: &'a dyn NumberLikelihood) -> Self {
        Self { members, likelihood, means: Vec::new(), noise: Vec::new() }
    }

    /// All draws.
    ///
    /// # Errors
    /// When nothing was added.
    pub fn done(self) -> Result<Regressed> {
        if self.means.is_empty() {
            return Err(Error::setting("draws", 0, "prediction needs at least one draw"));
        }
        Ok(Regressed { means: Tensor::f_cat(&self.means, 0)?, noise: Tensor::f_cat(&self.noise, 0)?, variance: None })
    }
}

impl Gather for NumberDraws<'_> {
    /// Adds the outputs of one draw. `[M·N, outputs]`
    fn add(&mut self, outputs: &Tensor) -> Result<()> {
        let GaussianOutput { mean, variance } = self.likelihood.output(&outputs.to_kind(Kind::Double));
        let of_members = |tensor: &Tensor| tensor.detach().to_kind(Kind::Double).f_reshape([self.members, -1]);
        let (mean, variance) = (of_members(&mean)?, of_members(&variance)?);
        self.means.push(mean);
        self.noise.push(variance);
        Ok(())
    }

    /// Of the mean, in its own units.
    fn error(&self) -> f64 {
        let means = Tensor::cat(&self.means, 0);
        let k = means.size()[0];
        if k < 2 {
            return f64::INFINITY;
        }
        (means.var_dim(0, true, false) / k as f64).sqrt().max().double_value(&[])
    }
}
