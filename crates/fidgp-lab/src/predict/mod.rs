//! Trained models used on new inputs, without the data they were trained on.
//!
//! A folder is opened as a [`Trained`]; a [`Predictor`] owns it, and what its predictions are made from. It takes pixels and
//! numbers; [`files`] brings it those of files.

mod any;
mod classes;
mod evidence;
mod features;
pub mod files;
mod numbers;
mod pixels;
mod predictor;
mod together;
mod trained;

pub use any::{Inputs, Predictions};
pub use classes::ClassPrediction;
pub(crate) use classes::row_batches;
pub(crate) use features::FEATURES;
pub use files::Predicted;
pub use numbers::NumberPrediction;
pub use pixels::{PixelPrediction, SetsSaid};
pub use predictor::Predictor;
pub use trained::Trained;
