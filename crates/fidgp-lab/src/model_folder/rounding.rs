//! Parameters in half precision, as far as the model bears it.

use fidgp::layer::Factors;
use fidgp::linalg::Check;
use tch::{Kind, Tensor};

use super::Dtype;
use crate::error::Result;
use crate::model::Model;
use crate::train::checkpoint;

/// The largest relative change of a weight that rounding may cause; half precision itself has 0.0005 a number.
const MOST_CHANGE: f64 = 0.01;

/// Parameters as they are stored, and what that changes.
#[derive(Debug)]
pub struct Rounding {
    /// By name.
    pub tensors: Vec<(String, Tensor)>,
    /// Bytes of all of them.
    pub bytes: usize,
    /// Matrices that stay in f32, since rounding them would change the layer's weight by more than 1 %.
    pub kept: Vec<String>,
    /// The layer whose mean weight `E[W]` changes most, and by how much: `‖ΔW‖/‖W‖`.
    pub worst: Option<(String, f64)>,
}

/// Rounds the parameters of a model; the model itself then has the rounded values.
///
/// Vectors stay in f32: they are few, and among them are BatchNorm's variances and the logarithm-like D, s and λ, to
/// which factorisations are sensitive. So do locations Z that lie so nearly in one plane that `L⁻¹Z` would turn, and what was
/// fitted, not trained (covariances, their roots and bases): small numbers on a diagonal must not become zero.
///
/// # Errors
/// When a covariance cannot be factorised.
pub fn rounded(model: &Model, dtype: Dtype) -> Result<Rounding> {
    let mut tensors = checkpoint::variables(&model.store);
    let (mut kept, mut worst) = (Vec::new(), None);
    if dtype == Dtype::F16 {
        let before = means(model)?;
        let exact: Vec<_> = tensors.iter().map(|(_, tensor)| tensor.copy()).collect();
        for ((name, tensor), exact) in tensors.iter_mut().zip(&exact) {
            let half = exact.to_kind(Kind::Half);
            match is_trained_matrix(tensor) {
                true if change(exact, &half) <= MOST_CHANGE => write(tensor, &half),
                true => kept.push(name.clone()),
                false => {}
            }
        }
        for (layer, _) in
            changes(&before, &means(model)?).into_iter().filter(|(_, by)| by.is_nan() || *by > MOST_CHANGE)
        {
            for ((name, tensor), exact) in tensors.iter().zip(&exact) {
                let location = name.strip_prefix(&layer).is_some_and(|rest| rest == ".z_row" || rest == ".z_col");
                if location && !kept.contains(name) {
                    write(tensor, exact);
                    kept.push(name.clone());
                }
            }
        }
        worst = changes(&before, &means(model)?).into_iter().max_by(|a, b| a.1.total_cmp(&b.1));
        for (name, tensor) in &mut tensors {
            let halved = is_trained_matrix(tensor) && !kept.contains(name);
            *tensor = if halved { tensor.detach().to_kind(Kind::Half) } else { tensor.detach() };
        }
    }
    let size = |tensor: &Tensor| tensor.numel() * if tensor.kind() == Kind::Half { 2 } else { 4 };
    let bytes = tensors.iter().map(|(_, tensor)| size(tensor)).sum();
    Ok(Rounding { tensors, bytes, kept, worst })
}

fn is_trained_matrix(tensor: &Tensor) -> bool {
    tensor.requires_grad() && tensor.dim() >= 2
}

/// The mean weight of every Bayesian layer.
fn means(model: &Model) -> Result<Vec<(String, Tensor)>> {
    let weights = model.network.inducing();
    let factors = Factors::of(&weights, Check::Now)?;
    let mean = |weight: &&fidgp::weight::InducingWeight| {
        let factors = factors.get(&weight.name)?;
        Ok((weight.name.clone(), tch::no_grad(|| weight.mean(&factors))))
    };
    weights.iter().map(mean).collect()
}

fn changes(before: &[(String, Tensor)], after: &[(String, Tensor)]) -> Vec<(String, f64)> {
    before.iter().zip(after).map(|((name, before), (_, after))| (name.clone(), change(before, after))).collect()
}

/// `‖b − a‖/‖a‖`; infinite where a number of b is.
fn change(a: &Tensor, b: &Tensor) -> f64 {
    tch::no_grad(|| {
        let (a, b) = (a.to_kind(Kind::Double), b.to_kind(Kind::Double));
        let (difference, size) = ((b - &a).norm().double_value(&[]), a.norm().double_value(&[]));
        if size > 0.0 { difference / size } else { difference }
    })
}

fn write(variable: &Tensor, value: &Tensor) {
    tch::no_grad(|| variable.shallow_clone().copy_(value));
}
