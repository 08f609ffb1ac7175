//! The weight given the inducing matrix: its mean, two ways to draw it, and what each pays.
//!
//! All weights here have unit scale; the layer multiplies by σ_p. The mean is `E[W|U] = T_row U T_col`. Written with the
//! whitened V = L_r⁻¹ U L_c⁻ᵀ the factors L cancel, and what remains is `A_rᵀ V A_c` with `A = L⁻¹ Z`: two products,
//! no solve. [`mean`] computes that; the tests hold it against the paper's form.

use serde::{Deserialize, Serialize};
use tch::{Kind, Tensor};

use crate::linalg::solve_lower;
use crate::prior::{PriorFactors, Sizes};
use crate::{Error, Key, Result};

/// How the weight is drawn around its conditional mean.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Conditional {
    /// The exact conditional covariance, scaled by λ²: `W = mean + λ·(e1 − T_row ū T_col)`.
    #[default]
    Matheron,
    /// Isotropic noise: `W = mean + λ·ε`.
    Reparam,
}

/// Where the isotropic noise of [`Conditional::Reparam`] is drawn.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum NoiseOn {
    /// On the weights: one draw for all examples and positions.
    #[default]
    Weights,
    /// On the outputs (local reparameterisation): exact for each example of a linear layer; for a convolution the
    /// marginal of each position is exact and the correlation between positions is dropped. Another q: by name only.
    Outputs,
}

/// Which conditional KL the objective charges.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ConditionalKl {
    /// `D(λ²/2 − ln λ − ½)`: exact for Matheron, what the paper charges for Reparam.
    #[default]
    Paper,
    /// The exact KL of the isotropic conditional against the true prior conditional (Reparam only).
    Exact,
}

/// The standard normals of one Matheron draw: e1 … e4.
#[derive(Debug)]
pub struct MatheronNoise {
    /// e1. `[d_out, d_in]`
    pub weight: Tensor,
    /// e2. `[R, C]`
    pub row: Tensor,
    /// e3. `[R, C]`
    pub col: Tensor,
    /// e4. `[R, C]`
    pub corner: Tensor,
}

impl MatheronNoise {
    /// All four from one key; `normal` makes standard normals of a key and a shape.
    pub fn draw(key: Key, sizes: Sizes, normal: &mut dyn FnMut(Key, &[i64]) -> Tensor) -> Self {
        let Sizes { d_out, d_in, rows, cols } = sizes;
        let inducing = normal(key.fold("inducing"), &[3, rows, cols]);
        Self {
            weight: normal(key.fold("weight"), &[d_out, d_in]),
            row: inducing.get(0),
            col: inducing.get(1),
            corner: inducing.get(2),
        }
    }

    /// The same tensors, not copies.
    pub(crate) fn share(&self) -> Self {
        let [weight, row, col, corner] = [&self.weight, &self.row, &self.col, &self.corner].map(Tensor::shallow_clone);
        Self { weight, row, col, corner }
    }
}

/// `E[W|U] = T_row U T_col = A_rᵀ V A_c`.
///
/// # Shapes
/// whitened `[.., R, C]` → `[.., d_out, d_in]`
pub fn mean(factors: &PriorFactors, whitened: &Tensor) -> Tensor {
    let (left, right) = (factors.a_row.mt(), &factors.a_col);
    if wider_than_tall(&left, right) {
        left.matmul(whitened).matmul(right)
    } else {
        left.matmul(&whitened.matmul(right))
    }
}

/// `A_rᵀ V`, so that the mean weight is `(A_rᵀ V) A_c`.
///
/// # Shapes
/// whitened `[.., R, C]` → `[.., d_out, C]`
pub fn left_factor(factors: &PriorFactors, whitened: &Tensor) -> Tensor {
    factors.a_row.mt().matmul(whitened)
}

/// Of the two orders of `A B C`, A tall and C wide, whether to begin with `A B`: the narrower side is carried along.
fn wider_than_tall(tall: &Tensor, wide: &Tensor) -> bool {
    tall.size()[tall.dim() - 2] <= wide.size()[wide.dim() - 1]
}

