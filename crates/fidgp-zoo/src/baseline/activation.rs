//! Scores that change the penultimate features before the head, or read the head's gradient. All run high = out of
//! distribution. Features `[N, n]`, head `[K, n]` and `[K]` → `[N]`

use tch::{Kind, Tensor};

use super::logit_scores::energy;

/// The last layer of a network.
#[derive(Debug)]
pub struct Head {
    /// `[K, n]`
    pub weight: Tensor,
    /// `[K]`
    pub bias: Tensor,
}

impl Head {
    /// `[N, n]` → `[N, K]`, in f64.
    pub fn logits(&self, features: &Tensor) -> Tensor {
        let [x, weight, bias] = [features, &self.weight, &self.bias].map(|t| t.to_kind(Kind::Double));
        x.matmul(&weight.mt()) + bias
    }
}

/// Sun et al. (2021), ReAct: energy after clipping features at the 90 % quantile of the training set's.
pub fn react(features: &Tensor, head: &Head, clip: f64) -> Tensor {
    energy(&head.logits(&features.clamp_max(clip)))
}

/// Xu et al. (2024), SCALE: energy after multiplying all features by `exp(Σx / Σ_top x)`, top being the largest 15 %.
pub fn scale(features: &Tensor, head: &Head) -> Tensor {
    let x = features.to_kind(Kind::Double);
    let kept = ((x.size()[1] as f64 * 0.15).round() as i64).max(1);
    let (top, _) = x.topk(kept, -1, true, false);
    let sum = |t: &Tensor| t.sum_dim_intlist(-1, true, Kind::Double);
    let factor = (sum(&x) / sum(&top).clamp_min(1e-12)).exp();
    energy(&head.logits(&(x * factor)))
}

/// Huang et al. (2021), GradNorm: `−‖x‖₁ · Σ_k |p_k − 1/K|`, the norm of the head's gradient towards the uniform law.
pub fn grad_norm(features: &Tensor, logits: &Tensor) -> Tensor {
    let p = logits.softmax(-1, Kind::Double);
    let uniform = 1.0 / p.size()[1] as f64;
    let sum = |t: Tensor| t.abs().sum_dim_intlist(-1, false, Kind::Double);
    -(sum(features.to_kind(Kind::Double)) * sum(p - uniform))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// One feature vector (1, 3) before a head of two unit rows: by hand.
    #[test]
    fn hand_values() {
        let x = Tensor::from_slice(&[1.0, 3.0]).reshape([1, 2]);
        let head = Head {
            weight: Tensor::from_slice(&[1.0, 0.0, 0.0, 1.0]).reshape([2, 2]),
            bias: Tensor::from_slice(&[0.0, 0.0]),
        };
        let energy = |a: f64, b: f64| -(a.exp() + b.exp()).ln();
        let close = |found: Tensor, expected: f64| {
            assert!((found.double_value(&[0]) - expected).abs() < 1e-9, "{found:?} {expected}");
        };
        close(react(&x, &head, 2.0), energy(1.0, 2.0));
        let factor = (4.0_f64 / 3.0).exp();
        close(scale(&x, &head), energy(factor, 3.0 * factor));
        let logits = Tensor::from_slice(&[0.75_f64.ln(), 0.25_f64.ln()]).reshape([1, 2]);
        close(grad_norm(&x, &logits), -4.0 * 0.5);
    }
}
