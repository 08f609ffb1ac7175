//! What predicts once the training is over: `[posterior]`.

use fidgp::linearised::{Directions, FitConfig, NoiseLevel, OwnConditional, PriorPrecision, StructureKind};
use serde::{Deserialize, Serialize};

use super::RunConfig;
use crate::error::{LabError, Result};

/// The `[posterior]` section.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", tag = "kind", deny_unknown_fields)]
pub enum PosteriorConfig {
    /// Weights drawn from q, as they were trained: the paper's.
    Flow {},
    /// A Gaussian over the inducing matrices around the centre of q, fitted to the training data after the training.
    Linearised(LinearisedConfig),
}

impl PosteriorConfig {
    /// Whether it is the linearised one.
    pub fn is_linearised(&self) -> bool {
        matches!(self, Self::Linearised(_))
    }
}

/// How the linearised posterior is made.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct LinearisedConfig {
    /// What is linear in what is not known.
    pub directions: DirectionsConfig,
    /// The structure of its covariance.
    pub structure: StructureConfig,
    /// Directions that are kept, for `"low-rank"`.
    pub rank: i64,
    /// The precision of the prior.
    pub prior_precision: PrecisionConfig,
    /// The level of a regression's noise.
    pub noise: NoiseLevelConfig,
    /// What W given U adds.
    pub conditional: ConditionalConfig,
    /// For `"features"`: the mean variance that a logit or number has on the training examples.
    pub variance: f64,
    /// Training examples it is fitted to, taken at random; 0 takes all.
    pub examples: usize,
    /// The layers it is over, by name; all inducing ones where none is named.
    pub layers: Vec<String>,
}

impl Default for LinearisedConfig {
    fn default() -> Self {
        Self {
            directions: DirectionsConfig::Auto,
            structure: StructureConfig::Auto,
            rank: 256,
            prior_precision: PrecisionConfig::Number(1.0),
            noise: NoiseLevelConfig::Trained,
            conditional: ConditionalConfig::Dropped,
            variance: 1.0,
            examples: 0,
            layers: Vec::new(),
        }
    }
}

/// What a linearised posterior is linear in.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum DirectionsConfig {
    /// Features for images, gradients for numbers.
    Auto,
    /// The inducing matrices.
    Gradients,
    /// Readouts of the layers' inducing features.
    Features,
}

/// The structures there are.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum StructureConfig {
    /// Dense where it fits into memory, else Kronecker.
    Auto,
    /// Exact.
    Dense,
    /// A Kronecker product for each layer.
    Kronecker,
    /// The leading directions of the training data.
    LowRank,
    /// Distances of features from those of the classes.
    Classes,
}

/// A precision, or `"evidence"`.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(untagged, expecting = "must be a number greater than 0, or \"evidence\"")]
pub enum PrecisionConfig {
    /// So much; 1 is the whitened prior.
    Number(f64),
    /// Where the evidence is highest.
    Word(Evidence),
}

/// The word for a number that is chosen where the evidence is highest.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Evidence {
    /// The word.
    Evidence,
}

/// Where the level of the noise comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum NoiseLevelConfig {
    /// The training.
    Trained,
    /// The evidence.
    Evidence,
}

/// What W given U adds to the variance.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ConditionalConfig {
    /// Nothing.
    Dropped,
    /// What was trained.
    Kept,
}

impl LinearisedConfig {
    /// The settings of the fit. Of features `auto` are distances from the classes.
    pub fn fit(&self, directions: Directions) -> FitConfig {
        FitConfig {
            structure: match self.structure {
                StructureConfig::Auto if directions == Directions::Features => StructureKind::Classes,
                StructureConfig::Auto => StructureKind::Auto,
                StructureConfig::Dense => StructureKind::Dense,
                StructureConfig::Kronecker => StructureKind::Kronecker,
                StructureConfig::LowRank => StructureKind::LowRank { rank: self.rank },
                StructureConfig::Classes => StructureKind::Classes,
            },
            prior: match self.prior_precision {
                PrecisionConfig::Number(number) => PriorPrecision::Given(number),
                PrecisionConfig::Word(Evidence::Evidence) => PriorPrecision::Evidence,
            },
            noise: match self.noise {
                NoiseLevelConfig::Trained => NoiseLevel::Trained,
                NoiseLevelConfig::Evidence => NoiseLevel::Evidence,
            },
            variance: self.variance,
        }
    }

