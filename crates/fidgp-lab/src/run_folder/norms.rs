//! BatchNorm statistics of every draw's own, in a run folder and in a model folder.

use std::collections::BTreeMap;
use std::path::Path;

use fidgp::layer::NormStatistics;
use tch::{Kind, Tensor};

use super::chosen_checkpoint;
use crate::config::RunConfig;
use crate::error::{LabError, Result};
use crate::files::NORMS_FILE;
use crate::model::Model;
use crate::train::checkpoint::{self, Progress};

/// Whether the draws of a model should have their own statistics.
pub fn wanted(config: &RunConfig, model: &Model) -> bool {
    config.predict.statistics_images > 0 && model.network.is_random()
}

/// Writes the statistics of a model beside the checkpoint they belong to, in place of older ones.
pub fn keep(config: &RunConfig, model: &Model, run: &Path) -> Result<()> {
    let (path, checkpoint) = (run.join(NORMS_FILE), chosen_checkpoint(config, run));
    if model.norms.is_empty() || !checkpoint.exists() {
        return write(&path, &[], &Progress::default()); // train.checkpoint_every = 0 keeps none
    }
    let saved = checkpoint::load(&checkpoint)?;
    let variables = model.store.variables();
    let weights = saved.tensors.iter().filter(|(name, _)| variables.contains_key(*name));
    let weights_sha256 = Some(checkpoint::sha256(weights)?);
    write(&path, &model.norms, &Progress { step: saved.progress.step, weights_sha256, ..Progress::default() })
}

/// Writes the statistics of draws, under `<draw>.<layer>.running_mean` and `….running_var`, for the weights
/// that `of` says; where there are none, what stood there goes.
pub fn write(path: &Path, norms: &[NormStatistics], of: &Progress) -> Result<()> {
    if norms.is_empty() {
        return match std::fs::remove_file(path) {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => Err(LabError::file(path, &error)),
            _ => Ok(()),
        };
    }
    let of_draw = |(k, norm): (usize, &NormStatistics)| {
        norm.named().map(|(name, tensor)| (format!("{k}.{name}"), tensor.shallow_clone())).collect::<Vec<_>>()
    };
    let tensors: Vec<_> = norms.iter().enumerate().flat_map(of_draw).collect();
    checkpoint::save(path, &tensors, of)
}

/// Reads what [`write()`] wrote, for weights of this training step. Says so when they are wanted and not there.
pub fn read(path: &Path, step: u64, config: &RunConfig, model: &Model) -> Result<Vec<NormStatistics>> {
    let store = &model.store;
    if !path.exists() {
        if wanted(config, model) {
            let way = "`fidgp train --resume` on a finished run makes it, `fidgp eval` estimates anew";
            tracing::warn!("{} is not there, only running BatchNorm statistics are; {way}", path.display());
        }
        return Ok(Vec::new());
    }
    let broken = |why: String| LabError::Checkpoint { path: path.to_owned(), why };
    let saved = checkpoint::load(path)?;
    if saved.progress.step != step {
        let why = format!("belongs to the weights of step {}, these are of step {step}", saved.progress.step);
        return Err(broken(format!("{why}; remove it, and `fidgp train --resume` makes it anew")));
    }
    if let Some(weights) = &saved.progress.weights_sha256
        && *weights != checkpoint::sha256_of(store)?
    {
        let why =
            "belongs to other weights than the checkpoint holds; remove it, and `fidgp train --resume` makes it anew";
        return Err(broken(why.to_owned()));
    }
    let variables = store.variables();
    let mut draws: BTreeMap<usize, Vec<(String, Tensor)>> = BTreeMap::new();
    for (name, tensor) in saved.tensors {
        let place = name.split_once('.').and_then(|(k, rest)| Some((k.parse::<usize>().ok()?, rest)));
        let Some((k, own)) = place else { return Err(broken(format!("`{name}` does not begin with a draw's number"))) };
        let tensor = tensor.to_kind(Kind::Float).to_device(store.device());
        let sound = tensor.isfinite().logical_and(&tensor.ge(if own.ends_with("var") { 0.0 } else { f64::MIN }));
        if !bool::try_from(sound.all())? {
            return Err(broken(format!("`{name}` holds a number that is no statistic")));
        }
        let expected = variables.get(own).map(Tensor::size);
        if expected.as_ref() != Some(&tensor.size()) {
            let expected = expected.map_or("nothing".to_owned(), |shape| format!("{shape:?}"));
            return Err(broken(format!("`{name}` is {:?} there and {expected} in the network", tensor.size())));
        }
        draws.entry(k).or_default().push((own.to_owned(), tensor));
    }
    let names = |draw: &[(String, Tensor)]| draw.iter().map(|(name, _)| name.clone()).collect::<Vec<_>>();
    let first = draws.get(&0).map(|draw| names(draw));
    if draws.keys().copied().ne(0..draws.len()) || draws.values().any(|draw| Some(names(draw)) != first) {
        return Err(broken("not every draw has the statistics of the same layers".to_owned()));
    }
    let whole = draws.into_values().map(NormStatistics::from_named).collect::<Option<Vec<_>>>();
    whole.ok_or_else(|| broken("a mean stands without its variance".to_owned()))
}

/// Whether there are draws that should have statistics of their own and have none.
pub fn are_missing(config: &RunConfig, model: &Model) -> bool {
    wanted(config, model) && model.norms.len() < config.predict.draws as usize
}
