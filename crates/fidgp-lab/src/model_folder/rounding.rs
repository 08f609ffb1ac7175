//! Parameters in sixteen or eight bits, as far as the model bears it.

use std::collections::BTreeMap;
use std::path::Path;

use fidgp::layer::Factors;
use fidgp::linalg::Check;
use tch::{Kind, Tensor};

use super::Dtype;
use crate::error::{LabError, Result};
use crate::model::Model;
use crate::train::checkpoint;

/// What the scales of a matrix of bytes are called behind its name.
const SCALE: &str = ".int8_scale";
/// The largest byte: −128 has no opposite and is not used.
const LARGEST: f64 = 127.0;

impl Dtype {
    /// The largest relative change of a weight that rounding may cause. A number of half precision changes by 0.0005, of bf16 by
    /// 0.004 at most; the bytes of a row whose numbers are normal by 0.01 of its size.
    fn most_change(self) -> f64 {
        if self == Self::Int8 { 0.05 } else { 0.01 }
    }

    /// A matrix in this type.
    fn packed(self, exact: &Tensor) -> Packed {
        match self {
            Self::F32 => Packed { numbers: exact.detach(), scale: None },
            Self::F16 => Packed { numbers: exact.detach().to_kind(Kind::Half), scale: None },
            Self::Bf16 => Packed { numbers: exact.detach().to_kind(Kind::BFloat16), scale: None },
            Self::Int8 => Packed::bytes(&exact.detach()),
        }
    }
}

/// A matrix as it is stored: numbers, and for bytes what they count, row by row.
#[derive(Debug)]
struct Packed {
    numbers: Tensor,
    scale: Option<Tensor>,
}

impl Packed {
    /// Whole numbers from −127 to 127 of each row's largest absolute value.
    fn bytes(exact: &Tensor) -> Self {
        let rows = exact.flatten(1, -1).to_kind(Kind::Float);
        let scale = rows.abs().amax([1].as_slice(), false) / LARGEST;
        let counts = (rows / scale.unsqueeze(1)).round().clamp(-LARGEST, LARGEST).nan_to_num(0.0, None, None);
        Self { numbers: counts.to_kind(Kind::Int8).view_as(exact), scale: Some(scale) }
    }

    /// The numbers it stands for, in f32.
    fn unpacked(&self) -> Tensor {
        let numbers = self.numbers.to_kind(Kind::Float);
        let Some(scale) = &self.scale else { return numbers };
        (numbers.flatten(1, -1) * scale.unsqueeze(1)).view_as(&numbers)
    }
}

/// Makes matrices of bytes and their scales into the matrices that they stand for.
///
/// # Errors
/// When bytes have no scales, or such that do not fit them.
pub(super) fn unpack(path: &Path, tensors: &mut BTreeMap<String, Tensor>) -> Result<()> {
    let bytes = tensors.iter().filter(|(_, tensor)| tensor.kind() == Kind::Int8);
    let names: Vec<_> = bytes.map(|(name, _)| name.clone()).collect();
    for name in names {
        let scale = tensors.remove(&format!("{name}{SCALE}"));
        let numbers = &tensors[&name];
        let fits =
            |scale: &Tensor| numbers.dim() >= 2 && scale.size() == numbers.size()[..1] && scale.kind() == Kind::Float;
        let Some(scale) = scale.filter(fits) else {
            let why =
                format!("`{name}` is stored in bytes, and `{name}{SCALE}` is not one f32 number for each of its rows");
            return Err(LabError::Checkpoint { path: path.to_owned(), why });
        };
        let whole = Packed { numbers: numbers.shallow_clone(), scale: Some(scale) }.unpacked();
        tensors.insert(name, whole);
    }
    Ok(())
}

/// Parameters as they are stored, and what that changes.
#[derive(Debug)]
pub struct Rounding {
    /// By name.
    pub tensors: Vec<(String, Tensor)>,
    /// Bytes of all of them.
    pub bytes: usize,
    /// Matrices that stay in f32, since rounding them would change the layer's weight by more than 1 %, or 5 % in bytes.
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
    let (mut packed, mut kept, mut worst) = (BTreeMap::new(), Vec::new(), None);
    if dtype != Dtype::F32 {
        let most = dtype.most_change();
        let before = means(model)?;
        let exact: Vec<_> = tensors.iter().map(|(_, tensor)| tensor.copy()).collect();
        for ((name, tensor), exact) in tensors.iter_mut().zip(&exact) {
            if !is_trained_matrix(tensor) {
                continue;
            }
            let own = dtype.packed(exact);
            let rounded = own.unpacked();
            if change(exact, &rounded) <= most {
                write(tensor, &rounded);
                packed.insert(name.clone(), own);
            } else {
                kept.push(name.clone());
            }
        }
        for (layer, _) in changes(&before, &means(model)?).into_iter().filter(|(_, by)| by.is_nan() || *by > most) {
            for ((name, tensor), exact) in tensors.iter().zip(&exact) {
                let location = name.strip_prefix(&layer).is_some_and(|rest| rest == ".z_row" || rest == ".z_col");
                if location && packed.remove(name).is_some() {
                    write(tensor, exact);
                    kept.push(name.clone());
                }
            }
        }
        worst = changes(&before, &means(model)?).into_iter().max_by(|a, b| a.1.total_cmp(&b.1));
        tensors = tensors.into_iter().flat_map(|(name, tensor)| stored(packed.remove(&name), name, &tensor)).collect();
    }
    let bytes = tensors.iter().map(|(_, tensor)| tensor.numel() * tensor.kind().elt_size_in_bytes()).sum();
    Ok(Rounding { tensors, bytes, kept, worst })
}

/// What is written of a tensor: itself, or what it was packed into.
fn stored(packed: Option<Packed>, name: String, tensor: &Tensor) -> Vec<(String, Tensor)> {
    let Some(Packed { numbers, scale }) = packed else { return vec![(name, tensor.detach())] };
    let scale = scale.map(|scale| (format!("{name}{SCALE}"), scale));
    [(name, numbers)].into_iter().chain(scale).collect()
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
