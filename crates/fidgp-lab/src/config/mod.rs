//! What a run is: one TOML file, read strictly, checked, and written back whole beside the results.

mod data;
mod inducing;
mod read;

pub use data::{DataConfig, FolderConfig, NamedNormalisation, NormaliseConfig, imagenet};
pub use inducing::InducingPlan;
pub use read::{Override, parse, read};

use fidgp::objective::{KlSchedule, NoiseConfig};
use fidgp_zoo::{Activation, Depth, LayerPlan, Stem};
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
    /// The likelihood.
    pub likelihood: LikelihoodConfig,
    /// The training.
    pub train: TrainConfig,
    /// The prediction.
    #[serde(default)]
    pub predict: PredictConfig,
}

/// The methods there are.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Method {
    /// Plain weights.
    Deterministic,
    /// Inducing weights with a diagonal Gaussian posterior.
    Ffgu,
    /// Inducing weights with a flow posterior (or another family named in `inducing.posterior`).
    Fidgp,
}

impl Method {
    /// As it stands in configs and results.
    pub fn name(self) -> &'static str {
        match self {
            Self::Deterministic => "deterministic",
            Self::Ffgu => "ffgu",
            Self::Fidgp => "fidgp",
        }
    }
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
    },
    /// ResNet-20, 32, 44, 56 or 110 for 32×32 images, with option-A shortcuts.
    ResnetCifar {
        /// 6n + 2.
        depth: i64,
    },
}

fn resnet_width() -> i64 {
    64
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
}

impl StartConfig {
    /// Training images for the BatchNorm statistics, where nothing is said.
    pub fn default_images() -> usize {
        5000
    }
}

/// The likelihoods there are.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
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
}

impl Default for PredictConfig {
    fn default() -> Self {
        Self { draws: 8, validation_draws: 1, batch_size: 1000 }
    }
}

impl RunConfig {
    /// Checks what the types cannot say.
    ///
    /// # Errors
    /// Names the first key that does not fit, and what would.
    pub fn check(&self) -> Result<()> {
        let train = &self.train;
        if self.name.is_empty() || self.name.contains(['/', '\\']) || self.name.starts_with('.') {
            return Err(LabError::config("name", format!("`{}` must be usable as a folder name", self.name)));
        }
        if train.epochs == 0 || train.batch_size == 0 || self.predict.batch_size == 0 {
            return Err(LabError::config("train.epochs, train.batch_size, predict.batch_size", "must be at least 1"));
        }
        if self.predict.draws == 0 || self.predict.validation_draws == 0 {
            return Err(LabError::config("predict.draws", "must be at least 1; 8 is usual"));
        }
        let rate = train.optimiser.learning_rate();
        if rate <= 0.0 || !rate.is_finite() {
            return Err(LabError::config("train.optimiser.learning_rate", format!("{rate} must be greater than 0")));
        }
        let not_positive = |number: &f64| *number <= 0.0 || !number.is_finite();
        if let Some(limit) = train.clip_norm.filter(not_positive) {
            return Err(LabError::config(
                "train.clip_norm",
                format!("{limit} must be greater than 0; leave it out for no limit"),
            ));
        }
        train.schedule.check(train.epochs as f64)?;
        train.kl.check(train.epochs as f64)?;
        self.check_data()?;
        self.check_method()?;
        self.check_selection()
    }

    /// Something to train on and to test on, a start where there is one, BatchNorm never alone with one example.
    fn check_data(&self) -> Result<()> {
        let mut smallest = self.train.batch_size;
        if let DataConfig::Synthetic1d { train, test, .. } = self.data {
            if train == 0 || test == 0 {
                return Err(LabError::config("data.train, data.test", "must be at least 1"));
            }
            smallest = smallest.min(train);
        }
        if let DataConfig::Folder(folder) = &self.data {
            folder.check()?;
            if matches!(self.normalisation, Some(NormaliseConfig::Named(NamedNormalisation::Data))) {
                let why = "= \"data\" would decode the whole folder first; use \"imagenet\" or give mean and sd";
                return Err(LabError::config("normalisation", why));
            }
        }
        for (section, given) in [("start", self.start.is_some()), ("normalisation", self.normalisation.is_some())] {
            if given && !self.data.has_images() {
                return Err(LabError::config(section, "is for image networks only"));
            }
        }
        self.normalisation.as_ref().map_or(Ok(()), NormaliseConfig::check)?;
        let normalised = !matches!(self.network, NetworkConfig::Mlp { batch_norm: false, .. });
        if normalised && smallest < 2 {
            return Err(LabError::config(
                "train.batch_size",
                "must be at least 2: BatchNorm has no statistics of a single example",
            ));
        }
        Ok(())
    }

    fn check_method(&self) -> Result<()> {
        match (self.method, &self.inducing) {
            (Method::Deterministic, Some(_)) => {
                Err(LabError::config("inducing", "is set, but method = \"deterministic\" has no inducing weights"))
            }
            (Method::Ffgu | Method::Fidgp, None) => {
                Err(LabError::config("inducing", format!("is missing; method = \"{}\" needs it", self.method.name())))
            }
            (Method::Ffgu, Some(plan)) if !plan.is_ffgu() => {
                Err(LabError::config("inducing.posterior", "must be the diagonal family for method = \"ffgu\""))
            }
            (Method::Fidgp, Some(plan)) if plan.is_ffgu() => {
                Err(LabError::config("inducing.posterior", "is the diagonal family: that is method = \"ffgu\""))
            }
            _ => Ok(()),
        }
    }

    fn check_selection(&self) -> Result<()> {
        let fraction = self.data.validation_fraction();
        if let Some(fraction) = fraction.filter(|fraction| !(0.0..1.0).contains(fraction)) {
            return Err(LabError::config("data.validation_fraction", format!("{fraction} must lie in [0, 1)")));
        }
        let without_validation = match self.data {
            DataConfig::Synthetic1d { validation, .. } => validation == 0,
            _ => fraction == Some(0.0),
        };
        if self.train.select == Select::Best && (without_validation || self.train.validate_every == 0) {
            return Err(LabError::config(
                "train.select",
                "= \"best\" needs validation data and train.validate_every ≥ 1",
            ));
        }
        Ok(())
    }

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
        self.inducing.as_ref().map_or_else(LayerPlan::dense, InducingPlan::layer_plan)
    }

    /// The config as it is written beside the results.
    ///
    /// # Errors
    /// Never in practice: every field has a TOML form.
    pub fn to_toml(&self) -> Result<String> {
        toml::to_string_pretty(self).map_err(|error| LabError::config("config", error.to_string()))
    }
}
