//! Numbers with normal noise.

use serde::{Deserialize, Serialize};
use tch::Tensor;
use tch::nn::{Init, Path};

use super::likelihood::{GaussianOutput, Given, Likelihood, LikelihoodSettings, NumberLikelihood, Reading, Targets};
use crate::distribution::{BoundMap, Bounded};
use crate::layer::Curvature;
use crate::{Error, Result};

const LN_2PI: f64 = 1.837_877_066_409_345_6;

/// Where the noise of a Gaussian likelihood comes from.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", tag = "kind", deny_unknown_fields)]
pub enum NoiseConfig {
    /// A known deviation.
    Fixed {
        /// The deviation of y around its mean.
        sd: f64,
    },
    /// One deviation for all inputs, learnt.
    Learnt {
        /// Where it starts.
        init_sd: f64,
    },
    /// The network's second output is the raw deviation (softplus) at that input.
    Predicted,
}

/// `y ~ N(f(x), σ²)`.
#[derive(Debug)]
pub struct Gaussian {
    noise: GaussianNoise,
    /// β of a weighted loss.
    weighting: f64,
}

#[derive(Debug)]
enum GaussianNoise {
    Fixed(f64),
    Learnt(Bounded),
    Predicted,
}

impl Gaussian {
    /// A likelihood; a learnt deviation is a parameter under `path`.
    ///
    /// # Errors
    /// When a deviation is not positive.
    pub fn init(path: &Path, config: NoiseConfig) -> Result<Self> {
        Self::shaped(path, config, &[])
    }

    /// The same for a network whose outputs are those of its members, one after another: each has a learnt deviation of its
    /// own.
    ///
    /// # Errors
    /// When a deviation is not positive.
    pub fn of_members(path: &Path, config: NoiseConfig, members: i64) -> Result<Self> {
        Self::shaped(path, config, &[members])
    }

    fn shaped(path: &Path, config: NoiseConfig, shape: &[i64]) -> Result<Self> {
        let noise = match config {
            NoiseConfig::Fixed { sd } if sd > 0.0 && sd.is_finite() => GaussianNoise::Fixed(sd),
            NoiseConfig::Fixed { sd } => return Err(Error::setting("noise sd", sd, "must be greater than 0")),
            NoiseConfig::Learnt { init_sd } => {
                let raw = Bounded::raw_of("noise init_sd", init_sd, None, BoundMap::Clamp)?;
                let raw = path.var("_noise", shape, Init::Const(raw));
                GaussianNoise::Learnt(Bounded { raw, max: None, map: BoundMap::Clamp })
            }
            NoiseConfig::Predicted => GaussianNoise::Predicted,
        };
        Ok(Self { noise, weighting: 0.0 })
    }

    /// Weighs examples in [`Self::nll`] by `σ²ᵝ` (Seitzer et al. 2022, β-NLL). Where mean and noise are learnt together, an
    /// example with much noise hardly moves its mean; with β = 1 all means move as in least squares. The weights have no
    /// gradient, and their mean over a batch is 1: the KL counts as much as without them.
    ///
    /// # Errors
    /// When β is not between 0 and 1, or the noise is the same for all inputs.
    pub fn weighted(self, beta: f64) -> Result<Self> {
        check_weighting(beta, matches!(self.noise, GaussianNoise::Predicted))?;
        Ok(Self { weighting: beta, ..self })
    }
}

impl Gaussian {
    /// The NLL of each example, and its weight where they are weighed. `[N]`
    fn each(&self, outputs: &Tensor, targets: &Tensor) -> (Tensor, Option<Tensor>) {
        let GaussianOutput { mean, variance } = self.output(outputs);
        let quadratic = (targets - mean).square() / &variance;
        let each = (quadratic + variance.log() + LN_2PI) * 0.5;
        let weights = (self.weighting > 0.0).then(|| variance.detach().pow_tensor_scalar(self.weighting));
        (each, weights)
    }
}

impl NumberLikelihood for Gaussian {
    fn constant_variance(&self) -> Option<Tensor> {
        match &self.noise {
            GaussianNoise::Fixed(sd) => Some(Tensor::from(sd * sd)),
            GaussianNoise::Learnt(sd) => {
                let variance = sd.value().square();
                (variance.numel() == 1).then(|| variance.detach().reshape(&[] as &[i64]))
            }
            GaussianNoise::Predicted => None,
        }
    }

