//! BatchNorm statistics of every draw's own, estimated on training images when the training is over.

use fidgp::Key;
use fidgp::layer::NormStatistics;

use crate::config::{LEAST_STATISTICS_IMAGES, RunConfig};
use crate::error::Result;
use crate::model::Model;
use crate::run_folder::norms::wanted;
use crate::source::{Source, batches};

/// Gives the draws of a model their own statistics, of as many training images as its config says, where they are wanted.
pub fn estimate(config: &RunConfig, model: &mut Model, images: &dyn Source) -> Result<()> {
    model.norms.clear();
    if !wanted(config, model) {
        return Ok(());
    }
    let size = config.predict.batch_size.max(LEAST_STATISTICS_IMAGES);
    let given =
        batches(images, model.store.device(), config.predict.statistics_images, size).collect::<Result<Vec<_>>>()?;
    let mut draws = model.draws(config.predict.draws, Key::new(config.seed).fold("predict"))?;
    draws.estimate_norms(&given)?;
    let norms: Vec<_> = draws.norms().iter().map(NormStatistics::copy).collect();
    drop(draws);
    // a network that is random in its head alone has no BatchNorm behind it
    model.norms = if norms.iter().any(|norm| norm.named().next().is_some()) { norms } else { Vec::new() };
    Ok(())
}
