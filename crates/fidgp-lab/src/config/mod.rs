//! What a run is: one TOML file, read strictly, checked, and written back whole beside the results.

mod around;
mod arrays;
mod augment;
mod baseline;
mod check;
mod data;
mod graph;
mod inducing;
mod network;
mod posterior;
mod range;
mod read;
mod segmentation;
mod table;
mod train;

pub use around::around_graph;
pub use arrays::ArraysConfig;
pub use augment::Augment;
pub(crate) use augment::PADDING;
pub use baseline::BaselineConfig;
pub use data::{DataConfig, FolderConfig, NamedNormalisation, NormaliseConfig, UciSplits, imagenet};
pub use graph::{GraphConfig, is_graph};
pub use inducing::InducingPlan;
pub use network::NetworkConfig;
pub use posterior::{
    ConditionalConfig, LinearisedConfig, NoiseLevelConfig, PosteriorConfig, PrecisionConfig, StructureConfig,
};
pub use read::{Override, parse, read};
pub use segmentation::{Layout, PairSets, SegmentationConfig};
pub use table::{Column, Known, TableConfig, TableParts, TargetKind, TargetTransform};
pub use train::{GroupConfig, OptimiserConfig, Precision, ScheduleConfig, Select, TrainConfig, WeightDraws};

pub use fidgp::objective::{ClassWeights, LikelihoodConfig};
use fidgp_zoo::baseline::spectral::SpectralBound;
use fidgp_zoo::methods::deterministic::Deterministic;
use fidgp_zoo::methods::{Passes, Settings};
use fidgp_zoo::plan::HEAD;
use fidgp_zoo::{LayerPlan, Method};
use serde::{Deserialize, Serialize};

use crate::error::{LabError, Result};

/// A whole run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RunConfig {
    /// Name of the run, and of its folder.
    pub name: String,
    /// The method.
    pub method: &'static dyn Method,
    /// Everything random follows from it.
    #[serde(default)]
    pub seed: u64,
    /// What images are normalised with: by default the training images' own statistics, for folders ImageNet's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub normalisation: Option<NormaliseConfig>,
    /// The data.
    pub data: DataConfig,
    /// The network.
    pub network: NetworkConfig,
    /// Trained weights to start from; a random start without it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub start: Option<StartConfig>,
    /// How its layers are made Bayesian; not for the deterministic method.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub inducing: Option<InducingPlan>,
    /// The settings of a method that is neither plain nor inducing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub baseline: Option<BaselineConfig>,
    /// What predicts once the training is over.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub posterior: Option<PosteriorConfig>,
    /// The likelihood.
    pub likelihood: LikelihoodConfig,
    /// The training.
    pub train: TrainConfig,
    /// The prediction.
    #[serde(default)]
    pub predict: PredictConfig,
}

/// Where the weights come from.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct StartConfig {
    /// Weights of the plain network: .safetensors (a checkpoint of ours too), .pt or .pth. Bayesian layers start at their
    /// best fit of the inducing rank.
    pub weights: std::path::PathBuf,
    /// Training images whose BatchNorm statistics replace the stored ones, which truncation has made stale; 0 keeps them.
    #[serde(default = "StartConfig::default_images")]
    pub statistics_images: usize,
    /// The file is a classifier's: take the backbone from it and start the heads at random.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub backbone: bool,
}

impl StartConfig {
    /// Training images for the BatchNorm statistics, where nothing is said.
    pub fn default_images() -> usize {
        5000
    }
}

/// The least number of images whose statistics say anything.
pub(crate) const LEAST_STATISTICS_IMAGES: usize = 16;

/// The prediction.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct PredictConfig {
    /// K, the weight draws at test.
    pub draws: u64,
    /// Draws for the validation NLL during training.
    pub validation_draws: u64,
    /// Examples in a batch.
    pub batch_size: usize,
    /// Image classification: training images on which BatchNorm statistics of each draw's own are estimated; 0 uses the
    /// running ones.
    pub statistics_images: usize,
    /// Segmentation: larger pictures are covered by windows of this height and width.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub window: Option<[i64; 2]>,
}

impl Default for PredictConfig {
    fn default() -> Self {
        Self { draws: 8, validation_draws: 1, batch_size: 1000, statistics_images: 0, window: None }
    }
}

