//! Wang et al.: ViM, Out-of-Distribution with Virtual-Logit Matching (2022).

use tch::{Kind, Tensor};

use super::{expect_shape, logit_scores::energy, matrix};
use crate::Result;

/// The origin, the null space of the leading directions, and the scale that makes the residual a logit.
#[derive(Debug)]
pub struct Vim {
    origin: Tensor, // [n]
    minor: Tensor,  // directions outside the principal space   [n, n − D]
    alpha: f64,
}

impl Vim {
    /// The principal space has D = n/2 directions (1000 from n = 2048 on, 512 from n = 768 on), as in the paper; the origin is
    /// `−W⁺b`; α is the mean largest logit over the mean residual of the training features.
    ///
    /// # Shapes
    /// features `[N, n]`, head `[K, n]` and `[K]`
    ///
    /// # Errors
    /// When the shapes do not fit.
    pub fn fit(features: &Tensor, weight: &Tensor, bias: &Tensor) -> Result<Self> {
        let (rows, width) = matrix("features", features)?;
        expect_shape("weight", weight, &[weight.size()[0], width])?;
        expect_shape("bias", bias, &[weight.size()[0]])?;
        let [features, weight, bias] = [features, weight, bias].map(|t| t.to_kind(Kind::Double));
        let origin = -weight.linalg_pinv(1e-15, false).matmul(&bias);
        let centred = &features - &origin;
        let (_, vectors) = (centred.mt().matmul(&centred) / rows as f64).linalg_eigh("L"); // values rise
        let principal = if width >= 2048 {
            1000
        } else if width >= 768 {
            512
        } else {
            width / 2
        };
        let minor = vectors.narrow(1, 0, width - principal);
        let mut fitted = Self { origin, minor, alpha: 1.0 };
        let logits = features.matmul(&weight.mt()) + bias;
        let largest = logits.amax([-1_i64].as_slice(), false).mean(Kind::Double).double_value(&[]);
        fitted.alpha = largest / fitted.residual(&features)?.mean(Kind::Double).double_value(&[]).max(1e-12);
        Ok(fitted)
    }

    /// `α‖x^⊥‖ − ln Σ exp logit`: high means out of distribution. `[N, n]`, `[N, K]` → `[N]`
    ///
    /// # Errors
    /// When x does not have n columns.
    pub fn score(&self, x: &Tensor, logits: &Tensor) -> Result<Tensor> {
        Ok(self.residual(x)? * self.alpha + energy(logits))
    }

    fn residual(&self, x: &Tensor) -> Result<Tensor> {
        let (rows, _) = matrix("x", x)?;
        expect_shape("x", x, &[rows, self.minor.size()[0]])?;
        let outside = (x.to_kind(Kind::Double) - &self.origin).matmul(&self.minor);
        Ok(outside.linalg_norm(2, [-1_i64].as_slice(), false, None::<Kind>))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Features on the first axis with a little of the second: D = 1, the residual is |x₂|, α = mean logit / mean |x₂|.
    #[test]
    fn hand_values() {
        let features = Tensor::from_slice(&[4.0, 0.5, -4.0, 0.5, 4.0, -0.5, -4.0, -0.5]).reshape([4, 2]);
        let weight = Tensor::from_slice(&[1.0, 0.0, -1.0, 0.0]).reshape([2, 2]);
        let vim = Vim::fit(&features, &weight, &Tensor::from_slice(&[0.0, 0.0])).unwrap();
        let x = Tensor::from_slice(&[0.0, 3.0]).reshape([1, 2]);
        let logits = Tensor::from_slice(&[0.0, 0.0]).reshape([1, 2]);
        // mean largest logit 4, mean residual 0.5: α = 8
        let expected = 8.0 * 3.0 - 2.0_f64.ln();
        assert!((vim.score(&x, &logits).unwrap().double_value(&[0]) - expected).abs() < 1e-9);
    }
}
