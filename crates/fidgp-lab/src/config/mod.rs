//! What a run is: one TOML file, read strictly, checked, and written back whole beside the results.

mod arrays;
mod baseline;
mod check;
mod data;
mod inducing;
mod method;
mod read;
mod segmentation;
mod table;

pub use arrays::ArraysConfig;
pub use baseline::BaselineConfig;
pub use data::{DataConfig, FolderConfig, NamedNormalisation, NormaliseConfig, imagenet};
pub use inducing::InducingPlan;
pub use method::Method;
pub use read::{Override, parse, read};
pub use segmentation::{Layout, PairSets, SegmentationConfig};
pub use table::{Column, TableConfig, TableParts};

use fidgp::objective::{KlSchedule, NoiseConfig};
use fidgp_zoo::baseline::slot::BaselineSlot;
use fidgp_zoo::{Activation, Depth, LayerPlan, RuleSlot, Stem};
use serde::{Deserialize, Serialize};

use crate::error::{LabError, Result};
use crate::train::{GroupConfig, OptimiserConfig, ScheduleConfig};

/// A whole run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RunConfig {
    /// Name of the run, and of its folder.
    pub name: String,
    /// The method.
    pub method: Method,
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
    /// The likelihood.
    pub likelihood: LikelihoodConfig,
    /// The training.
    pub train: TrainConfig,
    /// The prediction.
    #[serde(default)]
    pub predict: PredictConfig,
}

/// The networks there are.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", tag = "kind", deny_unknown_fields)]
pub enum NetworkConfig {
    /// Linear–BatchNorm–activation blocks and a linear head.
    Mlp {
        /// Widths of the hidden layers.
        hidden: Vec<i64>,
        /// The activation.
        activation: Activation,
        /// Whether blocks have BatchNorm.
        batch_norm: bool,
        /// Upper bound of the spectral norm of every layer but the last.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        spectral_norm: Option<f64>,
    },
    /// ResNet-18, 34 or 50 under torchvision's names.
    Resnet {
        /// 18, 34 or 50.
        depth: Depth,
        /// How the image enters: cifar (32×32) or imagenet (224×224).
        stem: Stem,
        /// Channels of the first stage.
        #[serde(default = "resnet_width")]
        width: i64,
        /// Upper bound of the spectral norm of every layer but the last.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        spectral_norm: Option<f64>,
    },
    /// ResNet-20, 32, 44, 56 or 110 for 32×32 images, with option-A shortcuts.
    ResnetCifar {
        /// 6n + 2.
        depth: i64,
        /// Upper bound of the spectral norm of every layer but the last.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        spectral_norm: Option<f64>,
    },
    /// A fully convolutional network on a dilated ResNet, for segmentation, under torchvision's names.
    Fcn {
        /// 18, 34 or 50.
        depth: Depth,
        /// Channels of the backbone's first stage.
        #[serde(default = "resnet_width")]
        width: i64,
        /// Outputs that the head stores; as many as there are classes without it.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        outputs: Option<i64>,
        /// Outputs that the auxiliary head stores, 0 for none; as many as the head without it.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        aux_outputs: Option<i64>,
    },
    /// HRNetV2, for segmentation, under the released names.
    Hrnet {
        /// Channels of the branch of the highest resolution.
        #[serde(default = "hrnet_width")]
        width: i64,
    },
}

impl NetworkConfig {
    /// Whether it gives a class for every pixel.
    pub fn segments(&self) -> bool {
        matches!(self, Self::Fcn { .. } | Self::Hrnet { .. })
    }

    /// The bound on its layers' spectral norms; the last layer is spared.
    pub fn spectral_norm(&self) -> Option<f64> {
        match self {
            Self::Mlp { spectral_norm, .. }
            | Self::Resnet { spectral_norm, .. }
            | Self::ResnetCifar { spectral_norm, .. } => *spectral_norm,
            Self::Fcn { .. } | Self::Hrnet { .. } => None,
        }
    }

    /// The same network without a bound on its layers.
    #[must_use]
    pub fn unbounded(mut self) -> Self {
        if let Self::Mlp { spectral_norm, .. }
        | Self::Resnet { spectral_norm, .. }
        | Self::ResnetCifar { spectral_norm, .. } = &mut self
        {
            *spectral_norm = None;
        }
        self
    }

    /// The name of its first layer.
    fn first(&self) -> &'static str {
        match self {
            Self::Mlp { .. } => "fc1",
            Self::Resnet { .. } | Self::ResnetCifar { .. } | Self::Hrnet { .. } => "conv1",
            Self::Fcn { .. } => "backbone.conv1",
        }
    }

    /// The name of its last layer.
    fn head(&self) -> String {
        match self {
            Self::Mlp { hidden, .. } => format!("fc{}", hidden.len() + 1),
            Self::Resnet { .. } => "fc".to_owned(),
            Self::ResnetCifar { .. } => "linear".to_owned(),
            Self::Fcn { .. } => "classifier.4".to_owned(),
            Self::Hrnet { .. } => "last_layer.3".to_owned(),
        }
    }
}

fn resnet_width() -> i64 {
    64
}

