//! Gal, Ghahramani: Dropout as a Bayesian Approximation (2016). Inputs of a layer are dropped in training and at test.

use fidgp::layer::{Apply, CustomWeight, DenseWeight, Pass};
use serde::{Deserialize, Serialize};
use tch::Tensor;

use crate::{Error, Result};

/// How much is dropped.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct DropoutConfig {
    /// p, the probability that an input of a layer is zero.
    pub rate: f64,
}

impl Default for DropoutConfig {
    fn default() -> Self {
        Self { rate: 0.1 }
    }
}

impl DropoutConfig {
    /// # Errors
    /// When the rate is no probability below 1.
    pub fn check(&self) -> Result<()> {
        if (0.0..1.0).contains(&self.rate) {
            return Ok(());
        }
        Err(Error::setting("rate", self.rate, "must lie in [0, 1); 0.1 is usual"))
    }
}

/// A plain weight whose inputs are dropped wherever the pass has noise.
#[derive(Debug)]
pub struct DroppedInputs {
    dense: DenseWeight,
    rate: f64,
    /// What a standard normal falls below with the probability p.
    threshold: f64,
}

impl DroppedInputs {
    /// A weight whose inputs are dropped at the rate of the config.
    pub fn new(dense: DenseWeight, config: DropoutConfig) -> Self {
        let threshold = Tensor::from(config.rate).special_ndtri().double_value(&[]);
        Self { dense, rate: config.rate, threshold }
    }
}

impl CustomWeight for DroppedInputs {
    fn name(&self) -> &str {
        &self.dense.name
    }

    /// `y = W (x ⊙ z)/(1 − p) + b`, `z ~ Bernoulli(1 − p)` from the pass's normals; `z = 1 − p` at the mean.
    fn forward(&self, x: &Tensor, pass: &mut Pass, apply: &Apply) -> fidgp::Result<Tensor> {
        let DenseWeight { name, weight, bias } = &self.dense;
        if !pass.noise.is_on() || self.rate == 0.0 {
            return apply(x, weight, bias.as_ref(), pass);
        }
        let kept = pass.noise.of(name, x)?.ge(self.threshold);
        apply(&(x * kept), &(weight / (1.0 - self.rate)), bias.as_ref(), pass)
    }

    fn is_random(&self) -> bool {
        true
    }
}
