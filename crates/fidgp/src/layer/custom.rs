//! Weights of other methods: the layer lends its operation, the weight decides what to do with it.

use std::fmt::Debug;

use tch::Tensor;

use super::Pass;
use crate::Result;

/// The operation of a layer, linear or convolution: input, weight in the layer's own shape, bias → output.
pub type Apply<'a> = dyn Fn(&Tensor, &Tensor, Option<&Tensor>, &Pass) -> Result<Tensor> + 'a;

/// A weight with a law of its own, neither plain nor inducing. All its randomness comes from the pass; a KL goes back
/// into it by [`Pass::charge`].
pub trait CustomWeight: Debug + Send {
    /// The layer's name.
    fn name(&self) -> &str;

    /// The layer's output.
    ///
    /// # Errors
    /// When the input does not fit the weight.
    fn forward(&self, x: &Tensor, pass: &mut Pass, apply: &Apply) -> Result<Tensor>;

    /// Whether it must see the training data once more when the network is trained: passes with [`Pass::observing`], then
    /// [`Self::settle`].
    fn observes(&self) -> bool {
        false
    }

    /// Forgets what was observed.
    fn forget(&self) {}

    /// Draws its conclusions from what was observed.
    ///
    /// # Errors
    /// When a matrix cannot be factorised.
    fn settle(&self) -> Result<()> {
        Ok(())
    }

    /// Whether two passes with other noise give other outputs in evaluation.
    fn is_random(&self) -> bool {
        false
    }
}
