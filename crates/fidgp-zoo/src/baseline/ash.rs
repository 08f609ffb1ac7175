//! Djurisic et al.: Extremely Simple Activation Shaping for Out-of-Distribution Detection (2023), ASH-S.

use tch::{Kind, Tensor};

use super::activation::Head;
use super::logit_scores::energy;

/// Share of the features that is set to zero; 90 % is usual.
pub const PRUNED: f64 = 0.9;

/// Energy of the logits after all but the largest features are set to zero and these are multiplied by `exp(s₁/s₂)`, s₁
/// and s₂ being the sums before and after. High means out of distribution. Features `[N, n]` → `[N]`
pub fn ash(features: &Tensor, head: &Head) -> Tensor {
    let x = features.to_kind(Kind::Double);
    let width = x.size()[1];
    let kept = width - (width as f64 * PRUNED).round() as i64;
    let (top, places) = x.topk(kept.max(1), -1, true, false);
    let sum = |t: &Tensor| t.sum_dim_intlist(-1, true, Kind::Double);
    let factor = (sum(&x) / sum(&top).clamp_min(1e-12)).exp();
    let shaped = x.zeros_like().scatter(-1, &places, &(top * factor));
    energy(&head.logits(&shaped))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Ten features of which the largest, 4, stays: the sums are 13 and 4, and the head reads the first and the fifth.
    #[test]
    fn hand_values() {
        let x = Tensor::from_slice(&[1.0, 1.0, 1.0, 1.0, 4.0, 1.0, 1.0, 1.0, 1.0, 1.0]).reshape([1, 10]);
        let weight = Tensor::zeros([2, 10], (Kind::Double, tch::Device::Cpu));
        let _ = weight.get(0).get(0).fill_(1.0);
        let _ = weight.get(1).get(4).fill_(0.5);
        let head = Head { weight, bias: Tensor::from_slice(&[0.25, 0.0]) };
        let second = 0.5 * 4.0 * (13.0_f64 / 4.0).exp();
        let expected = -(0.25_f64.exp() + second.exp()).ln();
        assert!((ash(&x, &head).double_value(&[0]) - expected).abs() < 1e-9);
    }
}
