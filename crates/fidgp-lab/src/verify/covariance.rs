//! Dense covariances of the weight given the inducing matrix, entries in the order out·d_in + in.

use fidgp::conditional::{self, MatheronNoise};
use fidgp::prior::{PriorFactors, Sizes};
use tch::Tensor;

use super::error::Result;

/// `I − S_r ⊗ S_c` with `S = (L⁻¹Z)ᵀ(L⁻¹Z)`. `[d_out·d_in, d_out·d_in]`
pub(super) fn exact(factors: &PriorFactors) -> Tensor {
    let explained = |a: &Tensor| a.mt().matmul(a);
    let product = explained(&factors.a_row).kron(&explained(&factors.a_col));
    Tensor::eye(product.size()[0], (product.kind(), product.device())) - product
}

/// The covariance of Matheron's noise as it is coded, jitter and all. The noise is linear in (e1, e2, e3, e4): drawn
/// from every unit vector in turn it gives that map G, and the covariance is GGᵀ. `[d_out·d_in, d_out·d_in]`
pub(super) fn coded(factors: &PriorFactors, sizes: Sizes) -> Result<Tensor> {
    let Sizes { d_out, d_in, rows, cols } = sizes;
    let (weights, inducing) = (d_out * d_in, rows * cols);
    let total = weights + 3 * inducing;
    let options = (factors.a_row.kind(), factors.a_row.device());
    let units = Tensor::eye(total, options); // one draw in each row
    let corner = |part: i64| units.narrow(1, weights + part * inducing, inducing).reshape([total, rows, cols]);
    let noise = MatheronNoise {
        weight: units.narrow(1, 0, weights).reshape([total, d_out, d_in]),
        row: corner(0),
        col: corner(1),
        corner: corner(2),
    };
    let (zero, one) = (Tensor::zeros([rows, cols], options), Tensor::ones([0_i64; 0], options));
    let map = conditional::matheron(factors, &zero, &one, &noise)?.reshape([total, weights]); // Gᵀ
    Ok(map.mt().matmul(&map))
}
