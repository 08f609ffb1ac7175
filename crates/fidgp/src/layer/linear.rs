//! The fully connected layer.

use tch::Tensor;
use tch::nn::Path;

use super::slot::{DenseStart, Slot, SlotConfig};
use super::{Layer, Operation, Pass};
use crate::weight::{Drawn, MeanWeight};
use crate::{Error, Key, Result};

/// Keeps the square root differentiable where all inputs are zero.
pub(super) const VARIANCE_FLOOR: f64 = 1e-12;

/// `y = x Wᵀ + b`.
#[derive(Debug)]
pub struct Linear {
    /// The weight.
    pub slot: Slot,
    in_features: i64,
    out_features: i64,
    bias: bool,
}

impl Linear {
    /// A plain layer of this name, without numbers yet.
    ///
    /// # Errors
    /// When a width is zero.
    pub fn new(name: impl Into<String>, in_features: i64, out_features: i64, bias: bool) -> Result<Self> {
        let name = name.into();
        super::at_least(1, &name, &[("in_features", in_features), ("out_features", out_features)])?;
        let slot = Slot::plan(name, &[out_features, in_features], bias, DenseStart::Uniform);
        Ok(Self { slot, in_features, out_features, bias })
    }

    /// A layer with its weight under `path`.
    ///
    /// # Errors
    /// When a width is zero or a setting of the slot is out of range.
    pub fn init(
        path: &Path,
        in_features: i64,
        out_features: i64,
        bias: bool,
        slot: &SlotConfig,
        key: Key,
    ) -> Result<Self> {
        let mut layer = Self::new(crate::prior::layer_name(path), in_features, out_features, bias)?;
        layer.slot.set(slot.clone())?;
        layer.slot.init(path, key)?;
        Ok(layer)
    }

    /// # Shapes
    /// `[N, .., in_features]` → `[N, .., out_features]`
    ///
    /// # Errors
    /// When the input has another width or type, or the pass did not draw this layer.
    pub fn forward(&self, x: &Tensor, pass: &mut Pass) -> Result<Tensor> {
        let name = self.slot.name();
        if x.size().last() != Some(&self.in_features) {
            return Err(Error::shape(format!("input of {name}"), &x.size(), format!("[.., {}]", self.in_features)));
        }
        if pass.trace.is_some() {
            let mut size = x.size();
            size.last_mut().into_iter().for_each(|width| *width = self.out_features);
            return Ok(pass.traced(self, x, &size).unwrap_or_default());
        }
        pass.tap_input(self, x);
        let y = match &self.slot {
            Slot::Planned(_) => return Err(self.slot.unmade()),
            Slot::Dense(dense) => linear(x, &dense.weight, dense.bias.as_ref(), pass)?,
            Slot::Custom(weight) => weight.forward(x, pass, &linear)?,
            Slot::Inducing(weight) => match pass.drawn(&weight.name)? {
                Drawn::Weight(w) => self.apply(x, &w, pass)?,
                Drawn::MeanAndScale { mean, scale } => {
                    let y = self.apply_mean(x, &mean, pass)?;
                    let variance = x.square().sum_dim_intlist(-1, true, x.kind()) + f64::from(u8::from(self.bias));
                    let noise = pass.noise.of(name, &y)?;
                    y + noise * (scale * (variance + VARIANCE_FLOOR).sqrt())
                }
            },
        };
        pass.tap(name, &y);
        Ok(y)
    }

    /// The layer with a mean weight that is given, factor by factor where it comes so.
    ///
    /// # Errors
    /// When the shapes do not fit.
    pub fn apply_mean(&self, x: &Tensor, mean: &MeanWeight, pass: &Pass) -> Result<Tensor> {
        match mean {
            MeanWeight::Matrix(w) => self.apply(x, w, pass),
            MeanWeight::Factors { left, right } => linear(&self.apply(x, right, pass)?, left, None, pass),
        }
    }

    /// The linear map of a weight matrix whose last column is the bias, if there is one.
    fn apply(&self, x: &Tensor, w: &Tensor, pass: &Pass) -> Result<Tensor> {
        if self.bias {
            let parts = w.f_split_with_sizes([self.in_features, 1], 1)?; // one gradient for both
            linear(x, &parts[0], Some(&parts[1].squeeze_dim(1)), pass)
        } else {
            linear(x, w, None, pass)
        }
    }
}

impl Layer for Linear {
    fn name(&self) -> &str {
        self.slot.name()
    }

    fn operation(&self) -> Operation {
        Operation::Linear { inputs: self.in_features, outputs: self.out_features, bias: self.bias }
    }

    fn slot(&self) -> Option<&Slot> {
        Some(&self.slot)
    }

    fn slot_mut(&mut self) -> Option<&mut Slot> {
        Some(&mut self.slot)
    }

    fn init(&mut self, path: &Path, key: Key) -> Result<()> {
        self.slot.init(path, key)
    }
}

fn linear(x: &Tensor, weight: &Tensor, bias: Option<&Tensor>, pass: &Pass) -> Result<Tensor> {
    Ok(pass.cast(x).f_linear(&pass.cast(weight), bias.map(|bias| pass.cast(bias)))?)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::layer::Mode;
    use tch::nn::VarStore;
    use tch::{Device, Kind};

    #[test]
    fn factor_by_factor_is_the_product() {
        let normal = |seed: u64, shape: &[i64]| Key::new(seed).normal(shape, Kind::Double, Device::Cpu);
        for bias in [false, true] {
            let store = VarStore::new(Device::Cpu);
            let layer = Linear::init(&store.root(), 9, 7, bias, &SlotConfig::Dense, Key::new(1)).unwrap();
            let mean = MeanWeight::Factors { left: normal(2, &[7, 3]), right: normal(3, &[3, 9 + i64::from(bias)]) };
            let (x, pass) = (normal(4, &[5, 9]), Pass::plain(Mode::Eval));
            let gap = layer.apply_mean(&x, &mean, &pass).unwrap() - layer.apply(&x, &mean.matrix(), &pass).unwrap();
            assert!(gap.abs().max().double_value(&[]) < 1e-12, "bias {bias}");
        }
    }
}
