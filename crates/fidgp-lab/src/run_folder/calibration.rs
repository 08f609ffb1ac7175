//! The rules for decisions in the folder of a run or a model: whether they belong to what predicts.

use std::path::Path;

use fidgp::linearised::LinearisedPosterior;
use fidgp_decision::{CALIBRATION_FILE, Calibration};
use tch::Tensor;

use crate::error::Result;
use crate::model::Model;
use crate::train::checkpoint;

/// SHA-256 of what predicts: weights, temperature, linearised posterior.
///
/// # Errors
/// When a tensor cannot be read.
pub fn digest(model: &Model) -> Result<String> {
    let mut tensors = checkpoint::variables(&model.store);
    tensors.extend(model.posterior.iter().flat_map(LinearisedPosterior::tensors));
    tensors.extend(model.temperature.map(|temperature| ("temperature".to_owned(), Tensor::from_slice(&[temperature]))));
    checkpoint::sha256(tensors.iter().map(|(name, tensor)| (name, tensor)))
}

/// The rules in a folder, where there are any.
///
/// # Errors
/// When they are broken, or belong to another model than that in the folder.
pub fn read(folder: &Path, model: &Model) -> Result<Option<Calibration>> {
    if !folder.join(CALIBRATION_FILE).exists() {
        return Ok(None);
    }
    Ok(Calibration::read(folder, Some(&digest(model)?))?)
}
