//! Temperature scaling of a run: fitted on its validation examples, kept beside its checkpoint, used by whoever opens it.

use std::path::Path;

use fidgp::Key;
use fidgp::linearised::LOGIT_DRAWS;
use fidgp_metrics::{Predictions, ReliabilityTable};
use fidgp_zoo::baseline::temperature;
use tch::{Device, Kind, Tensor};

use crate::config::{DataConfig, RunConfig};
use crate::error::{LabError, Result};
use crate::evaluate::BINS;
use crate::experiment::norms;
use crate::experiment::task::{Set, Sets, SplitRole};
use crate::model::{Model, OwnPart};
use crate::run_folder::norms::are_missing;
use crate::run_folder::posterior;
use crate::run_folder::{Temperature, restore_as_trained, same_classes, same_examples};
use crate::source::Chunks;
use crate::train::checkpoint;

/// Fewest validation examples of which a part is kept for the temperature alone.
const DIVIDED: usize = 400;
/// One in so many of them is.
const ONE_IN: usize = 4;
/// Draws of the logits of a linearised posterior are held all at once: so many numbers at most, and so many draws at least.
const MOST_LOGITS: u64 = 1 << 28;
const FEWEST_DRAWS: u64 = 32;

/// A run opened to be calibrated: its network as it was trained, and its validation examples.
pub(super) struct Opened {
    pub model: Model,
    pub validation: Set,
    pub step: u64,
}

impl Opened {
    pub fn of_run(config: &RunConfig, run: &Path, data: &Path, device: Device) -> Result<Self> {
        config.check()?;
        check(config)?;
        let sets = Sets::read(config, data)?;
        same_classes(run, sets.train.classes())?;
        same_examples(run, &sets.train.trained_on())?; // else some of them may have been trained on
        let mut model = Model::init(config, &sets.train.signature(config)?, device)?;
        let step = restore_as_trained(config, run, &mut model)?;
        if are_missing(config, &model) {
            let train = sets.train.source(config, &model, SplitRole::Measuring, device)?;
            norms::estimate(config, &mut model, train.as_ref())?;
        }
        let validation = sets.validation.ok_or_else(no_validation)?;
        Ok(Self { model, validation, step })
    }

    /// The temperature that some examples ask for.
    pub fn temperature(&self, config: &RunConfig, examples: &Set) -> Result<Temperature> {
        let set = examples.source(config, &self.model, SplitRole::Measuring, self.model.store.device())?;
        let chunks = set.chunks(config.predict.batch_size);
        of_batches(config, (&self.model, self.step), set.len(), (chunks, &OwnPart::default()))
    }
}

/// The temperature that so many labelled inputs ask for, of which a part is given as a network takes them. It belongs to the
/// weights of a step.
pub(super) fn of_batches(
    config: &RunConfig,
    (model, step): (&Model, u64),
    count: usize,
    (chunks, part): (Chunks, &OwnPart),
) -> Result<Temperature> {
    let (logits, labels) = gathered(logits(config, model, count, (chunks, part))?, part)?;
    let best = temperature::fit(&logits, &labels)?;
    // there the examples say too little of where the best one is: none is used
    let at_edge = temperature::at_edge(best);
    let fitted = if at_edge { 1.0 } else { best };
    let [(nll_before, ece_before), (nll_after, ece_after)] =
        [quality(&logits, &labels, 1.0)?, quality(&logits, &labels, fitted)?];
    Ok(Temperature {
        temperature: fitted,
        at_edge,
        examples: labels.size()[0] as usize,
        step,
        weights_sha256: Some(checkpoint::sha256_of(&model.store)?),
        posterior_sha256: posterior::digest(model)?,
        nll_before,
        nll_after,
        ece_before,
        ece_after,
        recalibration: None,
        recalibrations: None,
    })
}

/// Examples for the temperature and those for the rules; where there are few, both are all of them.
pub(super) fn divided(examples: usize) -> Option<[Vec<usize>; 2]> {
    if examples < DIVIDED {
        return None;
    }
    let mut rows = fidgp_data::epoch_order(examples, Key::new(0).fold("temperature").seed(), 0);
    let rest = rows.split_off(examples / ONE_IN);
    Some([rows, rest])
}

/// Fits a temperature to the trained network of a run, on all its validation examples where they are few, else on a part of
/// them: the others are for rules that must not know what they are checked with.
///
/// # Errors
/// When the run is no classification of images, or has no validation examples or no checkpoint.
pub fn fit(config: &RunConfig, run: &Path, data: &Path, device: Device) -> Result<Temperature> {
    let opened = Opened::of_run(config, run, data, device)?;
    match divided(opened.validation.rows()) {
        Some([rows, _]) => opened.temperature(config, &opened.validation.select(&rows)?),
        None => opened.temperature(config, &opened.validation),
    }
}

pub(super) fn no_validation() -> LabError {
    let why = "= 0: a temperature is fitted on validation examples, never on those of training or test; rules for decisions \
               also on others: name them with --examples";
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
        DataConfig::Table(_) => "a table",
        DataConfig::Synthetic1d { .. } | DataConfig::Uci { .. } => "a regression",
    };
    Err(LabError::config("data.set", format!("is {what}; temperatures are for the classification of images")))
}

/// Logits of every draw or member, or of draws of the linearised posterior where that predicts, and the labels.
/// `[K, N, C]`, `[N]`
fn logits(
    config: &RunConfig,
    model: &Model,
    count: usize,
    (chunks, part): (Chunks, &OwnPart),
) -> Result<(Tensor, Tensor)> {
    if let Some(posterior) = &model.posterior {
        let (tangent, key) = (model.tangent(posterior)?, Key::new(config.seed).fold("predict"));
        let classes = model.geometry.iter().find(|layer| layer.is_head).map_or(1, |head| head.operation.widths().0);
        let logits = count as u64 * classes.unsigned_abs();
        let draws = (MOST_LOGITS / logits.max(1)).clamp(FEWEST_DRAWS, LOGIT_DRAWS) as i64;
        let (mut all, mut labels) = (Vec::new(), Vec::new());
        for chunk in chunks {
            let (batches, truth) = chunk?;
            let drawn = posterior.logits(&tangent, &batches, draws, key)?;
            all.push(drawn.to_kind(Kind::Float).to_device(Device::Cpu));
            labels.push(truth.to_device(Device::Cpu));
        }
        return Ok((Tensor::f_cat(&all, 1)?, Tensor::f_cat(&labels, 0)?));
    }
    let mut draws = model.draws(config.predict.draws, Key::new(config.seed).fold("predict"))?;
    draws.first_batch += part.own.start as u64;
    let members = model.network.members();
    let (mut all, mut labels) = (Vec::new(), Vec::new());
    for chunk in chunks {
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

/// What all processes have seen, in the order of the examples.
fn gathered((logits, labels): (Tensor, Tensor), part: &OwnPart) -> Result<(Tensor, Tensor)> {
    let [draws, own, classes] = logits.size3().map(|(draws, own, classes)| [draws, own, classes])?;
    let (kind, by_row) = (logits.kind(), logits.permute([1, 0, 2]).reshape([own, draws * classes]));
    let all = part.gathered(&by_row, "logits")?.to_kind(kind).reshape([-1, draws, classes]).permute([1, 0, 2]);
    let labels = part.gathered(&labels.unsqueeze(1), "labels")?.squeeze_dim(1).to_kind(Kind::Int64);
    Ok((all.contiguous(), labels))
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