/// A draw of the inducing matrix from the prior, jointly with the weight e1:
/// `ū = Z_r e1 Z_cᵀ + chol(Z_r Z_rᵀ) e2 D_c + D_r e3 chol(Z_c Z_cᵀ)ᵀ + D_r e4 D_c`.
///
/// # Errors
/// When the factors were made without Gram factors.
pub fn matheron_prior_inducing(factors: &PriorFactors, noise: &MatheronNoise) -> Result<Tensor> {
    let grams = factors
        .grams
        .as_ref()
        .ok_or_else(|| Error::setting("grams", "omitted", "Matheron draws need `Grams::Factored`"))?;
    let (d_row, d_col) = (factors.d_row.unsqueeze(-1), factors.d_col.unsqueeze(-2));
    let data = if wider_than_tall(&noise.weight, &noise.weight) {
        factors.z_row.matmul(&noise.weight.matmul(&factors.z_col.mt()))
    } else {
        factors.z_row.matmul(&noise.weight).matmul(&factors.z_col.mt())
    };
    let rows = grams.z_row_chol.matmul(&noise.row) * &d_col;
    let cols = noise.col.matmul(&grams.z_col_chol.mt()) + &noise.corner * d_col;
    Ok(data + rows + d_row * cols)
}

/// Matheron's rule: `mean + λ·(e1 − T_row ū T_col)`, with both products merged into one:
/// `A_rᵀ (V − λ V̄) A_c + λ e1`, where V̄ is ū whitened.
///
/// # Shapes
/// whitened `[.., R, C]`, scale `[..]` → `[.., d_out, d_in]`
///
/// # Errors
/// When the factors were made without Gram factors.
pub fn matheron(factors: &PriorFactors, whitened: &Tensor, scale: &Tensor, noise: &MatheronNoise) -> Result<Tensor> {
    if fidgp_torch::CAN_ATTACH && !factors.is_stacked() && whitened.dim() == 2 && noise.weight.dim() == 2 {
        return matheron_of_one(factors, whitened, scale, noise);
    }
    let scale = of_each(scale);
    let whitened_bar = factors.whiten(&matheron_prior_inducing(factors, noise)?);
    Ok(mean(factors, &(whitened - &scale * whitened_bar)).addcmul_(&noise.weight, &scale))
}

/// The isotropic draw: `mean + λ·ε`.
///
/// # Shapes
/// whitened `[.., R, C]`, scale `[..]`, noise `[.., d_out, d_in]` → `[.., d_out, d_in]`
pub fn reparam(factors: &PriorFactors, whitened: &Tensor, scale: &Tensor, noise: &Tensor) -> Tensor {
    mean(factors, whitened).addcmul_(noise, &of_each(scale))
}

/// A number for each matrix of a stack, in the shape that multiplies it. `[..]` → `[.., 1, 1]`
fn of_each(scale: &Tensor) -> Tensor {
    scale.unsqueeze(-1).unsqueeze(-1)
}

/// `d_in·d_out·(λ²/2 − ln λ − ½)`. Scalar.
pub fn kl_scaled(weights: i64, scale: &Tensor) -> Tensor {
    (scale.square() * 0.5 - scale.log() - 0.5) * weights as f64
}

/// The exact KL of the isotropic conditional against the prior conditional, whose covariance is `I − S_r ⊗ S_c`:
/// `½[λ² Σ_ij 1/(1−a_i b_j) − D − 2D ln λ + Σ_ij ln(1−a_i b_j)]`, a and b the eigenvalues of S_r and S_c. Scalar.
///
/// The non-zero eigenvalues of `S = AᵀA` are those of the small `A Aᵀ`; every other pair contributes λ² and ln 1. They
/// are close to 1, and 1 − ab is what counts, so it is built from the small numbers 1 − a and 1 − b: the eigenvalues of
/// `I − A Aᵀ = L⁻¹(K − ZZᵀ)L⁻ᵀ`, where `K − ZZᵀ` is diagonal. In f64, whatever the kind of the factors.
pub fn kl_isotropic(factors: &PriorFactors, scale: &Tensor) -> Tensor {
    let unexplained = |l: &Tensor, nugget: &Tensor| {
        let root = nugget.to_kind(Kind::Double).sqrt().diag(0);
        let whitened = solve_lower(&l.to_kind(Kind::Double), &root);
        whitened.matmul(&whitened.mt()).linalg_eigvalsh("L")
    };
    let (nugget_row, nugget_col) = factors.nuggets();
    let a = unexplained(&factors.l_row, &nugget_row); // 1 − a
    let b = unexplained(&factors.l_col, &nugget_col); // 1 − b
    let total = (factors.a_row.size()[1] * factors.a_col.size()[1]) as f64;
    let gap = a.unsqueeze(-1) + b.unsqueeze(0) - a.outer(&b); // 1 − ab
    let (kind, scale) = (scale.kind(), scale.to_kind(Kind::Double));
    let rest = total - gap.numel() as f64;
    let traces = gap.reciprocal().sum(gap.kind()) + rest;
    ((scale.square() * traces - total - scale.log() * (2.0 * total) + gap.log().sum(gap.kind())) * 0.5).to_kind(kind)
}

