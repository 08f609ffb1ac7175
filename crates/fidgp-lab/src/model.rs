//! A network with its likelihood and its normalisation, as a config describes it.

use fidgp::Key;
use fidgp::layer::{Curvature, Network, NormStatistics};
use fidgp::objective::{Gaussian, categorical_curvature, categorical_nll, pixel_nll};
use fidgp::predict::Draws;
use fidgp_data::ChannelStatistics;
pub use fidgp_zoo::Explained;
use fidgp_zoo::baseline::members::{Ensemble, Tiled};
use fidgp_zoo::baseline::temperature::Tempered;
pub use fidgp_zoo::cost::Counting;
use fidgp_zoo::cost::{Cost, LayerCost, stage_of};
use fidgp_zoo::fcn;
use fidgp_zoo::{FcnConfig, HrnetConfig, LayerGeometry, LayerKind, MlpConfig, ResnetCifarConfig, ResnetConfig};
use tch::nn::{Path, VarStore};
use tch::{Device, Kind, Tensor};

use crate::config::{
    BaselineConfig, DataConfig, LikelihoodConfig, Method, NetworkConfig, RunConfig, SegmentationConfig,
};
use crate::error::{LabError, Result};
use crate::predict::Replayed;

/// Under which a deep ensemble keeps its members: in the names of its variables, and in its run folder.
pub const MEMBERS: &str = "members";

/// What a network is for.
#[derive(Clone, Debug, PartialEq)]
pub enum Signature {
    /// Features in, a number out.
    Regression {
        /// Columns of the input.
        features: i64,
    },
    /// Images in, a class out.
    Classification {
        /// Channels, height, width.
        image: [i64; 3],
        /// Number of classes.
        classes: i64,
        /// What images are normalised with.
        statistics: ChannelStatistics,
    },
    /// Colour pictures of any size in, a class for every pixel out.
    Segmentation {
        /// Height and width of what training sees.
        crop: [i64; 2],
        /// Number of classes.
        classes: i64,
        /// What pictures are normalised with.
        statistics: ChannelStatistics,
    },
}

impl Signature {
    /// What the data set of a config has, known without reading it; somebody must say what one's own images are like.
    ///
    /// # Errors
    /// When the data set is not known, or nobody says how many classes there are, or how large arrays are.
    pub fn expected(config: &RunConfig, classes: Option<usize>) -> Result<Self> {
        let images = |image: [i64; 3], classes: i64| {
            let unknown = vec![0.0; image[0] as usize];
            let statistics = ChannelStatistics { mean: unknown.clone(), sd: unknown };
            Self::Classification { image, classes, statistics }
        };
        let unread =
            |key: &str, way: &str| LabError::config(key, format!("is missing: the folder is not read here, so {way}"));
        let count = |said: Option<usize>| {
            let count = classes.or(said).ok_or_else(|| unread("data.classes", "say how many it holds"))?;
            Ok::<_, LabError>(count as i64)
        };
        match &config.data {
            DataConfig::Synthetic1d { .. } => Ok(Self::Regression { features: 1 }),
            DataConfig::Uci { name, .. } => {
                Ok(Self::Regression { features: fidgp_data::uci::find(name)?.columns as i64 })
            }
            DataConfig::Table(table) => match &table.features {
                Some(features) => Ok(Self::Regression { features: features.len() as i64 }),
                None => Err(LabError::config(
                    "data.features",
                    "is missing: the table is not read here, so name the columns that the network takes",
                )),
            },
            DataConfig::Images { name, .. } => match name.as_str() {
                "cifar100" => Ok(images([3, 32, 32], 100)),
                "cifar10" | "svhn" => Ok(images([3, 32, 32], 10)),
                "mnist" | "fashion-mnist" | "notmnist" => Ok(images([1, 28, 28], 10)),
                other => {
                    Err(LabError::config("data.name", format!("`{other}` is not known; `fidgp data` lists the sets")))
                }
            },
            DataConfig::Folder(folder) => {
                let side = i64::from(folder.crop);
                Ok(images([3, side, side], count(folder.classes)?))
            }
            DataConfig::Arrays(arrays) => {
                let image = arrays.image.ok_or_else(|| {
                    unread("data.image", "say [channels, height, width], such as image = [3, 32, 32]")
                })?;
                Ok(images(image.map(|size| size as i64), count(arrays.classes)?))
            }
            DataConfig::Segmentation(pairs) => Ok(Self::of_pairs(config, pairs)),
        }
    }