    /// What is linear, for images or numbers.
    pub fn directions(&self, images: bool) -> Directions {
        match self.directions {
            DirectionsConfig::Auto if images => Directions::Features,
            DirectionsConfig::Auto | DirectionsConfig::Gradients => Directions::Gradients,
            DirectionsConfig::Features => Directions::Features,
        }
    }

    /// What the conditional adds.
    pub fn conditional(&self) -> OwnConditional {
        match self.conditional {
            ConditionalConfig::Dropped => OwnConditional::Dropped,
            ConditionalConfig::Kept => OwnConditional::Kept,
        }
    }
}

impl RunConfig {
    /// The linearised posterior that predicts, where one does.
    pub fn linearised(&self) -> Option<&LinearisedConfig> {
        match &self.posterior {
            Some(PosteriorConfig::Linearised(linearised)) => Some(linearised),
            Some(PosteriorConfig::Flow {}) | None => None,
        }
    }

    /// Refuses what the directions or the task leave without effect.
    fn check_directions(&self, linearised: &LinearisedConfig) -> Result<()> {
        let refused = |key: &str, why: &str| Err(LabError::config(format!("posterior.{key}"), why));
        let is_evidence = matches!(linearised.prior_precision, PrecisionConfig::Word(_));
        let (own_noise, kept) =
            (linearised.noise == NoiseLevelConfig::Evidence, linearised.conditional == ConditionalConfig::Kept);
        if linearised.directions(self.data.has_images()) == Directions::Features {
            if is_evidence {
                let why = "= \"evidence\" has no effect on features, whose level is posterior.variance; set that, or \
                           posterior.directions = \"gradients\"";
                return refused("prior_precision", why);
            }
            if kept {
                let why =
                    "= \"kept\" has no effect on features; leave it out, or set posterior.directions = \"gradients\"";
                return refused("conditional", why);
            }
        } else if linearised.structure == StructureConfig::Classes {
            let why = "= \"classes\" is for features; use posterior.directions = \"features\", or another structure";
            return refused("structure", why);
        }
        if own_noise && (self.predicts_classes() || self.data.has_images()) {
            return refused("noise", "= \"evidence\" is for regressions: classes have no noise level; leave it out");
        }
        Ok(())
    }

    /// Inducing layers to be linearised in, numbers that can be.
    pub(super) fn check_posterior(&self) -> Result<()> {
        let Some(posterior) = &self.posterior else { return Ok(()) };
        if !self.method.about().is_inducing {
            let why = format!("is for methods with inducing layers (fidgp, ffgu), not for \"{}\"", self.method.name());
            return Err(LabError::config("posterior", why));
        }
        let PosteriorConfig::Linearised(linearised) = posterior else { return Ok(()) };
        if self.data.has_masks() {
            let why = "= \"linearised\" is not there for pictures with masks: gradients would need as many backward passes as \
                       pixels times classes for each picture, and features of single pixels are not built; use \"flow\"";
            return Err(LabError::config("posterior.kind", why));
        }
        if !(linearised.variance > 0.0 && linearised.variance.is_finite()) {
            let why = format!("{} must be greater than 0", linearised.variance);
            return Err(LabError::config("posterior.variance", why));
        }
        self.check_directions(linearised)?;
        if linearised.rank < 1 {
            return Err(LabError::config("posterior.rank", format!("{} must be at least 1", linearised.rank)));
        }
        match linearised.prior_precision {
            PrecisionConfig::Number(number) if !(number > 0.0 && number.is_finite()) => {
                let why = format!("{number} must be greater than 0; 1 is the prior of the training");
                Err(LabError::config("posterior.prior_precision", why))
            }
            _ => Ok(()),
        }
    }
}
