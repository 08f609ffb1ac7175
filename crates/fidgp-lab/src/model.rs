//! A network with its likelihood, as a config describes it.

use fidgp::Key;
use fidgp::layer::Network;
use fidgp::objective::{Gaussian, categorical_nll};
use fidgp_zoo::{LayerGeometry, MlpConfig};
use tch::nn::VarStore;
use tch::{Device, Tensor};

use crate::config::{LikelihoodConfig, NetworkConfig, RunConfig};
use crate::error::{LabError, Result};

/// What a network is for: the shape of its input and the number of classes, if there are any.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Signature {
    /// Features in, a number out.
    Regression {
        /// Columns of the input.
        features: i64,
    },
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
    /// Its layers as numbers.
    pub geometry: Vec<LayerGeometry>,
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
}

impl Likelihood {
    /// Mean negative log-likelihood of a batch. Scalar.
    pub fn nll(&self, outputs: &Tensor, targets: &Tensor) -> Tensor {
        match self {
            Self::Gaussian(gaussian) => gaussian.nll(outputs, targets),
            Self::Categorical { smoothing } => categorical_nll(outputs, targets, *smoothing),
        }
    }
}

impl Model {
    /// Builds the network of a config, with parameters from its seed.
    ///
    /// # Errors
    /// When the config's parts do not fit each other or the data.
    pub fn init(config: &RunConfig, signature: &Signature, device: Device) -> Result<Self> {
        let store = VarStore::new(device);
        let (root, key) = (store.root(), Key::new(config.seed).fold("init"));
        let (likelihood, outputs) = match config.likelihood {
            LikelihoodConfig::Gaussian { noise } => (Likelihood::Gaussian(Gaussian::init(&(&root / "likelihood"), noise)?), Gaussian::outputs(noise)),
            LikelihoodConfig::Categorical { .. } => {
                return Err(LabError::config("likelihood.kind", "= \"categorical\" does not fit a regression data set; use \"gaussian\""));
            }
        };
        let Signature::Regression { features } = *signature;
        let NetworkConfig::Mlp { hidden, activation, batch_norm } = config.network.clone();
        let mlp = MlpConfig { inputs: features, hidden, outputs, activation, batch_norm };
        let network = Box::new(mlp.init(&root, &config.layer_plan(), key)?);
        Ok(Self { geometry: mlp.geometry(), network, likelihood, store })
    }

    /// Number of trainable numbers.
    pub fn parameter_count(&self) -> usize {
        self.store.trainable_variables().iter().map(Tensor::numel).sum()
    }
}
