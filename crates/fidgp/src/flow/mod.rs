//! Normalising flows on the rows of the whitened inducing matrix.
//!
//! A flow acts on ℝᶜ and is shared by all rows of V, so log|det J| of V is the sum over rows. Every formula accepts
//! leading batch axes, on the input as on the parameters: [`FlowParams`] of equal shape from several layers can be
//! stacked and evaluated in one call.

use tch::Tensor;

use crate::Key;

/// What a flow returns.
#[derive(Debug)]
pub struct Flowed {
    /// g(x). `[.., rows, C]`
    pub value: Tensor,
    /// log|det ∂g/∂x| of each row. `[.., rows]`
    pub log_det: Tensor,
}

/// A differentiable bijection of ℝᶜ with a tractable Jacobian determinant.
pub trait Flow: std::fmt::Debug + Send {
    /// Maps rows. `dropout` is the key of the dropout masks of a training pass; `None` at evaluation.
    ///
    /// # Shapes
    /// `x [.., rows, C]` → value `[.., rows, C]`, log_det `[.., rows]`
    fn forward(&self, x: &Tensor, dropout: Option<Key>) -> Flowed;
}
