//! The linearised posterior of a run or a model, in its folder: what it is in words and numbers, and its tensors.

use std::collections::{BTreeMap, HashMap};
use std::path::Path;

use fidgp::linearised::{Directions, LinearisedPosterior, OwnConditional};
use fidgp_data::file_sha256;
use serde::{Deserialize, Serialize};
use tch::Tensor;

use super::chosen_checkpoint;
use crate::config::RunConfig;
use crate::error::{LabError, Result};
use crate::files::{POSTERIOR_FILE, POSTERIOR_TENSORS_FILE};
use crate::json;
use crate::model::Model;
use crate::train::checkpoint::{self, Progress};

/// Under which name the record stands in the header of the tensors' file.
const RECORD: &str = "posterior";

/// What a linearised posterior is, for people and for reading it again.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PosteriorRecord {
    /// dense, kronecker, low-rank or classes.
    pub structure: String,
    /// Whether it is linear in readouts of features instead of in the inducing matrices.
    #[serde(default)]
    pub features: bool,
    /// The layers it is over.
    pub layers: Vec<String>,
    /// δ.
    pub prior_precision: f64,
    /// The noise's precision in units of the trained one.
    pub noise_precision: f64,
    /// How many directions the data decide.
    pub decided: f64,
    /// Of how many.
    pub dimensions: i64,
    /// The share of the curvature's trace that is held.
    pub share: f64,
    /// Whether what W given U adds is kept.
    pub conditional: bool,
    /// The training step of the weights it belongs to.
    pub step: u64,
    /// SHA-256 of its tensors; not in files of before.
    #[serde(default)]
    pub sha256: Option<String>,
    /// SHA-256 of the weights it belongs to; not in files of before.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub weights_sha256: Option<String>,
}

impl PosteriorRecord {
    fn of(model: &Model, posterior: &LinearisedPosterior, step: u64) -> Self {
        let chosen = |name: &str| posterior.layers.iter().any(|layer| layer == name);
        let weights = model.network.inducing();
        let features = posterior.directions == Directions::Features;
        let sizes = weights.iter().filter(|weight| chosen(&weight.name)).map(|weight| weight.sizes());
        Self {
            structure: posterior.structure.kind().to_owned(),
            features,
            layers: posterior.layers.clone(),
            prior_precision: posterior.precision.prior,
            noise_precision: posterior.precision.curvature,
            decided: posterior.decided,
            dimensions: sizes.map(|sizes| if features { sizes.cols } else { sizes.rows * sizes.cols }).sum(),
            share: posterior.structure.share(),
            conditional: !features && posterior.conditional == OwnConditional::Kept,
            step,
            sha256: None,
            weights_sha256: None,
        }
    }
}

/// Writes the posterior of a model beside the checkpoint it belongs to, in place of an older one.
pub fn keep(config: &RunConfig, model: &Model, run: &Path) -> Result<()> {
    let checkpoint = chosen_checkpoint(config, run);
    if !checkpoint.exists() {
        return Ok(()); // train.checkpoint_every = 0 keeps none
    }
    write(run, model, checkpoint::load(&checkpoint)?.progress.step)
}

/// Writes the posterior of a model into a folder; where it has none, what stood there goes.
///
/// The tensors' file has the record in its header and is what counts: it takes its place in one step. The record by itself is
/// for people.
pub fn write(folder: &Path, model: &Model, step: u64) -> Result<()> {
    let (copy, path) = (folder.join(POSTERIOR_FILE), folder.join(POSTERIOR_TENSORS_FILE));
    let Some(posterior) = &model.posterior else { return remove(folder) };
    let tensors: BTreeMap<_, _> = posterior.tensors().into_iter().collect();
    let record = PosteriorRecord {
        sha256: Some(checkpoint::sha256(&tensors)?),
        weights_sha256: Some(checkpoint::sha256_of(&model.store)?),
        ..PosteriorRecord::of(model, posterior, step)
    };
    let tensors: Vec<_> = tensors.into_iter().collect();
    checkpoint::check_finite(&tensors, &Progress { step, ..Progress::default() }, None)?;
    let text = serde_json::to_string(&record).map_err(|error| LabError::file(&path, &error))?;
    checkpoint::write(&path, &tensors, (RECORD, text))?;
    json::write(&copy, &record)
}

/// Takes the posterior out of a folder.
fn remove(folder: &Path) -> Result<()> {
    [POSTERIOR_FILE, POSTERIOR_TENSORS_FILE].iter().try_for_each(|file| {
        let path = folder.join(file);
        match std::fs::remove_file(&path) {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => Err(LabError::file(&path, &error)),
            _ => Ok(()),
        }
    })
}

