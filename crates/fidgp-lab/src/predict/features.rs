//! What the network makes of inputs before its last layer.

use fidgp::layer::{Factors, Mode, Pass, Taps};
use fidgp::linalg::Check;
use fidgp_zoo::methods::ddu::LOG_DENSITY;
use tch::{Kind, Tensor};

use super::Predictor;
use crate::error::{LabError, Result};

/// Where a network taps its penultimate features, if they are not what its last layer is given.
pub(crate) const FEATURES: &str = "features";

impl Predictor {
    /// Features of pictures: what the last layer is given, averaged over positions, with every weight at the centre of its
    /// posterior. `[N, C, H, W]`, 0 … 255 → `[N, n]`
    ///
    /// # Errors
    /// When the pictures do not fit the network, it has no features, or its members have features of their own.
    pub fn features(&mut self, pixels: &Tensor) -> Result<Tensor> {
        let x = self.trained.normalised(pixels)?;
        let network = self.trained.model.network.as_ref();
        let mut pass = self.centre.take().map_or_else(|| self.at_centre(), Ok)?;
        let last = network.head().unwrap_or(FEATURES);
        pass.taps = Taps::on(&[FEATURES, last]);
        let _ = tch::no_grad(|| network.forward(&x, &mut pass))?;
        let found = pass.taps.feature(FEATURES).or_else(|| pass.taps.input(last)).map(Tensor::shallow_clone);
        pass.taps = Taps::default();
        self.centre = Some(pass);
        let missing = || LabError::config("MODEL", "offers no features of its inputs");
        let (features, rows, members) = (found.ok_or_else(missing)?, x.size()[0], network.members());
        if features.size()[0] != rows * members {
            return Err(LabError::config("MODEL", "is an ensemble, whose members have features of their own"));
        }
        let features = if features.dim() == 4 {
            features.mean_dim([2_i64, 3].as_slice(), false, features.kind())
        } else {
            features
        };
        Ok(features.view([members, rows, -1]).mean_dim(0, false, Kind::Float))
    }

    fn at_centre(&self) -> Result<Pass> {
        let weights = self.trained.model.network.inducing();
        let pass = tch::no_grad(|| Pass::mean(&weights, &Factors::of(&weights, Check::Now)?, Mode::Eval))?;
        Ok(pass.computing_in(self.trained.model.compute))
    }

    /// Density of the features of a normalised batch, one for each picture, for a model that knows it.
    pub(super) fn log_density(&self, batch: &Tensor) -> Result<Option<Vec<f64>>> {
        let network = &self.trained.model.network;
        if !network.custom().iter().any(|weight| weight.taps().contains(&LOG_DENSITY)) {
            return Ok(None);
        }
        let mut pass = Pass::plain(Mode::Eval).with_taps(Taps::on(&[LOG_DENSITY]));
        let _ = tch::no_grad(|| network.forward(batch, &mut pass))?;
        pass.taps.feature(LOG_DENSITY).map(super::predictor::numbers).transpose()
    }
}
