//! Liang, Li and Srikant: Enhancing the Reliability of Out-of-Distribution Image Detection (2018), ODIN.

use tch::{Kind, Tensor};

/// T, as usual.
pub const TEMPERATURE: f64 = 1000.0;
/// ε, a usual one, on the scale where pixels run from 0 to 1.
pub const EPSILON: f64 = 0.0014;

/// `−ln max_k softmax(logits/T)_k`, summed: its gradient at the input says which way to step. `[N, K]` → scalar
pub fn loss(logits: &Tensor) -> Tensor {
    (-log_confidence(logits)).sum(Kind::Double)
}

/// `x − ε·sign(∂loss/∂x)`: the step that makes the network surer, more so where it was trained.
///
/// # Shapes
/// x and gradient `[N, ..]`; x on the scale where ε is what is meant
pub fn perturbed(x: &Tensor, gradient: &Tensor, epsilon: f64) -> Tensor {
    x - gradient.sign() * epsilon
}

/// `−max_k softmax(logits/T)_k` of the perturbed input: high means out of distribution. `[N, K]` → `[N]`
pub fn odin(logits: &Tensor) -> Tensor {
    -log_confidence(logits).exp()
}

fn log_confidence(logits: &Tensor) -> Tensor {
    (logits.to_kind(Kind::Double) / TEMPERATURE).log_softmax(-1, Kind::Double).amax([-1_i64].as_slice(), false)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Logits T·ln(3/4) and T·ln(1/4) have probabilities 3/4 and 1/4 at temperature T.
    #[test]
    fn hand_values() {
        let logits = Tensor::from_slice(&[0.75_f64.ln() * TEMPERATURE, 0.25_f64.ln() * TEMPERATURE]).reshape([1, 2]);
        assert!((odin(&logits).double_value(&[0]) + 0.75).abs() < 1e-12);
        assert!((loss(&logits).double_value(&[]) + 0.75_f64.ln()).abs() < 1e-12);
    }

    /// The loss of a linear network w·x falls along the step, entry by entry by ε.
    #[test]
    fn the_step_makes_the_network_surer() {
        let x = Tensor::from_slice(&[0.5, 0.2, -0.1]).reshape([1, 3]).set_requires_grad(true);
        let w = Tensor::from_slice(&[100.0, -200.0, 0.0, 0.0, 0.0, 0.0]).reshape([2, 3]);
        let before = loss(&x.matmul(&w.mt()));
        let gradient = Tensor::run_backward(&[&before], &[&x], false, false);
        let x = x.detach();
        let moved = perturbed(&x, &gradient[0], 0.1);
        let steps = Vec::<f64>::try_from((&moved - &x).reshape([-1])).unwrap();
        // logit 0 is 10 and logit 1 is 0: class 0 is said, and grows with x_0 and with −x_1
        assert_eq!(steps.iter().map(|s| (s * 10.0).round() as i64).collect::<Vec<_>>(), [1, -1, 0]);
        assert!(loss(&moved.matmul(&w.mt())).double_value(&[]) < before.double_value(&[]));
    }
}
