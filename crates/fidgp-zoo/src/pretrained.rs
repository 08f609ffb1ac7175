//! A Bayesian weight that starts at a trained one.
//!
//! Of the trained matrix, in units of the prior, `W/σ_p = P Σ Qᵀ`. The rows of Z_r become the leading left singular vectors
//! and those of Z_c the leading right ones, all of the length that random rows have at a usual start. Then K is a multiple
//! of the identity but for D and jitter, `A = L⁻¹Z` has orthogonal rows, and `E[W|U] = A_rᵀ V A_c` with
//! `V = A_r⁺ᵀ (W/σ_p) A_c⁺`, in effect diag Σ, is the best fit of rank min(R, C). Singular values enter V alone: dividing
//! them between Z_r and Z_c would give the same weight, as whitening takes lengths out, and a worse conditioned K.

use fidgp::flow::Flow;
use fidgp::linalg::Jitter;
use fidgp::prior::{Grams, KroneckerPrior, PriorFactors};
use fidgp::weight::InducingWeight;
use tch::{Kind, Tensor};

use crate::start_report::LayerFit;
use crate::{Error, Result};

/// Sets Z_r, Z_c and the mean of q(U) so that `σ_p E[W|U]` at the centre of q is the best fit to `dense` of rank min(R, C).
///
/// D, the deviation of q and λ stay as the layer's settings made them. A flow that is not the identity is inverted.
///
/// # Shapes
/// dense `[d_out, d_in]`, a bias being the last column
///
/// # Errors
/// When the shape is another one, the matrix is not finite, or the flow has no inverse.
pub fn start_weight(weight: &InducingWeight, dense: &Tensor) -> Result<LayerFit> {
    let sizes = weight.sizes();
    if dense.size() != [sizes.d_out, sizes.d_in] {
        let expected = format!("[{}, {}]", sizes.d_out, sizes.d_in);
        return Err(fidgp::Error::shape(format!("{}: trained weight", weight.name), &dense.size(), expected).into());
    }
    fidgp::linalg::check_finite(&weight.name, dense, "The trained weights are damaged")?;
    tch::no_grad(|| {
        let unit = dense.to_kind(Kind::Double) / weight.prior_scale();
        let (left, singular, right) = unit.f_svd(true, true)?;
        write(&weight.prior.z_row, &directions(&left.tr(), &weight.prior.z_row));
        write(&weight.prior.z_col, &directions(&right.tr(), &weight.prior.z_col));
        let factors = exact_factors(weight)?;
        let centre = fit(&factors, &unit);
        let mean = base_point(weight, &if weight.config.whitened_u { centre } else { factors.unwhiten(&centre) })?;
        write(&weight.posterior.mean, &mean.expand_as(&weight.posterior.mean));
        measure(weight, dense, &singular)
    })
}

/// Rows along the given orthonormal vectors, filled up with directions orthogonal to them (zero where there is none left),
/// as long as random rows are: `√(d/M)`.
///
/// # Shapes
/// vectors `[n, d]`, before `[M, d]` → `[M, d]`
fn directions(vectors: &Tensor, before: &Tensor) -> Tensor {
    let (count, width) = (before.size()[0], before.size()[1]);
    let leading = vectors.narrow(0, 0, count.min(vectors.size()[0]));
    let mut rows = vec![leading.shallow_clone()];
    let others = (count.min(width) - leading.size()[0]).max(0);
    if others > 0 {
        let random = before.to_kind(Kind::Double).narrow(0, count - others, others);
        let rest = &random - random.matmul(&leading.tr()).matmul(&leading);
        rows.push(Tensor::linalg_qr(&rest.tr(), "reduced").0.tr());
    }
    let zero = count - leading.size()[0] - others;
    rows.push(Tensor::zeros([zero, width], (Kind::Double, vectors.device())));
    Tensor::cat(&rows, 0) * (width as f64 / count as f64).sqrt()
}

/// The layer's factors in double precision, from its parameters as they are stored.
fn exact_factors(weight: &InducingWeight) -> Result<PriorFactors> {
    let double = |t: &Tensor| t.to_kind(Kind::Double);
    let prior = KroneckerPrior {
        name: weight.name.clone(),
        z_row: double(&weight.prior.z_row),
        z_col: double(&weight.prior.z_col),
        d_row_raw: double(&weight.prior.d_row_raw),
        d_col_raw: double(&weight.prior.d_col_raw),
    };
    Ok(prior.factors(Jitter { relative: weight.config.jitter, ..Jitter::FIDGP }, Grams::Omitted)?)
}

/// `V = A_r⁺ᵀ W A_c⁺` with `A⁺ = Aᵀ(AAᵀ)⁺`: the least-squares solution of `A_rᵀ V A_c = W`. `[R, C]`
fn fit(factors: &PriorFactors, unit: &Tensor) -> Tensor {
    let inverse = |a: &Tensor| a.matmul(&a.tr()).linalg_pinv(1e-8, true);
    let projected = factors.a_row.matmul(unit).matmul(&factors.a_col.tr());
    inverse(&factors.a_row).matmul(&projected).matmul(&inverse(&factors.a_col))
}

/// What the flow carries to `centre`.
fn base_point(weight: &InducingWeight, centre: &Tensor) -> Result<Tensor> {
    let centre = centre.to_kind(weight.posterior.mean.kind());
    let Some(flow) = weight.posterior.flow() else { return Ok(centre) };
    let image = flow.forward(&centre, None).value;
    if image.allclose(&centre, 1e-5, 1e-6, false) {
        return Ok(&centre + &centre - image); // the identity but for rounding: no need of an inverse
    }
    flow.settle_spectral(); // so that the next training step does not move the flow under the mean
    flow.inverse(&centre).ok_or_else(|| {
        let advice = "this flow has no inverse, so its base point cannot be set; use a flow that has one, or start it at the identity";
        Error::setting(format!("{}: flow", weight.name), "not invertible", advice)
    })
}

/// What the layer now computes, against the trained weight and the best that its rank allows.
fn measure(weight: &InducingWeight, dense: &Tensor, singular: &Tensor) -> Result<LayerFit> {
    let sizes = weight.sizes();
    let energy = |t: &Tensor| t.square().sum(Kind::Double).double_value(&[]);
    let rank = sizes.rows.min(sizes.cols).min(singular.size()[0]);
    let (kept, lost) =
        (energy(&singular.narrow(0, 0, rank)), energy(&singular.narrow(0, rank, singular.size()[0] - rank)));
    let factors = fidgp::layer::Factors::of(&[weight], fidgp::linalg::Check::Now)?;
    let difference = weight.mean(&factors.get(&weight.name)?).to_kind(Kind::Double) - dense.to_kind(Kind::Double);
    let share = |part: f64, whole: f64| if whole > 0.0 { part / whole } else { 0.0 };
    Ok(LayerFit {
        name: weight.name.clone(),
        weight: [sizes.d_out, sizes.d_in],
        inducing: [sizes.rows, sizes.cols],
        rank,
        energy_kept: 1.0 - share(lost, kept + lost),
        optimal_error: share(lost, kept + lost).sqrt(),
        error: share(energy(&difference), energy(dense)).sqrt(),
    })
}

fn write(variable: &Tensor, value: &Tensor) {
    variable.shallow_clone().copy_(value);
}
