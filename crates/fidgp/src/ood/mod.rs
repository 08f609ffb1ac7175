//! Out-of-distribution scores: how much of a feature a fixed subspace leaves unexplained.
//!
//! The paper's score takes `z = h ⊙ ∂loss/∂h` at a layer, maps it to the width of the inducing matrix U and measures
//! the residual `‖(I − P)f‖` of the projection `P = Uᵀ(UUᵀ + δI)⁻¹U`. A [`Subspace`] is built once, from **one** U, and
//! then used for every set that is compared: scores from different draws of U cannot be ranked against each other.
//!
//! With the singular values σ and right singular vectors v of U, `P = Σ σ²/(σ² + δ) v vᵀ`. That is how it is held here:
//! no matrix is inverted, and a square U of full rank shows for what it is, a P that differs from I by the ridge alone.

mod pooled;
mod rows;
mod spectral;

pub use pooled::{log_unexplained, mean_patch};
pub use rows::{LeadingRows, pooled_product};
pub use spectral::WeightSpread;

use tch::{Kind, Tensor};

use crate::{Error, Result};

/// What is added to the diagonal of `UUᵀ` before it is inverted: δ, then ε times the mean of the diagonal so far.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Ridge {
    /// δ.
    pub absolute: f64,
    /// ε.
    pub relative: f64,
}

impl Ridge {
    /// As in the released code: δ = 10⁻³, ε = 10⁻⁴.
    pub const COMPAT: Self = Self { absolute: 1e-3, relative: 1e-4 };

    /// The sum of both, for an inducing matrix with these singular values and number of rows.
    fn total(self, singular_values: &Tensor, rows: i64) -> Tensor {
        let mean_diagonal = singular_values.square().sum(singular_values.kind()) / rows as f64 + self.absolute;
        mean_diagonal * self.relative + self.absolute
    }
}

/// A symmetric map P with eigenvalues in [0, 1]: a projection, or one softened by a ridge.
///
/// ```
/// use fidgp::ood::{Ridge, Subspace};
/// use tch::Tensor;
///
/// let u = Tensor::from_slice(&[1.0, 0.0, 0.0, 0.0, 2.0, 0.0]).reshape([2, 3]);
/// let plane = Subspace::orthogonal(&u)?;
/// let residual = plane.residual(&Tensor::from_slice(&[3.0, 4.0, 5.0]).reshape([1, 3]))?;
/// assert_eq!(Vec::<f64>::try_from(residual.reshape([-1])).unwrap(), [0.0, 0.0, 5.0]);
/// # Ok::<(), fidgp::Error>(())
/// ```
#[derive(Debug)]
pub struct Subspace {
    /// Right singular vectors of U, as rows. `[k, N]`
    basis: Tensor,
    /// Eigenvalues of P. `[k]`
    gains: Tensor,
}

impl Subspace {
    /// `P = Uᵀ(UUᵀ + δI)⁻¹U`, δ the whole ridge.
    ///
    /// # Shapes
    /// inducing `[M, N]`; P acts on `R^N`
    ///
    /// # Errors
    /// When U is not a matrix or has no singular value decomposition (NaN).
    pub fn softened(inducing: &Tensor, ridge: Ridge) -> Result<Self> {
        let (_, sigma, basis) = decompose(inducing)?;
        let energy = sigma.square();
        let gains = &energy / (&energy + ridge.total(&sigma, inducing.size()[0]));
        Ok(Self { basis, gains })
    }

    /// The orthogonal projection on the rows of U, `P = U⁺U`: the limit of no ridge. Singular values below rounding
    /// count as zero.
    ///
    /// # Shapes
    /// inducing `[M, N]`; P acts on `R^N`
    ///
    /// # Errors
    /// When U is not a matrix or has no singular value decomposition (NaN).
    pub fn orthogonal(inducing: &Tensor) -> Result<Self> {
        let (_, sigma, basis) = decompose(inducing)?;
        let epsilon = if sigma.kind() == Kind::Double { f64::EPSILON } else { f64::from(f32::EPSILON) };
        let size = inducing.size().into_iter().max().unwrap_or(1) as f64;
        let gains = sigma.gt_tensor(&(sigma.max() * (epsilon * size))).to_kind(sigma.kind());
        Ok(Self { basis, gains })
    }

    /// P itself. `[N, N]`
    pub fn projector(&self) -> Tensor {
        (self.basis.mt() * &self.gains).matmul(&self.basis)
    }

    /// `Px` for each row. `[.., N]` → `[.., N]`
    ///
    /// # Errors
    /// When x does not have N columns.
    pub fn project(&self, x: &Tensor) -> Result<Tensor> {
        Ok((x.f_matmul(&self.basis.mt())? * &self.gains).matmul(&self.basis))
    }

