//! Start values of linear layers.

use tch::nn::Path;
use tch::{Kind, Tensor};

use super::linear::SCALE_FLOOR;
use crate::Key;

/// Start values uniform on ±bound for a weight `[out, in]` and its bias.
pub(super) fn uniform(path: &Path, (out, input): (i64, i64), bound: f64, key: Key) -> (Tensor, Tensor) {
    let draw =
        |name: &str, shape: &[i64]| (key.fold(name).uniform(shape, path.kind(), path.device()) * 2.0 - 1.0) * bound;
    (draw("weight", &[out, input]), draw("bias", &[out]))
}

/// Start values uniform on ±1/√in.
pub(super) fn fan_in(path: &Path, shape: (i64, i64), key: Key) -> (Tensor, Tensor) {
    uniform(path, shape, (shape.1 as f64).sqrt().recip(), key)
}

/// Start values that make the outputs (a, t) constant, with softplus(a) + 10⁻³ = 1 and t = 0, whatever the input.
///
/// # Shapes
/// weight `[2C, in]`, bias `[2C]`, interleaved as (a₁, t₁, a₂, t₂, …)
pub(super) fn identity(path: &Path, (out, input): (i64, i64)) -> (Tensor, Tensor) {
    let options = (path.kind(), path.device());
    let raw = (1.0 - SCALE_FLOOR).exp_m1().ln();
    let bias =
        Tensor::from_slice(&[raw, 0.0]).to_kind(Kind::Double).repeat([out / 2]).to_kind(options.0).to_device(options.1);
    (Tensor::zeros([out, input], options), bias)
}