    /// The signature of a network for pictures with masks.
    pub fn of_pairs(config: &RunConfig, pairs: &SegmentationConfig) -> Self {
        let given = config.normalisation.as_ref().and_then(crate::config::NormaliseConfig::statistics);
        Self::Segmentation {
            crop: pairs.crop,
            classes: pairs.class_count() as i64,
            statistics: given.unwrap_or_else(crate::config::imagenet),
        }
    }

    /// Height and width of an input; 1×1 for a table.
    fn input(&self) -> [i64; 2] {
        match self {
            Self::Regression { .. } => [1, 1],
            Self::Classification { image, .. } => [image[1], image[2]],
            Self::Segmentation { crop, .. } => *crop,
        }
    }
}

/// A network, its parameters and its likelihood.
#[derive(Debug)]
pub struct Model {
    /// All parameters and buffers by name.
    pub store: VarStore,
    /// The network.
    pub network: Box<dyn Network>,
    /// What its outputs mean.
    pub likelihood: Likelihood,
    /// How images are normalised: a part of the model, stored with it.
    pub normalisation: Option<Normalisation>,
    /// Its layers as numbers.
    pub geometry: Vec<LayerGeometry>,
    /// The type in which large products are computed; f32 when `None`.
    pub compute: Option<Kind>,
    /// What its logits are divided by in evaluation, where something was fitted.
    pub temperature: Option<f64>,
    /// BatchNorm statistics of the draws that predict, each its own; the running ones are used where there are none.
    pub norms: Vec<NormStatistics>,
}

/// What a network's outputs mean.
#[derive(Debug)]
pub enum Likelihood {
    /// Mean (and perhaps deviation) of a number.
    Gaussian(Gaussian),
    /// Logits of classes.
    Categorical {
        /// Label smoothing in training.
        smoothing: f64,
    },
    /// Logits of classes for every pixel.
    Pixels(Pixels),
}

/// What the outputs of a segmentation network mean.
#[derive(Debug)]
pub struct Pixels {
    /// Number of classes.
    pub classes: i64,
    /// Outputs of the head; those of the auxiliary head stand behind them in training.
    outputs: i64,
    /// Weight of the auxiliary head's loss.
    aux_weight: f64,
    /// How much a pixel of each class counts. `[classes]`
    weights: Option<Tensor>,
}

impl Pixels {
    /// Loss of the head, and of the auxiliary head where it has spoken. Scalar.
    fn nll(&self, outputs: &Tensor, targets: &Tensor) -> Tensor {
        let of = |first: i64| pixel_nll(&outputs.narrow(1, first, self.classes), targets, self.weights.as_ref());
        if outputs.size()[1] > self.outputs { of(0) + of(self.outputs) * self.aux_weight } else { of(0) }
    }
}

impl Likelihood {
    /// Mean negative log-likelihood of a batch; targets are repeated for each member of the network. Scalar.
    pub fn nll(&self, outputs: &Tensor, targets: &Tensor) -> Tensor {
        let members = outputs.size()[0] / targets.size()[0].max(1);
        let times: Vec<_> = std::iter::once(members).chain(targets.size().iter().skip(1).map(|_| 1)).collect();
        let repeated = if members > 1 { targets.repeat(times) } else { targets.shallow_clone() };
        let targets = &repeated;
        match self {
            Self::Gaussian(gaussian) => gaussian.nll(outputs, targets),
            Self::Categorical { smoothing } => categorical_nll(outputs, targets, *smoothing),
            Self::Pixels(pixels) => pixels.nll(outputs, targets),
        }
    }

    /// Expected second derivatives of the NLL by the outputs. `[N, K]`
    pub fn curvature(&self, outputs: &Tensor) -> Curvature {
        match self {
            Self::Gaussian(gaussian) => gaussian.curvature(outputs),
            Self::Categorical { .. } | Self::Pixels(_) => categorical_curvature(outputs),
        }
    }
}

/// `(x/255 − mean)/sd` for each channel.
#[derive(Debug)]
pub struct Normalisation {
    mean: Tensor,
    sd: Tensor,
}

impl Normalisation {
    /// Buffers `input.mean` and `input.sd`.
    fn init(path: &Path, statistics: &ChannelStatistics) -> Self {
        let buffer = |name: &str, values: &[f64]| {
            let values = Tensor::from_slice(values).to_kind(path.kind()).to_device(path.device());
            path.add(name, values, false)
        };
        Self { mean: buffer("mean", &statistics.mean), sd: buffer("sd", &statistics.sd) }
    }

