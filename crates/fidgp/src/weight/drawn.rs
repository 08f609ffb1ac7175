//! What a draw gives a layer.

use tch::Tensor;

use crate::linalg::Batching;

/// What a draw gives the layer; of a stack, every matrix has an axis over its members, before which there may be one over draws.
#[derive(Debug)]
pub enum Drawn {
    /// The weight itself. `[d_out, d_in]`
    Weight(Tensor),
    /// The mean weight and the deviation of every weight around it, for noise on the outputs.
    MeanAndScale {
        /// `σ_p E[W|U]`.
        mean: MeanWeight,
        /// `σ_p λ`. Scalar.
        scale: Tensor,
    },
}

/// A mean weight, as a matrix or as the two factors it is the product of.
#[derive(Debug)]
pub enum MeanWeight {
    /// `[d_out, d_in]`
    Matrix(Tensor),
    /// `σ_p A_rᵀ V` and `A_c`: applied one after the other they take `C(d_in + d_out)` multiplications for each output
    /// position instead of `d_in·d_out`, and the weight is never formed.
    Factors {
        /// `[d_out, C]`
        left: Tensor,
        /// `[C, d_in]`
        right: Tensor,
    },
}

impl MeanWeight {
    /// The matrix. `[d_out, d_in]`
    pub fn matrix(&self) -> Tensor {
        match self {
            Self::Matrix(matrix) => matrix.shallow_clone(),
            Self::Factors { left, right } => left.matmul(right),
        }
    }
}

impl Drawn {
    /// The same tensors, not copies.
    #[must_use]
    pub fn share(&self) -> Self {
        self.map(Tensor::shallow_clone)
    }

    /// Another tensor in place of each matrix; the scale stays.
    pub(crate) fn map(&self, of: impl Fn(&Tensor) -> Tensor) -> Self {
        match self {
            Self::Weight(weight) => Self::Weight(of(weight)),
            Self::MeanAndScale { mean, scale } => {
                let mean = match mean {
                    MeanWeight::Matrix(matrix) => MeanWeight::Matrix(of(matrix)),
                    MeanWeight::Factors { left, right } => MeanWeight::Factors { left: of(left), right: of(right) },
                };
                Self::MeanAndScale { mean, scale: scale.shallow_clone() }
            }
        }
    }

    /// All its tensors.
    pub(crate) fn tensors(&self) -> Vec<&Tensor> {
        match self {
            Self::Weight(weight) => vec![weight],
            Self::MeanAndScale { mean: MeanWeight::Matrix(matrix), scale } => vec![matrix, scale],
            Self::MeanAndScale { mean: MeanWeight::Factors { left, right }, scale } => vec![left, right, scale],
        }
    }

    /// The weight, or its mean. `[d_out, d_in]`
    pub fn matrix(&self) -> Tensor {
        match self {
            Self::Weight(weight) => weight.shallow_clone(),
            Self::MeanAndScale { mean, .. } => mean.matrix(),
        }
    }

    /// The members of a stack; apart there is one, as it is.
    pub(super) fn members(&self, batching: Batching) -> Vec<Self> {
        if batching == Batching::Apart {
            return vec![self.share()];
        }
        let each = |matrices: &Tensor| matrices.unbind(matrices.dim() as i64 - 3);
        let with_scales = |means: Vec<MeanWeight>, scales: &Tensor| {
            let pairs = means.into_iter().zip(scales.unbind(0));
            pairs.map(|(mean, scale)| Self::MeanAndScale { mean, scale }).collect()
        };
        match self {
            Self::Weight(weights) => each(weights).into_iter().map(Self::Weight).collect(),
            Self::MeanAndScale { mean: MeanWeight::Matrix(matrices), scale } => {
                with_scales(each(matrices).into_iter().map(MeanWeight::Matrix).collect(), scale)
            }
            Self::MeanAndScale { mean: MeanWeight::Factors { left, right }, scale } => {
                let pairs = each(left).into_iter().zip(each(right));
                with_scales(pairs.map(|(left, right)| MeanWeight::Factors { left, right }).collect(), scale)
            }
        }
    }

    /// One of several draws; what no draw changes has no axis over them.
    pub(super) fn of_draw(&self, k: i64) -> Self {
        self.map(|matrix| if matrix.dim() > 2 { matrix.select(0, k) } else { matrix.shallow_clone() })
    }
}
