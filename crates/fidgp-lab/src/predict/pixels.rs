//! Pictures to a class for every pixel.

use fidgp::linalg::check_finite;
use fidgp::predict::{Effort, Segmented};
use fidgp_data::Picture;
use fidgp_decision::PixelSets;
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
    /// Of a calibrated model, what sets of classes its pixels have.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub sets: Vec<SetsSaid>,
    /// Picture, prediction, total, aleatoric and epistemic uncertainty side by side.
    #[serde(skip)]
    pub map: Picture,
}

/// The sets of classes of a picture's pixels at a level: those whose probability is at least a threshold, and the most probable.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct SetsSaid {
    /// The level.
    pub level: f64,
    /// The class that the level is kept for; none for all pixels.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub class: Option<usize>,
    /// Classes in the set of a pixel, on average; of a class the share of the pixels that may be of it.
    pub mean: f64,
    /// Share of the pixels whose set holds one class alone.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub single: Option<f64>,
}

impl SetsSaid {
    /// `[classes, H, W]`
    fn of(probs: &Tensor, rule: &PixelSets) -> Result<Self> {
        let best = probs.f_amax([0_i64].as_slice(), true)?;
        let held = probs.ge(rule.threshold.unwrap_or(0.0)).logical_or(&probs.ge_tensor(&best));
        let share = |held: &Tensor| held.to_kind(Kind::Double).mean(Kind::Double).double_value(&[]);
        let PixelSets { level, class, .. } = *rule;
        if let Some(class) = class {
            return Ok(Self { level, class: Some(class), mean: share(&held.f_select(0, class as i64)?), single: None });
        }
        let sizes = held.to_kind(Kind::Double).sum_dim_intlist(0, false, Kind::Double);
        let mean = sizes.mean(Kind::Double).double_value(&[]);
        Ok(Self { level, class: None, mean, single: Some(share(&sizes.le(1.0))) })
    }
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
            sets: Vec::new(),
            map: panels(picture, segmented, index, None)?,
        })
    }

    /// With the sets of classes that rules give to its pixels.
    ///
    /// # Errors
    /// When there is no such picture.
    pub fn with_sets(self, segmented: &Segmented, index: i64, rules: &[PixelSets]) -> Result<Self> {
        let probs = segmented.probs.get(index);
        let sets = rules.iter().map(|rule| SetsSaid::of(&probs, rule)).collect::<Result<_>>()?;
        Ok(Self { sets, ..self })
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
