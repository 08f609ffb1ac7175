//! The default residual: a layer's gradient-weighted feature in the coordinates of its inducing rows, and what the leading
//! directions of U leave of it.

use tch::{Kind, Tensor};

use super::{Tap, decompose, row_norms};
use crate::{Error, Result};

/// `z_c = Σ_hw h·g`: the product of feature and gradient, summed over positions. `[batch, channels, ..]` → `[batch, channels]`
///
/// # Errors
/// When the shapes differ.
pub fn pooled_product(tap: &Tap) -> Result<Tensor> {
    let channels = *tap.feature.size().get(1).unwrap_or(&1);
    let flat = tap.product()?.reshape([tap.feature.size()[0], channels, -1]);
    Ok(flat.sum_dim_intlist(-1, false, Kind::Double))
}

/// The leading left singular vectors of U: the directions of the inducing rows that carry most of it.
#[derive(Debug)]
pub struct LeadingRows {
    /// `[R, k]`
    basis: Tensor,
}

impl LeadingRows {
    /// As many directions as explain `energy` of the given `q` (ID training data), at most R − 1 of them.
    ///
    /// # Shapes
    /// inducing `[R, C]`, q `[N, R]`
    ///
    /// # Errors
    /// When the shapes do not fit, or U has no singular value decomposition (NaN).
    pub fn fit(inducing: &Tensor, q: &Tensor, energy: f64) -> Result<Self> {
        let (left, _, _) = decompose(inducing)?;
        let rows = inducing.size()[0];
        if q.dim() != 2 || q.size()[1] != rows {
            return Err(Error::shape("q", &q.size(), format!("[N, {rows}]")));
        }
        let caught = q.matmul(&left).square().sum_dim_intlist(0, false, Kind::Double).cumsum(0, Kind::Double);
        let enough = q.square().sum(Kind::Double) * energy;
        let short = caught.lt_tensor(&enough).sum(Kind::Int64).int64_value(&[]);
        let k = (short + 1).min(left.size()[1]).min((rows - 1).max(1));
        Ok(Self { basis: left.narrow(1, 0, k).contiguous() })
    }

    /// The directions themselves, orthonormal. `[R, k]`
    pub fn basis(&self) -> &Tensor {
        &self.basis
    }

    /// Those of an earlier fit. `[R, k]`
    pub fn of_basis(basis: Tensor) -> Self {
        Self { basis }
    }

    /// k.
    pub fn rank(&self) -> i64 {
        self.basis.size()[1]
    }

    /// `ln(‖q − BBᵀq‖/‖q‖)` of each row: high means out of distribution. `[N, R]` → `[N]`
    ///
    /// # Errors
    /// When q does not have R columns.
    pub fn score(&self, q: &Tensor) -> Result<Tensor> {
        let share = self.distance(q)? / row_norms(q).clamp_min(f64::MIN_POSITIVE);
        Ok(share.clamp_min(1e-12).log())
    }

    /// `‖q − BBᵀq‖` of each row. `[N, R]` → `[N]`
    ///
    /// # Errors
    /// When q does not have R columns.
    pub fn distance(&self, q: &Tensor) -> Result<Tensor> {
        Ok(row_norms(&(q - q.f_matmul(&self.basis)?.matmul(&self.basis.mt()))))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn as_many_directions_as_the_energy_needs() {
        let u = Tensor::from_slice(&[3.0, 0.0, 0.0, 0.0, 2.0, 0.0, 0.0, 0.0, 1.0]).reshape([3, 3]);
        let q = Tensor::from_slice(&[3.0, 4.0, 0.0]).reshape([1, 3]);
        let rank = |energy| LeadingRows::fit(&u, &q, energy).unwrap().rank();
        assert_eq!([rank(0.3), rank(0.9), rank(1.0)], [1, 2, 2]);
        // one direction leaves 4 of length 5
        let score = LeadingRows::fit(&u, &q, 0.3).unwrap().score(&q).unwrap().double_value(&[0]);
        assert!((score - 0.8_f64.ln()).abs() < 1e-12);
        assert!(LeadingRows::fit(&u, &Tensor::from_slice(&[1.0]).reshape([1, 1]), 0.5).is_err());
    }

    #[test]
    fn the_product_is_summed_over_positions() {
        let feature = Tensor::from_slice(&[1.0, 2.0, 3.0, 4.0]).reshape([1, 2, 1, 2]);
        let tap = Tap { gradient: feature.ones_like() * 2.0, feature };
        assert_eq!(Vec::<f64>::try_from(pooled_product(&tap).unwrap().reshape([-1])).unwrap(), [6.0, 14.0]);
    }
}
