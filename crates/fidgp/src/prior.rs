//! The sparse-GP prior on one weight matrix: Kronecker covariance over an inducing matrix.
//!
//! With `K_r = Z_r Z_rᵀ + D_r²` and `K_c = Z_c Z_cᵀ + D_c²` the inducing matrix is `U ~ MN(0, K_r, K_c)`, its
//! cross-covariance with the (unit-scale) weight W is `Z_rᵀ ⊗ Z_cᵀ`, and the marginal of W is exactly `N(0, I)`.

use serde::{Deserialize, Serialize};
use tch::nn::Path;
use tch::{Kind, Tensor};

use crate::distribution::inverse_softplus;
use crate::linalg::{self, Check, Jitter, Named, solve_lower, solve_lower_transposed};
use crate::{Error, Key, Result};

/// Parameters of the prior of one layer.
#[derive(Debug)]
pub struct KroneckerPrior {
    /// The layer, for messages.
    pub name: String,
    /// Z_r. `[R, d_out]`
    pub z_row: Tensor,
    /// Z_c. `[C, d_in]`
    pub z_col: Tensor,
    /// softplus⁻¹ of the diagonal of D_r. `[R]`
    pub d_row_raw: Tensor,
    /// softplus⁻¹ of the diagonal of D_c. `[C]`
    pub d_col_raw: Tensor,
}

/// Sizes of a weight matrix and of its inducing matrix.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sizes {
    /// Rows of W.
    pub d_out: i64,
    /// Columns of W, the bias column included.
    pub d_in: i64,
    /// Rows of U (the paper's `M_out`).
    pub rows: i64,
    /// Columns of U (the paper's `M_in`).
    pub cols: i64,
}

/// Where the inducing locations Z start.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ZStart {
    /// `N(0, 1)·M^-½`.
    #[default]
    Normal,
    /// Orthogonal rows (columns, where there are more rows than columns), scaled to the same mean square entry.
    Orthogonal,
}

impl ZStart {
    /// Z from standard normals. `[M, d]`
    fn shape(self, normals: Tensor) -> Tensor {
        let (inducing, width) = size2(&normals);
        let unit = match self {
            Self::Normal => normals,
            Self::Orthogonal => {
                let tall = if inducing > width { normals } else { normals.mt() };
                let (q, _) = Tensor::linalg_qr(&tall, "reduced");
                let q = if inducing > width { q } else { q.mt() };
                q * (inducing.max(width) as f64).sqrt()
            }
        };
        unit / (inducing as f64).sqrt()
    }
}

impl KroneckerPrior {
    /// `Z ~ N(0, 1)·M^-½` or orthogonal rows of the same mean length, `D = d_init`.
    ///
    /// # Errors
    /// When an inducing size is zero or `d_init` is not positive.
    pub fn init(path: &Path, sizes: Sizes, d_init: f64, start: ZStart, key: Key) -> Result<Self> {
        let name = layer_name(path);
        if sizes.rows < 1 || sizes.cols < 1 {
            let found = format!("{}x{}", sizes.rows, sizes.cols);
            return Err(Error::setting(
                format!("{name}: inducing size"),
                found,
                "needs at least one row and one column",
            ));
        }
        if d_init <= 0.0 || !d_init.is_finite() {
            return Err(Error::setting(format!("{name}: init_d"), d_init, "must be greater than 0"));
        }
        let z = |label: &str, inducing: i64, width: i64| {
            let z = key.fold(label).normal(&[inducing, width], Kind::Double, path.device());
            path.var_copy(label, &start.shape(z))
        };
        let raw =
            |label: &str, inducing: i64| path.var(label, &[inducing], tch::nn::Init::Const(inverse_softplus(d_init)));
        Ok(Self {
            z_row: z("z_row", sizes.rows, sizes.d_out),
            z_col: z("z_col", sizes.cols, sizes.d_in),
            d_row_raw: raw("_d_row", sizes.rows),
            d_col_raw: raw("_d_col", sizes.cols),
            name,
        })
    }

