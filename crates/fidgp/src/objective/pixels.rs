//! A class label for every pixel.

use serde::{Deserialize, Serialize};
use tch::nn::Path;
use tch::{Kind, Reduction, Tensor};

use super::categorical::{categorical_curvature, check_weights, in_full};
use super::likelihood::{Given, Likelihood, LikelihoodSettings, Reading, Targets};
use crate::layer::Curvature;
use crate::{Error, Result};

/// Class probabilities of every pixel, independent of each other given the weights; void pixels do not count.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PixelSettings {
    /// Weight of the auxiliary head's loss.
    #[serde(default = "half")]
    pub aux_weight: f64,
    /// How much a pixel of each class counts in training.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub class_weights: Option<Vec<f64>>,
}

fn half() -> f64 {
    0.5
}

impl LikelihoodSettings for PixelSettings {
    fn targets(&self) -> Targets {
        Targets::Pixels
    }

    fn check(&self, classes: Option<usize>) -> Result<()> {
        if !(self.aux_weight >= 0.0 && self.aux_weight.is_finite()) {
            return Err(Error::setting("likelihood.aux_weight", self.aux_weight, "must be 0 or greater"));
        }
        check_weights(self.class_weights.as_ref(), classes)
    }

    fn outputs(&self, classes: i64) -> i64 {
        classes
    }

    fn init(&self, path: &Path, given: &Given) -> Result<Box<dyn Likelihood>> {
        let to = |weights: &Vec<f64>| Tensor::from_slice(weights).to_kind(Kind::Float).to_device(path.device());
        let weights = self.class_weights.as_ref().map(to);
        let Given { classes, head, .. } = *given;
        Ok(Box::new(Pixels { classes, outputs: head, aux_weight: self.aux_weight, weights }))
    }
}

/// What the outputs of a segmentation network mean.
#[derive(Debug)]
struct Pixels {
    classes: i64,
    /// Outputs of the head; those of the auxiliary head stand behind them in training.
    outputs: i64,
    aux_weight: f64,
    /// How much a pixel of each class counts. `[classes]`
    weights: Option<Tensor>,
}

impl Likelihood for Pixels {
    /// Loss of the head, and of the auxiliary head where it has spoken.
    fn nll(&self, outputs: &Tensor, targets: &Tensor) -> Tensor {
        let of = |first: i64| pixel_nll(&outputs.narrow(1, first, self.classes), targets, self.weights.as_ref());
        if outputs.size()[1] > self.outputs { of(0) + of(self.outputs) * self.aux_weight } else { of(0) }
    }

    /// Pixels that have a class, by their weight.
    fn mass(&self, targets: &Tensor) -> f64 {
        pixel_mass(targets, self.weights.as_ref()).double_value(&[])
    }

    fn curvature(&self, outputs: &Tensor) -> Curvature {
        categorical_curvature(outputs)
    }

    fn reading(&self) -> Reading<'_> {
        Reading::Pixels { classes: self.classes }
    }
}

/// The label of pixels that have no class: they count nowhere.
pub const VOID: i64 = 255;

/// Mean cross-entropy over the pixels that have a class, logits enlarged to the labels' size (bilinear); with weights, each
/// pixel counts as much as its class. 0 where no pixel has a class.
///
/// # Shapes
/// `[N, classes, h, w]`, `[N, H, W]`, weights `[classes]` → scalar
pub fn pixel_nll(logits: &Tensor, labels: &Tensor, weights: Option<&Tensor>) -> Tensor {
    let size = labels.size();
    let logits = in_full(logits).upsample_bilinear2d([size[1], size[2]], false, None, None);
    let of_classes = weights.map(|weights| weights.to_kind(logits.kind()));
    let sum = logits.cross_entropy_loss(labels, of_classes.as_ref(), Reduction::Sum, VOID, 0.0);
    sum / pixel_mass(labels, weights).clamp_min(f64::from(f32::MIN_POSITIVE))
}

/// What [`pixel_nll`] divides by: how many pixels have a class, each with the weight of its class. Scalar.
pub fn pixel_mass(labels: &Tensor, weights: Option<&Tensor>) -> Tensor {
    let counts = labels.ne(VOID).to_kind(Kind::Float);
    let mass = match weights {
        Some(weights) => {
            let last = weights.size()[0] - 1;
            counts * weights.index_select(0, &labels.clamp(0, last).flatten(0, -1)).view_as(labels)
        }
        None => counts,
    };
    mass.sum(Kind::Float)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pixels_without_a_class_do_not_count() {
        let logits = Tensor::from_slice(&[2f32, 0.0, 1.0, 0.0, 1.0, 5.0]).view([1, 2, 1, 3]); // classes × pixels
        let labels = Tensor::from_slice(&[0i64, 1, VOID]).view([1, 1, 3]);
        let own = |a: f64, b: f64| (1.0 + (b - a).exp()).ln(); // −log softmax
        let (first, second) = (own(2.0, 0.0), own(1.0, 0.0));
        let value = |weights: Option<&Tensor>| pixel_nll(&logits, &labels, weights).double_value(&[]);
        assert!((value(None) - f64::midpoint(first, second)).abs() < 1e-6);
        let weights = Tensor::from_slice(&[3f32, 1.0]);
        assert!((value(Some(&weights)) - (3.0 * first + second) / 4.0).abs() < 1e-6);
        let void = labels.full_like(VOID);
        assert!(pixel_nll(&logits, &void, Some(&weights)).double_value(&[]).abs() < 1e-12);
    }
}