    /// Other means and deviations of the channels, on the scale where 255 is 1; buffers of no store.
    #[must_use]
    pub fn with(&self, mean: &[f64], sd: &[f64]) -> Self {
        let buffer =
            |values: &[f64], like: &Tensor| Tensor::from_slice(values).to_kind(like.kind()).to_device(like.device());
        Self { mean: buffer(mean, &self.mean), sd: buffer(sd, &self.sd) }
    }

    /// The same buffers.
    #[must_use]
    pub fn share(&self) -> Self {
        Self { mean: self.mean.shallow_clone(), sd: self.sd.shallow_clone() }
    }

    /// Mean and deviation of each channel, on the scale where 255 is 1. `[C]`, `[C]`
    pub fn statistics(&self) -> (&Tensor, &Tensor) {
        (&self.mean, &self.sd)
    }

    /// # Shapes
    /// `[N, C, H, W]`, 0 … 255 → the same, about standard
    pub fn apply(&self, pixels: &Tensor) -> Tensor {
        let channel = |values: &Tensor| values.view([1, -1, 1, 1]) * 255.0;
        (pixels - channel(&self.mean)) / channel(&self.sd)
    }
}

impl Model {
    /// Builds the network of a config, with parameters from its seed.
    ///
    /// # Errors
    /// When the config's parts do not fit each other or the data.
    pub fn init(config: &RunConfig, signature: &Signature, device: Device) -> Result<Self> {
        let store = VarStore::new(device);
        let root = store.root();
        let (likelihood, outputs) = likelihood(&root, config, signature)?;
        let images = match signature {
            Signature::Classification { statistics, image, .. } => Some((statistics, image[0] as usize)),
            Signature::Segmentation { statistics, .. } => Some((statistics, 3)),
            Signature::Regression { .. } => None,
        };
        let normalisation = match images {
            Some((statistics, channels)) => {
                if statistics.mean.len() != channels {
                    let why = format!("has {} channels, the images have {channels}", statistics.mean.len());
                    return Err(LabError::config("normalisation", why));
                }
                Some(Normalisation::init(&(&root / "input"), statistics))
            }
            None => None,
        };
        let zoo = zoo_network(config, signature, outputs)?;
        let geometry = zoo.geometry(signature.input());
        check_numbers(config, &geometry)?;
        let network = network(config, &zoo, &root)?;
        let compute = config.compute(device);
        Ok(Self { store, network, likelihood, normalisation, geometry, compute, temperature: None, norms: Vec::new() })
    }

    /// Passes for K draws.
    ///
    /// # Errors
    /// As [`Draws::new`].
    pub fn draws(&self, count: u64, key: Key) -> Result<Draws<'_>> {
        let mut draws = Draws::new(self.network.as_ref(), count, key)?;
        draws.compute = self.compute;
        if !self.norms.is_empty() {
            draws.set_norms(&self.norms)?;
        }
        if let (Device::Cuda(index), Likelihood::Categorical { .. }) = (self.store.device(), &self.likelihood) {
            draws.runner = Box::new(move |passes| Box::new(Replayed::new(passes, index)));
        }
        Ok(draws)
    }

    /// Divides the logits by a temperature from now on, in evaluation.
    ///
    /// # Errors
    /// When the temperature is not positive, or there is one already.
    pub fn temper(&mut self, temperature: f64) -> Result<()> {
        Tempered::check(temperature)?;
        if self.temperature.replace(temperature).is_some() {
            return Err(LabError::config("temperature", "was set before"));
        }
        let nothing: Box<dyn Network> = Box::new(Ensemble { networks: Vec::new() });
        let network = std::mem::replace(&mut self.network, nothing);
        self.network = Box::new(Tempered { network, temperature });
        Ok(())
    }

    /// Number of trainable numbers.
    pub fn parameter_count(&self) -> usize {
        self.store.trainable_variables().iter().map(Tensor::numel).sum()
    }
}

/// Refuses a network that no machine holds, before memory is asked for.
fn check_numbers(config: &RunConfig, geometry: &[LayerGeometry]) -> Result<()> {
    const MOST: i64 = 1 << 32;
    let cost = fidgp_zoo::cost::cost(geometry, &config.layer_plan(), Counting::Ours)?;
    let numbers_of = |layer: &LayerCost| layer.parameters + layer.state;
    let heaviest = cost.layers.iter().max_by_key(|layer| numbers_of(layer));
    let numbers = (cost.parameters + cost.state).saturating_mul(config.copies());
    match heaviest.filter(|_| numbers > MOST) {
        Some(layer) => {
            let why = format!(
                "has {numbers} numbers to store, {} of them of a layer called `{}`: more than memory holds",
                numbers_of(layer),
                layer.name
            );
            Err(LabError::config("network", why))
        }
        None => Ok(()),
    }
}

