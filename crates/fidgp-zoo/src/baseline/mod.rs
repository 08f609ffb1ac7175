//! What methods are compared by, or share: scores of others for OoD, temperature, a bound on the spectral norm.

pub mod activation;
pub mod ash;
pub mod knn;
pub mod logit_scores;
pub mod mahalanobis;
pub mod odin;
pub mod spectral;
pub mod svgp;
pub mod temperature;
pub mod vim;

use fidgp::layer::DenseWeight;
use tch::{Kind, Tensor};

use crate::{Error, Result};

/// Refuses a tensor of the wrong shape, so that libtorch never has to.
pub(crate) fn expect_shape(what: &str, tensor: &Tensor, expected: &[i64]) -> Result<()> {
    if tensor.size() == expected {
        return Ok(());
    }
    Err(fidgp::Error::shape(what, &tensor.size(), format!("{expected:?}")).into())
}

/// Rows and columns of what must be a matrix.
pub(crate) fn matrix(what: &str, tensor: &Tensor) -> Result<(i64, i64)> {
    match tensor.size()[..] {
        [rows, cols] if rows > 0 && cols > 0 => Ok((rows, cols)),
        ref other => Err(fidgp::Error::shape(what, other, "a matrix [rows, columns] that is not empty").into()),
    }
}

/// Outputs and inputs of a linear layer with a bias.
pub(crate) fn linear_sizes(dense: &DenseWeight, method: &str) -> Result<[i64; 2]> {
    match dense.weight.size()[..] {
        [outputs, inputs] if dense.bias.is_some() => Ok([outputs, inputs]),
        _ => Err(Error::setting("layers", &dense.name, format!("{method} is for the last, linear layer only"))),
    }
}

/// The mean of every class that has rows, and each row's own class mean. `[N, n]` → `[K, n]`, `[N, n]`
fn class_means(features: &Tensor, labels: &[i64]) -> Result<(Tensor, Tensor)> {
    expect_shape("labels", &Tensor::from_slice(labels), &[features.size()[0]])?;
    if let Some(label) = labels.iter().find(|label| **label < 0) {
        return Err(fidgp::Error::setting("label", label, "classes are counted from 0").into());
    }
    let classes = labels.iter().max().map_or(0, |last| last + 1);
    let index = Tensor::from_slice(labels).to_device(features.device());
    let one_hot = index.one_hot(classes).to_kind(Kind::Double); // [N, K]
    let counts = one_hot.sum_dim_intlist(0, false, Kind::Double).unsqueeze(-1);
    let means = one_hot.mt().matmul(features) / counts.clamp_min(1.0); // [K, n]
    let own = means.index_select(0, &index);
    let present = counts.squeeze_dim(-1).gt(0.0).nonzero().squeeze_dim(-1);
    Ok((means.index_select(0, &present), own))
}
