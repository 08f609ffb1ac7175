//! Layers that take one explicit [`Pass`], and the trait of the networks made of them.

mod batch_norm;
mod conv2d;
mod custom;
mod linear;
mod noise;
mod pass;
mod slot;

pub use batch_norm::{BatchNorm, Norm, NormStatistics};
pub use conv2d::{Conv2d, Conv2dConfig};
pub use custom::{Apply, Curvature, CustomWeight, Moment, Shown};
pub use linear::Linear;
pub use noise::{Noise, OutputNoise, OutputTensors};
pub use pass::{Ahead, Factors, Mode, Pass, Taps};
pub use slot::{DenseStart, DenseWeight, Slot, SlotConfig};

use tch::Tensor;

use crate::weight::InducingWeight;
use crate::{Error, Result};

/// A network of our layers.
pub trait Network: std::fmt::Debug + Send {
    /// Outputs for a batch, with the weights, mode and noise that the pass carries.
    ///
    /// # Errors
    /// When the input does not fit the network.
    fn forward(&self, x: &Tensor, pass: &mut Pass) -> Result<Tensor>;

    /// How many stages the forward pass has; one after the other they are the whole of it.
    fn stages(&self) -> usize {
        1
    }

    /// One stage of the forward pass.
    ///
    /// # Errors
    /// When the input does not fit the stage.
    fn stage(&self, index: usize, h: &Tensor, pass: &mut Pass) -> Result<Tensor> {
        debug_assert_eq!(index, 0, "a network of one stage");
        self.forward(h, pass)
    }

    /// The first stage that is random in evaluation: what stands before it is the same for all draws.
    fn first_drawn_stage(&self) -> usize {
        0
    }

    /// The slots of all layers that have weights, in the order of the forward pass.
    fn slots(&self) -> Vec<&Slot>;

    /// Networks in one: the output has so many blocks of rows, one for each member, in their order.
    fn members(&self) -> i64 {
        1
    }

    /// Whether two passes with other noise give other outputs in evaluation.
    fn is_random(&self) -> bool {
        self.slots().into_iter().any(Slot::is_random)
    }

    /// The weights of the inducing kind among them.
    fn inducing(&self) -> Vec<&InducingWeight> {
        self.slots().into_iter().filter_map(Slot::inducing).collect()
    }
}

/// Fails on the first size of a layer that is below its least value.
fn at_least(least: i64, layer: &str, sizes: &[(&str, i64)]) -> Result<()> {
    match sizes.iter().find(|(_, size)| *size < least) {
        Some((what, size)) => {
            Err(Error::setting(format!("{layer}: {what}"), size, format!("must be {least} or greater")))
        }
        None => Ok(()),
    }
}