fn likelihood(root: &Path, config: &RunConfig, signature: &Signature) -> Result<(Likelihood, i64)> {
    match (&config.likelihood, signature) {
        (LikelihoodConfig::Gaussian { noise }, Signature::Regression { .. }) => {
            let path = root / "likelihood";
            let gaussian = match config.copies() {
                1 => Gaussian::init(&path, *noise)?,
                members => Gaussian::of_members(&path, *noise, members)?,
            };
            Ok((Likelihood::Gaussian(gaussian), Gaussian::outputs(*noise)))
        }
        (LikelihoodConfig::Categorical { smoothing }, Signature::Classification { classes, .. }) => {
            Ok((Likelihood::Categorical { smoothing: *smoothing }, *classes))
        }
        (LikelihoodConfig::Pixels { aux_weight, class_weights }, Signature::Segmentation { classes, .. }) => {
            let outputs = match config.network {
                NetworkConfig::Fcn { outputs: Some(outputs), .. } => outputs,
                _ => *classes,
            };
            if outputs < *classes {
                let why = format!("{outputs} is less than the {classes} classes of the data");
                return Err(LabError::config("network.outputs", why));
            }
            let to =
                |weights: &Vec<f64>| Tensor::from_slice(weights).to_kind(tch::Kind::Float).to_device(root.device());
            let weights = class_weights.as_ref().map(to);
            Ok((Likelihood::Pixels(Pixels { classes: *classes, outputs, aux_weight: *aux_weight, weights }), outputs))
        }
        (other, _) => {
            let given = match other {
                LikelihoodConfig::Gaussian { .. } => "gaussian",
                LikelihoodConfig::Categorical { .. } => "categorical",
                LikelihoodConfig::Pixels { .. } => "pixels",
            };
            let (what, fits) = match signature {
                Signature::Regression { .. } => ("a number", "gaussian"),
                Signature::Classification { .. } => ("class labels", "categorical"),
                Signature::Segmentation { .. } => ("masks", "pixels"),
            };
            Err(LabError::config("likelihood.kind", format!("= \"{given}\" does not fit {what}; use \"{fits}\"")))
        }
    }
}

/// Builds the network, or the members of one.
fn network(config: &RunConfig, zoo: &fidgp_zoo::NetworkConfig, root: &Path) -> Result<Box<dyn Network>> {
    let (plan, key) = (config.layer_plan(), Key::new(config.seed).fold("init"));
    Ok(match config.baseline {
        Some(BaselineConfig::Ensemble { members }) => {
            let member = |k: i64| zoo.init(&(root / MEMBERS / k), &plan, key.at(k as u64));
            Box::new(Ensemble { networks: (0..members).map(member).collect::<fidgp_zoo::Result<_>>()? })
        }
        Some(BaselineConfig::BatchEnsemble { members, .. }) => {
            Box::new(Tiled { network: zoo.init(root, &plan, key)?, members })
        }
        _ => zoo.init(root, &plan, key)?,
    })
}

