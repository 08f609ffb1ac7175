//! Layers that take one explicit [`Pass`], and the trait of the networks made of them.

mod across;
mod batch_norm;
mod blocks;
mod conv2d;
mod custom;
mod layer_norm;
mod linear;
mod network;
mod noise;
mod operation;
mod parameter;
mod pass;
mod slot;
mod trace;

pub use across::Across;
pub use batch_norm::{BatchNorm, Norm, NormStatistics};
pub(crate) use blocks::Kept;
pub use conv2d::{Conv2d, Conv2dConfig};
pub use custom::{Apply, Curvature, CustomWeight, FitData, FitPhase, MakeWeight};
pub use layer_norm::LayerNorm;
pub use linear::Linear;
pub use network::{Layer, Layers, Network, init};
pub use noise::{Noise, OutputNoise, OutputTensors};
pub use operation::{LayerKind, Operation};
pub use parameter::{Parameter, Start};
pub use pass::{Factors, Mode, Pass, Taps};
pub use slot::{DenseStart, DenseWeight, PlannedWeight, Slot, SlotConfig};
pub use trace::{LayerGeometry, blocks_before_randomness, trace, trace_on, trace_to_output};

pub use crate::role::{Role, decayed, roles};
use crate::{Error, Result};

/// Fails on the first size of a layer that is below its least value.
fn at_least(least: i64, layer: &str, sizes: &[(&str, i64)]) -> Result<()> {
    match sizes.iter().find(|(_, size)| *size < least) {
        Some((what, size)) => {
            Err(Error::setting(format!("{layer}: {what}"), size, format!("must be {least} or greater")))
        }
        None => Ok(()),
    }
}
