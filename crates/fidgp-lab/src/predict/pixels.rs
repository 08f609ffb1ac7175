//! Pictures to a class for every pixel.

use fidgp::linalg::check_finite;
use fidgp::predict::{Effort, Segmented};
use fidgp_data::Picture;
use serde::Serialize;
use tch::{Kind, Tensor};

use super::Predictor;
use super::predictor::{numbers, other_inputs};
use crate::error::Result;
use crate::evaluate::{NOT_FINITE, pixel_classes};
use crate::maps::panels;

/// What the model says about one picture, pixel by pixel summed up.
#[derive(Clone, Debug, Serialize)]
pub struct PixelPrediction {
    /// Share of the pixels that are given each class.
    pub shares: Vec<f64>,
    /// Mean over pixels of the entropy of the mean, nats.
    pub total: f64,
    /// Mean entropy of the draws, nats.
    pub aleatoric: f64,
    /// Their difference, nats.
    pub epistemic: f64,
    /// Picture, prediction, total, aleatoric and epistemic uncertainty side by side.
    #[serde(skip)]
    pub map: Picture,
}

impl PixelPrediction {
    /// Sums up one of several pictures. `[C, H, W]`, 0 … 255
    ///
    /// # Errors
    /// When picture and prediction are of different sizes.
    pub fn of(picture: &Tensor, segmented: &Segmented, index: i64) -> Result<Self> {
        let probs = segmented.probs.get(index);
        let (classes, predicted) = (probs.size()[0], probs.argmax(0, false).reshape([-1]));
        let shares = predicted.bincount(None::<&Tensor>, classes).to_kind(Kind::Double) / predicted.numel() as f64;
        let mean = |tensor: &Tensor| tensor.get(index).mean(Kind::Double).double_value(&[]);
        Ok(Self {
            shares: numbers(&shares)?,
            total: mean(&segmented.total),
            aleatoric: mean(&segmented.aleatoric),
            epistemic: mean(&segmented.epistemic),
            map: panels(picture, segmented, index, None)?,
        })
    }

    /// The classes with the most pixels, first.
    pub fn top(&self, count: usize) -> Vec<(usize, f64)> {
        let mut all: Vec<_> = self.shares.iter().copied().enumerate().filter(|(_, share)| *share > 0.0).collect();
        all.sort_by(|a, b| b.1.total_cmp(&a.1));
        all.truncate(count);
        all
    }
}

impl Predictor {
    /// Segments pictures of one size.
    ///
    /// # Shapes
    /// `[N, 3, H, W]`, 0 … 255
    ///
    /// # Errors
    /// When the model does not segment, or the pictures do not fit it.
    pub fn segment(&mut self, pictures: &Tensor, effort: Effort) -> Result<Segmented> {
        let model = &self.trained.model;
        let classes = pixel_classes(model)?;
        if pictures.dim() != 4 || pictures.size()[1] != 3 {
            return Err(other_inputs(pictures, "colour pictures of [N, 3, H, W]"));
        }
        let x = self.trained.normalised(pictures)?;
        let window = self.trained.config.predict.window;
        let segment = || self.law.segment(model.network.as_ref(), &x, (classes, window), effort);
        let (segmented, _) = tch::no_grad(segment)?;
        check_finite("probabilities of the pixels", &segmented.probs, NOT_FINITE)?;
        Ok(segmented)
    }
}