/// The network of a config as the zoo knows it.
fn zoo_network(config: &RunConfig, signature: &Signature, outputs: i64) -> Result<fidgp_zoo::NetworkConfig> {
    match (&config.network, signature) {
        (NetworkConfig::Mlp { hidden, activation, batch_norm, .. }, Signature::Regression { features }) => {
            Ok(fidgp_zoo::NetworkConfig::Mlp(MlpConfig {
                inputs: *features,
                hidden: hidden.clone(),
                outputs,
                activation: *activation,
                batch_norm: *batch_norm,
            }))
        }
        (NetworkConfig::Resnet { depth, stem, width, .. }, Signature::Classification { image, .. }) => {
            Ok(fidgp_zoo::NetworkConfig::Resnet(ResnetConfig {
                depth: *depth,
                stem: *stem,
                classes: outputs,
                channels: image[0],
                width: *width,
            }))
        }
        (NetworkConfig::ResnetCifar { .. }, Signature::Classification { image, .. }) if image[0] != 3 => {
            Err(LabError::config("network.kind", "= \"resnet-cifar\" takes colour images; use \"resnet\" for these"))
        }
        (NetworkConfig::ResnetCifar { depth, .. }, Signature::Classification { .. }) => {
            let config = ResnetCifarConfig { depth: *depth, classes: outputs, ..ResnetCifarConfig::default() };
            Ok(fidgp_zoo::NetworkConfig::ResnetCifar(config))
        }
        (NetworkConfig::Fcn { depth, width, aux_outputs, .. }, Signature::Segmentation { classes, .. }) => {
            let aux_outputs = aux_outputs.unwrap_or(outputs);
            if aux_outputs != 0 && aux_outputs < *classes {
                let why =
                    format!("{aux_outputs} is less than the {classes} classes of the data; 0 is no auxiliary head");
                return Err(LabError::config("network.aux_outputs", why));
            }
            let config = FcnConfig { depth: *depth, width: *width, outputs, aux_outputs, channels: 3 };
            Ok(fidgp_zoo::NetworkConfig::Fcn(config))
        }
        (NetworkConfig::Hrnet { width }, Signature::Segmentation { .. }) => {
            Ok(fidgp_zoo::NetworkConfig::Hrnet(HrnetConfig { width: *width, outputs, channels: 3 }))
        }
        (_, Signature::Segmentation { .. }) => {
            Err(LabError::config("network.kind", "gives no class for every pixel; use \"fcn\" or \"hrnet\" for masks"))
        }
        (NetworkConfig::Fcn { .. } | NetworkConfig::Hrnet { .. }, _) => {
            Err(LabError::config("network.kind", "is for data.set = \"segmentation\""))
        }
        (NetworkConfig::Mlp { .. }, _) => {
            Err(LabError::config("network.kind", "= \"mlp\" takes tables; use \"resnet\" for images"))
        }
        _ => Err(LabError::config("network.kind", "takes images; use \"mlp\" for tables")),
    }
}

/// What a config costs, counted without data or tensors.
///
/// # Errors
/// When the config's parts do not fit each other.
pub fn cost(config: &RunConfig, counting: Counting) -> Result<Cost> {
    let signature = Signature::expected(config, None)?;
    let (_, outputs) = likelihood(&VarStore::new(Device::Cpu).root(), config, &signature)?;
    let geometry = zoo_network(config, &signature, outputs)?.geometry(signature.input());
    Ok(fidgp_zoo::cost::cost(&geometry, &config.layer_plan(), counting)?.times(config.copies()))
}

/// Multiply-accumulates of a prediction of so many inputs with all its passes, factors made before: of an image network, what
/// stands before the first block that is random is computed once. An auxiliary head runs in training alone; its weights are drawn.
///
/// # Errors
/// As [`cost`].
pub fn prediction_macs(config: &RunConfig, inputs: i64) -> Result<i64> {
    Ok(macs_of_prediction(config, &cost(config, Counting::Ours)?, inputs))
}

/// The same for a config whose [`cost`] is known.
pub(crate) fn macs_of_prediction(config: &RunConfig, cost: &Cost, inputs: i64) -> i64 {
    let plan = config.layer_plan();
    let own = |kind: LayerKind, name: &str| plan.baseline_for(name, kind).is_some_and(|slot| slot.is_random());
    let random = |layer: &&LayerCost| {
        layer.draw.is_some() || [LayerKind::Conv, LayerKind::Linear].iter().any(|kind| own(*kind, &layer.name))
    };
    let block = |layer: &LayerCost| stage_of(&layer.name).to_owned();
    let drawn = cost.layers.iter().find(random).filter(|_| config.data.has_images()).map(block);
    let shared = |drawn: String| cost.layers.iter().take_while(|layer| block(layer) != drawn).count();
    let once = drawn.map_or(0, shared);
    let runs = |layer: &LayerCost| i64::from(!layer.name.starts_with(fcn::AUX));
    let macs = |layer: &LayerCost| runs(layer) * inputs * layer.macs_ours + layer.draw_ours();
    let sum = |layers: &[LayerCost]| layers.iter().map(macs).sum::<i64>();
    sum(&cost.layers[..once]) + config.passes() as i64 * sum(&cost.layers[once..])
}

/// Multiply-accumulates of a training step on so many inputs: factors, draw and network, each once forwards and, counted as
/// twice that, backwards. None for methods that do more, or less, in a step.
///
/// # Errors
/// As [`cost`].
pub fn training_macs(config: &RunConfig, inputs: i64) -> Result<Option<i64>> {
    if !(config.method.is_inducing() || config.method == Method::Deterministic) {
        return Ok(None);
    }
    let cost = cost(config, Counting::Ours)?;
    let layers = cost.layers.iter().map(|layer| inputs * layer.macs_ours + layer.draw_ours());
    Ok(Some(3 * (cost.factor_macs + layers.sum::<i64>())))
}
