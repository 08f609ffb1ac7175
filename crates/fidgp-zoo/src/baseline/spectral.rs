//! Plain weights whose spectral norm is bounded: `W/max(1, σ/c)` (Liu et al. 2020; van Amersfoort et al. 2021).

use fidgp::Key;
use fidgp::layer::{Apply, CustomWeight, DenseWeight, Mode, Pass};
use fidgp::spectral::{PowerState, SETTLED, spectral_norm};
use tch::Tensor;
use tch::nn::Path;

use crate::{Error, Result};

/// A plain weight, scaled down where its matrix `[d_out, d_in]` has a spectral norm above the bound.
#[derive(Debug)]
pub struct SpectralWeight {
    dense: DenseWeight,
    state: PowerState,
    bound: f64,
}

impl SpectralWeight {
    /// # Errors
    /// When the bound is not positive.
    pub fn check(bound: f64) -> Result<()> {
        if bound > 0.0 && bound.is_finite() {
            return Ok(());
        }
        Err(Error::setting("spectral_norm", bound, "must be greater than 0; 3 (DUE, DDU) and 6 (SNGP) are usual"))
    }

    /// Bounds a weight; the power iteration's state are buffers under `path`.
    ///
    /// # Errors
    /// When the bound is not positive.
    pub fn init(path: &Path, dense: DenseWeight, bound: f64, key: Key) -> Result<Self> {
        Self::check(bound)?;
        let state =
            tch::no_grad(|| PowerState::init(&(path / "power"), &dense.weight.flatten(1, -1), key.fold(&dense.name)));
        Ok(Self { dense, state, bound })
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
