//! One weight matrix: its prior, its posterior and its conditional, put together.
//!
//! [`draw()`] draws all weights of a network, [`InducingWeight::draw`] one of them, with the same code.

mod config;
mod draw;
mod drawn;
mod order;
mod stack;
mod whitened;

pub use config::{InducingConfig, InducingSize};
pub use draw::draw;
pub(crate) use draw::draw_many;
pub use drawn::{Drawn, MeanWeight};
pub use order::Order;
pub(crate) use stack::batching;
pub use stack::{Stack, factors};
pub use whitened::WhitenedDraws;

use stack::{factors_batched, groups};

use tch::Tensor;
use tch::nn::{Init, Path};

use crate::conditional::{self, Conditional, ConditionalKl, MatheronNoise, NoiseOn};
use crate::distribution::Bounded;
use crate::linalg::{self, Batching, Check, check_finite};
use crate::posterior::{InducingNoise, Posterior, PosteriorOptions};
use crate::prior::{Grams, KroneckerPrior, PriorFactors, Sizes, layer_name};
use crate::role::Role;
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

    /// That of several weights, or of several draws; all are of one kind.
    fn joined(parts: &[Self], batching: Batching) -> Self {
        let join = |part: &dyn Fn(&Self) -> Option<&Tensor>| {
            linalg::stack_matrices(&parts.iter().filter_map(part).collect::<Vec<_>>(), batching)
        };
        let matheron = |part: fn(&MatheronNoise) -> &Tensor| {
            join(&|noise| if let Self::Matheron(noise) = noise { Some(part(noise)) } else { None })
        };
        match parts[0] {
            Self::Matheron(_) => Self::Matheron(MatheronNoise {
                weight: matheron(|noise| &noise.weight),
                row: matheron(|noise| &noise.row),
                col: matheron(|noise| &noise.col),
                corner: matheron(|noise| &noise.corner),
            }),
            Self::Weights(_) => Self::Weights(join(&|noise| if let Self::Weights(e) = noise { Some(e) } else { None })),
            Self::Outputs => Self::Outputs,
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
            Role::Posterior.of(path).var("_lamda", &[], Init::Const(raw))
        } else {
            path.add("_lamda", Tensor::full([0i64; 0], raw, (path.kind(), path.device())), false)
        };
        Ok(Self {
            prior: KroneckerPrior::init(&Role::Prior.of(path), sizes, config.init_d, config.init_z, key.fold("prior"))?,
            posterior: Posterior::init(&Role::Posterior.of(path), sizes, &options, key.fold("posterior"))?,
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

    /// Whether a draw is noise on the layer's outputs: then there is no weight of that draw.
    pub fn draws_outputs(&self) -> bool {
        self.config.conditional == Conditional::Reparam && self.config.noise == NoiseOn::Outputs
    }

    /// In which order it meets its inputs.
    fn order(&self) -> Order {
        self.config.order(self.sizes())
    }

    /// Whether all randomness of a draw in training is in tensors: then a captured draw can be replayed.
    pub fn is_replayable(&self) -> bool {
        self.posterior.is_replayable()
    }

    /// Draws the weight: V ~ q, then W given U (equation 8 of the paper), and what both pay. A stack of one for [`draw()`].
    ///
    /// # Errors
    /// When Matheron noise meets factors without Gram factors.
    pub fn draw(&self, prior: &PriorFactors, noise: &WeightNoise) -> Result<(Drawn, Kl)> {
        let stack = Stack::of_one(prior);
        let mut one = draw(&[self], &[stack], std::slice::from_ref(noise), WhitenedDraws::none(1))?;
        Ok(one.remove(0))
    }

    /// W given U, of this weight or of a stack of weights like it.
    ///
    /// # Shapes
    /// whitened `[.., R, C]`, lambda `[..]` → `[.., d_out, d_in]`
    fn given_inducing(
        &self,
        prior: &PriorFactors,
        whitened: &Tensor,
        lambda: &Tensor,
        noise: &ConditionalNoise,
    ) -> Result<Drawn> {
        // σ_p W is linear in V and λ: scaling those instead of W leaves out a pass over the weights
        let (v, scale) = (whitened * self.prior_scale(), lambda * self.prior_scale());
        Ok(match noise {
            ConditionalNoise::Matheron(noise) => Drawn::Weight(conditional::matheron(prior, &v, &scale, noise)?),
            ConditionalNoise::Weights(noise) => Drawn::Weight(conditional::reparam(prior, &v, &scale, noise)),
            ConditionalNoise::Outputs => Drawn::MeanAndScale { mean: self.mean_given(prior, &v), scale },
        })
    }

    /// `E[W|U]`, in the order in which it meets its inputs.
    fn mean_given(&self, prior: &PriorFactors, v: &Tensor) -> MeanWeight {
        match self.order() {
            Order::Factored => {
                MeanWeight::Factors { left: conditional::left_factor(prior, v), right: prior.a_col.shallow_clone() }
            }
            Order::BuiltForNoise | Order::BuiltForCost => MeanWeight::Matrix(conditional::mean(prior, v)),
        }
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
