//! Scores from the logits alone. All run high = out of distribution. `[N, K]` → `[N]`

use tch::{Kind, Tensor};

/// Hendrycks and Gimpel (2017), maximum softmax probability: `1 − max_k p_k`.
pub fn msp(logits: &Tensor) -> Tensor {
    1.0 - logits.softmax(-1, Kind::Double).amax([-1_i64].as_slice(), false)
}

/// Hendrycks et al. (2022): `−max_k logit_k`.
pub fn max_logit(logits: &Tensor) -> Tensor {
    -logits.to_kind(Kind::Double).amax([-1_i64].as_slice(), false)
}

/// Liu et al. (2020), energy at temperature 1: `−ln Σ_k exp logit_k`.
pub fn energy(logits: &Tensor) -> Tensor {
    -logits.to_kind(Kind::Double).logsumexp(-1, false)
}

/// `−Σ_k p_k ln p_k`.
pub fn entropy(logits: &Tensor) -> Tensor {
    let log_p = logits.log_softmax(-1, Kind::Double);
    -(log_p.exp() * log_p).sum_dim_intlist(-1, false, Kind::Double)
}

/// Liu, Lochman and Zach (2023), generalised entropy: `Σ p^γ (1 − p)^γ` over the M largest probabilities; γ = 0.1, M = 100.
pub fn generalised_entropy(logits: &Tensor) -> Tensor {
    let p = logits.softmax(-1, Kind::Double);
    let (p, _) = p.topk(p.size()[1].min(100), -1, true, true);
    let spread: Tensor = &p - p.square(); // p (1 − p)
    spread.clamp_min(0.0).pow_tensor_scalar(0.1).sum_dim_intlist(-1, false, Kind::Double)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn value(score: fn(&Tensor) -> Tensor) -> f64 {
        score(&Tensor::from_slice(&[0.75_f64.ln(), 0.25_f64.ln()]).reshape([1, 2])).double_value(&[0])
    }

    /// Two classes with p = (3/4, 1/4), the logits being ln p: worked out by hand.
    #[test]
    fn hand_values() {
        let close = |found: f64, expected: f64| assert!((found - expected).abs() < 1e-12, "{found} {expected}");
        close(value(msp), 0.25);
        close(value(max_logit), -0.75_f64.ln());
        close(value(energy), 0.0);
        close(value(entropy), 2.0 * 2.0_f64.ln() - 0.75 * 3.0_f64.ln());
        close(value(generalised_entropy), 2.0 * (3.0_f64 / 16.0).powf(0.1));
    }
}
