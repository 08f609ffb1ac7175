//! What a linearised posterior says of images: entropies of its predictions, and its variance in a single pass.

use fidgp::Key;
use fidgp::linearised::{LOGIT_DRAWS, LinearisedPosterior, LogitRule, Tangent};
use tch::Tensor;

use super::inducing::plain;
use crate::error::Result;
use crate::model::Model;

/// A model's own posterior, and its network at the centre, made once.
#[derive(Debug)]
pub(super) struct OwnLaw<'a> {
    posterior: &'a LinearisedPosterior,
    tangent: Tangent<'a>,
    key: Key,
}

impl<'a> OwnLaw<'a> {
    /// None for a model that predicts with draws.
    pub fn of(model: &'a Model, key: Key) -> Result<Option<Self>> {
        let Some(posterior) = &model.posterior else { return Ok(None) };
        Ok(Some(Self { posterior, tangent: model.tangent(posterior)?, key }))
    }

    /// Total entropy and mutual information, and ln of the variance. `[N]` each
    pub fn said(&self, x: &Tensor) -> Result<((Tensor, Tensor), Tensor)> {
        let (inputs, rule) = ([x.shallow_clone()], LogitRule::Draws { count: LOGIT_DRAWS as i64, key: self.key });
        let said = self.posterior.classify(&self.tangent, &inputs, rule)?;
        let variance = self.posterior.variance(&self.tangent, &inputs)?;
        let mutual = &said.total - &said.aleatoric; // not cut off at 0: rounding must not make ties
        Ok(((plain(&said.total), plain(&mutual)), plain(&variance.clamp_min(f64::MIN_POSITIVE).log())))
    }
}
