//! The sparse-GP prior on one weight matrix: Kronecker covariance over an inducing matrix.
//!
//! With `K_r = Z_r Z_rᵀ + D_r²` and `K_c = Z_c Z_cᵀ + D_c²` the inducing matrix is `U ~ MN(0, K_r, K_c)`, its
//! cross-covariance with the (unit-scale) weight W is `Z_rᵀ ⊗ Z_cᵀ`, and the marginal of W is exactly `N(0, I)`.

mod stacked;

use serde::{Deserialize, Serialize};
use tch::nn::Path;
use tch::{Kind, Tensor};

use crate::distribution::inverse_softplus;
use crate::linalg::{self, Batching, Check, Jitter};
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

/// More inducing rows or columns than this are a slip of the pen: one covariance alone would take a gigabyte.
pub const MOST_INDUCING: i64 = 16_384;

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
        let mut one = factors(&[vec![self]], Batching::Apart, jitter, grams, Check::Now)?;
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
///
/// Every tensor may have a leading axis over layers of equal sizes; formulas do not see it.
#[derive(Debug)]
pub struct PriorFactors {
    /// L_r = chol(K_r). `[R, R]`
    pub l_row: Tensor,
    /// L_c = chol(K_c). `[C, C]`
    pub l_col: Tensor,
    /// L_r⁻¹: whitening is then a product, and products are what a GPU does well. `[R, R]`
    pub l_row_inverse: Tensor,
    /// L_c⁻¹. `[C, C]`
    pub l_col_inverse: Tensor,
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

/// What is factorised of one side.
struct SideFactors {
    l: Tensor,
    l_inverse: Tensor,
    a: Tensor,
    d: Tensor,
    gram_chol: Option<Tensor>,
}

/// Factors of many priors. Together: in stacks of equal sizes, each one batch for every product, and all matrices of one size,
/// of whatever stack, are one batch too; the factors have a leading axis over the layers of a stack. Apart: each stack is a
/// single prior, and its factors are plain matrices.
///
/// # Panics
/// Never: every stack has two sides.
///
/// # Errors
/// When a covariance cannot be factorised; the error names layer and matrix.
pub fn factors(
    stacks: &[Vec<&KroneckerPrior>],
    batching: Batching,
    jitter: Jitter,
    grams: Grams,
    check: Check,
) -> Result<Vec<PriorFactors>> {
    if batching == Batching::Apart && fidgp_torch::CAN_ATTACH {
        return stacks.iter().map(|priors| factors_of_one(priors[0], jitter, grams, check)).collect();
    }
    stacked::factors(stacks, batching, jitter, grams, check)
}

/// Factors of a single prior, with a pullback that is written by hand: a dozen products for each side, where libtorch's own backward
/// pass takes hundreds of small operations, most of which cost more than their arithmetic.
fn factors_of_one(prior: &KroneckerPrior, jitter: Jitter, grams: Grams, check: Check) -> Result<PriorFactors> {
    let side = |label: &str, z: &Tensor, d_raw: &Tensor| {
        let name = |matrix: &str| format!("{}.{matrix}_{label}", prior.name);
        Ok::<_, Error>((side_factors(&name, (z, d_raw), jitter, grams, check)?, z.shallow_clone()))
    };
    let row = side("row", &prior.z_row, &prior.d_row_raw)?;
    Ok(PriorFactors::of(row, side("col", &prior.z_col, &prior.d_col_raw)?, jitter))
}

/// `L = chol(K)`, `L⁻¹`, `A = L⁻¹ Z`, D and, where they are wanted, `C = chol(Z Zᵀ)`.
fn side_factors(
    name: &dyn Fn(&str) -> String,
    (z, d_raw): (&Tensor, &Tensor),
    jitter: Jitter,
    grams: Grams,
    check: Check,
) -> Result<SideFactors> {
    let (values, steps) = tch::no_grad(|| SideSteps::of(name, (z, d_raw), jitter, grams, check))?;
    let SideFactors { l, l_inverse, a, d, gram_chol } = &values;
    let outputs: Vec<&Tensor> = [l, l_inverse, a, d].into_iter().chain(gram_chol).collect();
    fidgp_torch::attach(&[z, d_raw], &outputs, move |upstream| steps.pull(upstream))
        .map_err(|why| Error::setting(name("K"), "factors", why))?;
    Ok(values)
}

/// What the pullback needs. L, `L⁻¹` and C are in the type in which they were factorised.
struct SideSteps {
    z: Tensor,
    d_raw: Tensor,
    d: Tensor,
    l: Tensor,
    l_inverse: Tensor,
    gram_chol: Option<Tensor>,
}

impl SideSteps {
    fn of(
        name: &dyn Fn(&str) -> String,
        (z, d_raw): (&Tensor, &Tensor),
        jitter: Jitter,
        grams: Grams,
        check: Check,
    ) -> Result<(SideFactors, Self)> {
        let (z, d_raw) = (z.detach(), d_raw.detach());
        let (gram, d) = (gram(&z), d_raw.softplus());
        let squares = d.square();
        let covariance = || {
            let covariance = gram.copy();
            let _ = covariance.diagonal(0, -2, -1).g_add_(&squares);
            covariance
        };
        let l = linalg::cholesky_of(&name("K"), &covariance, jitter, check)?;
        let gram_chol = match grams {
            Grams::Factored => Some(linalg::cholesky_of(&name("ZZ"), &|| gram.copy(), jitter, check)?),
            Grams::Omitted => None,
        };
        let l_inverse = linalg::inverse_lower(&[&l])?.remove(0);
        let own = l_inverse.to_kind(z.kind());
        let values = SideFactors {
            l: l.to_kind(z.kind()),
            a: own.mm(&z),
            l_inverse: own,
            d,
            gram_chol: gram_chol.as_ref().map(|c| c.to_kind(z.kind())),
        };
        // detached: what holds a node's outputs is held by them
        let d = values.d.detach();
        let steps = Self {
            z,
            d_raw,
            d,
            l: l.detach(),
            l_inverse: l_inverse.detach(),
            gram_chol: gram_chol.map(|c| c.detach()),
        };
        Ok((values, steps))
    }

