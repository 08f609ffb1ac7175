//! Temperature scaling of a run: fitted on its validation examples, kept beside its checkpoint, used by whoever opens it.

use std::path::Path;

use fidgp::Key;
use fidgp_metrics::{Predictions, ReliabilityTable};
use fidgp_zoo::baseline::temperature::{self, Tempered};
use serde::{Deserialize, Serialize};
use tch::{Device, Kind, Tensor};

use crate::config::{DataConfig, RunConfig};
use crate::error::{LabError, Result};
use crate::evaluate::BINS;
use crate::experiment::{Sets, Use, norms, restore_as_trained, same_classes, same_examples};
use crate::json;
use crate::model::Model;
use crate::source::ImageSet;

/// The file in a run folder.
pub const TEMPERATURE_FILE: &str = "temperature.json";

/// What was fitted.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
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
    /// Their NLL before.
    pub nll_before: f64,
    /// And after.
    pub nll_after: f64,
    /// Their expected calibration error before, 15 bins of equal width.
    pub ece_before: f64,
    /// And after.
    pub ece_after: f64,
}

/// Fits a temperature to the trained network of a run and writes it into the run folder.
///
/// # Errors
/// As [`fit`], and when the disk fails.
pub fn run(config: &RunConfig, run: &Path, data: &Path, device: Device) -> Result<Temperature> {
    let found = fit(config, run, data, device)?;
    json::write(&run.join(TEMPERATURE_FILE), &found)?;
    Ok(found)
}

/// Fits a temperature to the trained network of a run.
///
/// # Errors
/// When the run is no classification, or has no validation examples or no checkpoint.
pub fn fit(config: &RunConfig, run: &Path, data: &Path, device: Device) -> Result<Temperature> {
    config.check()?;
    check(config)?;
    let sets = Sets::read(config, data)?;
    same_classes(run, sets.train.classes())?;
    same_examples(run, &sets.train.trained_on())?; // else some of them may have been trained on
    let Some(validation) = &sets.validation else { return Err(no_validation()) };
    let mut model = Model::init(config, &sets.train.signature(config)?, device)?;
    let step = restore_as_trained(config, run, &mut model)?;
    norms::complete(config, &mut model, &sets)?;
    let set = validation.source(config, &model, Use::Measuring, device)?;
    let (logits, labels) = logits(config, &model, set.as_ref())?;
    let fitted = temperature::fit(&logits, &labels)?;
    let [(nll_before, ece_before), (nll_after, ece_after)] =
        [quality(&logits, &labels, 1.0)?, quality(&logits, &labels, fitted)?];
    Ok(Temperature {
        temperature: fitted,
        at_edge: temperature::at_edge(fitted),
        examples: labels.size()[0] as usize,
        step,
        nll_before,
        nll_after,
        ece_before,
        ece_after,
    })
}

fn no_validation() -> LabError {
    let why = "= 0: a temperature is fitted on validation examples, never on those of training or test";
    LabError::config("data.validation_fraction", why)
}

/// Refuses what is no classification of images, or has no validation part.
pub(crate) fn check(config: &RunConfig) -> Result<()> {
    let what = match &config.data {
        DataConfig::Images { .. } | DataConfig::Arrays(_) | DataConfig::Folder(_) => {
            let has_some = config.data.validation_fraction().is_some_and(|fraction| fraction > 0.0);
            return if has_some { Ok(()) } else { Err(no_validation()) };
        }
        DataConfig::Segmentation(_) => "a segmentation",
        DataConfig::Synthetic1d { .. } | DataConfig::Uci { .. } | DataConfig::Table(_) => "a regression",
    };
    Err(LabError::config("data.set", format!("is {what}; temperatures are for the classification of images")))
}

/// The temperature of a run folder, if it has one, for weights of this training step.
///
/// # Errors
/// When the file is broken or belongs to other weights.
pub fn read(run: &Path, step: u64) -> Result<Option<f64>> {
    let path = run.join(TEMPERATURE_FILE);
    if !path.exists() {
        return Ok(None);
    }
    let broken = |why: String| LabError::File { path: path.clone(), why };
    let found: Temperature = json::read(&path)?;
    Tempered::check(found.temperature).map_err(|error| broken(error.to_string()))?;
    if found.step != step {
        let why = format!("was fitted to the weights of step {}, these are of step {step}", found.step);
        return Err(broken(format!("{why}; run `fidgp calibrate` again or remove it")));
    }
    Ok(Some(found.temperature))
}

/// Logits of every draw or member, and the labels. `[K, N, C]`, `[N]`
fn logits(config: &RunConfig, model: &Model, set: &dyn ImageSet) -> Result<(Tensor, Tensor)> {
    let mut draws = model.draws(config.predict.draws, Key::new(config.seed).fold("predict"))?;
    let members = model.network.members();
    let (mut all, mut labels) = (Vec::new(), Vec::new());
    for chunk in set.chunks(config.predict.batch_size) {
        let (batches, truth) = chunk?;
        let mut of_batch: Vec<Vec<Tensor>> = batches.iter().map(|_| Vec::new()).collect();
        draws.outputs(&batches, |index, logits| {
            let logits = logits.to_kind(Kind::Float).to_device(Device::Cpu);
            of_batch[index].push(logits.view([members, -1, logits.size()[1]]));
            Ok(())
        })?;
        draws.first_batch += batches.len() as u64;
        all.extend(of_batch.iter().map(|draws| Tensor::cat(draws, 0)));
        labels.push(truth.to_device(Device::Cpu));
    }
    Ok((Tensor::f_cat(&all, 1)?, Tensor::f_cat(&labels, 0)?))
}

/// NLL and ECE at a temperature.
fn quality(logits: &Tensor, labels: &Tensor, temperature: f64) -> Result<(f64, f64)> {
    let probs = temperature::probabilities(logits, temperature);
    let classes = probs.size()[1] as usize;
    let probs = Vec::<f64>::try_from(probs.reshape([-1]))?;
    let labels: Vec<usize> = Vec::<i64>::try_from(labels)?.into_iter().map(|label| label as usize).collect();
    let predictions = Predictions::new(&probs, classes, &labels)?;
    Ok((predictions.nll(), ReliabilityTable::equal_width(&predictions, BINS)?.ece().value))
}
