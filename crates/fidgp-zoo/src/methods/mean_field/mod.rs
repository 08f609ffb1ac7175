//! Blundell et al.: Weight Uncertainty in Neural Networks (2015), with the local reparameterisation of Kingma, Salimans,
//! Welling (2015) in training.

mod bayesianize;

pub use bayesianize::mean_field_from_bayesianize;

use fidgp::Key;
use fidgp::distribution::{BoundMap, Bounded, kl_to_standard_normal};
use fidgp::layer::{Apply, CustomWeight, DenseWeight, LayerGeometry, MakeWeight, Mode, Pass, PlannedWeight, Role};
use fidgp::weight::Kl;
use serde::{Deserialize, Serialize};
use tch::Tensor;
use tch::nn::{Init, Path};
use toml::Table;

use super::method::{check_layers, everywhere};
use super::{About, Extra, Method, Passes, Section, Settings};
use crate::{Error, LayerPlan, Result};

/// The method.
#[derive(Debug)]
pub struct MeanField;

impl Method for MeanField {
    fn about(&self) -> About {
        About {
            section: Some(Section::of::<MeanFieldConfig>("mean-field")),
            passes: Passes::Draws,
            sharpness: Extra::Renames("f-sgvb-lrt"),
            has_kl: true,
            from_bayesianize: Some(|json| {
                let found = mean_field_from_bayesianize(json)?;
                Ok(found.map(|settings| Table::try_from(settings).expect("every setting has a TOML form")))
            }),
            ..About::new("mean-field", "A Bayesian network with a Gaussian for every weight (mean field)")
        }
    }
}

/// Keeps the square root differentiable where the variance is zero.
const VARIANCE_FLOOR: f64 = 1e-12;

/// `W ~ N(μ, σ²)` elementwise against `N(0, σ_p²)`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct MeanFieldConfig {
    /// Bayesian layers: names or patterns.
    pub layers: Vec<String>,
    /// σ at the start.
    pub init_sd: f64,
    /// Its upper bound.
    pub max_sd: f64,
    /// Prior deviation of a weight, before width scaling.
    pub prior_sd: f64,
    /// Divide it by √d_in.
    pub sqrt_width_scaling: bool,
}

impl Default for MeanFieldConfig {
    fn default() -> Self {
        Self { layers: everywhere(), init_sd: 1e-4, max_sd: 0.1, prior_sd: 1.0, sqrt_width_scaling: false }
    }
}

impl Settings for MeanFieldConfig {
    fn check(&self) -> Result<()> {
        check_layers(&self.layers)?;
        Bounded::raw_of("init_sd", self.init_sd, Some(self.max_sd), BoundMap::Smooth)?;
        if self.prior_sd > 0.0 && self.prior_sd.is_finite() {
            return Ok(());
        }
        Err(Error::setting("prior_sd", self.prior_sd, "must be greater than 0"))
    }

    fn plan(&self, plan: LayerPlan) -> LayerPlan {
        self.layers.iter().fold(plan, |plan, layers| plan.custom(layers, self.clone()))
    }
}

impl MakeWeight for MeanFieldConfig {
    fn make(&self, planned: &PlannedWeight, path: &Path, key: Key) -> fidgp::Result<Box<dyn CustomWeight>> {
        let mean = planned.dense(&Role::Undecayed.of(path), planned.bias, key);
        Ok(Box::new(MeanFieldWeight::init(path, mean, self).map_err(Error::into_method)?))
    }

    fn is_random(&self) -> bool {
        true
    }

    fn parameters(&self, layer: &LayerGeometry) -> i64 {
        2 * layer.dense_parameters()
    }
}

/// A Gaussian of its own for every weight.
#[derive(Debug)]
pub struct MeanFieldWeight {
    mean: DenseWeight,
    weight_sd: Bounded,
    bias_sd: Option<Bounded>,
    prior_sd: f64,
}

impl MeanFieldWeight {
    /// The mean starts where a plain weight does; deviations are `weight_sd` and `bias_sd` under `path`.
    ///
    /// # Errors
    /// When a deviation is out of range.
    pub fn init(path: &Path, mean: DenseWeight, config: &MeanFieldConfig) -> Result<Self> {
        config.check()?;
        let raw = Bounded::raw_of("init_sd", config.init_sd, Some(config.max_sd), BoundMap::Smooth)?;
        let bounded = |name: &str, like: &Tensor| Bounded {
            raw: path.var(name, &like.size(), Init::Const(raw)),
            max: Some(config.max_sd),
            map: BoundMap::Smooth,
        };
        let d_in = mean.weight.size()[1..].iter().product::<i64>() + i64::from(mean.bias.is_some());
        let width = if config.sqrt_width_scaling { (d_in as f64).sqrt() } else { 1.0 };
        Ok(Self {
            weight_sd: bounded("weight_sd", &mean.weight),
            bias_sd: mean.bias.as_ref().map(|bias| bounded("bias_sd", bias)),
            mean,
            prior_sd: config.prior_sd / width,
        })
    }

    /// `KL[N(μ, σ²) ‖ N(0, σ_p²)]` of weight and bias. Scalar.
    pub fn kl(&self) -> Tensor {
        let one =
            |mean: &Tensor, sd: &Bounded| kl_to_standard_normal(&(mean / self.prior_sd), &(sd.value() / self.prior_sd));
        let weight = one(&self.mean.weight, &self.weight_sd);
        match self.mean.bias.as_ref().zip(self.bias_sd.as_ref()) {
            Some((mean, sd)) => weight + one(mean, sd),
            None => weight,
        }
    }
}

impl CustomWeight for MeanFieldWeight {
    fn name(&self) -> &str {
        &self.mean.name
    }

    /// In training `y = x*μ + √(x²*σ²) ⊙ ε` with noise on the outputs; in evaluation one weight for all batches of a
    /// draw; without noise the mean.
    fn forward(&self, x: &Tensor, pass: &mut Pass, apply: &Apply) -> fidgp::Result<Tensor> {
        let DenseWeight { name, weight, bias } = &self.mean;
        if pass.mode == Mode::Train {
            let kl = self.kl();
            pass.charge(name, Kl { conditional: kl.zeros_like(), inducing: kl });
        }
        if !pass.noise.is_on() {
            return apply(x, weight, bias.as_ref(), pass);
        }
        let (weight_sd, bias_sd) = (self.weight_sd.value(), self.bias_sd.as_ref().map(Bounded::value));
        if pass.mode == Mode::Train {
            let mut mean = apply(x, weight, bias.as_ref(), pass)?;
            let bias_variance = bias_sd.map(|sd| sd.square());
            let variance = apply(&x.square(), &weight_sd.square(), bias_variance.as_ref(), pass)?;
            let noise = pass.noise.of(name, &mean)?;
            return Ok(mean.addcmul_(&noise, &(variance + VARIANCE_FLOOR).sqrt_()));
        }
        let mut drawn = |part: &str, mean: &Tensor, sd: &Tensor| {
            let noise = pass.noise.of_weight(&format!("{name}.{part}"), mean);
            noise.map_or_else(|| mean.shallow_clone(), |noise| mean + sd * noise)
        };
        let bias = bias.as_ref().zip(bias_sd.as_ref()).map(|(mean, sd)| drawn("bias", mean, sd));
        let weight = drawn("weight", weight, &weight_sd);
        apply(x, &weight, bias.as_ref(), pass)
    }

    fn is_random(&self) -> bool {
        true
    }
}
