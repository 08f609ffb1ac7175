//! The training loop.

use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use fidgp::Key;
use fidgp::layer::Mode;
use fidgp::objective::DatasetSize;
use tch::{Kind, Tensor};

use super::checkpoint::{self, Progress};
use super::culprit::{broken_layer, cause, culprit, not_finite_parameters};
use super::group::{Joined, LEAST_MASS, Part, Pieces, Rows, Share, rows as rows_of_part};
use super::optimiser::Optimiser;
use super::step::{StepInput, Stepper};
use super::window::{PARTS, Window};
use crate::config::{Select, TrainConfig};
use crate::error::{LabError, Result};
use crate::model::Model;
use crate::record::{EpochRecord, Metrics};
use crate::source::{Asked, Source};

/// What is said to be kept of a training that has no folder of its own: a split of a table.
pub const NO_FOLDER: &str = "splits that are done are kept, the others begin anew";

/// Steps between looks at the loss on CUDA: a look waits for the device.
const CUDA_LOOK_EVERY: usize = 25;

/// Who watches a training: a progress bar, a log, nobody.
pub trait Watch {
    /// After every step that was looked at: epoch, step in the epoch, steps per epoch, mean loss so far.
    fn step(&mut self, epoch: u64, step: u64, steps: u64, loss: f64) {
        let _ = (epoch, step, steps, loss);
    }

    /// After every epoch.
    fn epoch(&mut self, record: &EpochRecord) {
        let _ = record;
    }

    /// What is done now, where it may take long.
    fn says(&mut self, what: &str) {
        let _ = what;
    }
}

/// Nobody watches.
impl Watch for () {}

/// How a training ended.
#[derive(Debug)]
pub struct Outcome {
    /// Where it stands.
    pub progress: Progress,
    /// Seconds of training, earlier parts of a resumed one included.
    pub seconds: f64,
}

impl Outcome {
    /// The same with what was fitted after the steps.
    #[must_use]
    pub fn and(self, fitting: Duration) -> Self {
        Self { seconds: self.seconds + fitting.as_secs_f64(), ..self }
    }
}

/// Validation NLL of a model as it is.
pub type Validate<'a> = dyn Fn(&Model) -> Result<f64> + 'a;

/// A training that is about to run.
pub struct Fit<'a> {
    /// What is trained.
    pub model: &'a Model,
    /// How.
    pub config: &'a TrainConfig,
    /// The root of all its randomness.
    pub seed: u64,
    /// On what.
    pub source: &'a dyn Source,
    /// Validation NLL of the model as it is, if there is validation data.
    pub validate: Option<&'a Validate<'a>>,
    /// The run folder; nothing is saved without one.
    pub run: Option<PathBuf>,
    /// Raised to stop after the current step.
    pub stop: &'a AtomicBool,
    /// The command that goes on with it when it was stopped.
    pub resume_command: &'a str,
    /// This process's share, where several train. Only the one that has a run folder saves.
    pub share: Option<Share>,
}

