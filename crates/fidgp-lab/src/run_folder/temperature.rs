//! The temperature that `fidgp calibrate` fitted to a run, beside its checkpoint.

use std::path::Path;

use fidgp_metrics::recalibration::{Candidate, Recalibration};
use fidgp_zoo::baseline::temperature::Tempered;
use serde::{Deserialize, Serialize};

use crate::error::{LabError, Result};
use crate::files::TEMPERATURE_FILE;
use crate::json;
use crate::model::{Mended, Model};
use crate::train::checkpoint;

use super::posterior;

/// What was fitted.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Temperature {
    /// T: logits are divided by it.
    pub temperature: f64,
    /// Whether T is an end of the range it is looked for in, 1/20 to 20: what is best lies beyond it.
    #[serde(default)]
    pub at_edge: bool,
    /// Validation examples it was fitted on.
    pub examples: usize,
    /// The training step of the weights it belongs to.
    pub step: u64,
    /// Their digest.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub weights_sha256: Option<String>,
    /// Digest of the linearised posterior that predicted when it was fitted; none where weights were drawn.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub posterior_sha256: Option<String>,
    /// Their NLL before.
    pub nll_before: f64,
    /// And after.
    pub nll_after: f64,
    /// Their expected calibration error before, 15 bins of equal width.
    pub ece_before: f64,
    /// And after.
    pub ece_after: f64,
    /// What probabilities are mapped with after that, where a map has a lower NLL on held-out examples.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub recalibration: Option<Recalibration>,
    /// What was tried for it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub recalibrations: Option<Tried>,
}

/// Maps of probabilities that were tried.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Tried {
    /// NLL of the examples with the temperature alone.
    pub nll: f64,
    /// With each of the maps, on examples that it was not fitted to.
    pub maps: Vec<Candidate>,
}

/// The temperature of a run folder, if it has one, for these weights of this training step and what predicts with them.
///
/// # Errors
/// When the file is broken or belongs to other weights or another posterior.
pub fn read(run: &Path, step: u64, model: &Model) -> Result<Option<Mended>> {
    let path = run.join(TEMPERATURE_FILE);
    if !path.exists() {
        return Ok(None);
    }
    let broken = |why: String| LabError::File { path: path.clone(), why };
    let found: Temperature = json::read(&path)?;
    Tempered::check(found.temperature).map_err(|error| broken(error.to_string()))?;
    let sound = found.recalibration.as_ref().map_or(Ok(()), Recalibration::check);
    sound.map_err(|error| broken(format!("`recalibration`: {error}")))?;
    if found.step != step {
        let why = format!("was fitted to the weights of step {}, these are of step {step}", found.step);
        return Err(broken(format!("{why}; run `fidgp calibrate` again or remove it")));
    }
    if let Some(fitted_to) = &found.weights_sha256
        && *fitted_to != checkpoint::sha256_of(&model.store)?
    {
        let why = "was fitted to other weights than the checkpoint holds; run `fidgp calibrate` again or remove it";
        return Err(broken(why.to_owned()));
    }
    if found.posterior_sha256 != posterior::digest(model)? {
        let why = "was fitted to another posterior than predicts now (`fidgp fit-posterior` was run since); run `fidgp \
                   calibrate` again or remove it";
        return Err(broken(why.to_owned()));
    }
    Ok(Some(Mended { temperature: found.temperature, map: found.recalibration }))
}
