//! Sun et al.: Out-of-Distribution Detection with Deep Nearest Neighbors (2022).

use tch::{Kind, Tensor};

use super::{expect_shape, matrix};
use crate::Result;

/// Features of the training set on the unit sphere.
#[derive(Debug)]
pub struct Neighbours {
    bank: Tensor, // [N, n]
    k: i64,
}

impl Neighbours {
    /// # Shapes
    /// features `[N, n]`
    ///
    /// # Errors
    /// When the features are no matrix.
    pub fn fit(features: &Tensor, k: i64) -> Result<Self> {
        let (rows, _) = matrix("features", features)?;
        Ok(Self { bank: unit(features), k: k.clamp(1, rows) })
    }

    /// Distance to the k-th nearest training feature: high means out of distribution. `[N, n]` → `[N]`
    ///
    /// # Errors
    /// When x does not have n columns.
    pub fn score(&self, x: &Tensor) -> Result<Tensor> {
        self.distance(x, self.k)
    }

    /// The same of the training features themselves, each to the k-th nearest *other* one. `[N, n]` → `[N]`
    ///
    /// # Errors
    /// When x does not have n columns.
    pub fn score_fitted(&self, x: &Tensor) -> Result<Tensor> {
        self.distance(x, (self.k + 1).min(self.bank.size()[0]))
    }

    fn distance(&self, x: &Tensor, k: i64) -> Result<Tensor> {
        let (rows, _) = matrix("x", x)?;
        expect_shape("x", x, &[rows, self.bank.size()[1]])?;
        let cosines = unit(x).matmul(&self.bank.mt()); // [N, bank]
        let (nearest, _) = cosines.topk(k, -1, true, true);
        let squared = nearest.select(1, k - 1) * -2.0 + 2.0;
        Ok(squared.clamp_min(0.0).sqrt())
    }
}

/// Rows of length one.
fn unit(x: &Tensor) -> Tensor {
    let x = x.to_kind(Kind::Double);
    &x / x.linalg_norm(2, [-1_i64].as_slice(), true, None::<Kind>).clamp_min(1e-12)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_distance_on_the_circle() {
        let bank = Tensor::from_slice(&[2.0, 0.0, 0.0, 3.0, -1.0, 0.0]).reshape([3, 2]);
        let x = Tensor::from_slice(&[5.0, 0.0]).reshape([1, 2]);
        for (k, expected) in [(1, 0.0), (2, 2.0_f64.sqrt()), (3, 2.0), (9, 2.0)] {
            let found = Neighbours::fit(&bank, k).unwrap().score(&x).unwrap().double_value(&[0]);
            assert!((found - expected).abs() < 1e-7, "{k}: {found}");
        }
    }

    #[test]
    fn what_was_fitted_is_not_its_own_neighbour() {
        let bank = Tensor::from_slice(&[2.0, 0.0, 0.0, 3.0, -1.0, 0.0]).reshape([3, 2]);
        let found = Neighbours::fit(&bank, 1).unwrap().score_fitted(&bank).unwrap();
        assert!((found - 2.0_f64.sqrt()).abs().max().double_value(&[]) < 1e-7);
        let alone = Neighbours::fit(&bank.narrow(0, 0, 1), 1).unwrap();
        assert_eq!(alone.score_fitted(&bank).unwrap().size(), [3]); // it has no other: nothing to leave out
    }
}
