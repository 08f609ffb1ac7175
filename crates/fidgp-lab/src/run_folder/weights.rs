//! The weights that a run's results are of.

use std::path::Path;

use super::{chosen_checkpoint, norms, posterior, temperature};
use crate::config::{RunConfig, Select};
use crate::error::Result;
use crate::files::NORMS_FILE;
use crate::model::Model;
use crate::train::checkpoint;

/// Puts the weights that a run chose into its model, with the draws' statistics and the temperature that belong to them.
///
/// # Errors
/// When there is no whole checkpoint, or it belongs to another network.
pub fn restore(config: &RunConfig, run: &Path, model: &mut Model) -> Result<()> {
    let step = restore_as_trained(config, run, model)?;
    temperature::read(run, step, model)?.map_or(Ok(()), |mended| model.mend(mended))
}

/// The same without the temperature, as `results.json` has it; says which training step the weights are of.
///
/// # Errors
/// When there is no whole checkpoint, or it belongs to another network.
pub fn restore_as_trained(config: &RunConfig, run: &Path, model: &mut Model) -> Result<u64> {
    let step = restore_network(config, run, model)?;
    model.posterior = posterior::read(run, step, model)?;
    Ok(step)
}

/// The same for who fits another posterior: one that cannot be read is to be replaced, and no hindrance.
///
/// # Errors
/// As [`restore_as_trained`], but for the posterior.
pub fn restore_to_fit(config: &RunConfig, run: &Path, model: &mut Model) -> Result<()> {
    let step = restore_network(config, run, model)?;
    model.posterior = posterior::read(run, step, model).unwrap_or_else(|error| {
        tracing::warn!("{error}; it will be replaced");
        None
    });
    Ok(())
}

fn restore_network(config: &RunConfig, run: &Path, model: &mut Model) -> Result<u64> {
    let path = chosen_checkpoint(config, run);
    if config.train.select == Select::Best && path == checkpoint::last(run) {
        tracing::warn!("{}: no best epoch was kept there (train.select), the last one is used", run.display());
    }
    let saved = checkpoint::load(&path)?;
    checkpoint::restore(&path, &saved, &model.store)?;
    model.norms = norms::read(&run.join(NORMS_FILE), saved.progress.step, config, model)?;
    Ok(saved.progress.step)
}
