//! Square roots of the likelihood's curvature.

use tch::{Kind, Tensor};

use crate::layer::Curvature;

/// A square root of `Λ = diag(d) − uuᵀ`, in f64: with `v = d^−½ u`, `ρ = ‖v‖²` and `c = 1/(1 + √(1 − ρ))` it is
/// `diag(√d)(I − c vvᵀ)`. For a softmax ρ = 1 and that is `diag(√p) − p√pᵀ`.
///
/// # Shapes
/// `[N, K]` → `[N, K, K]`
pub fn root(curvature: &Curvature) -> Tensor {
    let d = curvature.diagonal.to_kind(Kind::Double).clamp_min(0.0).sqrt();
    let Some(u) = &curvature.outer else { return d.diag_embed(0, -2, -1) };
    let u = u.to_kind(Kind::Double);
    let v = &u / d.clamp_min(f64::MIN_POSITIVE);
    let rho = v.square().sum_dim_intlist(-1, true, Kind::Double).clamp(0.0, 1.0);
    let c = ((-rho + 1.0).sqrt() + 1.0).reciprocal();
    d.diag_embed(0, -2, -1) - (u * c).unsqueeze(-1) * v.unsqueeze(-2)
}
