//! The sparse-GP prior on one weight matrix: Kronecker covariance over an inducing matrix.
//!
//! With `K_r = Z_r Z_rᵀ + D_r²` and `K_c = Z_c Z_cᵀ + D_c²` the inducing matrix is `U ~ MN(0, K_r, K_c)`, its
//! cross-covariance with the (unit-scale) weight W is `Z_rᵀ ⊗ Z_cᵀ`, and the marginal of W is exactly `N(0, I)`.

mod side;

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use tch::nn::Path;
use tch::{Kind, Tensor};

use crate::distribution::inverse_softplus;
use crate::linalg::{self, Batching, Check, Jitter, Named};
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

/// One side, rows or columns, of priors of equal sizes, with a leading axis over them; of a prior apart, without.
struct Side {
    label: &'static str,
    layers: Vec<String>,
    /// `[L, M, d]` or `[M, d]`
    z: Tensor,
    /// `[L, M]` or `[M]`
    d_raw: Tensor,
}

impl Side {
    fn of(
        priors: &[&KroneckerPrior],
        batching: Batching,
        label: &'static str,
        part: fn(&KroneckerPrior) -> (&Tensor, &Tensor),
    ) -> Self {
        let stack = |tensors: Vec<&Tensor>| linalg::stack(&tensors, batching);
        Self {
            label,
            layers: priors.iter().map(|prior| prior.name.clone()).collect(),
            z: stack(priors.iter().map(|prior| part(prior).0).collect()),
            d_raw: stack(priors.iter().map(|prior| part(prior).1).collect()),
        }
    }

    /// Sides whose matrices may be one batch: of one size and kind.
    fn batch(&self) -> (i64, bool) {
        let [.., points, width] = self.z.size()[..] else { unreachable!("Z is a matrix") };
        (points, points >= width)
    }

    fn names(&self, matrix: &str) -> Vec<String> {
        self.layers.iter().map(|layer| format!("{layer}.{matrix}_{}", self.label)).collect()
    }
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
        return stacks.iter().map(|priors| side::factors(priors[0], jitter, grams, check)).collect();
    }
    let sides: Vec<Side> = stacks
        .iter()
        .flat_map(|priors| {
            let row = Side::of(priors, batching, "row", |prior| (&prior.z_row, &prior.d_row_raw));
            [row, Side::of(priors, batching, "col", |prior| (&prior.z_col, &prior.d_col_raw))]
        })
        .collect();
    let batches: Vec<Batch> = batches(&sides, batching).into_iter().map(|members| Batch::of(&sides, members)).collect();
    let named = |batch: &Batch, matrix: &str, values: &Tensor| Named {
        names: batch.members.iter().flat_map(|&index| sides[index].names(matrix)).collect(),
        values: values.shallow_clone(),
    };
    let mut matrices: Vec<_> = batches.iter().map(|batch| named(batch, "K", &batch.covariance)).collect();
    if grams == Grams::Factored {
        matrices.extend(batches.iter().map(|batch| named(batch, "ZZ", &batch.gram)));
    }
    let lower = linalg::cholesky(&matrices, jitter, check)?;
    let (l, gram_chol) = lower.split_at(batches.len());
    let inverse = linalg::inverse_lower(&l.iter().collect::<Vec<_>>())?;
    let mut all: Vec<Option<SideFactors>> = sides.iter().map(|_| None).collect();
    for (place, batch) in batches.iter().enumerate() {
        let split = |tensor: &Tensor| batch.split(tensor, &sides);
        let (l, inverse, d) = (split(&l[place])?, split(&inverse[place])?, split(&batch.d)?);
        let gram_chol = gram_chol.get(place).map(split).transpose()?;
        for (part, &index) in batch.members.iter().enumerate() {
            let z = &sides[index].z;
            let l_inverse = inverse[part].to_kind(z.kind());
            all[index] = Some(SideFactors {
                l: l[part].to_kind(z.kind()),
                a: l_inverse.matmul(z),
                l_inverse,
                d: d[part].to_kind(z.kind()),
                gram_chol: gram_chol.as_ref().map(|parts| parts[part].to_kind(z.kind())),
            });
        }
    }
    let mut all = all.into_iter().flatten().zip(sides.into_iter().map(|side| side.z));
    let mut next = || all.next().expect("two sides for each stack");
    Ok(stacks.iter().map(|_| PriorFactors::of(next(), next(), jitter)).collect())
}

/// Which sides are one batch.
fn batches(sides: &[Side], batching: Batching) -> Vec<Vec<usize>> {
    if batching == Batching::Apart {
        return (0..sides.len()).map(|index| vec![index]).collect();
    }
    let mut batches: BTreeMap<(i64, bool), Vec<usize>> = BTreeMap::new();
    for (index, side) in sides.iter().enumerate() {
        batches.entry(side.batch()).or_default().push(index);
    }
    batches.into_values().collect()
}

/// The matrices of sides of one size and kind, or of one side.
struct Batch {
    members: Vec<usize>,
    /// D. `[.., M]`
    d: Tensor,
    /// `Z Zᵀ`. `[.., M, M]`
    gram: Tensor,
    /// `K = Z Zᵀ + D²`. `[.., M, M]`
    covariance: Tensor,
}

impl Batch {
    fn of(sides: &[Side], members: Vec<usize>) -> Self {
        let join = |of: fn(&Side) -> Tensor| match members[..] {
            [one] => of(&sides[one]),
            _ => Tensor::cat(&members.iter().map(|&index| of(&sides[index])).collect::<Vec<_>>(), 0),
        };
        let (gram, d) = (join(|side| gram(&side.z)), join(|side| side.d_raw.shallow_clone()).softplus());
        let covariance = &gram + d.square().diag_embed(0, -2, -1);
        Self { members, d, gram, covariance }
    }

    /// What belongs to each of its sides, in one go: the gradients of slices would each be a whole batch of zeros around them.
    fn split(&self, joined: &Tensor, sides: &[Side]) -> Result<Vec<Tensor>> {
        if self.members.len() == 1 {
            return Ok(vec![joined.shallow_clone()]);
        }
        let lengths: Vec<_> = self.members.iter().map(|&index| sides[index].z.size()[0]).collect();
        Ok(joined.f_split_with_sizes(lengths, 0)?)
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
