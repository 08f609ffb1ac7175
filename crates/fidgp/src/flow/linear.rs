//! The linear layer inside a flow: an optional mask and a spectral rule.

use tch::Tensor;
use tch::nn::Path;

use super::stack::{Stack, stack_fields};
use crate::spectral::{PowerState, SETTLED, SpectralRule, normalise, spectral_norm};
use crate::{Error, Key, Result};

/// The tensors of a linear layer, as trained: neither masked nor normalised.
#[derive(Debug)]
pub struct LinearParams {
    /// W. `[.., out, in]`
    pub weight: Tensor,
    /// b. `[.., out]`
    pub bias: Tensor,
    /// The power iteration of W; `None` where the rule is [`SpectralRule::Off`].
    pub power: Option<PowerState>,
}

impl LinearParams {
    /// Variables under `path` with the given start values; the power iteration follows `target(W)`.
    pub(super) fn init(
        path: &Path,
        start: (Tensor, Tensor),
        rule: SpectralRule,
        mask: Option<&Tensor>,
        key: Key,
    ) -> Self {
        let (weight, bias) = (path.add("weight", start.0, true), path.add("bias", start.1, true));
        let followed = tch::no_grad(|| followed(&weight, rule, mask));
        let power = (rule != SpectralRule::Off).then(|| PowerState::init(path, &followed, key.fold("power")));
        Self { weight, bias, power }
    }

    pub(super) fn parameter_count(&self) -> i64 {
        (self.weight.numel() + self.bias.numel()) as i64
    }

    /// (out, in)
    pub(super) fn shape(&self) -> Result<(i64, i64)> {
        match self.weight.size()[..] {
            [.., out, input] => Ok((out, input)),
            _ => Err(Error::shape("weight", &self.weight.size(), "[.., out, in]")),
        }
    }

    pub(super) fn check(&self, expected: (i64, i64)) -> Result<()> {
        if self.shape()? != expected {
            return Err(Error::shape("weight", &self.weight.size(), format!("[.., {}, {}]", expected.0, expected.1)));
        }
        let size = self.weight.size();
        if self.bias.size() != size[..size.len() - 1] {
            return Err(Error::shape("bias", &self.bias.size(), format!("{:?}", &size[..size.len() - 1])));
        }
        Ok(())
    }
}

stack_fields!(LinearParams { weight, bias, power });

/// x ↦ W̃x + b, where W̃ is W masked and normalised.
#[derive(Debug)]
pub(super) struct FlowLinear {
    pub params: LinearParams,
    mask: Option<Mask>,
    rule: SpectralRule,
}

impl FlowLinear {
    /// Checks the shapes of the tensors and moves the mask to where they are.
    pub fn new(params: LinearParams, shape: (i64, i64), mask: Option<&Tensor>, rule: SpectralRule) -> Result<Self> {
        params.check(shape)?;
        if rule != SpectralRule::Off && params.power.is_none() {
            let advice = "spectral normalisation needs a power iteration; give `power`, or `SpectralRule::Off`";
            return Err(Error::setting("power", "none", advice));
        }
        let mask = mask.map(|m| Mask(m.to_device(params.weight.device()).to_kind(params.weight.kind())));
        Ok(Self { params, mask, rule })
    }

    /// W̃: (W/σ(W))⊙M for `Compat`, (W⊙M)/max(1, σ(W⊙M)) for `Downwards`.
    pub fn weight(&self) -> Tensor {
        let followed = followed(&self.params.weight, self.rule, self.mask());
        let Some(power) = &self.params.power else { return followed };
        let normalised = normalise(&followed, &spectral_norm(&followed, power), self.rule);
        if self.rule == SpectralRule::Compat { masked(&normalised, self.mask()) } else { normalised }
    }

    /// # Shapes
    /// `x [.., rows, in]` → `[.., rows, out]`
    pub fn forward(&self, x: &Tensor) -> Tensor {
        let weight = self.weight();
        if weight.dim() == 2 {
            return x.linear(&weight, Some(&self.params.bias));
        }
        x.matmul(&weight.transpose(-2, -1)) + self.params.bias.unsqueeze(-2)
    }

    /// One step of power iteration.
    pub fn advance(&self) {
        self.with_power(|power, followed| power.advance(followed, 1));
    }

    /// Power iteration until σ̂ no longer grows.
    pub fn settle(&self) {
        self.with_power(|power, followed| _ = power.settle(followed, SETTLED.0, SETTLED.1));
    }

    fn with_power(&self, act: impl Fn(&PowerState, &Tensor)) {
        if let Some(power) = &self.params.power {
            let weight = self.params.weight.detach();
            act(power, &followed(&weight, self.rule, self.mask()));
        }
    }

    fn mask(&self) -> Option<&Tensor> {
        self.mask.as_ref().map(|mask| &mask.0)
    }

    /// The number of inputs.
    pub fn inputs(&self) -> i64 {
        self.params.weight.size()[self.params.weight.dim() - 1]
    }

    pub fn parameter_count(&self) -> i64 {
        self.params.parameter_count()
    }
}

stack_fields!(FlowLinear { params, mask } same { rule });

/// A mask is one for all stacked layers.
#[derive(Debug)]
struct Mask(Tensor);

impl Stack for Mask {
    fn stack(parts: &[&Self]) -> Self {
        parts[0].share()
    }

    fn share(&self) -> Self {
        Self(self.0.shallow_clone())
    }
}

/// The matrix whose norm is bounded: W before the mask for `Compat`, after it otherwise.
fn followed(weight: &Tensor, rule: SpectralRule, mask: Option<&Tensor>) -> Tensor {
    if rule == SpectralRule::Compat { weight.shallow_clone() } else { masked(weight, mask) }
}

fn masked(weight: &Tensor, mask: Option<&Tensor>) -> Tensor {
    match mask {
        None => weight.shallow_clone(),
        Some(mask) if mask.kind() == weight.kind() && mask.device() == weight.device() => weight * mask,
        Some(mask) => weight * mask.to_device(weight.device()).to_kind(weight.kind()),
    }
}

/// The smallest scale of an affine map: s = softplus(a) + 10⁻³.
pub const SCALE_FLOOR: f64 = 1e-3;

/// Splits interleaved outputs into scale = softplus(a) + 10⁻³ and shift t.
///
/// # Shapes
/// `[.., rows, 2C]` → twice `[.., rows, C]`
pub(super) fn scale_and_shift(outputs: &Tensor) -> (Tensor, Tensor) {
    let (raw, shift) = unconstrained(outputs);
    (positive(&raw), shift)
}

/// Splits interleaved outputs into a and t, shapes as in [`scale_and_shift`].
pub(super) fn unconstrained(outputs: &Tensor) -> (Tensor, Tensor) {
    let pairs = outputs.unflatten(-1, [-1_i64, 2].as_slice());
    let Ok(parts) = <[Tensor; 2]>::try_from(pairs.unbind(-1)) else { unreachable!("the last axis has two") };
    parts.into()
}

/// softplus(a) + 10⁻³
pub(super) fn positive(raw: &Tensor) -> Tensor {
    raw.softplus() + SCALE_FLOOR
}
