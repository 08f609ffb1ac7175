//! Inputs of any kind to predictions of any kind.

use fidgp::predict::{Effort, Segmented};
use tch::Tensor;

use super::{ClassPrediction, NumberPrediction, Predictor};
use crate::error::Result;

/// New inputs.
#[derive(Debug)]
pub enum Inputs {
    /// Pixels, 0 … 255: in the size that the model takes, of any size for a segmentation. `[N, C, H, W]`
    Pixels(Tensor),
    /// Rows of a table, row-major, the features in the model's order.
    Rows(Vec<f64>),
}

/// What the model says about them.
#[derive(Debug)]
pub enum Predictions {
    /// Of each picture or row.
    Classes(Vec<ClassPrediction>),
    /// Of each row.
    Numbers(Vec<NumberPrediction>),
    /// Of each pixel.
    Pixels(Segmented),
}

impl Predictor {
    /// Predicts, whatever the model is for.
    ///
    /// # Errors
    /// When the inputs are not of the kind and size that the model takes, or the effort is impossible.
    pub fn predict(&mut self, inputs: &Inputs, effort: Effort) -> Result<Predictions> {
        match inputs {
            Inputs::Pixels(pixels) if self.trained.segments() => Ok(Predictions::Pixels(self.segment(pixels, effort)?)),
            Inputs::Pixels(pixels) => Ok(Predictions::Classes(self.classify(pixels, 0, effort)?)),
            Inputs::Rows(rows) if !self.trained.classes.is_empty() => {
                Ok(Predictions::Classes(self.classify_rows(rows, effort)?))
            }
            Inputs::Rows(rows) => Ok(Predictions::Numbers(self.regress(rows, effort)?)),
        }
    }
}