impl Fit<'_> {
    /// Trains from a checkpoint's progress (or from the start) to the last epoch.
    ///
    /// # Errors
    /// When the loss stops being finite, a file cannot be written, or the user stops the run.
    pub fn run(&self, resume: bool, watch: &mut dyn Watch) -> Result<Outcome> {
        let mut optimiser =
            Optimiser::new(&self.model.store, self.config.optimiser)?.with_groups(&self.config.groups)?;
        let examples = DatasetSize::new(self.source.observations())?;
        let mut stepper = Stepper::new(self.model, examples, self.config.capture)
            .with_sharpness(self.config.sharpness)
            .with_alignment(self.config.alignment)
            .with_share(self.share.clone());
        let restores = resume && self.share.as_ref().is_none_or(Share::writes);
        let mut progress = if restores { self.restore(&mut optimiser)? } else { Progress::default() };
        if let Some(share) = &self.share {
            progress = share.begin(self.model, &mut optimiser, &progress)?;
        }
        if self.config.epochs == 0 {
            self.save(&optimiser, &progress)?; // the start is all there is
        }
        while progress.epoch < self.config.epochs {
            let finished = self.epoch(&mut stepper, &mut optimiser, &mut progress, watch)?;
            if !finished {
                // running statistics are linear in those of the batches: the mean of today's goes on as they would
                self.share.as_ref().map_or(Ok(()), |share| share.settle(self.model))?;
                self.save(&optimiser, &progress)?;
                let command = self.resume_command.to_owned();
                let kept = if self.run.is_some() { "everything is saved" } else { NO_FOLDER };
                return Err(LabError::Interrupted { epoch: progress.epoch, step: progress.step, kept, command });
            }
        }
        checkpoint::check_finite(&checkpoint::variables(&self.model.store), &progress, self.last_good())?;
        if self.config.select == Select::Best && progress.best.is_some() {
            self.take_best()?;
        }
        self.share.as_ref().map_or(Ok(()), |share| share.take_firsts(self.model))?;
        self.report_clamped();
        Ok(Outcome { seconds: progress.seconds, progress })
    }

    /// One epoch, or what is left of it; false when the user stopped it.
    fn epoch(
        &self,
        stepper: &mut Stepper,
        optimiser: &mut Optimiser,
        progress: &mut Progress,
        watch: &mut dyn Watch,
    ) -> Result<bool> {
        let started = Instant::now();
        let batches = self.batches(progress.epoch);
        let to_come = batches.get(progress.step_in_epoch as usize..).unwrap_or_default();
        self.announce(progress.step, to_come)?;
        let alone = self.share.is_none();
        let steps = batches.len() as u64;
        let mut window = Window::default();
        let look_every = if self.model.store.device().is_cuda() { CUDA_LOOK_EVERY } else { 1 };
        progress.sums.resize(PARTS, 0.0);
        let mut last = None;
        let mut asked = false;
        while progress.step_in_epoch < steps {
            let rows = &batches[progress.step_in_epoch as usize];
            let moment = progress.epoch as f64 + progress.step_in_epoch as f64 / steps as f64;
            let (joined, inputs) = self.step((stepper, optimiser), progress, moment, rows)?;
            window.push(joined.parts.shallow_clone());
            progress.step += 1;
            progress.step_in_epoch += 1;
            let looks = window.len() >= look_every || progress.step_in_epoch == steps;
            let stopping = joined.stopping(looks);
            let due = looks || stopping;
            asked = stopping;
            if due {
                // Before the update: a gradient of a loss that is not finite would spread to all parameters.
                self.look(&mut window, progress, &|| self.culprit(stepper, &inputs))?;
            }
            optimiser.step(joined.gradient, self.rate(moment), self.config.clip_norm);
            last = inputs.into_iter().next_back();
            if due {
                watch.step(
                    progress.epoch,
                    progress.step_in_epoch,
                    steps,
                    progress.sums[0] / progress.step_in_epoch as f64,
                );
            }
            if stopping && progress.step_in_epoch < steps {
                progress.seconds += started.elapsed().as_secs_f64();
                return Ok(false);
            }
        }
        let seconds = started.elapsed().as_secs_f64();
        progress.seconds += seconds;
        let epoch = progress.epoch + 1;
        let validates = self.validate.is_some() && self.is_due(self.config.validate_every, epoch);
        let stopping = || if alone { self.stop.load(Ordering::Relaxed) } else { asked };
        if validates && stopping() {
            return Ok(false); // saved with all its steps made: going on begins with the validation
        }
        let rate = self.rate(epoch as f64 - 1.0 / steps as f64);
        // What validation cannot compute the last batch may explain.
        let layer = || broken_layer(stepper, last.as_ref()?, Mode::Eval);
        let record = self.finish_epoch(progress, (rate, seconds), &layer)?;
        watch.epoch(&record); // before the checkpoint: an epoch that is made again is logged again, none is left out
        if self.is_due(self.config.checkpoint_every, epoch) {
            self.save(optimiser, progress)?;
        }
        Ok(!stopping() || epoch == self.config.epochs)
    }

    /// Whether something that happens every so many epochs, and after the last one, happens after this one.
    fn is_due(&self, every: u64, epoch: u64) -> bool {
        every > 0 && (epoch.is_multiple_of(every) || epoch == self.config.epochs)
    }

    /// The learning rate at a moment, in epochs.
    pub(super) fn rate(&self, moment: f64) -> f64 {
        self.config.optimiser.learning_rate() * self.config.schedule.factor(moment, self.config.epochs as f64)
    }

    /// The key of everything random in a step.
    fn key(&self, step: u64) -> Key {
        Key::new(self.seed).fold("train").at(step)
    }

    /// Says what will be asked for: the pieces of these batches, whose first is that of a step.
    pub(super) fn announce(&self, step: u64, batches: &[Tensor]) -> Result<()> {
        let pieces = |(step, rows): (u64, &Tensor)| {
            let key = self.key(step).fold("augment");
            let asked =
                |(rows_of_part, _): (Rows, _)| Asked { rows: rows.shallow_clone(), part: rows_of_part.range, key };
            self.pieces(rows.size()[0]).into_iter().map(asked).collect::<Vec<_>>()
        };
        self.source.announce((step..).zip(batches).flat_map(pieces).collect())
    }

    /// What this process computes of a batch of so many, piece by piece, each with its number among those of all processes. A
    /// batch too short for pieces of two rows or more is not cut up.
    fn pieces(&self, batch: i64) -> Vec<(Rows, Option<u64>)> {
        let (rank, size) = self.share.as_ref().map_or((0, 1), |share| (share.rank() as i64, share.size() as i64));
        let count = (self.config.accumulate as i64).min(batch / (2 * size)).max(1);
        let is_whole = self.share.is_none() && count == 1;
        let piece = |number| (rows_of_part(batch, number, size * count), (!is_whole).then_some(number as u64));
        (rank * count..(rank + 1) * count).map(piece).collect()
    }

    /// What a step is given of a batch at this moment, in epochs.
    fn input(
        &self,
        progress: &Progress,
        moment: f64,
        rows: &Tensor,
        (own, number): (Rows, Option<u64>),
    ) -> Result<StepInput> {
        let key = self.key(progress.step);
        let augment = Some(key.fold("augment"));
        let (x, y) = match number {
            Some(_) => self.source.part(rows, augment, own.range)?,
            None => self.source.batch(rows, augment)?,
        };
        let mass = if own.count { self.model.likelihood.mass(&y).max(LEAST_MASS) } else { 0.0 };
        let part = number.map_or_else(Part::default, |number| Part {
            number: Some(number),
            mass,
            has_rows: own.count,
            short: own.short,
        });
        let frozen_norm = self.config.freeze_norm_epoch.is_some_and(|epoch| moment >= epoch);
        let key = part.key(key, self.config.weight_draws);
        Ok(StepInput { x, y, key, beta: self.config.kl.beta(moment), frozen_norm, part })
    }

    /// A step of the whole batch: this process's pieces one after another, then everybody's together; and what it was made of.
    pub(super) fn step(
        &self,
        (stepper, optimiser): (&mut Stepper, &Optimiser),
        progress: &Progress,
        moment: f64,
        rows: &Tensor,
    ) -> Result<(Joined, Vec<StepInput>)> {
        let to_do = self.pieces(rows.size()[0]);
        let (mut pieces, mut inputs) = (Pieces::of(to_do.len()), Vec::new());
        for piece in to_do {
            let input = self.input(progress, moment, rows, piece)?;
            let own = stepper.step(&input, optimiser).map_err(|error| self.failed_step(error, progress))?;
            pieces.push(own, input.part.mass);
            inputs.push(input);
        }
        let stop = self.stop.load(Ordering::Relaxed);
        let (own, mass) = pieces.mean().ok_or_else(|| LabError::config("train", "a batch has no rows"))?;
        let joined = match &self.share {
            Some(share) => share.join(&own, (mass, stop), &format!("the gradient of {}", place(progress)))?,
            None => Joined::alone(own, stop),
        };
        Ok((joined, inputs))
    }

    /// Who is to blame for a step: the first of its pieces that shows it.
    fn culprit(&self, stepper: &Stepper, inputs: &[StepInput]) -> String {
        let shows = |input: &&StepInput| broken_layer(stepper, input, Mode::Train).is_some();
        let input = if inputs.len() > 1 { inputs.iter().find(shows) } else { None };
        input.or(inputs.last()).map_or_else(String::new, |input| culprit(self.model, stepper, input))
    }

    /// Reads the losses since the last look and fails on the first that is not finite.
    fn look(&self, window: &mut Window, progress: &mut Progress, culprit: &dyn Fn() -> String) -> Result<()> {
        let length = window.len() as u64;
        let reading = window.read();
        if let Some((index, [_, nll, kl_inducing, kl_conditional])) = reading.broken {
            let back = length - 1 - index as u64;
            let what = format!("non-finite loss (NLL {nll}, KL(U) {kl_inducing}, KL(W|U) {kl_conditional})");
            let moment = batch(progress.step_in_epoch - back, progress.step - back);
            return Err(self.diverged(what, progress.epoch + 1, moment, culprit()));
        }
        progress.sums.iter_mut().zip(reading.sums).for_each(|(sum, part)| *sum += part);
        Ok(())
    }

    /// A step that could not be computed since the network has diverged, with its place.
    fn failed_step(&self, error: LabError, progress: &Progress) -> LabError {
        if !error.is_divergence() {
            return match &self.share {
                Some(share) => share.explained(error, &place(progress)),
                None => error,
            };
        }
        let moment = batch(progress.step_in_epoch + 1, progress.step + 1);
        let culprit = not_finite_parameters(self.model).unwrap_or_else(|| cause(&error));
        self.diverged("failed step".to_owned(), progress.epoch + 1, moment, culprit)
    }

    /// A validation that could not be computed since the network has diverged, with its place.
    fn failed_validation(&self, error: LabError, progress: &Progress, layer: &dyn Fn() -> Option<String>) -> LabError {
        if !error.is_divergence() {
            return error;
        }
        let parameters = checkpoint::not_finite(&checkpoint::variables(&self.model.store));
        let culprit = parameters.or_else(layer);
        let culprit = culprit.unwrap_or_else(|| format!("{}; all parameters are finite", cause(&error)));
        let moment = format!("validation after step {}", progress.step);
        self.diverged("non-finite prediction".to_owned(), progress.epoch, moment, culprit)
    }

    fn diverged(&self, what: String, epoch: u64, moment: String, culprit: String) -> LabError {
        LabError::Diverged { what, epoch, moment, culprit, checkpoint: self.last_good() }
    }

    /// Where the training can go on from, if anything was saved.
    fn last_good(&self) -> Option<PathBuf> {
        self.run.as_ref().map(|run| checkpoint::last(run)).filter(|path| path.exists())
    }

    /// Validates and records at the end of an epoch, and keeps the best; `layer` tells which layer leaves the finite in evaluation.
    fn finish_epoch(
        &self,
        progress: &mut Progress,
        (rate, seconds): (f64, f64),
        layer: &dyn Fn() -> Option<String>,
    ) -> Result<EpochRecord> {
        let steps = progress.step_in_epoch as f64;
        let [loss, nll, kl_inducing, kl_conditional] = [0, 1, 2, 3].map(|part| progress.sums[part] / steps);
        progress.epoch += 1;
        progress.step_in_epoch = 0;
        progress.sums.clear();
        let validating = Instant::now();
        self.share.as_ref().map_or(Ok(()), |share| share.settle(self.model))?;
        let validation = if self.is_due(self.config.validate_every, progress.epoch) {
            let validated = self.validate.map(|validate| validate(self.model)).transpose();
            let own = validated.map_err(|error| self.failed_validation(error, progress, layer))?;
            match (&self.share, own) {
                (Some(share), Some(nll)) => Some(share.agreed(nll)?),
                (_, own) => own,
            }
        } else {
            None
        };
        progress.seconds += validating.elapsed().as_secs_f64(); // before it is saved
        let beta = self.config.kl.beta(progress.epoch as f64);
        let without_kl = kl_inducing == 0.0 && kl_conditional == 0.0;
        let full_kl = without_kl || beta >= self.config.kl.weight;
        let better = |nll: &f64| nll.is_finite() && progress.best.is_none_or(|(best, _)| *nll < best);
        if let Some(nll) = validation.filter(|nll| full_kl && better(nll)) {
            progress.best = Some((nll, progress.epoch));
            self.save_best(progress)?;
        }
        let (lambda_min, lambda_max) = self.lambda_range();
        Ok(EpochRecord {
            epoch: progress.epoch as usize,
            step: progress.step as usize,
            loss,
            nll,
            kl_inducing,
            kl_conditional,
            beta,
            lambda_min,
            lambda_max,
            learning_rate: rate,
            seconds,
            metrics: validation
                .map(|nll| ("validation".to_owned(), Metrics::from([("NLL".to_owned(), Some(nll))])))
                .into_iter()
                .collect(),
        })
    }

    /// Names the layers whose λ or s stand at a hard bound: there they no longer learn.
    fn report_clamped(&self) {
        for weight in self.model.network.inducing() {
            for (what, bounded) in [("max_lamda", &weight.conditional_scale), ("max_sd_u", &weight.posterior.sd)] {
                let clamped = bounded.clamped();
                if clamped > 0 {
                    let (layer, total) = (&weight.name, bounded.raw.numel());
                    let advice = "where the gradient is zero; raise it or use bound = \"smooth\"";
                    tracing::warn!("{layer}: {clamped} of {total} stand at {what}, {advice}");
                }
            }
        }
    }

    fn lambda_range(&self) -> (Option<f64>, Option<f64>) {
        let scales = self
            .model
            .network
            .inducing()
            .into_iter()
            .map(|weight| weight.conditional_scale.value().detach())
            .collect::<Vec<_>>();
        if scales.is_empty() {
            return (None, None);
        }
        let scales = Tensor::stack(&scales, 0).to_kind(Kind::Double);
        (Some(scales.min().double_value(&[])), Some(scales.max().double_value(&[])))
    }

    /// The epoch's batches: a seeded order, cut into pieces; a last piece of one example joins the one before it.
    pub(super) fn batches(&self, epoch: u64) -> Vec<Tensor> {
        let order = fidgp_data::split::epoch_order(self.source.len(), Key::new(self.seed).fold("order").seed(), epoch);
        let order: Vec<i64> = order.into_iter().map(|row| row as i64).collect();
        let mut pieces: Vec<&[i64]> = order.chunks(self.config.batch_size).collect();
        if pieces.len() > 1 && pieces.last().is_some_and(|last| last.len() == 1) {
            let cut = order.len() - self.config.batch_size - 1;
            pieces.truncate(pieces.len() - 2);
            pieces.push(&order[cut..]);
        }
        let device = self.model.store.device();
        pieces.into_iter().map(|piece| Tensor::from_slice(piece).to_device(device)).collect()
    }

    fn save(&self, optimiser: &Optimiser, progress: &Progress) -> Result<()> {
        let Some(run) = &self.run else { return Ok(()) };
        let mut tensors = checkpoint::variables(&self.model.store);
        tensors.extend(optimiser.state());
        checkpoint::save(&checkpoint::last(run), &tensors, progress)
    }

    fn save_best(&self, progress: &Progress) -> Result<()> {
        let wanted = self.config.select == Select::Best;
        match self.run.as_ref().filter(|_| wanted) {
            Some(run) => checkpoint::save(&checkpoint::best(run), &checkpoint::variables(&self.model.store), progress),
            None => Ok(()),
        }
    }

    fn take_best(&self) -> Result<()> {
        let Some(run) = &self.run else { return Ok(()) };
        let path = checkpoint::best(run);
        checkpoint::restore(&path, &checkpoint::load(&path)?, &self.model.store)
    }

    fn restore(&self, optimiser: &mut Optimiser) -> Result<Progress> {
        let run = self.run.as_ref().ok_or_else(|| LabError::config("resume", "needs a run folder"))?;
        let path = checkpoint::last(run);
        let saved = checkpoint::load(&path)?;
        checkpoint::restore(&path, &saved, &self.model.store)?;
        optimiser.restore(&saved.tensors)?;
        Ok(saved.progress)
    }
}

/// The step under way, for messages.
fn place(progress: &Progress) -> String {
    format!("epoch {}, {}", progress.epoch + 1, batch(progress.step_in_epoch + 1, progress.step + 1))
}

/// A batch and its step, both counted from 1.
fn batch(batch: u64, step: u64) -> String {
    format!("batch {batch} (step {step})")
}
