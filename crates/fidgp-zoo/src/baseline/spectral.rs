//! Plain weights whose spectral norm is bounded: `W/max(1, σ/c)` (Liu et al. 2020; van Amersfoort et al. 2021).

use fidgp::Key;
use fidgp::layer::{Apply, CustomWeight, DenseWeight, LayerGeometry, MakeWeight, Mode, Pass, PlannedWeight, Role};
use fidgp::spectral::{PowerState, SETTLED, spectral_norm};
use tch::Tensor;
use tch::nn::Path;

use crate::{Error, Result};

/// The bound.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct SpectralBound(pub f64);

impl SpectralBound {
    /// # Errors
    /// When the bound is not positive.
    pub fn check(self) -> Result<()> {
        if self.0 > 0.0 && self.0.is_finite() {
            return Ok(());
        }
        Err(Error::setting("spectral_norm", self.0, "must be greater than 0; 3 (DUE, DDU) and 6 (SNGP) are usual"))
    }
}

impl MakeWeight for SpectralBound {
    fn make(&self, planned: &PlannedWeight, path: &Path, key: Key) -> fidgp::Result<Box<dyn CustomWeight>> {
        let dense = planned.dense(&Role::Decayed.of(path), planned.bias, key);
        Ok(Box::new(SpectralWeight::init(path, dense, *self, key).map_err(Error::into_method)?))
    }

    /// The power iteration's two vectors.
    fn state(&self, layer: &LayerGeometry) -> i64 {
        let (_, _, biases) = layer.operation.widths();
        layer.weight().map_or(0, |(d_out, d_in)| d_out + d_in - i64::from(biases > 0))
    }
}

/// A plain weight, scaled down where its matrix `[d_out, d_in]` has a spectral norm above the bound.
#[derive(Debug)]
pub struct SpectralWeight {
    dense: DenseWeight,
    state: PowerState,
    bound: f64,
}

impl SpectralWeight {
    /// Bounds a weight; the power iteration's state are buffers under `path`.
    ///
    /// # Errors
    /// When the bound is not positive.
    pub fn init(path: &Path, dense: DenseWeight, bound: SpectralBound, key: Key) -> Result<Self> {
        bound.check()?;
        let state =
            tch::no_grad(|| PowerState::init(&(path / "power"), &dense.weight.flatten(1, -1), key.fold(&dense.name)));
        Ok(Self { dense, state, bound: bound.0 })
    }

    /// `W/max(1, σ/c)`, in the layer's own shape.
    pub fn weight(&self) -> Tensor {
        let norm = spectral_norm(&self.dense.weight.flatten(1, -1), &self.state);
        &self.dense.weight / (norm / self.bound).clamp_min(1.0)
    }
}

impl CustomWeight for SpectralWeight {
    fn name(&self) -> &str {
        &self.dense.name
    }

    fn started(&self) {
        self.state.settle(&self.dense.weight.detach().flatten(1, -1), SETTLED.0, SETTLED.1);
    }

    /// One step of the power iteration in training, none in evaluation.
    fn forward(&self, x: &Tensor, pass: &mut Pass, apply: &Apply) -> fidgp::Result<Tensor> {
        if pass.mode == Mode::Train && !pass.keep_statistics {
            self.state.advance(&self.dense.weight.flatten(1, -1), 1);
        }
        apply(x, &self.weight(), self.dense.bias.as_ref(), pass)
    }
}
