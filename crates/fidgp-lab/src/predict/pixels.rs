//! Pictures to a class for every pixel.

use std::path::Path;

use fidgp::linalg::check_finite;
use fidgp::predict::segment;
use fidgp_data::Picture;
use serde::Serialize;
use tch::{Device, Kind, Tensor};

use super::Predictor;
use crate::config::DataConfig;
use crate::error::{LabError, Result};
use crate::evaluate::{NOT_FINITE, pixels};
use crate::maps::panels;
use crate::source::View;

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
    /// The classes with the most pixels, first.
    pub fn top(&self, count: usize) -> Vec<(usize, f64)> {
        let mut all: Vec<_> = self.shares.iter().copied().enumerate().filter(|(_, share)| *share > 0.0).collect();
        all.sort_by(|a, b| b.1.total_cmp(&a.1));
        all.truncate(count);
        all
    }
}

impl Predictor {
    /// Whether the model gives a class for every pixel.
    pub fn segments(&self) -> bool {
        matches!(self.config.data, DataConfig::Segmentation(_))
    }

    /// How pictures become inputs when whole pictures are scored: a segmentation sees a square as high as its crop.
    pub fn square_view(&self) -> Option<View> {
        match &self.config.data {
            DataConfig::Segmentation(pairs) => {
                let side = pairs.crop[0].min(pairs.crop[1]) as u32;
                Some(View { channels: 3, resize: side, crop: side })
            }
            _ => self.view,
        }
    }

    /// Segments a picture file with K draws.
    ///
    /// # Errors
    /// When the model does not segment, or the file cannot be read.
    pub fn segment(&self, file: &Path, draws: u64) -> Result<PixelPrediction> {
        let classes = pixels(&self.model)?.classes;
        let normalisation = self.model.normalisation.as_ref();
        let normalisation = normalisation.ok_or_else(|| LabError::config("MODEL", "has no normalisation"))?;
        let picture = Picture::open(file)?;
        let [width, height] = picture.size().map(i64::from);
        let bytes = Tensor::from_slice(&picture.planar()).view([1, 3, height, width]);
        let x = normalisation.apply(&bytes.to_device(self.model.store.device()).to_kind(Kind::Float));
        let draws = self.draws(draws)?;
        let segmented = tch::no_grad(|| segment(&draws, &x, classes, self.config.predict.window))?;
        check_finite("probabilities of the pixels", &segmented.probs, NOT_FINITE)?;
        let predicted = segmented.probs.get(0).argmax(0, false).reshape([-1]);
        let counts = predicted.bincount(None::<&Tensor>, classes).to_kind(Kind::Double) / (width * height) as f64;
        let mean = |tensor: &Tensor| tensor.mean(Kind::Double).double_value(&[]);
        Ok(PixelPrediction {
            shares: Vec::try_from(counts.to_device(Device::Cpu))?,
            total: mean(&segmented.total),
            aleatoric: mean(&segmented.aleatoric),
            epistemic: mean(&segmented.epistemic),
            map: panels(&bytes.get(0), &segmented, 0, None)?,
        })
    }
}