    /// `(I − P)x` for each row. `[.., N]` → `[.., N]`
    ///
    /// # Errors
    /// When x does not have N columns.
    pub fn residual(&self, x: &Tensor) -> Result<Tensor> {
        Ok(x - self.project(x)?)
    }

    /// `‖(I − P)x‖₂` of each row: high means out of distribution. `[.., N]` → `[..]`
    ///
    /// # Errors
    /// When x does not have N columns.
    pub fn score(&self, x: &Tensor) -> Result<Tensor> {
        Ok(row_norms(&self.residual(x)?))
    }
}

/// `argmin_P ‖PU − I‖² + δ‖P‖² = Uᵀ(UUᵀ + δI)⁻¹`: a regularised inverse, not a projection; its product with U is one,
/// softened.
///
/// # Shapes
/// inducing `[M, N]` → `[N, M]`
///
/// # Errors
/// When U is not a matrix or has no singular value decomposition (NaN).
pub fn ridge_inverse(inducing: &Tensor, delta: f64) -> Result<Tensor> {
    let (left, sigma, right) = decompose(inducing)?;
    let gains = &sigma / (sigma.square() + delta);
    Ok((right.mt() * gains).matmul(&left.mt()))
}

/// `U = Q diag(σ) V` with orthonormal columns of Q `[M, k]` and rows of V `[k, N]`, k = min(M, N).
fn decompose(inducing: &Tensor) -> Result<(Tensor, Tensor, Tensor)> {
    if inducing.dim() != 2 || inducing.numel() == 0 {
        return Err(Error::shape("inducing", &inducing.size(), "a matrix [M, N]"));
    }
    let (left, sigma, right) = inducing.f_svd(true, true)?;
    Ok((left, sigma, right.mt()))
}

/// A layer's output and the gradient of the loss there.
#[derive(Debug)]
pub struct Tap {
    /// h. `[batch, ..]`
    pub feature: Tensor,
    /// ∂ CE(logits, argmax logits)/∂h. `[batch, ..]`
    pub gradient: Tensor,
}

impl Tap {
    /// `z = h ⊙ g`, flattened. `[batch, n]`
    ///
    /// # Errors
    /// When the shapes differ.
    pub fn product(&self) -> Result<Tensor> {
        if self.feature.size() != self.gradient.size() || self.feature.dim() == 0 {
            let expected = format!("{:?}, as the feature, with a batch axis", self.feature.size());
            return Err(Error::shape("gradient", &self.gradient.size(), expected));
        }
        Ok((&self.feature * &self.gradient).reshape([self.feature.size()[0], -1]))
    }
}

/// The small network that the released code puts in front of its projection: linear, ReLU, linear.
#[derive(Debug)]
pub struct ResidualHead {
    /// Weight `[hidden, n]` and bias `[hidden]`.
    pub first: (Tensor, Tensor),
    /// Weight `[N, hidden]` and bias `[N]`.
    pub second: (Tensor, Tensor),
}

impl ResidualHead {
    /// f. `[batch, n]` → `[batch, N]`
    ///
    /// # Errors
    /// When the shapes do not fit.
    pub fn forward(&self, z: &Tensor) -> Result<Tensor> {
        let hidden = z.f_linear(&self.first.0, Some(&self.first.1))?.relu();
        Ok(hidden.f_linear(&self.second.0, Some(&self.second.1))?)
    }
}

impl ResidualHead {
    /// A head with entries uniform on `±1/√fan_in`, as PyTorch starts its linear layers, from the key.
    pub fn init(inputs: i64, hidden: i64, outputs: i64, device: tch::Device, key: crate::Key) -> Self {
        let layer = |name: &str, rows: i64, cols: i64| {
            let bound = 1.0 / (cols as f64).sqrt();
            let part = |part: &str, shape: &[i64]| {
                (key.fold(name).fold(part).uniform(shape, Kind::Float, device) * 2.0 - 1.0) * bound
            };
            (part("weight", &[rows, cols]), part("bias", &[rows]))
        };
        Self { first: layer("first", hidden, inputs), second: layer("second", outputs, hidden) }
    }

    /// The one training step of the released code: Adam with rate 10⁻³ on the mean squared residual of this batch. Adam's
    /// first step is `rate · g/(|g| + 10⁻⁸)`.
    ///
    /// # Errors
    /// When the shapes do not fit.
    pub fn one_step(self, z: &Tensor, subspace: &Subspace) -> Result<Self> {
        let parameters = [self.first.0, self.first.1, self.second.0, self.second.1];
        let leaves = parameters.map(|parameter| parameter.detach().set_requires_grad(true));
        let [a, b, c, d] = leaves.each_ref().map(Tensor::shallow_clone);
        let mapped = Self { first: (a, b), second: (c, d) }.forward(z)?;
        let target = subspace.project(&mapped)?.detach();
        let loss = mapped.mse_loss(&target, tch::Reduction::Mean);
        let gradients = Tensor::f_run_backward(&[loss], &leaves, false, false)?;
        let stepped = leaves.iter().zip(&gradients).map(|(leaf, g)| leaf.detach() - g / (g.abs() + 1e-8) * 1e-3);
        let [a, b, c, d] =
            <[Tensor; 4]>::try_from(stepped.collect::<Vec<_>>()).unwrap_or_else(|_| unreachable!("four"));
        Ok(Self { first: (a, b), second: (c, d) })
    }
}