fn hrnet_width() -> i64 {
    48
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

/// The likelihoods there are.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", tag = "kind", deny_unknown_fields)]
pub enum LikelihoodConfig {
    /// `y ~ N(f(x), σ²)`.
    Gaussian {
        /// Where σ comes from, in units of the standardised target.
        noise: NoiseConfig,
    },
    /// Class probabilities.
    Categorical {
        /// Label smoothing.
        #[serde(default)]
        smoothing: f64,
    },
    /// Class probabilities of every pixel, independent of each other given the weights; void pixels do not count.
    Pixels {
        /// Weight of the auxiliary head's loss.
        #[serde(default = "half")]
        aux_weight: f64,
        /// How much a pixel of each class counts in training.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        class_weights: Option<Vec<f64>>,
    },
}

fn half() -> f64 {
    0.5
}

/// The training.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TrainConfig {
    /// Passes over the training data.
    pub epochs: u64,
    /// Examples in a step.
    pub batch_size: usize,
    /// The optimiser.
    pub optimiser: OptimiserConfig,
    /// Parameters with a learning rate or decay of their own.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub groups: Vec<GroupConfig>,
    /// The learning rate over time.
    #[serde(default = "constant")]
    pub schedule: ScheduleConfig,
    /// The KL's weight over time.
    #[serde(default)]
    pub kl: KlSchedule,
    /// Largest norm of a gradient.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub clip_norm: Option<f64>,
    /// ρ of a sharpness-aware step: the NLL's gradient is taken at `θ + ρ g/‖g‖`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sharpness: Option<f64>,
    /// From this epoch on BatchNorm uses its running statistics in training as well. A weight draw moves the statistics
    /// of its batch, and normalising with them hides that from the likelihood; prediction, with running statistics,
    /// would then see more noise than training did.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub freeze_norm_epoch: Option<f64>,
    /// Epochs between validations (and records); 0 for none.
    #[serde(default = "one")]
    pub validate_every: u64,
    /// Epochs between checkpoints, beside the one at the end; 0 for none at all.
    #[serde(default = "one")]
    pub checkpoint_every: u64,
    /// Which epoch is kept.
    #[serde(default)]
    pub select: Select,
    /// In which type large products are computed in training.
    #[serde(default)]
    pub precision: Precision,
    /// On CUDA, capture the step as a graph and replay it.
    #[serde(default = "yes")]
    pub capture: bool,
}

fn yes() -> bool {
    true
}

/// In which type large products are computed; factorisations, draws and the KL always stay in f32.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Precision {
    /// bf16 on CUDA for image networks, f32 elsewhere.
    #[default]
    Auto,
    /// f32.
    F32,
    /// bf16.
    Bf16,
}

/// Which epoch the results are of.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Select {
    /// The last one.
    #[default]
    Last,
    /// The one with the lowest validation NLL among those with the full KL weight.
    Best,
}

fn constant() -> ScheduleConfig {
    ScheduleConfig::Constant
}

fn one() -> u64 {
    1
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

    /// Which layer gets which kind of weight.
    pub fn layer_plan(&self) -> LayerPlan {
        let plan = self.inducing.as_ref().map_or_else(LayerPlan::dense, InducingPlan::layer_plan);
        let plan = match self.network.spectral_norm() {
            Some(bound) => {
                let bounded = RuleSlot::Baseline(BaselineSlot::Spectral(bound));
                plan.rule("*", None, bounded).dense_layers(&self.network.head())
            }
            None => plan,
        };
        let plan = match self.method {
            Method::Ddu => plan.rule(&self.network.head(), None, RuleSlot::Baseline(BaselineSlot::Ddu)),
            _ => plan,
        };
        self.baseline
            .iter()
            .fold(plan, |plan, baseline| baseline.plan(plan, self.network.first(), &self.network.head()))
    }

    /// Networks that are trained or predict together: K of an ensemble, else 1.
    pub fn members(&self) -> i64 {
        match self.baseline {
            Some(BaselineConfig::Ensemble { members } | BaselineConfig::BatchEnsemble { members, .. }) => members,
            _ => 1,
        }
    }

    /// Networks that are stored: K of a deep ensemble, else 1.
    pub fn copies(&self) -> i64 {
        if self.method == Method::Ensemble { self.members() } else { 1 }
    }

    /// Passes that make one prediction: weight draws or members.
    pub fn passes(&self) -> u64 {
        match self.method {
            Method::Deterministic | Method::Sngp | Method::Ddu => 1,
            Method::Ensemble | Method::BatchEnsemble => self.members() as u64,
            Method::McDropout | Method::MeanField | Method::FSgvbLrt | Method::Ffgu | Method::Fidgp => {
                self.predict.draws
            }
            Method::Svgp | Method::Due | Method::Laplace => self.predict.draws,
        }
    }

    /// The training with the groups of the method, which those of the config override.
    pub fn training(&self) -> TrainConfig {
        let own = self.baseline.iter().flat_map(BaselineConfig::groups);
        let groups = own.chain(self.train.groups.iter().cloned()).collect();
        TrainConfig { groups, ..self.train.clone() }
    }

    /// Whether a run was begun with this config: what is open here, the data may have filled in there.
    pub fn has_begun(&self, run: &Self) -> bool {
        Self { data: self.data.filled_from(&run.data), ..self.clone() } == *run
    }

    /// The config as it is written beside the results.
    ///
    /// # Errors
    /// Never in practice: every field has a TOML form.
    pub fn to_toml(&self) -> Result<String> {
        toml::to_string_pretty(self).map_err(|error| LabError::config("config", error.to_string()))
    }
}
