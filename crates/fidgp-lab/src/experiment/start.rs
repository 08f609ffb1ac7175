//! A start at trained weights.

use fidgp_zoo::{reestimate_batch_norm, start_network, weights};

use crate::config::StartConfig;
use crate::error::Result;
use crate::model::Model;
use crate::source::ImageSource;

/// Starts a model at the weights of a plain network and re-estimates its BatchNorm statistics on training images.
pub fn run(config: &StartConfig, model: &Model, images: &ImageSource, batch: usize) -> Result<()> {
    let mut tensors = weights::read(&config.weights)?;
    tensors.retain(|(name, _)| !name.starts_with("optimiser."));
    for (_, tensor) in &mut tensors {
        *tensor = tensor.to_device(model.store.device());
    }
    let own = model.store.variables().into_iter().filter(|(name, _)| name.starts_with("input."));
    for (name, value) in own {
        // weights from elsewhere do not say how images are normalised: then the training set does
        if !tensors.iter().any(|(other, _)| *other == name) {
            tensors.push((name, value));
        }
    }
    let report = start_network(model.network.as_ref(), &model.store, tensors)?;
    tracing::info!("{report}");
    if config.statistics_images > 0 {
        let batches = images.batches(batch).into_iter().take(config.statistics_images.div_ceil(batch));
        reestimate_batch_norm(model.network.as_ref(), &model.store, batches)?;
    }
    Ok(())
}
