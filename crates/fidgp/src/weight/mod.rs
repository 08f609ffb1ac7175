//! One weight matrix: its prior, its posterior and its conditional, put together.
//!
//! [`InducingWeight::draw`] reads like the paper and draws one layer. [`draw_all`] draws all layers of a network with the
//! same result in far fewer, larger operations.

mod batch;
mod config;
mod order;

pub(crate) use batch::draw_many;
pub use batch::{draw_ahead, draw_all};
pub use config::{InducingConfig, InducingSize};
pub use order::Order;

use tch::Tensor;
use tch::nn::{Init, Path};

use crate::conditional::{self, Conditional, ConditionalKl, MatheronNoise, NoiseOn};
use crate::distribution::Bounded;
use crate::linalg::{Batching, Check, Jitter, check_finite};
use crate::posterior::{InducingNoise, Posterior, PosteriorOptions};
use crate::prior::{self, Grams, KroneckerPrior, PriorFactors, Sizes, layer_name};
use crate::{Key, Result};

/// Both parts of a layer's KL.
#[derive(Debug)]
pub struct Kl {
    /// KL of q(U) against p(U). Scalar.
    pub inducing: Tensor,
    /// KL of q(W|U) against p(W|U), and the penalty on λ if there is one. Scalar.
    pub conditional: Tensor,
}

/// The randomness of one draw of a weight.
#[derive(Debug)]
pub struct WeightNoise {
    /// For V.
    pub inducing: InducingNoise,
    /// For W given U.
    pub conditional: ConditionalNoise,
}

/// The randomness of W given U.
#[derive(Debug)]
pub enum ConditionalNoise {
    /// e1 … e4.
    Matheron(MatheronNoise),
    /// ε. `[d_out, d_in]`
    Weights(Tensor),
    /// The layer draws it on its outputs.
    Outputs,
}

impl ConditionalNoise {
    /// The same tensors, not copies.
    pub(crate) fn share(&self) -> Self {
        match self {
            Self::Matheron(noise) => Self::Matheron(noise.share()),
            Self::Weights(noise) => Self::Weights(noise.shallow_clone()),
            Self::Outputs => Self::Outputs,
        }
    }
}

/// What a draw gives the layer.
#[derive(Debug)]
pub enum Drawn {
    /// The weight itself. `[d_out, d_in]`
    Weight(Tensor),
    /// The mean weight and the deviation of every weight around it, for noise on the outputs.
    MeanAndScale {
        /// `σ_p E[W|U]`.
        mean: MeanWeight,
        /// `σ_p λ`. Scalar.
        scale: Tensor,
    },
}

/// A mean weight, as a matrix or as the two factors it is the product of.
#[derive(Debug)]
pub enum MeanWeight {
    /// `[d_out, d_in]`
    Matrix(Tensor),
    /// `σ_p A_rᵀ V` and `A_c`: applied one after the other they take `C(d_in + d_out)` multiplications for each output
    /// position instead of `d_in·d_out`, and the weight is never formed.
    Factors {
        /// `[d_out, C]`
        left: Tensor,
        /// `[C, d_in]`
        right: Tensor,
    },
}

impl MeanWeight {
    /// The matrix. `[d_out, d_in]`
    pub fn matrix(&self) -> Tensor {
        match self {
            Self::Matrix(matrix) => matrix.shallow_clone(),
            Self::Factors { left, right } => left.matmul(right),
        }
    }
}

impl Drawn {
    /// The same tensors, not copies.
    #[must_use]
    pub fn share(&self) -> Self {
        self.map(Tensor::shallow_clone)
    }

    /// Another tensor in place of each matrix; the scale stays.
    pub(crate) fn map(&self, of: impl Fn(&Tensor) -> Tensor) -> Self {
        match self {
            Self::Weight(weight) => Self::Weight(of(weight)),
            Self::MeanAndScale { mean, scale } => {
                let mean = match mean {
                    MeanWeight::Matrix(matrix) => MeanWeight::Matrix(of(matrix)),
                    MeanWeight::Factors { left, right } => MeanWeight::Factors { left: of(left), right: of(right) },
                };
                Self::MeanAndScale { mean, scale: scale.shallow_clone() }
            }
        }
    }

