//! What a run would do, without doing it.

use std::path::Path;

use tch::Device;

use super::task::{self, HeldOut, SplitRole};
use crate::config::{DataConfig, RunConfig};
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
}

/// Reads the data, builds the network, counts, and leaves nothing behind.
///
/// # Errors
/// When the run could not begin.
pub fn dry_run(config: &RunConfig, root: &Path, device: Device) -> Result<DryRun> {
    config.check()?;
    if matches!(config.data, DataConfig::Uci { .. }) {
        return Err(LabError::config(
            "--dry-run",
            "is not for data.set = \"uci\", which has a training for each split",
        ));
    }
    let task = task::open(config, root)?;
    let signature = task.signature()?;
    let model = Model::init(task.config(), &signature, device)?;
    let examples = task.examples(&model, SplitRole::Training)?.len();
    let (parameters, has_validation) = (model.parameter_count(), task.measure(HeldOut::Validation, &model)?.is_some());
    let train = &task.config().train;
    let joined = examples > train.batch_size && examples % train.batch_size == 1; // a last one alone joins the others
    let (steps, epochs) = (examples.div_ceil(train.batch_size) - usize::from(joined), train.epochs);
    Ok(DryRun { examples, has_validation, signature, parameters, steps, epochs })
}
