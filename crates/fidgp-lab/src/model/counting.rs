//! What a config costs, counted without data or tensors.

use fidgp::layer::{LayerGeometry, blocks_before_randomness};
use fidgp::linearised::Directions;
pub use fidgp_zoo::Explained;
pub use fidgp_zoo::cost::Counting;
use fidgp_zoo::cost::{Cost, LayerCost};
use serde::Serialize;
use tch::Device;
use tch::nn::VarStore;

use super::Signature;
use super::likelihood::likelihood;
use super::network::geometry;
use crate::config::RunConfig;
use crate::error::Result;

/// What a config costs, counted without data or tensors.
///
/// # Errors
/// When the config's parts do not fit each other.
pub fn cost(config: &RunConfig, counting: Counting) -> Result<Cost> {
    let signature = Signature::expected(config, None)?;
    let (_, outputs) = likelihood(&VarStore::new(Device::Cpu).root(), config, &signature)?;
    let geometry = geometry(config, &signature, outputs)?;
    Ok(fidgp_zoo::cost::cost(&geometry, &config.layer_plan(), counting)?.times(config.copies()))
}

/// Bytes of the plain network of a config, of one alone where it is an ensemble: what other types are compared with.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct PlainBytes {
    /// Every number in f32.
    pub f32: i64,
    /// Weight matrices in bytes with a scale for each row, the rest in f32, as our own are stored in int8.
    pub int8: i64,
}

/// Bytes of the plain network of a config, as it would be stored; how many classes it has may be known better than the config says.
///
/// # Errors
/// As [`cost`].
pub fn plain_bytes(config: &RunConfig, classes: Option<usize>) -> Result<PlainBytes> {
    let signature = Signature::expected(config, classes)?;
    let (_, outputs) = likelihood(&VarStore::new(Device::Cpu).root(), config, &signature)?;
    let layers = geometry(config, &signature, outputs)?;
    let sum = |bytes: &dyn Fn(&LayerGeometry) -> i64| layers.iter().map(bytes).sum();
    let numbers = |layer: &LayerGeometry| layer.dense_parameters() + layer.buffers();
    let saved = |layer: &LayerGeometry| {
        layer.weight().map_or(0, |(rows, _)| 3 * layer.operation.macs() - 4 * rows) // at one position each weight is used once
    };
    Ok(PlainBytes { f32: sum(&|layer| 4 * numbers(layer)), int8: sum(&|layer| 4 * numbers(layer) - saved(layer)) })
}

/// Multiply-accumulates of a prediction of so many inputs with all its passes, factors made before: blocks that
/// stand before the first random layer are computed once. An auxiliary head runs in training alone; its weights are drawn.
/// Where a linearised posterior predicts, no weights are drawn, a backward pass counts as a forward one (it asks for no
/// derivatives by weights), and products with the posterior are left out.
///
/// # Errors
/// As [`cost`].
pub fn prediction_macs(config: &RunConfig, inputs: i64) -> Result<i64> {
    Ok(macs_of_prediction(config, &cost(config, Counting::Ours)?, inputs))
}

/// The same for a config whose [`cost`] is known.
pub fn macs_of_prediction(config: &RunConfig, cost: &Cost, inputs: i64) -> i64 {
    let inputs_of = |layer: &LayerCost| if layer.geometry.training_only { 0 } else { inputs };
    if config.linearised().is_some() {
        let forward: i64 = cost.layers.iter().map(|layer| inputs_of(layer) * layer.macs_ours).sum();
        return forward * (1 + backward_passes(config, cost) as i64);
    }
    let untouched = blocks_before_randomness(cost.layers.iter().map(|layer| &layer.geometry));
    let macs = |layer: &LayerCost| {
        let once = layer.geometry.in_block && layer.geometry.blocks_before < untouched;
        (if once { 1 } else { config.passes() as i64 }) * (inputs_of(layer) * layer.macs_ours + layer.draw_ours())
    };
    cost.layers.iter().map(macs).sum()
}

/// Backward passes of a prediction: one for each output of the network where a linearised posterior over its inducing matrices
/// predicts, none for one over features and for weight draws.
pub fn backward_passes(config: &RunConfig, cost: &Cost) -> u64 {
    let Some(linearised) = config.linearised() else { return 0 };
    if linearised.directions(config.data.has_images()) == Directions::Features {
        return 0;
    }
    let mut layers = cost.layers.iter().map(|layer| &layer.geometry).filter(|layer| !layer.training_only);
    let head = layers.clone().find(|layer| layer.is_head).or_else(|| layers.next_back());
    head.map_or(0, |head| head.operation.widths().0 as u64)
}

/// Multiply-accumulates of a training step on so many inputs: factors, draw and network, each once forwards and, counted as
/// twice that, backwards. None for methods that do more, or less, in a step.
///
/// # Errors
/// As [`cost`].
pub fn training_macs(config: &RunConfig, inputs: i64) -> Result<Option<i64>> {
    if !config.method.about().counts_steps {
        return Ok(None);
    }
    let cost = cost(config, Counting::Ours)?;
    let layers = cost.layers.iter().map(|layer| inputs * layer.macs_ours + layer.draw_ours());
    Ok(Some(3 * (cost.factor_macs + layers.sum::<i64>())))
}