    /// All its tensors.
    pub(crate) fn tensors(&self) -> Vec<&Tensor> {
        match self {
            Self::Weight(weight) => vec![weight],
            Self::MeanAndScale { mean: MeanWeight::Matrix(matrix), scale } => vec![matrix, scale],
            Self::MeanAndScale { mean: MeanWeight::Factors { left, right }, scale } => vec![left, right, scale],
        }
    }

    /// The weight, or its mean. `[d_out, d_in]`
    pub fn matrix(&self) -> Tensor {
        match self {
            Self::Weight(weight) => weight.shallow_clone(),
            Self::MeanAndScale { mean, .. } => mean.matrix(),
        }
    }
}

/// A weight matrix that follows from a small inducing matrix.
#[derive(Debug)]
pub struct InducingWeight {
    /// Where it stands in the network: `layer2.1.conv1`.
    pub name: String,
    /// Settings it was made with.
    pub config: InducingConfig,
    /// p(U) and p(W|U).
    pub prior: KroneckerPrior,
    /// q(U).
    pub posterior: Posterior,
    /// λ.
    pub conditional_scale: Bounded,
}

impl InducingWeight {
    /// A weight `[d_out, d_in]` (bias column included) with parameters under `path`.
    ///
    /// # Errors
    /// When a setting is out of range; the message names layer, setting and range.
    pub fn init(path: &Path, d_out: i64, d_in: i64, config: &InducingConfig, key: Key) -> Result<Self> {
        let name = layer_name(path);
        config.check(&name)?;
        let sizes = config.sizes(d_out, d_in);
        let key = key.fold(&name);
        let options = PosteriorOptions {
            family: config.posterior.clone(),
            whitened: config.whitened_u,
            init_mean: (1.0 / (d_in as f64).sqrt() / config.prior_scale(d_in)).min(1.0), // no wider than a plain layer
            init_sd: config.init_sd_u,
            max_sd: config.max_sd_u,
            bound: config.bound,
        };
        let raw = Bounded::raw_of(&format!("{name}: init_lamda"), config.init_lamda, config.max_lamda, config.bound)?;
        let raw = if config.learn_lamda {
            path.var("_lamda", &[], Init::Const(raw))
        } else {
            path.add("_lamda", Tensor::full([0i64; 0], raw, (path.kind(), path.device())), false)
        };
        Ok(Self {
            prior: KroneckerPrior::init(path, sizes, config.init_d, config.init_z, key.fold("prior"))?,
            posterior: Posterior::init(path, sizes, &options, key.fold("posterior"))?,
            conditional_scale: Bounded { raw, max: config.max_lamda, map: config.bound },
            config: config.clone(),
            name,
        })
    }

    /// Factors of this weight alone; a network makes those of all its layers in one call of [`factors`].
    ///
    /// # Errors
    /// When a covariance cannot be factorised; the error names layer and matrix.
    pub fn factors(&self, check: Check) -> Result<PriorFactors> {
        let mut one = factors_batched(&[self], check, Batching::Apart)?;
        Ok(one.remove(0).factors)
    }

    /// Sizes of W and U.
    pub fn sizes(&self) -> Sizes {
        self.prior.sizes()
    }

    /// `σ_p`: the deviation of a weight under the prior.
    pub fn prior_scale(&self) -> f64 {
        self.config.prior_scale(self.sizes().d_in)
    }

    /// The noise of one draw, from the layer's own key: it does not depend on what other layers draw.
    pub fn noise(&self, key: Key, training: bool) -> WeightNoise {
        let (kind, device) = (self.prior.z_row.kind(), self.prior.z_row.device());
        self.noise_of(key, training, &mut |key, shape| key.normal(shape, kind, device))
    }

