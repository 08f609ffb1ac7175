//! What a kind of network says of itself.

use std::fmt::Debug;

use fidgp::Key;
use fidgp::layer::Network;
use tch::nn::Path;

use crate::{Error, LayerPlan, Result, build};

/// What a network takes, and what it says of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Takes {
    /// Rows of a table, for each so many numbers.
    Table,
    /// Images, for each so many numbers.
    Images,
    /// Pictures, for every pixel so many numbers.
    Pixels,
    /// Rows, images or pictures with masks: which of them the network does not know before it is given one.
    Any,
}

/// A kind of network, as a config describes it: `{ kind = "resnet", depth = 18, stem = "cifar" }`. Of a new kind this and its
/// [`Network`] stand in one file; a line in [`networks!`](crate::networks) registers it, or a call of that enum's `register`.
pub trait Architecture: Debug {
    /// What it takes.
    fn takes(&self) -> Takes;

    /// Takes over what follows from the data: the shape of an input, without the batch, and the outputs they need.
    ///
    /// # Errors
    /// When the network does not take such inputs.
    fn fit(&mut self, input: &[i64], outputs: i64) -> Result<()>;

    /// The plain network of these sizes, without numbers yet.
    ///
    /// # Errors
    /// When a size is out of range.
    fn network(&self) -> Result<Box<dyn Network>>;

    /// The network in a word: `resnet-18`.
    fn name(&self) -> String;

    /// The network by a plan, its numbers under `path`.
    ///
    /// # Errors
    /// As [`Self::network`] and [`build`].
    fn init(&self, path: &Path, plan: &LayerPlan, key: Key) -> Result<Box<dyn Network>> {
        build(self.network()?, path, plan, key)
    }

    /// Checks what needs no data.
    ///
    /// # Errors
    /// Names the setting that does not fit.
    fn check(&self) -> Result<()> {
        Ok(())
    }

    /// Outputs that the head stores, for data of so many classes.
    fn outputs(&self, classes: i64) -> i64 {
        classes
    }

    /// Whether it has batch normalisation.
    fn has_batch_norm(&self) -> bool {
        true
    }

    /// Whether its backbone is a classifier, from whose weights it can start.
    fn has_backbone(&self) -> bool {
        false
    }

    /// Upper bound of the spectral norm of every layer but the last.
    fn spectral_norm(&self) -> Option<f64> {
        None
    }

    /// Takes the bound away.
    fn unbind(&mut self) {}
}

/// Refuses a width of no channels.
pub(crate) fn check_width(width: i64) -> Result<()> {
    if width < 1 { Err(Error::network("width", format!("{width} must be at least 1"))) } else { Ok(()) }
}
