//! What the network makes of inputs before its last layer.

use fidgp::layer::{Factors, Mode, Pass, Taps};
use fidgp::linalg::Check;
use fidgp::predict::mean_features;
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
        self.features_of(&self.trained.normalised(pixels)?)
    }

    /// The same of rows of a table, row-major, as they are before they are standardised. → `[N, n]`
    ///
    /// # Errors
    /// As [`Self::features`], and when there are no whole rows of finite numbers.
    pub fn features_of_rows(&mut self, rows: &[f64]) -> Result<Tensor> {
        let inputs = self.trained.inputs_of_rows("rows", rows)?;
        let parts = inputs.iter().map(|batch| self.features_of(batch)).collect::<Result<Vec<_>>>()?;
        Ok(Tensor::f_cat(&parts, 0)?)
    }

    fn features_of(&mut self, x: &Tensor) -> Result<Tensor> {
        let network = self.trained.model.network.as_ref();
        let mut pass = self.centre.take().map_or_else(|| self.at_centre(), Ok)?;
        let last = network.head().unwrap_or(FEATURES);
        pass.taps = Taps::on(&[FEATURES, last]);
        let _ = tch::no_grad(|| network.forward(x, &mut pass))?;
        let found = pass.taps.feature(FEATURES).or_else(|| pass.taps.input(last)).map(Tensor::shallow_clone);
        pass.taps = Taps::default();
        self.centre = Some(pass);
        let missing = || LabError::config("MODEL", "offers no features of its inputs");
        let features = mean_features(&found.ok_or_else(missing)?, network.members(), x.size()[0]);
        let own = || LabError::config("MODEL", "is an ensemble, whose members have features of their own");
        let features = features.filter(|features| features.size()[0] == x.size()[0]).ok_or_else(own)?;
        let is_map = features.dim() == 4;
        let features = if is_map { features.mean_dim([2_i64, 3].as_slice(), false, Kind::Float) } else { features };
        Ok(features.to_kind(Kind::Float).f_reshape([x.size()[0], -1])?)
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
