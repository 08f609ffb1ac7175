//! A network with its likelihood and its normalisation, as a config describes it.

mod counting;
mod likelihood;
mod network;
mod normalisation;
mod parts;
mod recalibrated;
mod signature;

pub use counting::{Counting, Explained, PlainBytes, cost, plain_bytes, prediction_macs, training_macs};
pub(crate) use counting::{backward_passes, macs_of_prediction};
pub use normalisation::Normalisation;
pub use parts::{OwnPart, Parts};
pub(crate) use recalibrated::recalibrated;
pub use signature::Signature;

use std::collections::BTreeSet;

use fidgp::Key;
use fidgp::layer::{LayerGeometry, Network, NormStatistics};
use fidgp::linearised::{LinearisedLaw, LinearisedPosterior, Tangent};
use fidgp::objective::{Likelihood, Reading};
use fidgp::predict::{Draws, PredictiveLaw, WeightDraws};
use fidgp_metrics::recalibration::Recalibration;
use fidgp_zoo::baseline::temperature::Tempered;
use fidgp_zoo::methods::ensemble::Ensemble;
pub use fidgp_zoo::methods::ensemble::MEMBERS;
use tch::nn::VarStore;
use tch::{Device, Kind, Tensor};

use self::recalibrated::RecalibratedLaw;
use crate::capture::Replayed;
use crate::config::{GraphConfig, RunConfig};
use crate::error::{LabError, Result};

/// What was fitted to the outputs of a network that gives classes.
#[derive(Clone, Debug, PartialEq)]
pub struct Mended {
    /// Logits are divided by it.
    pub temperature: f64,
    /// Then probabilities are mapped with this.
    pub map: Option<Recalibration>,
}

/// A network, its parameters and its likelihood.
#[derive(Debug)]
pub struct Model {
    /// All parameters and buffers by name.
    pub store: VarStore,
    /// The network.
    pub network: Box<dyn Network>,
    /// What its outputs mean.
    pub likelihood: Box<dyn Likelihood>,
    /// How images are normalised: a part of the model, stored with it.
    pub normalisation: Option<Normalisation>,
    /// Its layers as numbers.
    pub geometry: Vec<LayerGeometry>,
    /// The type in which large products are computed; f32 when `None`.
    pub compute: Option<Kind>,
    /// What its logits are divided by in evaluation, where something was fitted.
    pub temperature: Option<f64>,
    /// What its probabilities are mapped with, where something was fitted.
    pub recalibration: Option<Recalibration>,
    /// BatchNorm statistics of the draws that predict, each its own; the running ones are used where there are none.
    pub norms: Vec<NormStatistics>,
    /// The linearised posterior, where one was fitted: it predicts then.
    pub posterior: Option<LinearisedPosterior>,
    /// The processes that measure it together.
    pub parts: Parts,
    /// Variables that are not the network's: the likelihood's and the normalisation's.
    beside: BTreeSet<String>,
}

