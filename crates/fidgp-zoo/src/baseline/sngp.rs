//! Liu et al.: Simple and Principled Uncertainty Estimation with Deterministic Deep Learning via Distance Awareness
//! (2020). The last layer as a Gaussian process in random Fourier features, with a Laplace posterior.

use fidgp::linalg::{self, Check, Jitter, Named};
use tch::Tensor;

use super::{expect_shape, matrix};
use crate::Result;

/// `Φ = √(2/D) cos(hW + b)`.
///
/// # Shapes
/// features `[N, n]`, weight `[n, D]`, bias `[D]` → `[N, D]`
///
/// # Errors
/// When the shapes do not fit.
pub fn random_features(features: &Tensor, weight: &Tensor, bias: &Tensor) -> Result<Tensor> {
    let (inputs, width) = matrix("weight", weight)?;
    let (rows, _) = matrix("features", features)?;
    expect_shape("features", features, &[rows, inputs])?;
    expect_shape("bias", bias, &[width])?;
    Ok((features.matmul(weight) + bias).cos() * (2.0 / width as f64).sqrt())
}

/// Posterior precision of the output weights under a unit-variance likelihood: `ridge·I + ΦᵀΦ`. `[N, D]` → `[D, D]`
///
/// # Errors
/// When Φ is not a matrix.
pub fn precision(random_features: &Tensor, ridge: f64) -> Result<Tensor> {
    let (_, width) = matrix("random features", random_features)?;
    let eye = Tensor::eye(width, (random_features.kind(), random_features.device()));
    Ok(random_features.mt().matmul(random_features) + eye * ridge)
}

/// Predictive variance of a logit, `φᵀ Λ⁻¹ φ`.
///
/// # Shapes
/// random features `[N, D]`, precision `[D, D]` → `[N]`
///
/// # Errors
/// When the shapes do not fit or the precision is not positive definite.
pub fn variance(random_features: &Tensor, precision: &Tensor) -> Result<Tensor> {
    let (_, width) = matrix("random features", random_features)?;
    expect_shape("precision", precision, &[width, width])?;
    let named = Named::one("sngp.precision", precision);
    let lower = linalg::cholesky(&[named], Jitter::NONE, Check::Now)?.remove(0).get(0);
    let whitened = linalg::solve_lower(&lower, &random_features.mt()); // [D, N]
    Ok(whitened.square().sum_dim_intlist(0, false, whitened.kind()))
}

/// Logits tempered by their variance: `logits/√(1 + λ·var)`.
///
/// # Shapes
/// logits `[N, classes]`, variance `[N]` → `[N, classes]`
///
/// # Errors
/// When the shapes do not fit.
pub fn mean_field_logits(logits: &Tensor, variance: &Tensor, factor: f64) -> Result<Tensor> {
    let (rows, _) = matrix("logits", logits)?;
    expect_shape("variance", variance, &[rows])?;
    Ok(logits / (variance * factor + 1.0).sqrt().unsqueeze(-1))
}

#[cfg(test)]
mod tests {
    use super::*;
    use fidgp::Key;
    use tch::{Device, Kind};

    fn normal(name: &str, shape: &[i64]) -> Tensor {
        Key::new(3).fold(name).normal(shape, Kind::Double, Device::Cpu)
    }

    #[test]
    fn variance_falls_where_there_is_data_and_never_exceeds_the_prior() {
        let (weight, bias) = (normal("w", &[2, 64]), normal("b", &[64]) * 3.0);
        let phi = |x: &Tensor| random_features(x, &weight, &bias).unwrap();
        let (near, far) = (normal("x", &[50, 2]) * 0.1, normal("y", &[1, 2]) * 0.0 + 8.0);
        let precision = precision(&phi(&near), 1.0).unwrap();
        let at = |x: &Tensor| variance(&phi(x), &precision).unwrap().max().double_value(&[]);
        assert!(at(&near) < 0.2 * at(&far), "{} {}", at(&near), at(&far));
        assert!(at(&far) <= phi(&far).square().sum(Kind::Double).double_value(&[]) + 1e-12);
    }

    #[test]
    fn the_variance_is_the_quadratic_form() {
        let phi = normal("phi", &[7, 4]);
        let precision = precision(&phi, 0.5).unwrap();
        let dense = phi.matmul(&precision.inverse()).matmul(&phi.mt()).diagonal(0, 0, 1).copy();
        assert!((variance(&phi, &precision).unwrap() - dense).abs().max().double_value(&[]) < 1e-12);
    }

    #[test]
    fn shapes_are_checked() {
        assert!(random_features(&normal("x", &[5, 3]), &normal("w", &[2, 6]), &normal("b", &[6])).is_err());
        assert!(variance(&normal("x", &[5, 3]), &normal("p", &[2, 2])).is_err());
        assert!(mean_field_logits(&normal("x", &[5, 3]), &normal("v", &[2]), 1.0).is_err());
    }
}
