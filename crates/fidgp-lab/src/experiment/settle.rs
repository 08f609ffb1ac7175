//! What some heads need when the network is trained: one more look at the training data.

use std::path::Path;

use fidgp::layer::{CustomWeight, Mode, Network, Pass, Slot};
use tch::Tensor;

use super::chosen_checkpoint;
use crate::config::RunConfig;
use crate::error::Result;
use crate::model::Model;
use crate::source::Source;
use crate::train::checkpoint;

/// Shows the training data, unchanged, to the heads that ask for it, and puts what they made of it into the checkpoint that
/// the results are of. Does nothing for other networks.
///
/// # Errors
/// When an example cannot be read, a matrix cannot be factorised, or the checkpoint cannot be written.
pub fn settle(config: &RunConfig, model: &Model, source: &dyn Source, run: Option<&Path>) -> Result<()> {
    let heads = heads(model.network.as_ref());
    if heads.is_empty() {
        return Ok(());
    }
    for head in &heads {
        head.forget();
    }
    let rows: Vec<i64> = (0..source.len() as i64).collect();
    for rows in rows.chunks(config.predict.batch_size) {
        let (x, _) = source.batch(&Tensor::from_slice(rows).to_device(model.store.device()), None)?;
        let mut pass = Pass::plain(Mode::Eval);
        pass.observing = true;
        let _ = tch::no_grad(|| model.network.forward(&x, &mut pass))?;
    }
    heads.iter().try_for_each(|head| head.settle())?;
    let Some(run) = run else { return Ok(()) };
    let path = chosen_checkpoint(config, run);
    if !path.exists() {
        return Ok(()); // train.checkpoint_every = 0
    }
    let mut saved = checkpoint::load(&path)?;
    saved.tensors.extend(checkpoint::variables(&model.store));
    checkpoint::save(&path, &saved.tensors.into_iter().collect::<Vec<_>>(), &saved.progress)
}

fn heads(network: &dyn Network) -> Vec<&dyn CustomWeight> {
    let custom = network.slots().into_iter().filter_map(|slot| match slot {
        Slot::Custom(weight) => Some(weight.as_ref()),
        Slot::Dense(_) | Slot::Inducing(_) => None,
    });
    custom.filter(|weight| weight.observes()).collect()
}