    /// The same, with `normal` making standard normals of a key and a shape.
    pub(crate) fn noise_of(
        &self,
        key: Key,
        training: bool,
        normal: &mut dyn FnMut(Key, &[i64]) -> Tensor,
    ) -> WeightNoise {
        let conditional = self.conditional_noise(key, normal);
        WeightNoise { inducing: self.posterior.noise_of(key.fold(&self.name), training, normal), conditional }
    }

    /// The part of [`Self::noise`] that is for V.
    pub(crate) fn inducing_noise(&self, key: Key, training: bool) -> InducingNoise {
        self.posterior.noise(key.fold(&self.name), training)
    }

    /// The part of [`Self::noise`] that is for W given U, with `normal` making standard normals of a key and a shape.
    pub(crate) fn conditional_noise(
        &self,
        key: Key,
        normal: &mut dyn FnMut(Key, &[i64]) -> Tensor,
    ) -> ConditionalNoise {
        let (key, sizes) = (key.fold(&self.name).fold("conditional"), self.sizes());
        match (self.config.conditional, self.config.noise) {
            (Conditional::Matheron, _) => ConditionalNoise::Matheron(MatheronNoise::draw(key, sizes, normal)),
            (Conditional::Reparam, NoiseOn::Outputs) => ConditionalNoise::Outputs,
            (Conditional::Reparam, NoiseOn::Weights) => {
                ConditionalNoise::Weights(normal(key, &[sizes.d_out, sizes.d_in]))
            }
        }
    }

    /// In which order it meets its inputs.
    fn order(&self) -> Order {
        self.config.order(self.sizes())
    }

    /// Whether all randomness of a draw in training is in tensors: then a captured draw can be replayed.
    pub fn is_replayable(&self) -> bool {
        self.posterior.is_replayable()
    }

    /// Draws the weight: V ~ q, then W given U (equation 8 of the paper), and what both pay.
    ///
    /// # Errors
    /// When Matheron noise meets factors without Gram factors.
    pub fn draw(&self, prior: &PriorFactors, noise: &WeightNoise) -> Result<(Drawn, Kl)> {
        let inducing = self.posterior.draw(prior, &noise.inducing); // V, KL(q(U) ‖ p(U))     [R, C]
        let lambda = self.conditional_scale.value();
        let drawn = match &noise.conditional {
            ConditionalNoise::Matheron(noise) => {
                Drawn::Weight(conditional::matheron(prior, &inducing.whitened, &lambda, noise)? * self.prior_scale())
            }
            ConditionalNoise::Weights(noise) => {
                Drawn::Weight(conditional::reparam(prior, &inducing.whitened, &lambda, noise) * self.prior_scale())
            }
            ConditionalNoise::Outputs => Drawn::MeanAndScale {
                mean: if self.order() == Order::Factored {
                    let left = conditional::left_factor(prior, &inducing.whitened) * self.prior_scale();
                    MeanWeight::Factors { left, right: prior.a_col.shallow_clone() }
                } else {
                    MeanWeight::Matrix(conditional::mean(prior, &inducing.whitened) * self.prior_scale())
                },
                scale: &lambda * self.prior_scale(),
            },
        };
        Ok((drawn, Kl { inducing: inducing.kl, conditional: self.kl_conditional(prior, &lambda) }))
    }

    /// `σ_p E[W|U]` at the centre of q(U). `[d_out, d_in]`
    pub fn mean(&self, prior: &PriorFactors) -> Tensor {
        conditional::mean(prior, &self.posterior.centre(prior)) * self.prior_scale()
    }

