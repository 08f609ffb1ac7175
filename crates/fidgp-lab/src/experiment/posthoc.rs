//! What some heads need beside the training: a look at the training data, before it or after it.

use std::path::Path;

use fidgp::layer::{Curvature, CustomWeight, FitData, FitPhase, Mode, Network, Pass, Taps};
use tch::{Kind, Tensor};

use crate::config::RunConfig;
use crate::error::Result;
use crate::model::Model;
use crate::run_folder::chosen_checkpoint;
use crate::source::Source;
use crate::train::checkpoint;

/// Examples that are shown before a training: enough to place a head, and most of them change at once.
const EXAMPLES_AT_START: usize = 10_000;

/// Shows training data, unchanged but in random order, to the heads that ask for it before the training. Does nothing for
/// other networks.
///
/// # Errors
/// When an example cannot be read, or a head can make nothing of what it sees.
pub fn prepare(config: &RunConfig, model: &Model, source: &dyn Source) -> Result<()> {
    let order = fidgp_data::epoch_order(source.len(), fidgp::Key::new(config.seed).fold("prepare").seed(), 0);
    let rows = order.into_iter().take(EXAMPLES_AT_START).map(|row| row as i64).collect();
    show(config, model, source, (FitPhase::Start, rows)).map(|_| ())
}

/// Shows all training data, unchanged, to the heads that ask for it after the training, and puts what they made of it into
/// the checkpoint that the results are of. Does nothing for other networks.
///
/// # Errors
/// When an example cannot be read, a matrix cannot be factorised, or the checkpoint cannot be written.
pub fn fit_posthoc(config: &RunConfig, model: &Model, source: &dyn Source, run: Option<&Path>) -> Result<()> {
    let settled = show(config, model, source, (FitPhase::End, (0..source.len() as i64).collect()))?;
    let Some(run) = run.filter(|_| settled) else { return Ok(()) };
    let path = chosen_checkpoint(config, run);
    if !path.exists() {
        return Ok(()); // train.checkpoint_every = 0
    }
    let mut saved = checkpoint::load(&path)?;
    saved.tensors.extend(checkpoint::variables(&model.store));
    checkpoint::save(&path, &saved.tensors.into_iter().collect::<Vec<_>>(), &saved.progress)
}

/// Shows rows to the heads of a moment; whether there were any.
fn show(config: &RunConfig, model: &Model, source: &dyn Source, (moment, rows): (FitPhase, Vec<i64>)) -> Result<bool> {
    let heads = heads(model.network.as_ref(), moment);
    for head in &heads {
        head.fit_posthoc(&shown(config, model, source, *head, (moment, &rows))?)?;
    }
    Ok(!heads.is_empty())
}

/// What a layer is given on the training data. Before the training BatchNorm has no statistics yet: then it uses those of
/// the batch, and keeps none of them.
fn shown(
    config: &RunConfig,
    model: &Model,
    source: &dyn Source,
    head: &dyn CustomWeight,
    (moment, rows): (FitPhase, &[i64]),
) -> Result<FitData> {
    let (layer, mut inputs, mut targets) = (head.name(), Vec::new(), Vec::new());
    let (mut curvature, mut curvatures) = (None, Vec::new());
    for rows in rows.chunks(config.predict.batch_size) {
        let (x, y) = source.batch(&Tensor::from_slice(rows).to_device(model.store.device()), None)?;
        let mode = if moment == FitPhase::Start { Mode::Train } else { Mode::Eval };
        let mut pass = Pass::plain(mode).with_taps(Taps::on(&[layer]));
        pass.keep_statistics = true;
        let outputs = tch::no_grad(|| model.network.forward(&x, &mut pass))?;
        let own = tch::no_grad(|| model.likelihood.curvature(&outputs.to_kind(Kind::Double)));
        let sum = own.sum();
        curvature = Some(curvature.map_or_else(|| sum.shallow_clone(), |before: Tensor| before + &sum));
        curvatures.extend(head.looks_at_each().then_some(own));
        inputs.extend(pass.taps.input(layer).map(|input| input.to_kind(Kind::Float)));
        targets.push(y);
    }
    let curvature = curvature.unwrap_or_else(|| Tensor::zeros([1, 1], (Kind::Double, model.store.device())));
    Ok(FitData {
        inputs: Tensor::f_cat(&inputs, 0)?,
        targets: Tensor::f_cat(&targets, 0)?,
        curvature,
        curvatures: head.looks_at_each().then(|| Curvature::joined(&curvatures)),
    })
}

fn heads(network: &dyn Network, moment: FitPhase) -> Vec<&dyn CustomWeight> {
    network.custom().into_iter().filter(|weight| weight.fit_phase() == Some(moment)).collect()
}
