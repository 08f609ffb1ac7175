//! The settings of the methods FiD-GP is compared with: `[baseline]`, whose `kind` follows from the method.

use fidgp_zoo::baseline::batch_ensemble::BatchEnsembleConfig;
use fidgp_zoo::baseline::dropout::DropoutConfig;
use fidgp_zoo::baseline::laplace::{LaplaceConfig, Structure};
use fidgp_zoo::baseline::mean_field::MeanFieldConfig;
use fidgp_zoo::baseline::slot::BaselineSlot;
use fidgp_zoo::baseline::sngp::SngpConfig;
use fidgp_zoo::baseline::svgp_head::SvgpConfig;
use fidgp_zoo::plan::{FIRST, HEAD};
use fidgp_zoo::{LayerPlan, RuleSlot};
use serde::{Deserialize, Serialize};

use super::GroupConfig;
use crate::error::{LabError, Result};

/// The `[baseline]` section.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", tag = "kind", deny_unknown_fields)]
pub enum BaselineConfig {
    /// MC dropout.
    Dropout {
        /// Layers whose inputs are dropped: names or patterns.
        #[serde(default = "everywhere")]
        layers: Vec<String>,
        /// p.
        #[serde(default = "dropout_rate")]
        rate: f64,
        /// Whether the network's own inputs, those of its first layer, are dropped too.
        #[serde(default)]
        inputs: bool,
    },
    /// Mean-field variational inference.
    MeanField {
        /// Bayesian layers: names or patterns.
        #[serde(default = "everywhere")]
        layers: Vec<String>,
        /// σ at the start.
        #[serde(default = "init_sd")]
        init_sd: f64,
        /// Its upper bound.
        #[serde(default = "max_sd")]
        max_sd: f64,
        /// Prior deviation of a weight, before width scaling.
        #[serde(default = "prior_sd")]
        prior_sd: f64,
        /// Divide it by √d_in.
        #[serde(default)]
        sqrt_width_scaling: bool,
    },
    /// BatchEnsemble.
    BatchEnsemble {
        /// K.
        #[serde(default = "batch_members")]
        members: i64,
        /// Deviation of α and γ around 1 at the start.
        #[serde(default = "fast_sd")]
        init_sd: f64,
        /// What the learning rate of α and γ is multiplied by.
        #[serde(default = "fast_rate")]
        fast_rate: f64,
        /// L2 penalty on what members share: kernels and BatchNorm's scales.
        #[serde(default = "shared_decay")]
        weight_decay: f64,
    },
    /// A deep ensemble.
    Ensemble {
        /// K.
        #[serde(default = "members")]
        members: i64,
    },
    /// A Gaussian process in random features as the last layer.
    Sngp {
        /// D, the random features.
        #[serde(default = "random_features")]
        features: i64,
        /// Diagonal of the precision before any data.
        #[serde(default = "ridge")]
        ridge: f64,
        /// λ of the logits `/√(1 + λ·variance)`.
        #[serde(default = "mean_field_factor")]
        mean_field_factor: f64,
        /// Lengthscale of the kernel, in units of √n.
        #[serde(default = "lengthscale")]
        lengthscale: f64,
    },
    /// Sparse variational Gaussian processes as the last layer.
    Svgp {
        /// M; the number of classes when none is given.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        inducing_points: Option<i64>,
        /// Draws of the processes in a training step.
        #[serde(default = "process_draws")]
        samples: i64,
    },
    /// A Laplace posterior of the last layer.
    Laplace {
        /// What is kept of the curvature.
        #[serde(default)]
        structure: Structure,
        /// δ; by the evidence when none is given.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        prior_precision: Option<f64>,
    },
}

fn everywhere() -> Vec<String> {
    vec!["*".to_owned()]
}
fn dropout_rate() -> f64 {
    DropoutConfig::default().rate
}
fn init_sd() -> f64 {
    MeanFieldConfig::default().init_sd
}
fn max_sd() -> f64 {
    MeanFieldConfig::default().max_sd
}
fn prior_sd() -> f64 {
    MeanFieldConfig::default().prior_sd
}
fn batch_members() -> i64 {
    BatchEnsembleConfig::default().members
}
fn fast_sd() -> f64 {
    BatchEnsembleConfig::default().init_sd
}
fn fast_rate() -> f64 {
    0.5
}
fn shared_decay() -> f64 {
    3e-4
}
fn members() -> i64 {
    5
}
fn random_features() -> i64 {
    SngpConfig::default().features
}
fn ridge() -> f64 {
    SngpConfig::default().ridge
}
fn process_draws() -> i64 {
    SvgpConfig::default().samples
}
fn mean_field_factor() -> f64 {
    SngpConfig::default().mean_field_factor
}
fn lengthscale() -> f64 {
    SngpConfig::default().lengthscale
}

