//! What all structures of the covariance Σ have in common.

use std::collections::HashMap;
use std::fmt::Debug;

use tch::{Kind, Tensor};

use super::classes::{ClassesGather, ClassesPosterior};
use super::dense::{DenseGather, DensePosterior};
use super::kronecker::{KroneckerGather, KroneckerPosterior};
use super::low_rank::{LowRankGather, LowRankPosterior};
use super::{Jacobian, Precision, Tangent};
use crate::{Error, Result};

/// A covariance `Σ = (δI + sH)⁻¹` of all inducing matrices, `H = Σ_n J_nᵀ Λ_n J_n` held in some structure.
pub trait Structure: Debug + Send {
    /// `J Σ Jᵀ` in f64.
    ///
    /// # Shapes
    /// layers of `[N, K, R, C]` → `[N, K, K]`
    ///
    /// # Errors
    /// When the Jacobian is that of other layers.
    fn covariance(&self, jacobian: &Jacobian) -> Result<Tensor>;

    /// Eigenvalues of H, those that are known to be zero left out.
    fn eigenvalues(&self) -> &Tensor;

    /// Sets δ and s.
    ///
    /// # Errors
    /// When a matrix cannot be factorised; the error says which, and what was tried.
    fn set(&mut self, precision: Precision) -> Result<()>;

    /// Everything a copy needs, by name.
    fn tensors(&self) -> Vec<(String, Tensor)>;

    /// What it is called.
    fn kind(&self) -> &'static str;

    /// The same structure, its tensors shared.
    fn share_tensors(&self) -> Box<dyn Structure>;

    /// Refuses a structure whose tensors are not of these sides, rows and columns of each layer's part of a Jacobian.
    ///
    /// # Errors
    /// Names what does not fit.
    fn check_sides(&self, sides: &[[i64; 2]]) -> Result<()>;

    /// For a law of distances, whose variance is a square: the centres they are measured from.
    fn centres(&self) -> Option<i64> {
        None
    }

    /// The share of the trace of H that it holds.
    fn share(&self) -> f64 {
        1.0
    }
}

/// Others who look at training data of their own at the same time, and ask the same in the same order.
pub trait Others {
    /// The sum of everybody's tensor.
    ///
    /// # Errors
    /// When they do not answer.
    fn sum(&self, own: &Tensor) -> Result<Tensor>;

    /// Everybody's rows, in f64, in the order of the examples. `[n, w]` → `[N, w]`
    ///
    /// # Errors
    /// When they do not answer.
    fn rows(&self, own: &Tensor) -> Result<Tensor>;
}

/// Takes up the training data, and makes a structure of what it saw.
pub trait Gather {
    /// Takes up some examples: rows of `Λ^½ J`.
    ///
    /// # Errors
    /// When a number is not finite.
    fn add(&mut self, rows: &Jacobian) -> Result<()>;

    /// Takes up what others saw of examples of their own.
    ///
    /// # Errors
    /// When they do not answer.
    fn join(&mut self, others: &dyn Others) -> Result<()>;

    /// # Errors
    /// When a decomposition fails.
    fn finish(self: Box<Self>) -> Result<Box<dyn Structure>>;
}

/// Which structure.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StructureKind {
    /// Dense where that is possible, else Kronecker.
    Auto,
    /// Exact: through the examples' kernel, or the D×D matrix where D is smaller.
    Dense,
    /// `H ≈ G ⊗ A` for each layer.
    Kronecker,
    /// The leading directions of H.
    LowRank {
        /// How many.
        rank: i64,
    },
    /// Distances of features from those of the classes.
    Classes,
}

/// The largest matrix that is factorised.
pub(super) const MOST_ROWS: i64 = 8192;
/// Numbers that a structure may hold: 1 GiB in f64.
const MOST_NUMBERS: i64 = 1 << 27;

impl StructureKind {
    /// What takes up `rows` rows of a network's Jacobian: examples times outputs.
    ///
    /// # Errors
    /// When the structure would not fit into memory; the message says which would.
    pub fn gather(self, tangent: &Tangent, rows: i64) -> Result<Box<dyn Gather>> {
        let size = tangent.size();
        match self {
            Self::Auto if dense_fits(rows, size) => Self::Dense.gather(tangent, rows),
            Self::Auto => Self::Kronecker.gather(tangent, rows),
            Self::Dense if dense_fits(rows, size) => Ok(Box::new(DenseGather::new(rows, size))),
            Self::Dense => {
                let why = format!(
                    "holds every direction of {rows} training rows (examples times outputs) in {size} dimensions, more \
                     than memory should; use \"kronecker\", \"low-rank\", or fewer layers"
                );
                Err(Error::setting("structure", "dense", why))
            }
            Self::Kronecker => Ok(Box::new(KroneckerGather::new(tangent))),
            Self::Classes => Ok(Box::new(ClassesGather::new(tangent)?)),
            Self::LowRank { rank } => {
                let most = (MOST_NUMBERS / size.max(1)).min(MOST_ROWS);
                if (1..=most).contains(&rank) {
                    return Ok(Box::new(LowRankGather::new(rank, size)));
                }
                Err(Error::setting("rank", rank, format!("must be 1 to {most} in {size} dimensions")))
            }
        }
    }

    /// A structure from its tensors.
    ///
    /// # Errors
    /// When there is no such kind, or a tensor is missing or of another shape.
    pub fn restore(kind: &str, tensors: &HashMap<String, Tensor>, layers: usize) -> Result<Box<dyn Structure>> {
        match kind {
            DensePosterior::KIND => Ok(Box::new(DensePosterior::restore(tensors)?)),
            KroneckerPosterior::KIND => Ok(Box::new(KroneckerPosterior::restore(tensors, layers)?)),
            LowRankPosterior::KIND => Ok(Box::new(LowRankPosterior::restore(tensors)?)),
            ClassesPosterior::KIND => Ok(Box::new(ClassesPosterior::restore(tensors, layers)?)),
            _ => Err(Error::setting("structure", kind, "is not known: dense, kronecker, low-rank or classes")),
        }
    }
}

fn dense_fits(rows: i64, size: i64) -> bool {
    let held = if rows < size { rows.saturating_mul(size) } else { size.saturating_mul(size) };
    rows.min(size) <= MOST_ROWS && held <= MOST_NUMBERS
}

/// A tensor of a stored structure.
pub(super) fn stored(tensors: &HashMap<String, Tensor>, name: &str, axes: usize) -> Result<Tensor> {
    let missing = || Error::setting("linearised posterior", name, "is missing: fit it again");
    let tensor = tensors.get(name).ok_or_else(missing)?;
    if tensor.dim() != axes {
        return Err(Error::shape(name, &tensor.size(), format!("{axes} axes: fit the linearised posterior again")));
    }
    Ok(tensor.to_kind(Kind::Double))
}

/// Refuses a tensor of another shape.
pub(super) fn of_shape(name: &str, tensor: &Tensor, expected: &[i64]) -> Result<()> {
    if tensor.size() == expected {
        return Ok(());
    }
    Err(Error::shape(name, &tensor.size(), format!("{expected:?}: fit the linearised posterior again")))
}

/// The numbers in all parts of a Jacobian.
pub(super) fn dimensions(sides: &[[i64; 2]]) -> i64 {
    sides.iter().map(|[rows, cols]| rows * cols).sum()
}

/// Refuses Jacobians of another size.
pub(super) fn of_size(flat: &Tensor, size: i64) -> Result<()> {
    if flat.size()[2] == size {
        return Ok(());
    }
    Err(Error::shape("Jacobian", &flat.size(), format!("[N, K, {size}], as in the fit")))
}