impl RunConfig {
    /// The type in which large products are computed on a device; `None` for f32.
    pub fn compute(&self, device: tch::Device) -> Option<tch::Kind> {
        match self.train.precision {
            Precision::Bf16 => Some(tch::Kind::BFloat16),
            Precision::Auto if self.data.has_images() && device.is_cuda() => Some(tch::Kind::BFloat16),
            _ => None,
        }
    }

    /// Whether classes are predicted, of whole inputs.
    pub fn predicts_classes(&self) -> bool {
        matches!(self.likelihood, LikelihoodConfig::Categorical(_))
    }

    /// What a table's target is.
    pub fn target_kind(&self) -> TargetKind {
        if self.predicts_classes() { TargetKind::Classes } else { TargetKind::Number }
    }

    /// Which layer gets which kind of weight.
    pub fn layer_plan(&self) -> LayerPlan {
        let plan = self.inducing.as_ref().map_or_else(LayerPlan::dense, InducingPlan::layer_plan);
        let plan = match self.network.spectral_norm() {
            Some(bound) => plan.custom("*", SpectralBound(bound)).dense_layers(HEAD),
            None => plan,
        };
        self.method.plan(plan, self.settings())
    }

    /// The settings of the method, where it has such.
    pub fn settings(&self) -> Option<&dyn Settings> {
        self.baseline.as_ref().map(BaselineConfig::settings)
    }

    /// Networks that are trained or predict together: K of an ensemble, else 1.
    pub fn members(&self) -> i64 {
        self.settings().map_or(1, Settings::members)
    }

    /// Networks that are stored: K of a deep ensemble, else 1.
    pub fn copies(&self) -> i64 {
        if self.method.about().trains_members_by.is_some() { self.members() } else { 1 }
    }

    /// Forward passes that make one prediction: weight draws or members; one where a linearised posterior predicts, which draws
    /// no weights.
    pub fn passes(&self) -> u64 {
        if self.linearised().is_some() {
            return 1;
        }
        match self.method.about().passes {
            Passes::One => 1,
            Passes::Members => self.members() as u64,
            Passes::Draws => self.predict.draws,
        }
    }

    /// The training with the groups of the method, which those of the config override.
    pub fn training(&self) -> TrainConfig {
        let own = self.settings().map_or_else(Vec::new, Settings::groups);
        let groups = own.into_iter().map(GroupConfig::from).chain(self.train.groups.iter().cloned()).collect();
        TrainConfig { groups, ..self.train.clone() }
    }

    /// The plain network of the same config.
    #[must_use]
    pub fn plain(&self) -> Self {
        Self { method: &Deterministic, inducing: None, baseline: None, ..self.clone() }
    }

    /// Whether a run was begun with this config: what is open here, the data may have filled in there.
    pub fn has_begun(&self, run: &Self) -> bool {
        let mut filled = Self { data: self.data.filled_from(&run.data), ..self.clone() };
        if let (LikelihoodConfig::Categorical(own), LikelihoodConfig::Categorical(run)) =
            (&mut filled.likelihood, &run.likelihood)
            && matches!(own.class_weights, Some(ClassWeights::Named(_) | ClassWeights::Rule(_)))
        {
            own.class_weights.clone_from(&run.class_weights);
        }
        filled == *run
    }

    /// The same with a weight for each class, of which there are so many training examples.
    ///
    /// # Errors
    /// When a weight is for a class that is not there.
    pub fn with_class_weights(mut self, classes: &[String], labels: impl Iterator<Item = usize>) -> Result<Self> {
        if let LikelihoodConfig::Categorical(settings) = &mut self.likelihood
            && let Some(weights) = &settings.class_weights
        {
            let mut counts = vec![0; classes.len()];
            for label in labels {
                counts[label] += 1;
            }
            settings.class_weights = Some(ClassWeights::Each(weights.of_classes(classes, &counts)?));
        }
        Ok(self)
    }

    /// The config as it is written beside the results.
    ///
    /// # Errors
    /// Never in practice: every field has a TOML form.
    pub fn to_toml(&self) -> Result<String> {
        toml::to_string_pretty(self).map_err(|error| LabError::config("config", error.to_string()))
    }
}