/// What the inducing columns do not explain of a feature: `‖x‖² − xᵀ S_c x`, the Nyström residual. `[N, d_in]` → `[N]`
pub fn column_residual(factors: &PriorFactors, x: &Tensor) -> Tensor {
    let explained = x.matmul(&factors.a_col.mt());
    let energy = |t: &Tensor| t.square().sum_dim_intlist(-1, false, t.kind());
    energy(x) - energy(&explained)
}

/// The same draw exactly as the paper writes it, nothing merged, for verification: `T_row U T_col + λ·(e1 − T_row ū T_col)`.
///
/// # Errors
/// When the factors were made without Gram factors.
pub fn matheron_unmerged(
    factors: &PriorFactors,
    inducing: &Tensor,
    scale: &Tensor,
    noise: &MatheronNoise,
) -> Result<Tensor> {
    let conditional = |u: &Tensor| factors.t_row().matmul(u).matmul(&factors.t_col());
    let residual = &noise.weight - conditional(&matheron_prior_inducing(factors, noise)?);
    Ok(conditional(inducing) + scale * residual)
}

/// [`matheron`] of plain matrices, with a pullback that is written by hand.
fn matheron_of_one(factors: &PriorFactors, whitened: &Tensor, scale: &Tensor, noise: &MatheronNoise) -> Result<Tensor> {
    let inputs = Inputs::of(factors, whitened, scale)?;
    let (weight, steps) = tch::no_grad(|| Steps::of(inputs.detached(), noise.share()));
    fidgp_torch::attach(&inputs.0.each_ref(), &[&weight], move |upstream| match upstream {
        [Some(weight)] => steps.pull(weight),
        _ => (0..INPUTS).map(|_| None).collect(),
    })
    .map_err(|why| Error::setting("weight", "draw", why))?;
    Ok(weight)
}

const INPUTS: usize = 12;

/// What a draw depends on, in the order of its gradients.
struct Inputs([Tensor; INPUTS]);

impl Inputs {
    fn of(factors: &PriorFactors, whitened: &Tensor, scale: &Tensor) -> Result<Self> {
        let PriorFactors { l_row_inverse, l_col_inverse, a_row, a_col, z_row, z_col, d_row, d_col, grams, .. } =
            factors;
        let missing = || Error::setting("grams", "omitted", "Matheron draws need `Grams::Factored`");
        let grams = grams.as_ref().ok_or_else(missing)?;
        let all = [
            whitened,
            scale,
            a_row,
            a_col,
            l_row_inverse,
            l_col_inverse,
            z_row,
            z_col,
            &grams.z_row_chol,
            &grams.z_col_chol,
            d_row,
            d_col,
        ];
        Ok(Self(all.map(Tensor::shallow_clone)))
    }

    fn detached(&self) -> Self {
        Self(self.0.each_ref().map(Tensor::detach))
    }
}

/// Either order of the three products `A B C`, A tall and C wide: what is made first.
enum First {
    /// `A B`
    Left(Tensor),
    /// `B C`
    Right(Tensor),
}

/// A draw, step by step, as the pullback needs it.
struct Steps {
    inputs: Inputs,
    noise: MatheronNoise,
    /// `Z_r e1` or `e1 Z_cᵀ`
    data: First,
    /// `C_r e2`
    rows: Tensor,
    /// `e3 C_cᵀ + e4 D_c`
    cols: Tensor,
    /// ū
    inducing: Tensor,
    /// `L_r⁻¹ ū`
    half: Tensor,
    /// V̄
    whitened: Tensor,
    /// `V − λ V̄`
    shifted: Tensor,
    /// `A_rᵀ (V − λ V̄)` or `(V − λ V̄) A_c`
    mean: First,
}