impl BaselineConfig {
    /// As `kind` has it.
    pub fn kind(&self) -> &'static str {
        match self {
            Self::Dropout { .. } => "dropout",
            Self::MeanField { .. } => "mean-field",
            Self::BatchEnsemble { .. } => "batch-ensemble",
            Self::Ensemble { .. } => "ensemble",
            Self::Sngp { .. } => "sngp",
            Self::Svgp { .. } => "svgp",
            Self::Laplace { .. } => "laplace",
        }
    }

    /// Checks the numbers.
    ///
    /// # Errors
    /// Names the key that does not fit, and what would.
    pub fn check(&self) -> Result<()> {
        let in_section = |error: fidgp_zoo::Error| LabError::config("baseline", format!("does not fit: {error}"));
        match self {
            Self::Ensemble { members } if *members < 1 => {
                Err(LabError::config("baseline.members", format!("{members} must be at least 1; 5 is usual")))
            }
            Self::BatchEnsemble { fast_rate, weight_decay, .. }
                if !(*fast_rate >= 0.0
                    && *weight_decay >= 0.0
                    && fast_rate.is_finite()
                    && weight_decay.is_finite()) =>
            {
                Err(LabError::config("baseline.fast_rate, baseline.weight_decay", "must be at least 0"))
            }
            Self::Dropout { layers, .. } | Self::MeanField { layers, .. } if layers.is_empty() => {
                Err(LabError::config("baseline.layers", "must be a list of layer names or patterns, such as [\"*\"]"))
            }
            _ => match self.slot() {
                Some(BaselineSlot::Dropout(config)) => config.check().map_err(in_section),
                Some(BaselineSlot::MeanField(config)) => config.check().map_err(in_section),
                Some(BaselineSlot::BatchEnsemble(config)) => config.check().map_err(in_section),
                Some(BaselineSlot::Sngp(config)) => config.check().map_err(in_section),
                Some(BaselineSlot::Svgp(config)) => config.check().map_err(in_section),
                Some(BaselineSlot::Laplace(config)) => config.check().map_err(in_section),
                Some(BaselineSlot::Spectral(_) | BaselineSlot::Ddu) | None => Ok(()),
            },
        }
    }

    /// Adds its weights to a plan.
    pub(super) fn plan(&self, plan: LayerPlan) -> LayerPlan {
        let (everywhere, head) = (everywhere(), vec![HEAD.to_owned()]);
        let layers = match self {
            Self::Dropout { layers, .. } | Self::MeanField { layers, .. } => layers,
            Self::BatchEnsemble { .. } | Self::Ensemble { .. } => &everywhere,
            Self::Sngp { .. } | Self::Svgp { .. } | Self::Laplace { .. } => &head,
        };
        let Some(slot) = self.slot() else { return plan };
        let plan = layers.iter().fold(plan, |plan, layers| plan.rule(layers, None, RuleSlot::Baseline(slot)));
        let spared = matches!(self, Self::Dropout { inputs: false, .. });
        if spared { plan.dense_layers(FIRST) } else { plan }
    }

    fn slot(&self) -> Option<BaselineSlot> {
        match *self {
            Self::Dropout { rate, .. } => Some(BaselineSlot::Dropout(DropoutConfig { rate })),
            Self::MeanField { init_sd, max_sd, prior_sd, sqrt_width_scaling, .. } => {
                Some(BaselineSlot::MeanField(MeanFieldConfig { init_sd, max_sd, prior_sd, sqrt_width_scaling }))
            }
            Self::BatchEnsemble { members, init_sd, .. } => {
                Some(BaselineSlot::BatchEnsemble(BatchEnsembleConfig { members, init_sd }))
            }
            Self::Sngp { features, ridge, mean_field_factor, lengthscale } => {
                Some(BaselineSlot::Sngp(SngpConfig { features, ridge, mean_field_factor, lengthscale }))
            }
            Self::Svgp { inducing_points, samples } => {
                Some(BaselineSlot::Svgp(SvgpConfig { inducing_points, samples }))
            }
            Self::Laplace { structure, prior_precision } => {
                Some(BaselineSlot::Laplace(LaplaceConfig { structure, prior_precision }))
            }
            Self::Ensemble { .. } => None,
        }
    }

    /// Parameters that learn at a rate of their own, before those of the config.
    pub(super) fn groups(&self) -> Vec<GroupConfig> {
        let Self::BatchEnsemble { fast_rate, weight_decay, .. } = self else { return Vec::new() };
        let group = |patterns: &[&str], rate, weight_decay| GroupConfig {
            parameters: patterns.iter().map(ToString::to_string).collect(),
            rate,
            weight_decay,
        };
        vec![
            group(&["*.weight"], 1.0, Some(*weight_decay)),
            group(&["*.input_scale", "*.output_scale"], *fast_rate, Some(0.0)),
        ]
    }
}