impl Model {
    /// Builds the network of a config, with parameters from its seed.
    ///
    /// # Errors
    /// When the config's parts do not fit each other or the data.
    pub fn init(config: &RunConfig, signature: &Signature, device: Device) -> Result<Self> {
        signature.check_size().map_err(|exceeded| LabError::config("data", format!("asks for {exceeded}")))?;
        let store = VarStore::new(device);
        let root = store.root();
        let (likelihood, outputs) = likelihood::likelihood(&root, config, signature)?;
        let images = match signature {
            Signature::Classification { statistics, image, .. } => Some((statistics, image[0] as usize)),
            Signature::Segmentation { statistics, .. } => Some((statistics, 3)),
            Signature::Regression { .. } | Signature::Rows { .. } => None,
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
        let beside = store.variables().into_keys().collect();
        let geometry = network::geometry(config, signature, outputs)?;
        network::check_numbers(config, &geometry)?;
        let network = network::network(config, signature, outputs, &root)?;
        let compute = config.compute(device);
        Ok(Self {
            store,
            network,
            likelihood,
            normalisation,
            geometry,
            compute,
            temperature: None,
            recalibration: None,
            norms: Vec::new(),
            posterior: None,
            parts: Parts::default(),
            beside,
        })
    }

    /// Mean negative log-likelihood of a batch; targets are repeated for each member of the network. Scalar.
    pub fn nll(&self, outputs: &Tensor, targets: &Tensor) -> Tensor {
        self.likelihood.nll(outputs, &repeated(outputs, targets))
    }

    /// The same for a part of a batch whose rest others have; `sum` adds up over all parts.
    ///
    /// # Errors
    /// When `sum` fails.
    pub fn nll_of_part(
        &self,
        outputs: &Tensor,
        targets: &Tensor,
        sum: &dyn Fn(&Tensor) -> fidgp::Result<Tensor>,
    ) -> fidgp::Result<Tensor> {
        self.likelihood.nll_of_part(outputs, &repeated(outputs, targets), sum)
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
        if let (Device::Cuda(index), Reading::Classes) = (self.store.device(), self.likelihood.reading()) {
            draws.runner = Box::new(move |passes| Box::new(Replayed::new(passes, index)));
        }
        Ok(draws)
    }

    /// The law that predicts: the linearised posterior where one was fitted, else draws of the weights, of which so many bytes
    /// are kept.
    ///
    /// # Errors
    /// As [`Draws::new`].
    pub fn law(&self, count: u64, key: Key, memory: u64) -> Result<Box<dyn PredictiveLaw>> {
        let law: Box<dyn PredictiveLaw> = match &self.posterior {
            Some(posterior) => Box::new(self.linearised(posterior, key)),
            None => Box::new(WeightDraws::new(self.draws(count, key)?, memory)),
        };
        Ok(match &self.recalibration {
            Some(map) => Box::new(RecalibratedLaw { law, map: map.clone() }),
            None => law,
        })
    }

    /// The law of a linearised posterior, at the model's temperature.
    pub(crate) fn linearised(&self, posterior: &LinearisedPosterior, key: Key) -> LinearisedLaw {
        let law = LinearisedLaw::new(posterior.share(), key, self.compute);
        law.tempered(self.temperature.unwrap_or(1.0))
    }

    /// The network linearised at the centre of its posterior.
    ///
    /// # Errors
    /// As [`Tangent::at_centre`].
    pub fn tangent(&self, posterior: &LinearisedPosterior) -> Result<Tangent<'_>> {
        let mut tangent = self.centre(&posterior.layers)?;
        posterior.set_up(&mut tangent);
        Ok(tangent)
    }

    /// The same for a posterior that is yet to be fitted.
    ///
    /// # Errors
    /// As [`Tangent::at_centre`].
    pub fn centre(&self, layers: &[String]) -> Result<Tangent<'_>> {
        let mut tangent = Tangent::at_centre(self.network.as_ref(), layers)?;
        (tangent.compute, tangent.temperature) = (self.compute, self.temperature.unwrap_or(1.0));
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

    /// Does with outputs what was fitted to them.
    ///
    /// # Errors
    /// When a number cannot be used, or something was set before.
    pub fn mend(&mut self, mended: Mended) -> Result<()> {
        self.temper(mended.temperature)?;
        mended.map.map_or(Ok(()), |map| self.recalibrate(map))
    }

    /// What was fitted to its outputs.
    pub fn mended(&self) -> Option<Mended> {
        self.temperature.map(|temperature| Mended { temperature, map: self.recalibration.clone() })
    }

    /// Maps probabilities from now on.
    ///
    /// # Errors
    /// When its numbers cannot be used.
    pub fn recalibrate(&mut self, map: Recalibration) -> Result<()> {
        map.check().map_err(|error| LabError::config("recalibration", error.to_string()))?;
        self.recalibration = Some(map);
        Ok(())
    }

    /// A graph with what this model makes of its outputs.
    pub(crate) fn fitted(&self, graph: &GraphConfig) -> GraphConfig {
        let head = self.geometry.iter().find(|layer| layer.is_head);
        let logits = self.likelihood.reading().numbers().is_none();
        GraphConfig { outputs: head.map(|layer| layer.operation.widths().0), logits, ..graph.clone() }
    }

    /// Whether a variable is one of the network, not of the likelihood or the normalisation.
    pub fn is_of_network(&self, variable: &str) -> bool {
        !self.beside.contains(variable)
    }

    /// Number of trainable numbers.
    pub fn parameter_count(&self) -> usize {
        self.store.trainable_variables().iter().map(Tensor::numel).sum()
    }
}

/// Targets, once for each member whose outputs stand one after another.
fn repeated(outputs: &Tensor, targets: &Tensor) -> Tensor {
    let members = outputs.size()[0] / targets.size()[0].max(1);
    let times: Vec<_> = std::iter::once(members).chain(targets.size().iter().skip(1).map(|_| 1)).collect();
    if members > 1 { targets.repeat(times) } else { targets.shallow_clone() }
}
