//! The Gaussian process's own answer, from the forward pass alone: what the inducing columns do not explain of a layer's
//! input. `Var(w_i·x | U) = σ_p²λ²(‖x‖² − (S_r)_ii xᵀS_c x)`, and its column part is `‖x‖² − xᵀS_c x`.

use tch::{Kind, Tensor};

use crate::conditional::column_residual;
use crate::layer::Conv2dConfig;
use crate::prior::PriorFactors;
use crate::{Error, Result};

/// Below this a share counts as zero; its logarithm stays finite.
const LEAST_SHARE: f64 = 1e-12;

/// The mean over all positions of the patches that a convolution sees, a bias's 1 at the end. In f64.
///
/// # Shapes
/// `[N, in, H, W]` → `[N, d_in]`
///
/// # Errors
/// When the input is no image, or the convolution has groups (its patches have no common mean).
pub fn mean_patch(x: &Tensor, conv: &Conv2dConfig) -> Result<Tensor> {
    let [n, channels, height, width] = x.size()[..] else {
        return Err(Error::shape("input", &x.size(), "[N, channels, H, W]"));
    };
    if conv.groups != 1 {
        return Err(Error::setting(
            "groups",
            conv.groups,
            "a grouped convolution has no mean patch; score other layers",
        ));
    }
    let Conv2dConfig { kernel, stride, padding, dilation, .. } = *conv;
    let padded = x.constant_pad_nd([padding[1], padding[1], padding[0], padding[0]]);
    let places =
        |side: usize, size: i64| (size + 2 * padding[side] - dilation[side] * (kernel[side] - 1) - 1) / stride[side];
    let last = [places(0, height) * stride[0], places(1, width) * stride[1]];
    let along = |t: &Tensor, axis: i64, side: usize, offset: i64| {
        let from = offset * dilation[side];
        t.slice(axis, from, from + last[side] + 1, stride[side]).mean_dim([axis].as_slice(), false, t.kind())
    };
    let rows = (0..kernel[0]).map(|dy| along(&padded, 2, 0, dy).to_kind(Kind::Double)); // each [N, in, W]
    let patch: Vec<Tensor> = rows
        .flat_map(|row| (0..kernel[1]).map(|dx| along(&row, 2, 1, dx)).collect::<Vec<_>>()) // each [N, in]
        .collect();
    let patch = Tensor::stack(&patch, -1).reshape([n, channels * kernel[0] * kernel[1]]);
    Ok(if conv.bias { with_one(&patch) } else { patch })
}

/// A bias sees a 1. `[N, n]` → `[N, n + 1]`
fn with_one(x: &Tensor) -> Tensor {
    Tensor::cat(&[x, &x.narrow(1, 0, 1).ones_like()], 1)
}

/// `ln((‖x‖² − xᵀS_c x)/‖x‖²)`: the share of a feature's energy that the inducing columns leave unexplained, the column part
/// of the conditional variance. High means out of distribution. `[N, d_in]` → `[N]`
pub fn log_unexplained(factors: &PriorFactors, x: &Tensor) -> Tensor {
    let x = if x.size()[1] + 1 == factors.a_col.size()[1] { with_one(x) } else { x.shallow_clone() };
    let energy = x.square().sum_dim_intlist(-1, false, x.kind());
    (column_residual(factors, &x) / energy.clamp_min(f64::MIN_POSITIVE)).clamp_min(LEAST_SHARE).log()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Key;
    use tch::Device;

    /// Against libtorch's own patches (`im2col`), with strides, padding, dilation and a bias.
    #[test]
    fn the_mean_patch_is_the_mean_of_the_patches() {
        let x = Key::new(3).normal(&[2, 3, 9, 7], Kind::Double, Device::Cpu);
        for (kernel, stride, dilation, bias) in [(3, 1, 1, false), (3, 2, 1, true), (1, 2, 1, false), (3, 1, 2, true)] {
            let mut conv = Conv2dConfig::same(3, 4, kernel).stride(stride).dilation(dilation);
            conv.bias = bias;
            let (k, d, p, s) = (conv.kernel, conv.dilation, conv.padding, conv.stride);
            let expected = x.im2col(k, d, p, s).mean_dim([-1_i64].as_slice(), false, Kind::Double);
            let found = mean_patch(&x, &conv).unwrap();
            assert_eq!(found.size(), [2, 3 * kernel * kernel + i64::from(bias)]);
            let gap = (found.narrow(1, 0, 3 * kernel * kernel) - expected).abs().max().double_value(&[]);
            assert!(gap < 1e-12, "{kernel} {stride}: {gap}");
        }
        assert!(mean_patch(&x.get(0), &Conv2dConfig::same(3, 4, 3)).is_err());
        assert!(mean_patch(&x, &Conv2dConfig { groups: 3, ..Conv2dConfig::same(3, 3, 3) }).is_err());
    }
}