    /// Fails on the first parameter that holds NaN or infinity; a flow's show in the value it gives the mean.
    pub(crate) fn check_finite(&self, prior: &PriorFactors) -> Result<()> {
        let KroneckerPrior { z_row, z_col, d_row_raw, d_col_raw, .. } = &self.prior;
        let (mean, sd, lambda) = (&self.posterior.mean, &self.posterior.sd.raw, &self.conditional_scale.raw);
        let named = [
            ("z_row", z_row),
            ("z_col", z_col),
            ("_d_row", d_row_raw),
            ("_d_col", d_col_raw),
            ("inducing_mean", mean),
            ("_inducing_sd", sd),
            ("_lamda", lambda),
            ("centre of q(U)", &self.posterior.centre(prior)),
        ];
        let advice = "Predict from an earlier checkpoint";
        named.iter().try_for_each(|(what, tensor)| check_finite(&format!("{}.{what}", self.name), tensor, advice))
    }

    fn kl_conditional(&self, prior: &PriorFactors, lambda: &Tensor) -> Tensor {
        let Sizes { d_out, d_in, .. } = self.sizes();
        let kl = match self.config.conditional_kl {
            ConditionalKl::Paper => conditional::kl_scaled(d_out * d_in, lambda),
            ConditionalKl::Exact => conditional::kl_isotropic(prior, lambda),
        };
        kl + lambda.square() * self.config.lamda_penalty
    }

    fn grams(&self) -> Grams {
        if self.config.conditional == Conditional::Matheron { Grams::Factored } else { Grams::Omitted }
    }
}

/// Weights that are drawn as one batch: of equal sizes and settings.
#[derive(Debug)]
pub struct Stack {
    /// Their places among the weights.
    pub members: Vec<usize>,
    /// Their factors, with a leading axis over the members; apart there is one member and no such axis.
    pub factors: PriorFactors,
}

/// How the layers of a network, and its draws, are computed.
pub(crate) fn batching(weights: &[&InducingWeight]) -> Batching {
    Batching::on_device_of(weights.first().map(|weight| &weight.prior.z_row))
}

/// Factors of all weights of a network: one factorisation for each size of matrix.
///
/// # Errors
/// When a covariance cannot be factorised; the error names layer and matrix.
pub fn factors(weights: &[&InducingWeight], check: Check) -> Result<Vec<Stack>> {
    factors_batched(weights, check, batching(weights))
}

fn factors_batched(weights: &[&InducingWeight], check: Check, batching: Batching) -> Result<Vec<Stack>> {
    let together = batching == Batching::Together;
    let stacks = groups(weights, |a, b| together && a.sizes() == b.sizes() && a.config == b.config);
    let settings = |members: &Vec<usize>| (weights[members[0]].config.jitter.to_bits(), weights[members[0]].grams());
    let mut all: Vec<Option<PriorFactors>> = stacks.iter().map(|_| None).collect();
    for alike in groups(&stacks, |a, b| settings(a) == settings(b)) {
        let (jitter, grams) = settings(&stacks[alike[0]]);
        let jitter = Jitter { relative: f64::from_bits(jitter), ..Jitter::FIDGP };
        let priors: Vec<Vec<_>> =
            alike.iter().map(|&stack| stacks[stack].iter().map(|&member| &weights[member].prior).collect()).collect();
        for (stack, factors) in alike.into_iter().zip(prior::factors(&priors, batching, jitter, grams, check)?) {
            all[stack] = Some(factors);
        }
    }
    let factors = all.into_iter().flatten();
    Ok(stacks.into_iter().zip(factors).map(|(members, factors)| Stack { members, factors }).collect())
}

/// Indices of items that are alike, in the order of their first members.
fn groups<T>(items: &[T], alike: impl Fn(&T, &T) -> bool) -> Vec<Vec<usize>> {
    let mut groups: Vec<Vec<usize>> = Vec::new();
    for (index, item) in items.iter().enumerate() {
        match groups.iter_mut().find(|group| alike(&items[group[0]], item)) {
            Some(group) => group.push(index),
            None => groups.push(vec![index]),
        }
    }
    groups
}