    /// Sizes, read off the parameters.
    pub fn sizes(&self) -> Sizes {
        let ((rows, d_out), (cols, d_in)) = (size2(&self.z_row), size2(&self.z_col));
        Sizes { d_out, d_in, rows, cols }
    }

    /// Diagonals of D_r and D_c.
    pub fn d(&self) -> (Tensor, Tensor) {
        (self.d_row_raw.softplus(), self.d_col_raw.softplus())
    }

    /// Factors of this prior alone; a network factors all its layers in one call of [`factors`].
    ///
    /// # Errors
    /// When a covariance cannot be factorised.
    pub fn factors(&self, jitter: Jitter, grams: Grams) -> Result<PriorFactors> {
        let mut one = factors(&[self], jitter, grams, Check::Now)?;
        Ok(one.remove(0))
    }
}

/// Whether the factors of the Gram matrices `Z Zᵀ`, which only Matheron's rule needs, are computed too.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Grams {
    /// `chol(Z Zᵀ)` for Matheron draws.
    Factored,
    /// Left out.
    Omitted,
}

/// What a draw needs of the prior. Depends on parameters only: once per optimiser step, once per model at inference.
#[derive(Debug)]
pub struct PriorFactors {
    /// L_r = chol(K_r). `[R, R]`
    pub l_row: Tensor,
    /// L_c = chol(K_c). `[C, C]`
    pub l_col: Tensor,
    /// `L_r⁻¹ Z_r`, the whitened cross-covariance: `T_row = (L_r⁻¹ Z_r)ᵀ L_r⁻¹`. `[R, d_out]`
    pub a_row: Tensor,
    /// `L_c⁻¹ Z_c`. `[C, d_in]`
    pub a_col: Tensor,
    /// Z_r. `[R, d_out]`
    pub z_row: Tensor,
    /// Z_c. `[C, d_in]`
    pub z_col: Tensor,
    /// The diagonal of D_r. `[R]`
    pub d_row: Tensor,
    /// The diagonal of D_c. `[C]`
    pub d_col: Tensor,
    /// The jitter the factors were made with.
    pub jitter: Jitter,
    /// chol(Z_r Z_rᵀ) and chol(Z_c Z_cᵀ): other matrices than L, never to be confused with it.
    pub grams: Option<GramFactors>,
}

/// Factors of the Gram matrices, for Matheron's rule.
#[derive(Debug)]
pub struct GramFactors {
    /// chol(Z_r Z_rᵀ). `[R, R]`
    pub z_row_chol: Tensor,
    /// chol(Z_c Z_cᵀ). `[C, C]`
    pub z_col_chol: Tensor,
}

/// Factors of many priors: all their matrices of one size are factorised in one batched call.
///
/// # Panics
/// Never: there is one factor for each matrix.
///
/// # Errors
/// When a covariance cannot be factorised; the error names layer and matrix.
pub fn factors(priors: &[&KroneckerPrior], jitter: Jitter, grams: Grams, check: Check) -> Result<Vec<PriorFactors>> {
    let mut matrices = Vec::with_capacity(4 * priors.len());
    for prior in priors {
        let (d_row, d_col) = prior.d();
        let named = |label: &str, value: Tensor| Named { name: format!("{}.{label}", prior.name), value };
        let (gram_row, gram_col) = (gram(&prior.z_row), gram(&prior.z_col));
        matrices.push(named("K_row", &gram_row + d_row.square().diag(0)));
        matrices.push(named("K_col", &gram_col + d_col.square().diag(0)));
        if grams == Grams::Factored {
            matrices.push(named("ZZ_row", gram_row));
            matrices.push(named("ZZ_col", gram_col));
        }
    }
    let mut lower = linalg::cholesky(&matrices, jitter, check)?.into_iter();
    let kind = priors.first().map_or(Kind::Float, |prior| prior.z_row.kind());
    let mut next = || lower.next().expect("one factor for each matrix").to_kind(kind);
    Ok(priors
        .iter()
        .map(|prior| {
            let (l_row, l_col) = (next(), next());
            let grams = (grams == Grams::Factored).then(|| GramFactors { z_row_chol: next(), z_col_chol: next() });
            let (d_row, d_col) = prior.d();
            PriorFactors {
                jitter,
                a_row: solve_lower(&l_row, &prior.z_row),
                a_col: solve_lower(&l_col, &prior.z_col),
                l_row,
                l_col,
                z_row: prior.z_row.shallow_clone(),
                z_col: prior.z_col.shallow_clone(),
                d_row,
                d_col,
                grams,
            }
        })
        .collect())
}

