//! Hensman, Matthews, Ghahramani: Scalable Variational Gaussian Process Classification (2015), in whitened form: the
//! process at the inducing points is `chol(K_zz) v` with `v ~ N(m, LLᵀ)`.

use fidgp::linalg::{self, Check, Jitter, Named};
use tch::Tensor;

use super::{expect_shape, matrix};
use crate::Result;

/// `k(x, x') = s² exp(−‖x − x'‖²/2ℓ²)`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Rbf {
    /// ℓ.
    pub lengthscale: f64,
    /// s².
    pub outputscale: f64,
}

impl Rbf {
    /// `[N, n]`, `[M, n]` → `[N, M]`
    pub fn gram(&self, x: &Tensor, y: &Tensor) -> Tensor {
        let difference = (x.unsqueeze(-2) - y.unsqueeze(-3)) / self.lengthscale; // [N, M, n]
        let distance = difference.square().sum_dim_intlist(-1, false, x.kind());
        (distance * -0.5).exp() * self.outputscale
    }
}

/// A whitened sparse variational Gaussian process with one output.
#[derive(Debug)]
pub struct WhitenedSvgp {
    /// The kernel.
    pub kernel: Rbf,
    /// What is added to the diagonal of K_zz.
    pub jitter: f64,
    /// Z. `[M, n]`
    pub inducing_points: Tensor,
    /// m. `[M]`
    pub mean: Tensor,
    /// L, lower triangular. `[M, M]`
    pub lower: Tensor,
}

/// The process at some points.
#[derive(Debug)]
pub struct Marginal {
    /// `[N]`
    pub mean: Tensor,
    /// `[N, N]`
    pub covariance: Tensor,
}

impl WhitenedSvgp {
    /// With `B = chol(K_zz + jitter·I)⁻¹ K_zx`: mean `Bᵀm`, covariance `K_xx − BᵀB + BᵀLLᵀB`.
    ///
    /// # Shapes
    /// x `[N, n]`
    ///
    /// # Errors
    /// When the shapes do not fit or K_zz cannot be factorised.
    pub fn predict(&self, x: &Tensor) -> Result<Marginal> {
        let inducing = self.check()?;
        let (rows, _) = matrix("x", x)?;
        expect_shape("x", x, &[rows, self.inducing_points.size()[1]])?;
        let eye = Tensor::eye(inducing, (x.kind(), x.device()));
        let value = self.kernel.gram(&self.inducing_points, &self.inducing_points) + eye * self.jitter;
        let lower = linalg::cholesky(&[Named::one("svgp.K_zz", &value)], Jitter::NONE, Check::Now)?.remove(0);
        let b = linalg::solve_lower(&lower, &self.kernel.gram(&self.inducing_points, x)); // [M, N]
        let spread = self.lower.mt().matmul(&b); // [M, N]
        let covariance = self.kernel.gram(x, x) - b.mt().matmul(&b) + spread.mt().matmul(&spread);
        Ok(Marginal { mean: b.mt().matmul(&self.mean), covariance })
    }

    /// `KL[N(m, LLᵀ) ‖ N(0, I)] = ½(‖L‖² + ‖m‖² − M) − Σ ln|L_ii|`. Scalar.
    ///
    /// # Errors
    /// When the shapes do not fit.
    pub fn kl(&self) -> Result<Tensor> {
        let inducing = self.check()? as f64;
        let energy = |t: &Tensor| t.square().sum(t.kind());
        let log_det = self.lower.diagonal(0, 0, 1).abs().log().sum(self.lower.kind());
        Ok((energy(&self.lower) + energy(&self.mean) - inducing) * 0.5 - log_det)
    }

    /// M, when m and L fit it.
    fn check(&self) -> Result<i64> {
        let (inducing, _) = matrix("inducing points", &self.inducing_points)?;
        expect_shape("mean", &self.mean, &[inducing])?;
        expect_shape("lower", &self.lower, &[inducing, inducing])?;
        Ok(inducing)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use fidgp::Key;
    use tch::{Device, Kind};

    fn normal(name: &str, shape: &[i64]) -> Tensor {
        Key::new(6).fold(name).normal(shape, Kind::Double, Device::Cpu)
    }

    fn process(lower: Tensor, mean: Tensor) -> WhitenedSvgp {
        let kernel = Rbf { lengthscale: 0.8, outputscale: 1.5 };
        WhitenedSvgp { kernel, jitter: 1e-10, inducing_points: normal("z", &[4, 2]), mean, lower }
    }

    #[test]
    fn the_prior_is_recovered_where_q_is_the_prior() {
        let eye = Tensor::eye(4, (Kind::Double, Device::Cpu));
        let process = process(eye, Tensor::zeros([4], (Kind::Double, Device::Cpu)));
        let x = normal("x", &[5, 2]);
        let marginal = process.predict(&x).unwrap();
        assert!((marginal.covariance - process.kernel.gram(&x, &x)).abs().max().double_value(&[]) < 1e-10);
        assert!(marginal.mean.abs().max().double_value(&[]) < 1e-12);
        assert!(process.kl().unwrap().double_value(&[]).abs() < 1e-12);
    }

    #[test]
    fn at_the_inducing_points_the_process_is_the_unwhitened_q() {
        let (lower, mean) = (normal("l", &[4, 4]).tril(0), normal("m", &[4]));
        let process = process(lower.copy(), mean.copy());
        let z = process.inducing_points.copy();
        let root = process.kernel.gram(&z, &z).linalg_cholesky(false);
        let spread = root.matmul(&lower);
        let marginal = process.predict(&z).unwrap();
        assert!((marginal.mean - root.matmul(&mean)).abs().max().double_value(&[]) < 1e-7);
        assert!((marginal.covariance - spread.matmul(&spread.mt())).abs().max().double_value(&[]) < 1e-6);
    }

    #[test]
    fn shapes_are_checked() {
        let process = process(normal("l", &[4, 4]), normal("m", &[3]));
        assert!(process.kl().is_err());
        assert!(process.predict(&normal("x", &[5, 2])).unwrap_err().to_string().contains("mean"));
    }
}
