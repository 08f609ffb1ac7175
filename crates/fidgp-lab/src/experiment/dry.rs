//! What a run would do, without doing it.

use std::path::Path;
use std::sync::atomic::AtomicBool;

use tch::Device;

use super::members::Training;
use super::task::{self, HeldOut, SplitRole};
use crate::config::RunConfig;
use crate::error::{LabError, Result};
use crate::model::{Model, Signature};

/// What a run would do.
#[derive(Debug)]
pub struct DryRun {
    /// Training examples.
    pub examples: usize,
    /// Whether some are held out to choose by, and to calibrate with.
    pub has_validation: bool,
    /// What the network takes and gives.
    pub signature: Signature,
    /// Numbers that are trained.
    pub parameters: usize,
    /// Optimiser steps of an epoch.
    pub steps: usize,
    /// Epochs.
    pub epochs: u64,
    /// Networks that are trained one after another.
    pub networks: i64,
    /// Seconds of a step, as a few of them took here.
    pub step_seconds: f64,
    /// Seconds of all steps, and about those of validation: a pass forward as a third of a step.
    pub seconds: f64,
}

/// Reads the data, builds the network, counts, times a few steps, and leaves nothing behind.
///
/// # Errors
/// When the run could not begin.
pub fn dry_run(config: &RunConfig, root: &Path, device: Device) -> Result<DryRun> {
    config.check()?;
    if config.data.has_splits() {
        return Err(LabError::config(
            "--dry-run",
            "is not for data.set = \"uci\", which has a training for each split",
        ));
    }
    let task = task::open(config, root)?;
    let signature = task.signature()?;
    let model = Model::init(task.config(), &signature, device)?;
    let source = task.examples(&model, SplitRole::Training)?;
    let examples = source.len();
    let (parameters, has_validation) = (model.parameter_count(), task.measure(HeldOut::Validation, &model)?.is_some());
    let train = &task.config().train;
    let joined = examples > train.batch_size && examples % train.batch_size == 1; // a last one alone joins the others
    let (steps, epochs) = (examples.div_ceil(train.batch_size) - usize::from(joined), train.epochs);
    let training = Training {
        config: task.config(),
        model: &model,
        signature: &signature,
        source: source.as_ref(),
        validate: None,
        stop: &AtomicBool::new(false),
        resume_command: "",
    };
    let (step_seconds, networks) = training.seconds_per_step()?;
    let own = networks as f64 * epochs as f64 * steps as f64 * step_seconds;
    let seconds = own + if has_validation { validation(task.config(), examples, step_seconds) } else { 0.0 };
    Ok(DryRun { examples, has_validation, signature, parameters, steps, epochs, networks, step_seconds, seconds })
}

/// About how long all looks at the validation examples take.
fn validation(config: &RunConfig, examples: usize, step_seconds: f64) -> f64 {
    let train = &config.train;
    let share = config.data.validation_fraction().unwrap_or(0.0).clamp(0.0, 0.99);
    let batches = examples as f64 * share / (1.0 - share) / train.batch_size as f64;
    let looks = train.epochs.checked_div(train.validate_every).unwrap_or(0) as f64 * config.members() as f64;
    looks * batches * config.predict.validation_draws as f64 * step_seconds / 3.0
}
