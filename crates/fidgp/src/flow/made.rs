//! The masked affine autoregressive flow.

use tch::{Kind, Tensor};

use super::linear::{FlowLinear, LinearParams, positive, unconstrained};
use super::masks::MadeMasks;
use super::stack::stack_fields;
use super::{Flow, Flowed};
use crate::spectral::SpectralRule;
use crate::{Key, Result};

/// The layers of a [`MadeFlow`] as tensors, for building one from stored weights.
#[derive(Debug)]
pub struct MadeLayers {
    /// weight `[.., H, C]`
    pub initial: LinearParams,
    /// Residual blocks of two layers each, weight `[.., H, H]`
    pub blocks: Vec<[LinearParams; 2]>,
    /// weight `[.., 2C, H]`, outputs interleaved as (a₁, t₁, a₂, t₂, …)
    pub last: LinearParams,
}

/// y = s(x₍<₎)⊙x + t(x₍<₎), s = softplus(a) + 10⁻³, with (a, t) from a masked residual network:
/// `h = initial(x)`; `h += lin₁(relu(lin₀(relu(h))))` per block; `(a, t) = last(h)`.
///
/// Input j has degree j (from 1), hidden unit k (from 0) degree `k mod max(1, C−1) + min(1, C−1)`. A unit sees inputs
/// of at most its own degree, an output hidden units of smaller degree, so output j depends on inputs before j alone:
/// the Jacobian is triangular and log|det J| = Σ log s. The inverse takes C passes.
#[derive(Debug)]
pub struct MadeFlow {
    initial: FlowLinear,
    /// Two per block.
    blocks: Vec<FlowLinear>,
    last: FlowLinear,
    dropout: f64,
}

impl MadeFlow {
    /// Builds the flow from tensors; the masks follow from their shapes.
    ///
    /// # Shapes
    /// as in [`MadeLayers`], with the same leading axes throughout
    pub fn from_layers(layers: MadeLayers, rule: SpectralRule, dropout: f64) -> Result<Self> {
        let (hidden, dim) = layers.initial.shape()?;
        let masks = MadeMasks::new(dim, hidden);
        let inner = layers.blocks.into_iter().flatten();
        Ok(Self {
            initial: FlowLinear::new(layers.initial, (hidden, dim), Some(&masks.initial), rule)?,
            blocks: inner
                .map(|p| FlowLinear::new(p, (hidden, hidden), Some(&masks.block), rule))
                .collect::<Result<_>>()?,
            last: FlowLinear::new(layers.last, (2 * dim, hidden), Some(&masks.last), rule)?,
            dropout,
        })
    }

    /// s and t for each row.
    ///
    /// # Shapes
    /// `x [.., rows, C]` → twice `[.., rows, C]`
    pub fn scale_and_shift(&self, x: &Tensor, dropout: Option<Key>) -> (Tensor, Tensor) {
        let (raw, shift) = self.conditioner(x, dropout);
        (positive(&raw), shift)
    }

    /// a, of which s = softplus(a) + 10⁻³, and t for each row.
    ///
    /// # Shapes
    /// `x [.., rows, C]` → twice `[.., rows, C]`
    pub fn conditioner(&self, x: &Tensor, dropout: Option<Key>) -> (Tensor, Tensor) {
        let mut h = self.initial.forward(x); // [.., rows, H]
        for (index, pair) in (0..).zip(self.blocks.chunks_exact(2)) {
            let inner = pair[0].forward(&h.relu()).relu();
            h += pair[1].forward(&self.drop(inner, dropout.map(|key| key.at(index))));
        }
        unconstrained(&self.last.forward(&h))
    }

    /// Zeroes entries with the dropout probability p and scales the rest by 1/(1 − p).
    fn drop(&self, h: Tensor, key: Option<Key>) -> Tensor {
        let Some(key) = key.filter(|_| self.dropout > 0.0) else { return h };
        let kept = key.uniform(&h.size(), Kind::Float, h.device()).ge(self.dropout);
        h * kept / (1.0 - self.dropout)
    }

    fn layers(&self) -> impl Iterator<Item = &FlowLinear> {
        [&self.initial, &self.last].into_iter().chain(&self.blocks)
    }
}

impl Flow for MadeFlow {
    fn forward(&self, x: &Tensor, dropout: Option<Key>) -> Flowed {
        let (scale, shift) = self.scale_and_shift(x, dropout);
        Flowed { log_det: scale.log().sum_dim_intlist([-1_i64].as_slice(), false, None), value: scale * x + shift }
    }

    /// xⱼ = (yⱼ − tⱼ)/sⱼ, where pass j makes the first j columns right.
    fn inverse(&self, y: &Tensor) -> Option<Tensor> {
        let pass = |x: Tensor, _| {
            let (scale, shift) = self.scale_and_shift(&x, None);
            (y - shift) / scale
        };
        Some((0..self.dim()).fold(y.zeros_like(), pass))
    }

    fn advance_spectral(&self) {
        self.layers().for_each(FlowLinear::advance);
    }

    fn settle_spectral(&self) {
        self.layers().for_each(FlowLinear::settle);
    }

    fn dim(&self) -> i64 {
        self.initial.inputs()
    }

    fn parameter_count(&self) -> i64 {
        self.layers().map(FlowLinear::parameter_count).sum()
    }
}

stack_fields!(MadeFlow { initial, blocks, last } same { dropout });
