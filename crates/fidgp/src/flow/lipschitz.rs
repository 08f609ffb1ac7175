//! The contracting flow with dense layers.

use serde::{Deserialize, Serialize};
use tch::Tensor;
use tch::nn::Path;

use super::linear::LinearParams;
use super::stack::stack_fields;
use super::{Flow, FlowSettings, Flowed, InitFlow};
use crate::spectral::{self, SpectralRule};
use crate::{Error, Key, Result};

/// Where the spectral norm of a [`LipschitzFlow`]'s layers comes from.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum NormBy {
    /// Power iteration: cheap, and slightly too small until it has settled.
    #[default]
    Power,
    /// Singular values, in every forward pass: the bound holds to rounding, at O(C³) with a large constant.
    Exact,
}

/// Settings of a [`LipschitzFlow`].
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, rename_all = "kebab-case", deny_unknown_fields)]
pub struct LipschitzConfig {
    /// How many layers L.
    pub layers: i64,
    /// Where the norms come from.
    pub norm: NormBy,
}

impl Default for LipschitzConfig {
    fn default() -> Self {
        Self { layers: 2, norm: NormBy::Power }
    }
}

/// Standard deviation of the start values around the identity, times √C.
const START_NOISE: f64 = 1e-3;

impl FlowSettings for LipschitzConfig {
    /// L(C² + C).
    fn parameter_count(&self, dim: i64) -> i64 {
        self.layers * (dim * dim + dim)
    }

    fn state_count(&self, dim: i64) -> i64 {
        self.layers * self.rule().state_count(dim, dim)
    }

    fn check(&self, _: i64) -> Result<()> {
        if self.layers < 1 {
            return Err(Error::setting("flow.layers", self.layers, "give at least one layer"));
        }
        Ok(())
    }
}

impl InitFlow for LipschitzConfig {
    type Flow = LipschitzFlow;

    /// W = I + 10⁻³N(0, 1/C), b = 0.
    fn init(&self, path: &Path, dim: i64, key: Key) -> Result<LipschitzFlow> {
        self.check(dim)?;
        let options = (path.kind(), path.device());
        let layer = |i: i64| {
            let key = key.fold("layers").at(i as u64);
            let noise =
                key.fold("weight").normal(&[dim, dim], options.0, options.1) * (START_NOISE / (dim as f64).sqrt());
            let start = (Tensor::eye(dim, options) + noise, Tensor::zeros([dim], options));
            LinearParams::init(&(path / "layers" / i), start, self.rule(), None, key)
        };
        LipschitzFlow::from_layers((0..self.layers).map(layer).collect())
    }
}

impl LipschitzConfig {
    fn rule(&self) -> SpectralRule {
        if self.norm == NormBy::Power { SpectralRule::Downwards } else { SpectralRule::Off }
    }
}

/// h ← φ(W̃h + b), L times, with W̃ = W/max(1, σ(W)) and φ the leaky ReLU of slope ½ below zero.
///
/// Every layer has Jacobian D·W̃ with D in [½, 1], so the flow never expands a distance, and
/// log|det J| = Σₗ (log|det W̃ₗ| + Σⱼ log Dₗⱼ) exactly. Because of φ it does not start at the identity, only at a map
/// that leaves the positive quadrant in place. The inverse takes L linear solves.
///
/// The bound is as good as σ. Power iteration approaches σ from below, so between training steps σ(W̃) may exceed 1 by
/// its error; [`Flow::settle_spectral`] removes it, [`Self::lipschitz_bound`] measures it from singular values, and a
/// layer without power iteration ([`NormBy::Exact`]) never has it.
#[derive(Debug)]
pub struct LipschitzFlow {
    layers: Vec<LinearParams>,
}

impl LipschitzFlow {
    /// Builds the flow from tensors. A layer without `power` takes σ from its singular values.
    ///
    /// # Shapes
    /// weight `[.., C, C]`, bias `[.., C]`
    pub fn from_layers(layers: Vec<LinearParams>) -> Result<Self> {
        let first = layers.first().ok_or_else(|| Error::setting("flow.layers", 0, "give at least one layer"))?;
        let dim = first.shape()?.1;
        layers.iter().try_for_each(|layer| layer.check((dim, dim)))?;
        Ok(Self { layers })
    }

    /// Πₗ σ(W̃ₗ) from singular values, the largest over a stack: an upper bound of the flow's Lipschitz constant.
    pub fn lipschitz_bound(&self) -> f64 {
        let norm = |layer: &LinearParams| spectral::exact_norm(&contracted(layer)).max().double_value(&[]);
        tch::no_grad(|| self.layers.iter().map(norm).product())
    }

    fn followed(&self, act: impl Fn(&spectral::PowerState, &Tensor)) {
        self.layers.iter().filter_map(|l| Some((l.power.as_ref()?, l.weight.detach()))).for_each(|(p, w)| act(p, &w));
    }
}

/// W̃ = W/max(1, σ(W)). `[.., C, C]`
fn contracted(layer: &LinearParams) -> Tensor {
    let power = layer.power.as_ref();
    let sigma =
        power.map_or_else(|| spectral::exact_norm(&layer.weight), |p| spectral::spectral_norm(&layer.weight, p));
    spectral::normalise(&layer.weight, &sigma, SpectralRule::Downwards)
}

/// One layer. `h [.., rows, C]` → φ(W̃h + b) and its log-determinants
fn apply(layer: &LinearParams, h: &Tensor) -> Flowed {
    let weight = contracted(layer);
    let z = h.matmul(&weight.transpose(-2, -1)) + layer.bias.unsqueeze(-2);
    let (_, dense) = Tensor::linalg_slogdet(&weight); // [..]
    let halved = z.lt(0.0).sum_dim_intlist([-1_i64].as_slice(), false, z.kind()); // [.., rows]
    Flowed { value: z.maximum(&(&z * 0.5)), log_det: dense.unsqueeze(-1) - halved * std::f64::consts::LN_2 }
}

impl Flow for LipschitzFlow {
    fn forward(&self, x: &Tensor, _dropout: Option<Key>) -> Flowed {
        let mut flowed = apply(&self.layers[0], x);
        for layer in &self.layers[1..] {
            let next = apply(layer, &flowed.value);
            flowed = Flowed { value: next.value, log_det: flowed.log_det + next.log_det };
        }
        flowed
    }

    /// h = W̃⁻¹(φ⁻¹(y) − b), from the last layer to the first.
    fn inverse(&self, y: &Tensor) -> Option<Tensor> {
        let undo = |y: Tensor, layer: &LinearParams| {
            let z = y.minimum(&(&y * 2.0)) - layer.bias.unsqueeze(-2);
            Tensor::linalg_solve(&contracted(layer).transpose(-2, -1), &z, false)
        };
        Some(self.layers.iter().rev().fold(y.shallow_clone(), undo))
    }

    fn advance_spectral(&self) {
        self.followed(|power, weight| power.advance(weight, 1));
    }

    fn settle_spectral(&self) {
        self.followed(|power, weight| _ = power.settle(weight, 1e-10, 1 << 14));
    }

    fn dim(&self) -> i64 {
        self.layers[0].bias.size()[self.layers[0].bias.dim() - 1]
    }

    fn parameter_count(&self) -> i64 {
        self.layers.iter().map(LinearParams::parameter_count).sum()
    }
}

stack_fields!(LipschitzFlow { layers });
