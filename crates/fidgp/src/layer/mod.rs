//! Layers that take one explicit [`Pass`], and the trait of the networks made of them.

mod batch_norm;
mod conv2d;
mod linear;
mod pass;
mod slot;

pub use batch_norm::BatchNorm;
pub use conv2d::{Conv2d, Conv2dConfig};
pub use linear::Linear;
pub use pass::{Factors, Mode, Pass, Taps};
pub use slot::{DenseStart, DenseWeight, Slot, SlotConfig};

use tch::Tensor;

use crate::Result;
use crate::weight::InducingWeight;

/// A network of our layers.
pub trait Network: std::fmt::Debug + Send {
    /// Outputs for a batch, with the weights, mode and noise that the pass carries.
    ///
    /// # Errors
    /// When the input does not fit the network.
    fn forward(&self, x: &Tensor, pass: &mut Pass) -> Result<Tensor>;

    /// The slots of all layers that have weights, in the order of the forward pass.
    fn slots(&self) -> Vec<&Slot>;

    /// The Bayesian weights among them.
    fn inducing(&self) -> Vec<&InducingWeight> {
        self.slots().into_iter().filter_map(Slot::inducing).collect()
    }
}
