//! A network with its likelihood and its normalisation, as a config describes it.

use fidgp::Key;
use fidgp::layer::{Curvature, LayerGeometry, Network, NormStatistics, blocks_before_randomness, trace};
use fidgp::linearised::{LinearisedPosterior, OwnConditional, Tangent};
use fidgp::objective::{Gaussian, categorical_curvature, categorical_nll, pixel_nll};
use fidgp::predict::Draws;
use fidgp_data::ChannelStatistics;
pub use fidgp_zoo::Explained;
use fidgp_zoo::baseline::members::{Ensemble, Tiled};
use fidgp_zoo::baseline::temperature::Tempered;
pub use fidgp_zoo::cost::Counting;
use fidgp_zoo::cost::{Cost, LayerCost};
use fidgp_zoo::{Takes, bayesianise, build};
use tch::nn::{Path, VarStore};
use tch::{Device, Kind, Tensor};

use crate::capture::Replayed;
use crate::config::{BaselineConfig, DataConfig, LikelihoodConfig, Method, RunConfig, SegmentationConfig};
use crate::error::{LabError, Result};

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

    /// The shape of an input, without the batch.
    fn input(&self) -> Vec<i64> {
        match self {
            Self::Regression { features } => vec![*features],
            Self::Classification { image, .. } => image.to_vec(),
            Self::Segmentation { crop, .. } => vec![3, crop[0], crop[1]],
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
    /// The linearised posterior, where one was fitted: it predicts then.
    pub posterior: Option<LinearisedPosterior>,
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
        let geometry = geometry(config, signature, outputs)?;
        check_numbers(config, &geometry)?;
        let network = network(config, signature, outputs, &root)?;
        let compute = config.compute(device);
        Ok(Self {
            store,
            network,
            likelihood,
            normalisation,
            geometry,
            compute,
            temperature: None,
            norms: Vec::new(),
            posterior: None,
        })
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

    /// The network linearised at the centre of its posterior.
    ///
    /// # Errors
    /// As [`Tangent::at_centre`].
    pub fn tangent(&self, layers: &[String], conditional: OwnConditional) -> Result<Tangent<'_>> {
        let mut tangent = Tangent::at_centre(self.network.as_ref(), layers)?;
        (tangent.conditional, tangent.compute) = (conditional, self.compute);
        Ok(tangent)
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

/// The layers of one network of a config, traced without numbers.
fn geometry(config: &RunConfig, signature: &Signature, outputs: i64) -> Result<Vec<LayerGeometry>> {
    let mut network = plain(config, signature, outputs)?;
    bayesianise(&mut network, &config.layer_plan())?;
    Ok(trace(&network, &signature.input())?)
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

/// The likelihood of a config, and the outputs it needs of the network.
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
            let outputs = config.network.outputs(*classes);
            if outputs < *classes {
                let why = format!("{outputs} is less than the {classes} classes of the data");
                return Err(LabError::config("network.outputs", why));
            }
            let to =
                |weights: &Vec<f64>| Tensor::from_slice(weights).to_kind(tch::Kind::Float).to_device(root.device());
            let weights = class_weights.as_ref().map(to);
            Ok((Likelihood::Pixels(Pixels { classes: *classes, outputs, aux_weight: *aux_weight, weights }), *classes))
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
fn network(config: &RunConfig, signature: &Signature, outputs: i64, root: &Path) -> Result<Box<dyn Network>> {
    let (plan, key) = (config.layer_plan(), Key::new(config.seed).fold("init"));
    let one = |path: &Path, key: Key| Ok::<_, LabError>(build(plain(config, signature, outputs)?, path, &plan, key)?);
    Ok(match config.baseline {
        Some(BaselineConfig::Ensemble { members }) => {
            let member = |k: i64| one(&(root / MEMBERS / k), key.at(k as u64));
            Box::new(Ensemble { networks: (0..members).map(member).collect::<Result<_>>()? })
        }
        Some(BaselineConfig::BatchEnsemble { members, .. }) => Box::new(Tiled { network: one(root, key)?, members }),
        _ => one(root, key)?,
    })
}

/// The plain network of a config, without numbers, with so many outputs for data of this kind.
fn plain(config: &RunConfig, signature: &Signature, outputs: i64) -> Result<Box<dyn Network>> {
    let misfit = |why: &str| Err(LabError::config("network.kind", why));
    match (config.network.takes(), signature) {
        (Takes::Table, Signature::Regression { .. })
        | (Takes::Images, Signature::Classification { .. })
        | (Takes::TableOrImages, Signature::Regression { .. } | Signature::Classification { .. })
        | (Takes::Pixels, Signature::Segmentation { .. }) => {
            let mut network = config.network.clone();
            network.fit(&signature.input(), outputs)?;
            Ok(network.network()?)
        }
        (_, Signature::Segmentation { .. }) => {
            misfit("gives no class for every pixel; use \"fcn\" or \"hrnet\" for masks")
        }
        (Takes::Pixels, _) => misfit("is for data.set = \"segmentation\""),
        (Takes::Table, _) => misfit("= \"mlp\" takes tables; use \"resnet\" for images"),
        (Takes::Images, _) => misfit("takes images; use \"mlp\" for tables"),
    }
}

/// What a config costs, counted without data or tensors.
///
/// # Errors
/// When the config's parts do not fit each other.
pub fn cost(config: &RunConfig, counting: Counting) -> Result<Cost> {
    let signature = Signature::expected(config, None)?;
    let (_, outputs) = likelihood(&VarStore::new(Device::Cpu).root(), config, &signature)?;
    let geometry = geometry(config, &signature, outputs)?;
    Ok(fidgp_zoo::cost::cost(&geometry, &config.layer_plan(), counting)?.times(config.copies()))
}

/// Multiply-accumulates of a prediction of so many inputs with all its passes, factors made before: blocks that
/// stand before the first random layer are computed once. An auxiliary head runs in training alone; its weights are drawn.
///
/// # Errors
/// As [`cost`].
pub fn prediction_macs(config: &RunConfig, inputs: i64) -> Result<i64> {
    Ok(macs_of_prediction(config, &cost(config, Counting::Ours)?, inputs))
}

/// The same for a config whose [`cost`] is known.
pub(crate) fn macs_of_prediction(config: &RunConfig, cost: &Cost, inputs: i64) -> i64 {
    let untouched = blocks_before_randomness(cost.layers.iter().map(|layer| &layer.geometry));
    let macs = |layer: &LayerCost| {
        let inputs = if layer.geometry.training_only { 0 } else { inputs };
        let once = layer.geometry.in_block && layer.geometry.blocks_before < untouched;
        (if once { 1 } else { config.passes() as i64 }) * (inputs * layer.macs_ours + layer.draw_ours())
    };
    cost.layers.iter().map(macs).sum()
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
