//! What a training step gives.

use tch::Tensor;

/// What a step gives.
#[derive(Debug)]
pub struct Stepped {
    /// Loss, NLL, KL of U, KL of W given U. `[4]`
    pub parts: Tensor,
    /// Gradient of all parameters, in the optimiser's order. `[P]`
    pub gradient: Tensor,
}