/// Takes the posterior out of a run whose training goes on: its weights are about to become others. A run whose training is
/// over keeps it.
///
/// # Errors
/// When the checkpoint cannot be read or the disk fails.
pub fn forget_before_training(config: &RunConfig, run: &Path) -> Result<()> {
    let last = checkpoint::last(run);
    let is_there = [POSTERIOR_FILE, POSTERIOR_TENSORS_FILE].iter().any(|file| run.join(file).exists());
    if is_there && last.exists() && checkpoint::load(&last)?.progress.epoch < config.train.epochs {
        return remove(run);
    }
    Ok(())
}

/// Reads what [`write()`] wrote, for weights of this training step; none where there is none.
pub fn read(folder: &Path, step: u64, model: &Model) -> Result<Option<LinearisedPosterior>> {
    let (copy, path) = (folder.join(POSTERIOR_FILE), folder.join(POSTERIOR_TENSORS_FILE));
    if !copy.exists() && !path.exists() {
        return Ok(None);
    }
    let (saved, said) = checkpoint::load_with(&path, RECORD)?;
    let broken = |path: &Path, why: String| LabError::File { path: path.to_owned(), why };
    let record = match &said {
        Some(text) => serde_json::from_str(text).map_err(|error| broken(&path, format!("its record: {error}")))?,
        None => of_before(&copy, &path, saved.progress.step)?,
    };
    let again = "run `fidgp fit-posterior` again or remove it";
    if record.step != step {
        let why = format!("belongs to the weights of step {}, these are of step {step}; {again}", record.step);
        return Err(broken(&path, why));
    }
    if let Some(weights) = &record.weights_sha256
        && *weights != checkpoint::sha256_of(&model.store)?
    {
        return Err(broken(&path, format!("belongs to other weights than those here (their SHA-256 differ); {again}")));
    }
    if said.is_some() && record.sha256 != Some(checkpoint::sha256(&saved.tensors)?) {
        let why = format!("its tensors are not those it was written with (their SHA-256 differ); {again}");
        return Err(broken(&path, why));
    }
    let named: Vec<_> = saved.tensors.iter().map(|(name, tensor)| (name.clone(), tensor.shallow_clone())).collect();
    checkpoint::not_finite(&named).map_or(Ok(()), |what| Err(broken(&path, what)))?;
    let device = model.store.device();
    let stored = named.into_iter().map(|(name, tensor)| (name, tensor.to_device(device))).collect();
    restored(record, &stored, model).map(Some).map_err(|error| broken(&path, error.to_string()))
}

/// The record of a posterior from before it stood in the tensors' file, which it has the digest of.
fn of_before(copy: &Path, tensors: &Path, step: u64) -> Result<PosteriorRecord> {
    let record: PosteriorRecord = json::read(copy)?;
    let again = "run `fidgp fit-posterior` again or remove both";
    if record.sha256.is_some() && record.sha256 != Some(file_sha256(tensors)?) {
        let why = format!("is not the file that {POSTERIOR_FILE} was written with (their SHA-256 differ); {again}");
        return Err(LabError::File { path: tensors.to_owned(), why });
    }
    if record.step != step {
        let why =
            format!("belongs to the weights of step {}, its tensors to those of step {step}; {again}", record.step);
        return Err(LabError::File { path: copy.to_owned(), why });
    }
    Ok(record)
}

/// The posterior of a record and its tensors, which must be of the layers of the network.
fn restored(record: PosteriorRecord, stored: &HashMap<String, Tensor>, model: &Model) -> Result<LinearisedPosterior> {
    let conditional = if record.conditional { OwnConditional::Kept } else { OwnConditional::Dropped };
    let directions = if record.features { Directions::Features } else { Directions::Gradients };
    let posterior = LinearisedPosterior::restore(&record.structure, record.layers, conditional, stored)?;
    let posterior = LinearisedPosterior { directions, ..posterior };
    posterior.check_fits(&model.tangent(&posterior)?)?;
    Ok(posterior)
}

/// The digest of a model's posterior; none where weights are drawn.
///
/// # Errors
/// When a tensor cannot be read.
pub fn digest(model: &Model) -> Result<Option<String>> {
    let Some(posterior) = &model.posterior else { return Ok(None) };
    let tensors = posterior.tensors();
    checkpoint::sha256(tensors.iter().map(|(name, tensor)| (name, tensor))).map(Some)
}

/// What is recorded of the posterior in a folder, if it has one.
///
/// # Errors
/// When the file is broken.
pub fn record(folder: &Path) -> Result<Option<PosteriorRecord>> {
    let path = folder.join(POSTERIOR_FILE);
    if path.exists() { json::read(&path).map(Some) } else { Ok(None) }
}
