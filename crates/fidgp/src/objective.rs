//! The evidence lower bound: likelihoods, the KL ledger, and the schedule that switches it on.

use serde::{Deserialize, Serialize};
use tch::nn::{Init, Path};
use tch::{Kind, Reduction, Tensor};

use crate::distribution::{BoundMap, Bounded};
use crate::layer::Curvature;
use crate::weight::Kl;
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

/// Mean and noise variance at each input.
#[derive(Debug)]
pub struct GaussianOutput {
    /// `[N]`
    pub mean: Tensor,
    /// `[N]`
    pub variance: Tensor,
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
        if !(0.0..=1.0).contains(&beta) {
            return Err(Error::setting(
                "beta_nll",
                beta,
                "must lie between 0 (the likelihood itself) and 1; 0.5 is usual",
            ));
        }
        if beta > 0.0 && !matches!(self.noise, GaussianNoise::Predicted) {
            return Err(Error::setting(
                "beta_nll",
                beta,
                "is for noise that the network predicts, kind = \"predicted\"",
            ));
        }
        Ok(Self { weighting: beta, ..self })
    }

    /// How many outputs the network needs.
    pub fn outputs(config: NoiseConfig) -> i64 {
        if config == NoiseConfig::Predicted { 2 } else { 1 }
    }

    /// The noise variance, where it is the same for all inputs and there are no members.
    pub fn constant_variance(&self) -> Option<Tensor> {
        match &self.noise {
            GaussianNoise::Fixed(sd) => Some(Tensor::from(sd * sd)),
            GaussianNoise::Learnt(sd) => {
                let variance = sd.value().square();
                (variance.numel() == 1).then(|| variance.detach().reshape(&[] as &[i64]))
            }
            GaussianNoise::Predicted => None,
        }
    }

    /// Mean and noise variance from the network's outputs. `[N, outputs]` → `[N]`, `[N]`
    pub fn output(&self, outputs: &Tensor) -> GaussianOutput {
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

    /// Mean negative log-likelihood of a batch, its examples [weighted](Self::weighted) where that is asked for.
    /// `[N, outputs]`, `[N]` → scalar
    pub fn nll(&self, outputs: &Tensor, targets: &Tensor) -> Tensor {
        let GaussianOutput { mean, variance } = self.output(outputs);
        let quadratic = (targets - mean).square() / &variance;
        let each = (quadratic + variance.log() + LN_2PI) * 0.5; // [N]
        if self.weighting > 0.0 {
            let weights = variance.detach().pow_tensor_scalar(self.weighting);
            return (each * &weights / weights.mean(outputs.kind())).mean(outputs.kind());
        }
        each.mean(outputs.kind())
    }

    /// Expected second derivatives of the NLL by the outputs: `1/σ²` for the mean, and for a raw deviation `2(σ'/σ)²`.
    /// `[N, outputs]`
    pub fn curvature(&self, outputs: &Tensor) -> Curvature {
        let variance = self.output(outputs).variance;
        let of_deviation = match &self.noise {
            GaussianNoise::Predicted => Some(outputs.select(-1, 1).sigmoid().square() * 2.0 / &variance),
            GaussianNoise::Fixed(_) | GaussianNoise::Learnt(_) => None,
        };
        let diagonal: Vec<_> = std::iter::once(variance.reciprocal()).chain(of_deviation).collect();
        Curvature { diagonal: Tensor::stack(&diagonal, 1), outer: None }
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

/// The label of pixels that have no class: they count nowhere.
pub const VOID: i64 = 255;

/// Mean cross-entropy over the pixels that have a class, logits enlarged to the labels' size (bilinear); with weights, each
/// pixel counts as much as its class. 0 where no pixel has a class.
///
/// # Shapes
/// `[N, classes, h, w]`, `[N, H, W]`, weights `[classes]` → scalar
pub fn pixel_nll(logits: &Tensor, labels: &Tensor, weights: Option<&Tensor>) -> Tensor {
    let size = labels.size();
    let logits = logits.to_kind(Kind::Float).upsample_bilinear2d([size[1], size[2]], false, None, None);
    let sum = logits.cross_entropy_loss(labels, weights, Reduction::Sum, VOID, 0.0);
    sum / pixel_mass(labels, weights).clamp_min(f64::from(f32::MIN_POSITIVE))
}

/// What [`pixel_nll`] divides by: how many pixels have a class, each with the weight of its class. Scalar.
pub fn pixel_mass(labels: &Tensor, weights: Option<&Tensor>) -> Tensor {
    let counts = labels.ne(VOID).to_kind(Kind::Float);
    let mass = match weights {
        Some(weights) => {
            let last = weights.size()[0] - 1;
            counts * weights.index_select(0, &labels.clamp(0, last).flatten(0, -1)).view_as(labels)
        }
        None => counts,
    };
    mass.sum(Kind::Float)
}

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

    #[test]
    fn pixels_without_a_class_do_not_count() {
        let logits = Tensor::from_slice(&[2f32, 0.0, 1.0, 0.0, 1.0, 5.0]).view([1, 2, 1, 3]); // classes × pixels
        let labels = Tensor::from_slice(&[0i64, 1, VOID]).view([1, 1, 3]);
        let own = |a: f64, b: f64| (1.0 + (b - a).exp()).ln(); // −log softmax
        let (first, second) = (own(2.0, 0.0), own(1.0, 0.0));
        let value = |weights: Option<&Tensor>| pixel_nll(&logits, &labels, weights).double_value(&[]);
        assert!((value(None) - f64::midpoint(first, second)).abs() < 1e-6);
        let weights = Tensor::from_slice(&[3f32, 1.0]);
        assert!((value(Some(&weights)) - (3.0 * first + second) / 4.0).abs() < 1e-6);
        let void = labels.full_like(VOID);
        assert!(pixel_nll(&logits, &void, Some(&weights)).double_value(&[]).abs() < 1e-12);
    }

    #[test]
    fn gaussian_nll_at_a_known_point() {
        let store = tch::nn::VarStore::new(tch::Device::Cpu);
        let gaussian = Gaussian::init(&store.root(), NoiseConfig::Fixed { sd: 2.0 }).unwrap();
        let nll = gaussian.nll(&Tensor::from_slice(&[1.0]).view([1, 1]), &Tensor::from_slice(&[3.0])).double_value(&[]);
        assert!((nll - 0.5 * (1.0 + 4f64.ln() + LN_2PI)).abs() < 1e-12);
        assert!(Gaussian::init(&store.root(), NoiseConfig::Fixed { sd: 0.0 }).is_err());
    }
}
