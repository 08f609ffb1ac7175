//! What one draw of a Bayesian weight costs, in multiply-accumulates. Elementwise work is not counted.

use fidgp::conditional::{Conditional, NoiseOn};
use fidgp::posterior::PosteriorConfig;
use fidgp::prior::Sizes;
use fidgp::weight::{InducingConfig, Order};
use serde::Serialize;

/// Multiply-accumulates of one draw.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct DrawCost {
    /// By the paper's order of evaluation, transforms cached, solves not counted.
    pub paper: PaperDraw,
    /// By our order of evaluation, solves counted.
    pub ours: OurDraw,
    /// Factors of the prior: once per optimiser step in training, once per model at inference.
    pub factors: i64,
}

/// The paper's order: `σ_p(T_row U T_col + λ(e1 − T_row ū T_col))`, `U = L_r V L_cᵀ`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct PaperDraw {
    /// `RC·d_out + C·d_out·d_in`
    pub mean: i64,
    /// `R²C + RC²`
    pub unwhiten: i64,
    /// `R·d_out·d_in + RC·d_in + 4R²C + 2RC² + RC·d_out + C·d_out·d_in`, for Matheron draws.
    pub matheron: i64,
    /// All rows through the flow: `R(CH + 4H² + 2CH)` for the autoregressive one.
    pub flow: i64,
}

/// Our order: `A_rᵀ(V − λ L_r⁻¹ū L_c⁻ᵀ)A_c + λe1` with `A = L⁻¹Z`. Of the two ways to multiply three matrices the one is
/// counted, and taken, that carries the narrower side of W along; below for `d_out ≤ d_in`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct OurDraw {
    /// `RC·d_out + C·d_out·d_in`: mean and Matheron's correction in one pair of products; the first alone where the mean
    /// weight is never formed.
    pub mean: i64,
    /// ū: `C·d_out·d_in + RC·d_out + R²C + RC²`, for Matheron draws.
    pub prior_inducing: i64,
    /// Its products with `L_r⁻¹` and `L_c⁻¹`: `R²C + RC²`.
    pub whiten: i64,
    /// All rows through the flow.
    pub flow: i64,
}

impl PaperDraw {
    /// The sum.
    pub fn total(&self) -> i64 {
        self.mean + self.unwhiten + self.matheron + self.flow
    }

    fn of(sizes: Sizes, matheron: bool, flow: i64) -> Self {
        let Sizes { d_out, d_in, rows: r, cols: c } = sizes;
        let weight = d_out * d_in;
        let extra = r * weight + r * c * d_in + 4 * r * r * c + 2 * r * c * c + r * c * d_out + c * weight;
        Self {
            mean: r * c * d_out + c * weight,
            unwhiten: r * r * c + r * c * c,
            matheron: if matheron { extra } else { 0 },
            flow,
        }
    }
}

impl OurDraw {
    /// The sum.
    pub fn total(&self) -> i64 {
        self.mean + self.prior_inducing + self.whiten + self.flow
    }

    fn of(sizes: Sizes, config: &InducingConfig, flow: i64) -> Self {
        let Sizes { rows: r, cols: c, .. } = sizes;
        let matheron = config.conditional == Conditional::Matheron;
        let whitenings = i64::from(matheron) + i64::from(!config.whitened_u);
        Self {
            mean: if config.order(sizes) == Order::Factored { left_factor(sizes) } else { mean_weight(sizes) },
            prior_inducing: if matheron { mean_weight(sizes) + r * r * c + r * c * c } else { 0 },
            whiten: whitenings * (r * r * c + r * c * c),
            flow,
        }
    }
}

/// `A_rᵀ V A_c`, multiplied so that the narrower side of W is carried along.
pub(crate) fn mean_weight(Sizes { d_out, d_in, rows: r, cols: c }: Sizes) -> i64 {
    if d_out <= d_in { r * c * d_out + c * d_out * d_in } else { r * c * d_in + r * d_out * d_in }
}

/// `A_rᵀ V`, all that is multiplied of a weight that is never formed.
pub(crate) fn left_factor(Sizes { d_out, rows, cols, .. }: Sizes) -> i64 {
    rows * cols * d_out
}

impl DrawCost {
    /// The cost of a weight with these sizes; `flow` in multiply-accumulates for all rows.
    pub fn of(sizes: Sizes, config: &InducingConfig, flow: i64) -> Self {
        let matheron = config.conditional == Conditional::Matheron;
        debug_assert!(!(matheron && config.noise == NoiseOn::Outputs));
        Self {
            paper: PaperDraw::of(sizes, matheron, flow),
            ours: OurDraw::of(sizes, config, flow),
            factors: factors(sizes, matheron),
        }
    }
}

/// `ZZᵀ`, its Cholesky factors and the inverse of one (n³/6 each), and `L⁻¹Z`, on both sides.
fn factors(Sizes { d_out, d_in, rows, cols }: Sizes, matheron: bool) -> i64 {
    let cubes = if matheron { 3 } else { 2 };
    let side = |n: i64, width: i64| n * n * width + cubes * n * n * n / 6 + n * n * width;
    side(rows, d_out) + side(cols, d_in)
}

/// The mean weight applied without being formed, `(A_rᵀV)(A_c x)`, at every position.
pub(crate) fn factored_forward(sizes: Sizes, positions: i64) -> i64 {
    positions * sizes.cols * (sizes.d_in + sizes.d_out)
}

/// Multiply-accumulates of one row through the flow of this posterior.
pub fn flow_row(posterior: &PosteriorConfig, cols: i64) -> i64 {
    match posterior {
        PosteriorConfig::Flow { flow } => flow.row_macs(cols),
        _ => 0,
    }
}
