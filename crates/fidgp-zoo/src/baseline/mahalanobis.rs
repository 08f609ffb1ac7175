//! Lee et al.: A Simple Unified Framework (2018), and Ren et al.: A Simple Fix to Mahalanobis Distance (2021).

use fidgp::linalg::{self, Check, Jitter, Named};
use tch::{Kind, Tensor};

use super::{class_means, expect_shape, matrix};
use crate::Result;

/// No jitter at first, then the smallest that lets a covariance be factorised.
const JITTER: Jitter = Jitter { relative: 0.0, escalations: 16 };

/// Class means with one covariance for all of them, and one Gaussian for the features without classes.
#[derive(Debug)]
pub struct Mahalanobis {
    means: Tensor,   // [K, n]
    within: Tensor,  // chol of the covariance around the class means   [n, n]
    overall: Tensor, // [1, n]
    total: Tensor,   // chol of the covariance around the overall mean   [n, n]
}

impl Mahalanobis {
    /// # Shapes
    /// features `[N, n]`; one label for each row, classes counted from 0
    ///
    /// # Errors
    /// When there is not one label for each row, a class is missing, or the features are not finite.
    pub fn fit(features: &Tensor, labels: &[i64]) -> Result<Self> {
        let (rows, _) = matrix("features", features)?;
        let features = features.to_kind(Kind::Double);
        let (means, own) = class_means(&features, labels)?;
        let overall = features.mean_dim(0, true, Kind::Double);
        let covariance = |name: &str, centred: &Tensor| {
            Named::one(format!("mahalanobis.{name}"), &(centred.mt().matmul(centred) / rows as f64))
        };
        let named = [covariance("within", &(&features - own)), covariance("total", &(&features - &overall))];
        let mut lower = linalg::cholesky(&named, JITTER, Check::Now)?.into_iter();
        let (Some(within), Some(total)) = (lower.next(), lower.next()) else { unreachable!("two matrices") };
        Ok(Self { means, within, overall, total })
    }

    /// `min_k (x − μ_k)ᵀ Σ⁻¹ (x − μ_k)`: high means out of distribution. `[N, n]` → `[N]`
    ///
    /// # Errors
    /// When x does not have n columns.
    pub fn score(&self, x: &Tensor) -> Result<Tensor> {
        let x = self.checked(x)?;
        let x = linalg::solve_lower(&self.within, &x.mt()).mt(); // [N, n]
        let means = linalg::solve_lower(&self.within, &self.means.mt()).mt(); // [K, n]
        let energy = |t: &Tensor| t.square().sum_dim_intlist(-1, false, Kind::Double);
        let distances = energy(&x).unsqueeze(1) + energy(&means) - x.matmul(&means.mt()) * 2.0; // [N, K]
        Ok(distances.amin([1_i64].as_slice(), false))
    }

    /// The same less the distance to all features, `− (x − μ)ᵀ Σ_0⁻¹ (x − μ)`. `[N, n]` → `[N]`
    ///
    /// # Errors
    /// When x does not have n columns.
    pub fn relative(&self, x: &Tensor) -> Result<Tensor> {
        let background = linalg::solve_lower(&self.total, &(self.checked(x)? - &self.overall).mt()).square();
        Ok(self.score(x)? - background.sum_dim_intlist(0, false, Kind::Double))
    }

    fn checked(&self, x: &Tensor) -> Result<Tensor> {
        let (rows, _) = matrix("x", x)?;
        expect_shape("x", x, &[rows, self.means.size()[1]])?;
        Ok(x.to_kind(Kind::Double))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Two classes at ±3 on the first axis, each with variance 1 on both axes: by hand.
    #[test]
    fn hand_values() {
        let rows =
            [[2.0, 0.0], [4.0, 0.0], [3.0, 1.4], [3.0, -1.4], [-2.0, 0.0], [-4.0, 0.0], [-3.0, 1.4], [-3.0, -1.4]];
        let features = Tensor::from_slice(&rows.concat()).reshape([8, 2]);
        let fitted = Mahalanobis::fit(&features, &[0, 0, 0, 0, 1, 1, 1, 1]).unwrap();
        let x = Tensor::from_slice(&[5.0, 0.0]).reshape([1, 2]);
        // within: variances 0.5 and 0.98; total: 9.5 and 0.98
        assert!((fitted.score(&x).unwrap().double_value(&[0]) - 4.0 / 0.5).abs() < 1e-9);
        assert!((fitted.relative(&x).unwrap().double_value(&[0]) - (8.0 - 25.0 / 9.5)).abs() < 1e-9);
        assert!(fitted.score(&features.narrow(1, 0, 1)).is_err());
        assert!(Mahalanobis::fit(&features, &[0, 1]).is_err());
    }
}
