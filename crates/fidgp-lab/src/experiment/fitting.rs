//! A network fitted to a task: the same steps whatever the task.

use std::sync::atomic::AtomicBool;
use std::time::Instant;

use tch::Device;

use super::inert::warn_of_alignment;
use super::linearise::fit_linearised;
use super::members::{Place, Training};
use super::posthoc::{fit_posthoc, prepare};
use super::task::{HeldOut, Measure, SplitRole, Task, Want};
use super::{norms, start};
use crate::error::Result;
use crate::model::{Model, Parts, Signature};
use crate::run_folder::norms::keep;
use crate::run_folder::posterior::forget_before_training;
use crate::source::Source;
use crate::train::{Outcome, Watch};

/// A task's training and validation examples, as a model sees them that is ready to be trained.
pub struct Fitting<'a> {
    task: &'a dyn Task,
    signature: Signature,
    train: Box<dyn Source + 'a>,
    validation: Option<Measure<'a>>,
}

impl<'a> Fitting<'a> {
    /// Makes a network and, unless its training is gone on with, gets it ready: weights to start from, heads that look at the
    /// data first.
    ///
    /// # Errors
    /// When the examples do not fit the network, or the weights do not.
    pub fn new(task: &'a dyn Task, (device, parts): (Device, Parts), resume: bool) -> Result<(Self, Model)> {
        let (config, signature) = (task.config(), task.signature()?);
        let mut model = Model::init(config, &signature, device)?;
        model.parts = parts;
        let train = task.examples(&model, SplitRole::Training)?;
        warn_of_alignment(config, &model);
        if !resume {
            start::run(config, &model, &signature, train.as_ref())?;
            prepare(config, &model, train.as_ref())?;
        }
        let validation = task.measure(HeldOut::Validation, &model)?;
        Ok((Self { task, signature, train, validation }, model))
    }

    /// How many observations the likelihood counts.
    pub fn observations(&self) -> usize {
        self.train.observations()
    }

    /// Trains the model, then fits what is fitted when a training is over, by every process: a posterior each its part, the rest
    /// each the whole. None where only a member of an ensemble was trained.
    ///
    /// # Errors
    /// When training or disk fail, or the user stops it.
    pub fn run(
        &self,
        model: &mut Model,
        place: &Place,
        (stop, resume_command): (&AtomicBool, &str),
        watch: &mut dyn Watch,
    ) -> Result<Option<Outcome>> {
        let config = self.task.config();
        let validate = |model: &Model| self.validate(model);
        let training = Training {
            config,
            model,
            signature: &self.signature,
            source: self.train.as_ref(),
            validate: self.validation.is_some().then_some(&validate),
            stop,
            resume_command,
        };
        if let Some(run) = place.folder.as_deref().filter(|_| place.resume) {
            forget_before_training(config, run)?;
        }
        let Some(outcome) = training.run(place, watch)? else { return Ok(None) };
        let (fitting, run) = (Instant::now(), place.folder.as_deref());
        fit_posthoc(config, model, self.train.as_ref(), run)?;
        norms::estimate(config, model, self.train.as_ref())?;
        run.map_or(Ok(()), |run| keep(config, model, run))?;
        fit_linearised(config, model, self.train.as_ref(), run)?;
        Ok(Some(outcome.and(fitting.elapsed())))
    }

    /// What epochs are chosen by.
    fn validate(&self, model: &Model) -> Result<f64> {
        let Some(measure) = &self.validation else { return Ok(f64::INFINITY) };
        let measured = measure(model, self.task.config().predict.validation_draws, Want::Metrics)?;
        Ok(measured.metrics.get(self.task.chosen_by()).copied().flatten().unwrap_or(f64::INFINITY))
    }
}
