//! A linearised posterior as the law that predictions are made from.

use tch::Kind;

use super::tangent::Centre;
use super::{LinearisedPosterior, LogitRule, NormalForecast, Tangent};
use crate::layer::Network;
use crate::objective::NumberLikelihood;
use crate::predict::{Batch, Classified, Effort, PredictiveLaw, Regressed, Spent};
use crate::{Key, Result};

/// Draws of the logits where nobody says otherwise. They cost no pass through the network.
pub const LOGIT_DRAWS: u64 = 256;

/// The law of a linearised posterior: it owns the posterior and, once it was used, the network's centre.
#[derive(Debug)]
pub struct LinearisedLaw {
    posterior: LinearisedPosterior,
    rule: LogitRule,
    compute: Option<Kind>,
    temperature: f64,
    centre: Option<Centre>,
}

impl LinearisedLaw {
    /// Classes by draws of the logits under a key.
    pub fn new(posterior: LinearisedPosterior, key: Key, compute: Option<Kind>) -> Self {
        Self::with_rule(posterior, LogitRule::Draws { count: LOGIT_DRAWS as i64, key }, compute)
    }

    /// Classes by another rule.
    pub fn with_rule(posterior: LinearisedPosterior, rule: LogitRule, compute: Option<Kind>) -> Self {
        Self { posterior, rule, compute, temperature: 1.0, centre: None }
    }

    /// For a network that divides its logits by a temperature, the posterior being fitted to it without one.
    #[must_use]
    pub fn tempered(self, temperature: f64) -> Self {
        Self { temperature, ..self }
    }

    /// The posterior.
    pub fn posterior(&self) -> &LinearisedPosterior {
        &self.posterior
    }

    /// Lends a network with its centre, which is made when it is first needed.
    fn at<T>(
        &mut self,
        network: &dyn Network,
        work: impl FnOnce(&LinearisedPosterior, &Tangent) -> Result<T>,
    ) -> Result<T> {
        let mut tangent = match self.centre.take() {
            Some(centre) => Tangent::with(network, centre),
            None => Tangent::at_centre(network, &self.posterior.layers)?,
        };
        (tangent.compute, tangent.temperature) = (self.compute, self.temperature);
        self.posterior.set_up(&mut tangent);
        let done = work(&self.posterior, &tangent);
        self.centre = Some(tangent.into_centre());
        done
    }
}

impl PredictiveLaw for LinearisedLaw {
    fn classify(&mut self, network: &dyn Network, batch: Batch, effort: Effort) -> Result<(Classified, Spent)> {
        let rule = match self.rule {
            LogitRule::Draws { count, key } => {
                let asked = effort.draws.map_or(count, |draws| count.max(i64::try_from(draws).unwrap_or(i64::MAX)));
                LogitRule::Draws { count: asked, key }
            }
            LogitRule::Probit => LogitRule::Probit,
        };
        let inputs = [batch.inputs.shallow_clone()];
        let (classified, error) =
            self.at(network, |posterior, tangent| posterior.classify_with_error(tangent, &inputs, rule))?;
        let draws = if let LogitRule::Draws { count, .. } = rule { count as u64 } else { 1 };
        Ok((classified, Spent { draws, error }))
    }

    fn regress(
        &mut self,
        network: &dyn Network,
        likelihood: &dyn NumberLikelihood,
        batch: Batch,
        _effort: Effort,
    ) -> Result<(Regressed, Spent)> {
        let inputs = [batch.inputs.shallow_clone()];
        let forecast = self.at(network, |posterior, tangent| posterior.regress(tangent, likelihood, &inputs))?;
        let NormalForecast { mean, epistemic, noise } = forecast;
        let regressed = Regressed { means: mean.unsqueeze(0), noise: noise.unsqueeze(0), variance: Some(epistemic) };
        Ok((regressed, Spent { draws: 0, error: 0.0 })) // a closed form
    }
}
