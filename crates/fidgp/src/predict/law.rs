//! The law that predictions are made from.

use tch::Tensor;

use super::{Classified, Regressed, Segmented, Spent};
use crate::layer::Network;
use crate::objective::NumberLikelihood;
use crate::{Error, Result};

/// A batch of inputs, and what belongs to it.
#[derive(Clone, Copy, Debug)]
pub struct Batch<'a> {
    /// `[N, ..]`
    pub inputs: &'a Tensor,
    /// Its number among the batches of a set: noise on outputs follows from it.
    pub number: u64,
}

/// How much a prediction may take.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Effort {
    /// Weight draws, at most where there is a tolerance; the law's own number where none is given.
    pub draws: Option<u64>,
    /// The largest Monte-Carlo error of a mean (a probability, or a number in its own unit): so many draws as that needs.
    pub tolerance: Option<f64>,
}

/// The law of a network's outputs at new inputs, given what it was trained on: draws of its weights ([`WeightDraws`]), or
/// another law. It owns what it needs beside the network, which is given at each call, and may move to another thread with it.
///
/// [`WeightDraws`]: super::WeightDraws
pub trait PredictiveLaw: std::fmt::Debug + Send {
    /// Classes of inputs.
    ///
    /// # Errors
    /// When the batch does not fit the network, or the effort is impossible.
    fn classify(&mut self, network: &dyn Network, batch: Batch, effort: Effort) -> Result<(Classified, Spent)>;

    /// Numbers at inputs.
    ///
    /// # Errors
    /// As [`Self::classify`].
    fn regress(
        &mut self,
        network: &dyn Network,
        likelihood: &dyn NumberLikelihood,
        batch: Batch,
        effort: Effort,
    ) -> Result<(Regressed, Spent)>;

    /// Classes of pixels; see [`segment`](super::segment). A law that has none says so.
    ///
    /// # Errors
    /// As [`Self::classify`].
    fn segment(
        &mut self,
        network: &dyn Network,
        images: &Tensor,
        (classes, window): (i64, Option<[i64; 2]>),
        effort: Effort,
    ) -> Result<(Segmented, Spent)> {
        let _ = (network, images, classes, window, effort);
        Err(Error::setting(
            "posterior",
            format!("{self:?}").split(' ').next().unwrap_or_default(),
            "cannot segment pictures",
        ))
    }
}
