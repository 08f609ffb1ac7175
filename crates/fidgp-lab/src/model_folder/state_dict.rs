//! The posterior mean, or a draw, as a plain state dict, under the names of the framework the network comes from.

use std::collections::BTreeMap;
use std::path::Path;

use fidgp_onnx::Import;
use tch::Tensor;

use super::values::{self, Values};
use crate::config::{GraphConfig, NetworkConfig};
use crate::error::Result;
use crate::predict::Trained;
use crate::train::checkpoint;

/// Writes the plain network at the posterior mean, or under draw k of `fidgp predict`, as safetensors; how many tensors. Input
/// normalisation is not among them.
///
/// # Errors
/// When a layer has the weight of another method, a covariance cannot be factorised, there is no such draw, or the disk fails.
pub fn export_state_dict(trained: &Trained, draw: Option<u64>, out: &Path) -> Result<usize> {
    values::check(trained, "--format torch")?;
    let values = Values::new(trained)?;
    let (tensors, said) = match draw {
        None => (values.mean()?, "posterior mean".to_owned()),
        Some(k) => (values.draw(k, "--draw")?, format!("posterior draw {k}")),
    };
    let named = renamed(trained, tensors)?;
    checkpoint::write(out, &named, ("weights", said))?;
    Ok(named.len())
}

/// The graph again, with the trained network's outputs.
pub(super) fn import(trained: &Trained, graph: &GraphConfig) -> Result<Import> {
    Ok(trained.model.fitted(graph).import()?)
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
                named.push((origin.framework_name().to_owned(), origin.in_framework(&tensor)?.contiguous()));
            }
            None => named.push((variable, tensor.contiguous())),
        }
    }
    Ok(named)
}