impl Steps {
    fn of(inputs: Inputs, noise: MatheronNoise) -> (Tensor, Self) {
        let [v, scale, a_row, a_col, l_row, l_col, z_row, z_col, c_row, c_col, d_row, d_col] = &inputs.0;
        let (d_row, d_col) = (d_row.unsqueeze(-1), d_col.unsqueeze(-2));
        let (data, first) = if wider_than_tall(&noise.weight, &noise.weight) {
            let first = noise.weight.mm(&z_col.tr());
            (z_row.mm(&first), First::Right(first))
        } else {
            let first = z_row.mm(&noise.weight);
            (first.mm(&z_col.tr()), First::Left(first))
        };
        let rows = c_row.mm(&noise.row);
        let cols = noise.col.mm(&c_col.tr()) + &noise.corner * &d_col;
        let inducing = data + &rows * &d_col + &d_row * &cols;
        let half = l_row.mm(&inducing);
        let whitened = half.mm(&l_col.tr());
        let shifted = v - scale * &whitened;
        let left = a_row.tr();
        let (mean, second) = if wider_than_tall(&left, a_col) {
            let first = left.mm(&shifted);
            (first.mm(a_col), First::Left(first))
        } else {
            let first = shifted.mm(a_col);
            (left.mm(&first), First::Right(first))
        };
        let weight = { mean }.addcmul_(&noise.weight, scale);
        (weight, Self { data: first, rows, cols, inducing, half, whitened, shifted, mean: second, inputs, noise })
    }

    /// The gradient of W to those of the inputs, in their order.
    fn pull(&self, weight: &Tensor) -> Vec<Option<Tensor>> {
        let [_, scale, a_row, a_col, l_row, l_col, z_row, z_col, _, _, d_row, d_col] = &self.inputs.0;
        let (kind, noise) = (weight.kind(), &self.noise);
        let (d_row, d_col) = (d_row.unsqueeze(-1), d_col.unsqueeze(-2));
        // W = A_rᵀ X A_c + λ e1, X = V − λ V̄
        let (x, a_row_bar, a_col_bar) = match &self.mean {
            First::Left(left) => {
                let left_bar = weight.mm(&a_col.tr());
                (a_row.mm(&left_bar), self.shifted.mm(&left_bar.tr()), left.tr().mm(weight))
            }
            First::Right(right) => {
                let right_bar = a_row.mm(weight);
                (right_bar.mm(&a_col.tr()), right.mm(&weight.tr()), self.shifted.tr().mm(&right_bar))
            }
        };
        let scale_bar = (weight * &noise.weight).sum(kind) - (&x * &self.whitened).sum(kind);
        // V̄ = L_r⁻¹ ū L_c⁻ᵀ
        let whitened = (&x * scale).neg();
        let half = whitened.mm(l_col);
        let (l_row_bar, l_col_bar) = (half.mm(&self.inducing.tr()), whitened.tr().mm(&self.half));
        let inducing = l_row.tr().mm(&half);
        // ū = Z_r e1 Z_cᵀ + C_r e2 D_c + D_r (e3 C_cᵀ + e4 D_c)
        let (z_row_bar, z_col_bar) = match &self.data {
            First::Right(right) => {
                let right_bar = z_row.tr().mm(&inducing);
                (inducing.mm(&right.tr()), right_bar.tr().mm(&noise.weight))
            }
            First::Left(left) => (inducing.mm(z_col).mm(&noise.weight.tr()), inducing.tr().mm(left)),
        };
        let (by_row, by_col) = (&inducing * d_row, &inducing * d_col);
        let over = |axis: i64, terms: &Tensor| terms.sum_dim_intlist(axis, false, kind);
        let d_col_bar = over(0, &(&inducing * &self.rows).addcmul_(&by_row, &noise.corner));
        let d_row_bar = over(1, &(&inducing * &self.cols));
        let chols = (by_col.mm(&noise.row.tr()), by_row.tr().mm(&noise.col));
        let all = [
            x, scale_bar, a_row_bar, a_col_bar, l_row_bar, l_col_bar, z_row_bar, z_col_bar, chols.0, chols.1,
            d_row_bar, d_col_bar,
        ];
        all.into_iter().map(Some).collect()
    }
}

#[cfg(test)]
mod tests;