    fn output(&self, outputs: &Tensor) -> GaussianOutput {
        let mean = outputs.select(-1, 0);
        let variance = match &self.noise {
            GaussianNoise::Fixed(sd) => mean.full_like(sd * sd).detach(),
            GaussianNoise::Learnt(sd) => {
                let own = sd.value().square().view([-1, 1]); // [members, 1]
                own.expand([-1, mean.numel() as i64 / own.numel() as i64], false).reshape_as(&mean)
            }
            GaussianNoise::Predicted => (outputs.select(-1, 1).softplus() + 1e-3).square(),
        };
        GaussianOutput { mean, variance }
    }
}

impl Likelihood for Gaussian {
    /// Examples are [weighted](Gaussian::weighted) where that is asked for.
    fn nll(&self, outputs: &Tensor, targets: &Tensor) -> Tensor {
        let (each, weights) = self.each(outputs, targets);
        match weights {
            Some(weights) => (each * &weights / weights.mean(outputs.kind())).mean(outputs.kind()),
            None => each.mean(outputs.kind()),
        }
    }

    /// Weights have the mean 1 over the whole batch, not over its parts.
    fn nll_of_part(
        &self,
        outputs: &Tensor,
        targets: &Tensor,
        sum: &dyn Fn(&Tensor) -> Result<Tensor>,
    ) -> Result<Tensor> {
        let (each, weights) = self.each(outputs, targets);
        let Some(weights) = weights else { return Ok(each.mean(outputs.kind())) };
        let count = weights.new_full([], weights.numel() as f64, (weights.kind(), weights.device()));
        let sums = sum(&Tensor::stack(&[weights.sum(weights.kind()), count], 0))?;
        Ok((each * &weights / (sums.get(0) / sums.get(1))).mean(outputs.kind()))
    }

    fn sums_over_parts(&self) -> bool {
        self.weighting > 0.0
    }

    fn curvature(&self, outputs: &Tensor) -> Curvature {
        let variance = self.output(outputs).variance;
        let of_deviation = match &self.noise {
            GaussianNoise::Predicted => Some(outputs.select(-1, 1).sigmoid().square() * 2.0 / &variance),
            GaussianNoise::Fixed(_) | GaussianNoise::Learnt(_) => None,
        };
        let diagonal: Vec<_> = std::iter::once(variance.reciprocal()).chain(of_deviation).collect();
        Curvature { diagonal: Tensor::stack(&diagonal, 1), outer: None }
    }

    fn reading(&self) -> Reading<'_> {
        Reading::Numbers(self)
    }
}

/// `y ~ N(f(x), σ²)`.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct GaussianSettings {
    /// Where σ comes from, in units of the standardised target.
    pub noise: NoiseConfig,
    /// β of training examples weighted by `σ²ᵝ`; 0 weighs all alike.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub beta_nll: f64,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde asks for it")]
fn is_zero(number: &f64) -> bool {
    number.abs() < f64::MIN_POSITIVE
}

impl LikelihoodSettings for GaussianSettings {
    fn targets(&self) -> Targets {
        Targets::Numbers
    }

    fn check(&self, _: Option<usize>) -> Result<()> {
        check_weighting(self.beta_nll, self.noise == NoiseConfig::Predicted)
    }

    fn outputs(&self, _: i64) -> i64 {
        if self.noise == NoiseConfig::Predicted { 2 } else { 1 }
    }

    fn init(&self, path: &Path, given: &Given) -> Result<Box<dyn Likelihood>> {
        let gaussian = match given.members {
            1 => Gaussian::init(path, self.noise)?,
            members => Gaussian::of_members(path, self.noise, members)?,
        };
        Ok(Box::new(gaussian.weighted(self.beta_nll)?))
    }
}

fn check_weighting(beta: f64, predicted: bool) -> Result<()> {
    if !(0.0..=1.0).contains(&beta) {
        let why = "must lie between 0 (the likelihood itself) and 1; 0.5 is usual";
        return Err(Error::setting("likelihood.beta_nll", beta, why));
    }
    if beta > 0.0 && !predicted {
        let why = "weighs examples by their own noise: it is for noise = { kind = \"predicted\" }";
        return Err(Error::setting("likelihood.beta_nll", beta, why));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn gaussian_nll_at_a_known_point() {
        let store = tch::nn::VarStore::new(tch::Device::Cpu);
        let gaussian = Gaussian::init(&store.root(), NoiseConfig::Fixed { sd: 2.0 }).unwrap();
        let nll = gaussian.nll(&Tensor::from_slice(&[1.0]).view([1, 1]), &Tensor::from_slice(&[3.0])).double_value(&[]);
        assert!((nll - 0.5 * (1.0 + 4f64.ln() + LN_2PI)).abs() < 1e-12);
        assert!(Gaussian::init(&store.root(), NoiseConfig::Fixed { sd: 0.0 }).is_err());
    }
}
