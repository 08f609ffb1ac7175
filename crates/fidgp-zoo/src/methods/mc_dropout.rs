//! Gal, Ghahramani: Dropout as a Bayesian Approximation (2016). Inputs of a layer are dropped in training and at test.

use fidgp::Key;
use fidgp::layer::{Apply, CustomWeight, DenseWeight, MakeWeight, Pass, PlannedWeight, Role};
use serde::{Deserialize, Serialize};
use tch::Tensor;
use tch::nn::Path;

use super::method::{check_layers, everywhere};
use super::{About, Method, Passes, Section, Settings};
use crate::plan::FIRST;
use crate::{Error, LayerPlan, Result};

/// Passes of a prediction.
const PASSES: i64 = 5;

/// The method.
#[derive(Debug)]
pub struct McDropout;

impl Method for McDropout {
    fn about(&self) -> About {
        About {
            section: Some(Section::of::<DropoutConfig>("dropout")),
            passes: Passes::Draws,
            usual: |_| vec![("predict", "draws", PASSES.into())],
            ..About::new("mc-dropout", "A network with dropout at test (MC dropout)")
        }
    }
}

/// What is dropped, and how much of it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct DropoutConfig {
    /// Layers whose inputs are dropped: names or patterns.
    pub layers: Vec<String>,
    /// p, the probability that an input of a layer is zero.
    pub rate: f64,
    /// Whether the network's own inputs, those of its first layer, are dropped too.
    pub inputs: bool,
}

impl Default for DropoutConfig {
    fn default() -> Self {
        Self { layers: everywhere(), rate: 0.1, inputs: false }
    }
}

impl Settings for DropoutConfig {
    fn check(&self) -> Result<()> {
        check_layers(&self.layers)?;
        if (0.0..1.0).contains(&self.rate) {
            return Ok(());
        }
        Err(Error::setting("rate", self.rate, "must lie in [0, 1); 0.1 is usual"))
    }

    fn plan(&self, plan: LayerPlan) -> LayerPlan {
        let plan = self.layers.iter().fold(plan, |plan, layers| plan.custom(layers, self.clone()));
        if self.inputs { plan } else { plan.dense_layers(FIRST) }
    }
}

impl MakeWeight for DropoutConfig {
    fn make(&self, planned: &PlannedWeight, path: &Path, key: Key) -> fidgp::Result<Box<dyn CustomWeight>> {
        self.check().map_err(Error::into_method)?;
        Ok(Box::new(DroppedInputs::new(planned.dense(&Role::Decayed.of(path), planned.bias, key), self.rate)))
    }

    fn is_random(&self) -> bool {
        true
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
    /// A weight whose inputs are dropped at a rate.
    pub fn new(dense: DenseWeight, rate: f64) -> Self {
        let threshold = Tensor::from(rate).special_ndtri().double_value(&[]);
        Self { dense, rate, threshold }
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