/// `Z Zᵀ`. With as many inducing points as dimensions or more it is singular but for the jitter, or close to it, and in
/// f32 the product's rounding would drown the jitter: then it is formed, and factorised, in f64. Such Z are small.
fn gram(z: &Tensor) -> Tensor {
    let (points, width) = size2(z);
    let z = if points >= width { z.to_kind(Kind::Double) } else { z.shallow_clone() };
    z.matmul(&z.mt())
}

/// `D² + ε·mean(diag K)`, the mean detached, as in [`linalg::cholesky`] where it did not have to add more.
fn nugget(z: &Tensor, d: &Tensor, jitter: Jitter) -> Tensor {
    let (energy, squares) = (z.detach().square().sum(z.kind()), d.square());
    let mean = (energy + squares.detach().sum(d.kind())) / d.size()[0] as f64;
    squares + mean * jitter.relative
}

impl PriorFactors {
    /// The diagonals of `L Lᵀ − Z Zᵀ`, rows and columns: D² and the jitter. `[R]`, `[C]`
    pub fn nuggets(&self) -> (Tensor, Tensor) {
        (nugget(&self.z_row, &self.d_row, self.jitter), nugget(&self.z_col, &self.d_col, self.jitter))
    }

    /// `U = L_r V L_cᵀ`. `[.., R, C]`
    pub fn unwhiten(&self, whitened: &Tensor) -> Tensor {
        self.l_row.matmul(whitened).matmul(&self.l_col.mt())
    }

    /// `V = L_r⁻¹ U L_c⁻ᵀ`. `[.., R, C]`
    pub fn whiten(&self, inducing: &Tensor) -> Tensor {
        solve_lower(&self.l_col, &solve_lower(&self.l_row, inducing).mt()).mt()
    }

    /// `T_row = Z_rᵀ K_r⁻¹`. `[d_out, R]`
    pub fn t_row(&self) -> Tensor {
        solve_lower_transposed(&self.l_row, &self.a_row).mt()
    }

    /// `T_col = K_c⁻¹ Z_c` (the transpose of the paper's). `[C, d_in]`
    pub fn t_col(&self) -> Tensor {
        solve_lower_transposed(&self.l_col, &self.a_col)
    }

    /// `ln p(U)` of the prior `MN(0, K_r, K_c)`, given the whitened V. Scalar.
    pub fn log_density(&self, whitened: &Tensor) -> Tensor {
        let (rows, cols) = (self.l_row.size()[0] as f64, self.l_col.size()[0] as f64);
        let log_det = linalg::log_det_lower(&self.l_row) * cols + linalg::log_det_lower(&self.l_col) * rows;
        crate::distribution::standard_normal_log_density(whitened) - log_det
    }
}

/// The layer's name as messages and checkpoints have it: `layer2.1.conv1`.
pub(crate) fn layer_name(path: &Path) -> String {
    let probe = path.components().collect::<Vec<_>>().join(".");
    if probe.is_empty() { "weight".to_owned() } else { probe }
}

fn size2(tensor: &Tensor) -> (i64, i64) {
    tensor.size2().expect("inducing locations are matrices")
}
