//! Batch normalisation that reads its mode from the pass.

use tch::Tensor;
use tch::nn::Path;

use super::Pass;

/// `y = γ (x − μ)/√(σ² + ε) + β`, over all axes but the second.
#[derive(Debug)]
pub struct BatchNorm {
    weight: Tensor,
    bias: Tensor,
    running_mean: Tensor,
    running_var: Tensor,
}

impl BatchNorm {
    /// Momentum of the running statistics.
    pub const MOMENTUM: f64 = 0.1;
    const EPSILON: f64 = 1e-5;

    /// γ = 1, β = 0, running statistics of the standard normal.
    pub fn init(path: &Path, features: i64) -> Self {
        Self {
            weight: path.ones("weight", &[features]),
            bias: path.zeros("bias", &[features]),
            running_mean: path.add("running_mean", Tensor::zeros([features], (path.kind(), path.device())), false),
            running_var: path.add("running_var", Tensor::ones([features], (path.kind(), path.device())), false),
        }
    }

    /// # Shapes
    /// `[N, features, ..]` → the same
    pub fn forward(&self, x: &Tensor, pass: &Pass) -> Tensor {
        // without running statistics there is nothing to update, and those of the batch are used
        let kept = pass.batch_statistics() && pass.keep_statistics;
        let statistics = |running| if kept { None } else { Some(running) };
        let (mean, var) = (statistics(&self.running_mean), statistics(&self.running_var));
        x.batch_norm(
            Some(&self.weight),
            Some(&self.bias),
            mean,
            var,
            pass.batch_statistics(),
            Self::MOMENTUM,
            Self::EPSILON,
            true,
        )
    }
}