/// The released code's score of one layer, step by step.
#[derive(Debug)]
pub struct CompatResidual {
    /// z. `[batch, n]`
    pub product: Tensor,
    /// f. `[batch, N]`
    pub mapped: Tensor,
    /// (I − P)f. `[batch, N]`
    pub residual: Tensor,
    /// Its length: high means out of distribution. `[batch]`
    pub score: Tensor,
}

/// Scores one layer as the released code does, for comparison only: `z → head → residual of P → length`.
///
/// # Errors
/// When the shapes do not fit.
pub fn compat_residual(tap: &Tap, head: &ResidualHead, subspace: &Subspace) -> Result<CompatResidual> {
    let product = tap.product()?;
    let mapped = head.forward(&product)?;
    let residual = subspace.residual(&mapped)?;
    Ok(CompatResidual { score: row_norms(&residual), product, mapped, residual })
}

/// Euclidean length of each row. `[.., N]` → `[..]`
fn row_norms(x: &Tensor) -> Tensor {
    x.linalg_norm(2, [-1_i64].as_slice(), false, None::<Kind>)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Key;
    use tch::Device;

    fn normal(name: &str, shape: &[i64]) -> Tensor {
        Key::new(5).fold(name).normal(shape, Kind::Double, Device::Cpu)
    }

    fn gap(a: &Tensor, b: &Tensor) -> f64 {
        (a - b).abs().max().double_value(&[])
    }

    fn eye(n: i64) -> Tensor {
        Tensor::eye(n, (Kind::Double, Device::Cpu))
    }

    #[test]
    fn the_softened_projection_is_the_inverse_written_out() {
        for (m, n) in [(3, 5), (4, 4), (6, 4), (1, 3), (3, 1)] {
            let u = normal("u", &[m, n]);
            let ridge = Ridge { absolute: 1e-2, relative: 1e-3 };
            let a = u.matmul(&u.tr()) + eye(m) * ridge.absolute;
            let a = &a + eye(m) * a.diagonal(0, 0, 1).mean(Kind::Double) * ridge.relative;
            let inverse = u.tr().matmul(&Tensor::linalg_solve(&a, &u, true));
            assert!(gap(&Subspace::softened(&u, ridge).unwrap().projector(), &inverse) < 1e-12, "{m}x{n}");
        }
    }

    #[test]
    fn an_orthogonal_projection_is_idempotent_and_keeps_the_rows() {
        let u = normal("u", &[3, 5]);
        let u = Tensor::cat(&[&u, &u.get(0).unsqueeze(0)], 0); // rank 3
        let subspace = Subspace::orthogonal(&u).unwrap();
        let p = subspace.projector();
        assert!(gap(&p.matmul(&p), &p) < 1e-12);
        assert!((p.trace().double_value(&[]) - 3.0).abs() < 1e-12);
        assert!(gap(&subspace.project(&u).unwrap(), &u) < 1e-12);
        assert!(subspace.score(&u).unwrap().max().double_value(&[]) < 1e-12);
    }

    #[test]
    fn the_ridge_inverse_has_a_vanishing_gradient() {
        let u = normal("u", &[3, 5]);
        let p = ridge_inverse(&u, 0.1).unwrap();
        // ½ d/dP (‖PU − I‖² + δ‖P‖²) = (PU − I)Uᵀ + δP
        let gradient = (p.matmul(&u) - eye(5)).matmul(&u.tr()) + &p * 0.1;
        assert!(gradient.abs().max().double_value(&[]) < 1e-12);
    }

    #[test]
    fn a_square_inducing_matrix_explains_everything_but_the_ridge() {
        let u = normal("u", &[4, 4]);
        let subspace = Subspace::softened(&u, Ridge { absolute: 1e-9, relative: 0.0 }).unwrap();
        assert!(subspace.score(&normal("x", &[7, 4])).unwrap().max().double_value(&[]) < 1e-5);
    }

    #[test]
    fn wrong_shapes_are_errors() {
        let subspace = Subspace::orthogonal(&normal("u", &[2, 3])).unwrap();
        assert!(subspace.score(&normal("x", &[7, 4])).is_err());
        assert!(Subspace::orthogonal(&normal("u", &[2])).is_err());
        let tap = Tap { feature: normal("h", &[2, 3]), gradient: normal("g", &[3, 2]) };
        assert!(tap.product().unwrap_err().to_string().contains("[3, 2]"));
    }
}