    /// Gradients of `(L, L⁻¹, A, D, C)` to those of Z and of D before its softplus.
    ///
    /// | value | its pullback |
    /// |---|---|
    /// | `A = L⁻¹ Z` | `Z̄ = L⁻ᵀ Ā`, and `Ā Zᵀ` for `L⁻¹` |
    /// | `L⁻¹` | `Lᵀ L̄ = −X̄ L⁻ᵀ`, X̄ being its gradient |
    /// | `L = chol(K)` | `K̄ = S + Sᵀ` over two, `S = L⁻ᵀ Φ(Lᵀ L̄) L⁻¹`; Φ is the lower part with half its diagonal |
    /// | `K = Z Zᵀ + D²` | `Z̄ = (K̄ + K̄ᵀ) Z`, `D̄ = 2 D diag K̄` |
    fn pull(&self, upstream: &[Option<Tensor>]) -> Vec<Option<Tensor>> {
        let [l, l_inverse, a, d, gram_chol @ ..] = upstream else { return Vec::new() };
        let (kind, wide) = (self.z.kind(), self.l.kind());
        let mut z_bar = a.as_ref().map(|a| self.l_inverse.to_kind(kind).tr().mm(a));
        let of_inverse = sum(l_inverse.as_ref().map(Tensor::shallow_clone), a.as_ref().map(|a| a.mm(&self.z.tr())));
        let inner = sum(
            of_inverse.map(|of_inverse| of_inverse.to_kind(wide).mm(&self.l_inverse.tr()).neg()),
            l.as_ref().map(|l| self.l.tr().mm(&l.to_kind(wide))),
        );
        let covariance = inner.map(|inner| self.l_inverse.tr().mm(&lower_half(inner).mm(&self.l_inverse)));
        let of_d = covariance.as_ref().map(|s| s.diagonal(0, -2, -1).to_kind(kind) * &self.d * 2.0);
        let of_d = sum(d.as_ref().map(Tensor::shallow_clone), of_d);
        let gram = gram_chol.first().and_then(Option::as_ref).zip(self.gram_chol.as_ref());
        let gram = gram.map(|(bar, c)| {
            let inner = lower_half(c.tr().mm(&bar.to_kind(wide)));
            let left = c.tr().linalg_solve_triangular(&inner, true, true, false);
            c.linalg_solve_triangular(&left, false, false, false)
        });
        if let Some(s) = sum(covariance, gram) {
            let own = (&s + s.tr()).mm(&self.z.to_kind(wide)).to_kind(kind);
            z_bar = sum(z_bar, Some(own));
        }
        vec![z_bar, of_d.map(|of_d| of_d * self.d_raw.sigmoid())]
    }
}

/// The lower part with half its diagonal; the matrix is used up.
fn lower_half(mut matrix: Tensor) -> Tensor {
    let _ = matrix.diagonal(0, -2, -1).g_mul_scalar_(0.5);
    matrix.tril_(0)
}

fn sum(a: Option<Tensor>, b: Option<Tensor>) -> Option<Tensor> {
    match (a, b) {
        (Some(a), Some(b)) => Some(a + b),
        (a, b) => a.or(b),
    }
}

/// `Z Zᵀ`. With as many inducing points as dimensions or more it is singular but for the jitter, or close to it, and in
/// f32 the product's rounding would drown the jitter: then it is formed, and factorised, in f64. Such Z are small.
fn gram(z: &Tensor) -> Tensor {
    let [.., points, width] = z.size()[..] else { unreachable!("Z is a matrix") };
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
    /// Those of rows and of columns, each with its Z.
    fn of((row, z_row): (SideFactors, Tensor), (col, z_col): (SideFactors, Tensor), jitter: Jitter) -> Self {
        let grams = row.gram_chol.zip(col.gram_chol);
        Self {
            l_row: row.l,
            l_col: col.l,
            l_row_inverse: row.l_inverse,
            l_col_inverse: col.l_inverse,
            a_row: row.a,
            a_col: col.a,
            z_row,
            z_col,
            d_row: row.d,
            d_col: col.d,
            jitter,
            grams: grams.map(|(z_row_chol, z_col_chol)| GramFactors { z_row_chol, z_col_chol }),
        }
    }

    /// The diagonals of `L Lᵀ − Z Zᵀ`, rows and columns: D² and the jitter. `[R]`, `[C]`
    pub fn nuggets(&self) -> (Tensor, Tensor) {
        (nugget(&self.z_row, &self.d_row, self.jitter), nugget(&self.z_col, &self.d_col, self.jitter))
    }

    /// Whether there is a leading axis over layers.
    pub(crate) fn is_stacked(&self) -> bool {
        self.l_row.dim() > 2
    }

    /// The factors of one layer of a stack.
    #[must_use]
    pub fn layer(&self, index: i64) -> Self {
        self.map(|tensor| if self.is_stacked() { tensor.select(0, index) } else { tensor.shallow_clone() })
    }

    /// The same tensors, not copies.
    pub(crate) fn share(&self) -> Self {
        self.map(Tensor::shallow_clone)
    }

    fn map(&self, of: impl Fn(&Tensor) -> Tensor) -> Self {
        Self {
            l_row: of(&self.l_row),
            l_col: of(&self.l_col),
            l_row_inverse: of(&self.l_row_inverse),
            l_col_inverse: of(&self.l_col_inverse),
            a_row: of(&self.a_row),
            a_col: of(&self.a_col),
            z_row: of(&self.z_row),
            z_col: of(&self.z_col),
            d_row: of(&self.d_row),
            d_col: of(&self.d_col),
            jitter: self.jitter,
            grams: self
                .grams
                .as_ref()
                .map(|grams| GramFactors { z_row_chol: of(&grams.z_row_chol), z_col_chol: of(&grams.z_col_chol) }),
        }
    }

    /// `U = L_r V L_cᵀ`. `[.., R, C]`
    pub fn unwhiten(&self, whitened: &Tensor) -> Tensor {
        self.l_row.matmul(whitened).matmul(&self.l_col.mt())
    }

    /// `V = L_r⁻¹ U L_c⁻ᵀ`. `[.., R, C]`
    pub fn whiten(&self, inducing: &Tensor) -> Tensor {
        self.l_row_inverse.matmul(inducing).matmul(&self.l_col_inverse.mt())
    }

    /// `T_row = Z_rᵀ K_r⁻¹`. `[d_out, R]`
    pub fn t_row(&self) -> Tensor {
        self.a_row.mt().matmul(&self.l_row_inverse)
    }

    /// `T_col = K_c⁻¹ Z_c` (the transpose of the paper's). `[C, d_in]`
    pub fn t_col(&self) -> Tensor {
        self.l_col_inverse.mt().matmul(&self.a_col)
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

#[cfg(test)]
mod tests;
