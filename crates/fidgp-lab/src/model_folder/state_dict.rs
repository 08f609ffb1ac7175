//! The posterior mean as a plain state dict, under the names of the framework the network comes from.

use std::collections::BTreeMap;
use std::path::Path;

use fidgp::layer::{Factors, Operation};
use fidgp::linalg::Check;
use fidgp_onnx::Import;
use tch::Tensor;

use crate::config::{GraphConfig, NetworkConfig};
use crate::error::{LabError, Result};
use crate::model::Model;
use crate::predict::Trained;
use crate::train::checkpoint;

/// Writes the plain network at the posterior mean as safetensors; how many tensors. Input normalisation is not among them.
///
/// # Errors
/// When a layer has the weight of another method, a covariance cannot be factorised, or the disk fails.
pub fn export_state_dict(trained: &Trained, out: &Path) -> Result<usize> {
    let model = &trained.model;
    if !model.network.custom().is_empty() || model.network.members() != 1 {
        return Err(LabError::config("--format torch", "is for plain networks and those with inducing weights"));
    }
    let mut tensors = plain_variables(model);
    let inducing = model.network.inducing();
    let factors = Factors::of(&inducing, Check::Now)?;
    for weight in &inducing {
        let mean = tch::no_grad(|| Ok::<_, LabError>(weight.mean(&factors.get(&weight.name)?)))?;
        tensors.extend(matrix_parts(model, &weight.name, &mean)?);
    }
    let named = renamed(trained, tensors)?;
    checkpoint::write(out, &named, ("weights", "posterior mean".to_owned()))?;
    Ok(named.len())
}

/// Variables of the network that are no parts of an inducing weight.
pub(super) fn plain_variables(model: &Model) -> BTreeMap<String, Tensor> {
    let layers = model.network.layers().into_iter();
    let plain = layers.filter(|layer| layer.slot().is_none_or(|slot| slot.inducing().is_none()));
    let plain: Vec<_> = plain.map(|layer| format!("{}.", layer.name())).collect();
    let variables = model.store.variables().into_iter();
    let held = variables.filter(|(name, _)| plain.iter().any(|layer| name.starts_with(layer)));
    held.map(|(name, tensor)| (name, tensor.detach())).collect()
}

/// A weight matrix as the plain layer's `weight` and `bias`.
pub(super) fn matrix_parts(model: &Model, layer: &str, matrix: &Tensor) -> Result<Vec<(String, Tensor)>> {
    let found = model.network.layers().into_iter().find(|one| one.name() == layer).map(fidgp::layer::Layer::operation);
    let (shape, bias) = match found {
        Some(Operation::Conv(conv)) => (conv.weight_shape().to_vec(), conv.bias),
        Some(Operation::Linear { inputs, outputs, bias }) => (vec![outputs, inputs], bias),
        _ => return Err(LabError::config(layer, "is no layer with a weight matrix")),
    };
    let columns = matrix.size()[1] - i64::from(bias);
    let weight = matrix.f_narrow(1, 0, columns)?.f_reshape(shape)?;
    let mut parts = vec![(format!("{layer}.weight"), weight)];
    if bias {
        parts.push((format!("{layer}.bias"), matrix.f_select(1, columns)?.f_contiguous()?));
    }
    Ok(parts)
}

/// The graph again, with the trained network's outputs.
pub(super) fn import(trained: &Trained, graph: &GraphConfig) -> Result<Import> {
    let head = trained.model.geometry.iter().find(|layer| layer.is_head);
    let outputs = head.map(|layer| layer.operation.widths().0);
    Ok(GraphConfig { outputs, ..graph.clone() }.import()?)
}

/// The names and shapes of the framework that a graph came from; those of a network of ours are torchvision's already.
fn renamed(trained: &Trained, tensors: BTreeMap<String, Tensor>) -> Result<Vec<(String, Tensor)>> {
    let NetworkConfig::Onnx(graph) = &trained.config.network else {
        return Ok(tensors.into_iter().map(|(name, tensor)| (name, tensor.contiguous())).collect());
    };
    let import = import(trained, graph)?;
    let mut named = Vec::new();
    for (variable, tensor) in tensors {
        match import.origins.iter().find(|origin| origin.variable == variable) {
            Some(origin) => {
                named.push((origin.framework_name().to_owned(), tensor.f_reshape(&origin.shape)?.contiguous()));
            }
            None => named.push((variable, tensor.contiguous())),
        }
    }
    Ok(named)
}
