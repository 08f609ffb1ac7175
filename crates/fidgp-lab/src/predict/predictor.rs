//! What predicts: a trained model with all that its predictions are made from.

use fidgp::Key;
use fidgp::layer::Pass;
use fidgp::linearised::LOGIT_DRAWS;
use fidgp::predict::{Effort, PredictiveLaw, WeightDraws};
use tch::Tensor;

use super::Trained;
use crate::error::{LabError, Result};

/// A trained model that predicts. It owns the network, and the law of its outputs: the factors of its weights and the draws that
/// fit into memory, made when they are first needed and used from then on. It reads no files, and may move to another thread;
/// behind a mutex, or on a worker thread, it serves many.
///
/// A prediction depends on the model, the inputs and the effort, not on what was predicted before. Where a method draws noise on
/// the outputs of layers, it also depends on the number of the batch of 64 and the place in it that an input has.
#[derive(Debug)]
pub struct Predictor {
    pub(super) trained: Trained,
    pub(super) law: Box<dyn PredictiveLaw>,
    /// The network at the centre of its posterior, once somebody asked for features.
    pub(super) centre: Option<Pass>,
}

impl Predictor {
    /// With draws of the weights, by default as many as the model's config says, and of which so many bytes are kept: the draws
    /// of an evaluation of the run.
    ///
    /// # Errors
    /// When a parameter is not finite, a covariance cannot be factorised, or there are more draws than known statistics.
    pub fn new(trained: Trained, draws: Option<u64>, memory: u64) -> Result<Self> {
        let count = draws.unwrap_or(trained.config.predict.draws);
        let key = Key::new(trained.config.seed).fold("predict");
        let law = trained.model.law(count, key, memory)?;
        Ok(Self::with_law(trained, law))
    }

    /// With another law of the network's outputs.
    pub fn with_law(trained: Trained, law: Box<dyn PredictiveLaw>) -> Self {
        Self { trained, law, centre: None }
    }

    /// The model.
    pub fn trained(&self) -> &Trained {
        &self.trained
    }

    /// Draws that a prediction of this effort is the mean of, at most: of the weights, or with a linearised posterior of the
    /// logits; 0 for numbers in closed form.
    pub fn draws(&self, effort: Effort) -> u64 {
        let Trained { model, config, .. } = &self.trained;
        let asked = effort.draws.unwrap_or(config.predict.draws);
        match (&model.posterior, model.likelihood.reading().numbers()) {
            (None, _) => asked,
            (Some(_), Some(_)) => 0,
            (Some(_), None) => effort.draws.map_or(LOGIT_DRAWS, |asked| asked.max(LOGIT_DRAWS)),
        }
    }

    /// What predictions are the mean of, in words.
    pub fn basis(&self, draws: u64) -> String {
        match &self.trained.model.posterior {
            None => format!("weight draws: {draws}"),
            Some(posterior) if draws == 0 => posterior.words() + ", in closed form",
            Some(posterior) => format!("{}, draws of the logits: {draws}", posterior.words()),
        }
    }

    /// The same predictor for a model that was changed: its draws are made anew.
    pub(crate) fn changed(&mut self, change: impl FnOnce(&mut Trained) -> Result<()>) -> Result<()> {
        change(&mut self.trained)?;
        let (count, key) = (self.trained.config.predict.draws, Key::new(self.trained.config.seed).fold("predict"));
        self.law = self.trained.model.law(count, key, WeightDraws::MEMORY)?;
        Ok(())
    }

    /// The model, to be changed: what was made from it is gone.
    pub fn into_trained(self) -> Trained {
        self.trained
    }
}

/// Numbers of a tensor.
pub(super) fn numbers(tensor: &Tensor) -> Result<Vec<f64>> {
    Ok(Vec::try_from(tensor.to_kind(tch::Kind::Double).to_device(tch::Device::Cpu).reshape([-1]))?)
}

/// What is said of inputs that the model does not take.
pub(super) fn other_inputs(given: &Tensor, takes: &str) -> LabError {
    LabError::config("inputs", format!("are {:?}, the model takes {takes}", given.size()))
}
