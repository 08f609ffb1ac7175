//! How long a training step, a prediction and their parts take, and how that grows.

pub mod growth;
mod layer;

use std::time::Instant;

use fidgp::Key;
use fidgp::layer::{Factors, Mode, Noise, Pass};
use fidgp::linalg::Check;
use fidgp::objective::{DatasetSize, sum_kl};
use fidgp_torch::SideStream;
use serde::Serialize;
use tch::{Device, Kind, Tensor};

use crate::capture::{aside, record, synchronise};
use crate::config::{PredictConfig, RunConfig};
use crate::error::{LabError, Result};
use crate::model::{self, Counting, Model, Signature};
use crate::record::growth::Measured;
use crate::train::group::Part;
use crate::train::{Optimiser, StepInput, Stepper};

/// What is measured.
#[derive(Clone, Copy, Debug)]
pub struct BenchOptions {
    /// Examples in a batch.
    pub batch: usize,
    /// K.
    pub draws: u64,
    /// Samples of each time.
    pub rounds: usize,
    /// Whether the parts of a step are measured too.
    pub parts: bool,
    /// Where.
    pub device: Device,
}

/// What was measured of one config.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Benchmark {
    /// Training step, prediction with new draws, prediction with draws kept; then the parts.
    pub times: Vec<Measured>,
    /// Memory that training takes: the highest resident set of the process less that at its start, or what libtorch has
    /// reserved on the GPU.
    pub train_bytes: Option<u64>,
    /// What is counted beside it.
    pub counted: Counted,
}

/// What a config costs by count.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Counted {
    /// Trainable numbers.
    pub parameters: u64,
    /// Bytes of the stored weights in f32.
    pub bytes: u64,
    /// Multiply-accumulates of a prediction of one input with K draws or all members.
    pub prediction_macs: u64,
}

/// Memory in use now: on the GPU by whoever uses it, on the CPU by this process, the highest so far.
fn memory(device: Device) -> Option<u64> {
    if device.is_cuda() {
        return Some(fidgp_torch::memory_in_use().ok()? as u64);
    }
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let highest = status.lines().find_map(|line| line.strip_prefix("VmHWM:"))?;
    Some(highest.trim().strip_suffix("kB")?.trim().parse::<u64>().ok()? * 1024)
}

/// Repetitions in one sample on CUDA, which is waited for once.
const CUDA_REPEATS: usize = 10;

/// Repetitions before the first sample; on CUDA they include those before a capture.
const WARM_UP: usize = 2;
const CUDA_WARM_UP: usize = 5;

/// Times of a network on random inputs.
///
/// # Errors
/// When the config does not say what its data are like, or does not fit the device.
pub fn run(config: &RunConfig, options: &BenchOptions) -> Result<Benchmark> {
    let _context = Tensor::zeros([1], (Kind::Float, options.device));
    let before = memory(options.device);
    let bench = Bench::new(config, options)?;
    let mut times = vec![bench.train()?];
    let train_bytes = memory(options.device).zip(before).map(|(after, before)| after.saturating_sub(before));
    times.extend([bench.predict(true)?, bench.predict(false)?]);
    if options.parts && !bench.model.network.inducing().is_empty() {
        times.extend([bench.factors()?, bench.draw(false)?, bench.draw(true)?, bench.network()?]);
        times.extend(bench.layer()?);
    }
    let predict = PredictConfig { draws: options.draws, ..config.predict };
    let config = RunConfig { predict, posterior: None, ..config.clone() }; // what is timed are weight draws
    let counted = Counted {
        parameters: bench.model.parameter_count() as u64,
        bytes: model::cost(&config, Counting::Ours)?.bytes_f32 as u64,
        prediction_macs: model::prediction_macs(&config, 1)? as u64,
    };
    Ok(Benchmark { times, train_bytes, counted })
}

/// A batch of random inputs with targets.
fn random(signature: &Signature, &BenchOptions { batch, device, .. }: &BenchOptions, key: Key) -> (Tensor, Tensor) {
    let n = batch as i64;
    let normal = |name: &str, shape: &[i64]| key.fold(name).normal(shape, Kind::Float, device);
    let labels = |shape: &[i64], classes: i64| {
        (key.fold("y").uniform(shape, Kind::Float, device) * classes as f64).to_kind(Kind::Int64)
    };
    let pictures = |[c, h, w]: [i64; 3]| {
        let x = normal("x", &[n, h, w, c]).permute([0, 3, 1, 2]);
        if device.is_cuda() { x } else { x.contiguous() }
    };
    match *signature {
        Signature::Classification { image, classes, .. } => (pictures(image), labels(&[n], classes)),
        Signature::Segmentation { crop: [h, w], classes, .. } => (pictures([3, h, w]), labels(&[n, h, w], classes)),
        Signature::Regression { features } => (normal("x", &[n, features]), normal("y", &[n])),
        Signature::Rows { features, classes } => (normal("x", &[n, features]), labels(&[n], classes)),
    }
}

struct Bench<'a> {
    config: &'a RunConfig,
    options: &'a BenchOptions,
    model: Model,
    x: Tensor,
    y: Tensor,
}

impl<'a> Bench<'a> {
    fn new(config: &'a RunConfig, options: &'a BenchOptions) -> Result<Self> {
        let signature = Signature::expected(config, None)?;
        let model = Model::init(config, &signature, options.device)?;
        let (x, y) = random(&signature, options, Key::new(config.seed).fold("bench"));
        Ok(Self { config, options, model, x, y })
    }

    fn input(&self, step: u64) -> StepInput {
        let key = Key::new(self.config.seed).at(step);
        let (x, y) = (self.x.shallow_clone(), self.y.shallow_clone());
        StepInput { x, y, key, beta: 1.0, frozen_norm: false, part: Part::default() }
    }

    /// A whole training step: factors, draw, forward, backward, optimiser.
    fn train(&self) -> Result<Measured> {
        let train = self.config.training();
        let mut optimiser = Optimiser::new(&self.model.store, train.optimiser)?.with_groups(&train.groups)?;
        let examples = DatasetSize::new(50_000)?;
        let mut stepper = Stepper::new(&self.model, examples, self.config.train.capture)
            .with_sharpness(self.config.train.sharpness)
            .with_alignment(self.config.train.alignment);
        let mut step = 0;
        self.measure("train step", || {
            let stepped = stepper.step(&self.input(step), &optimiser)?;
            optimiser.step(stepped.gradient, 1e-5, None);
            step += 1;
            Ok(())
        })
    }

    /// Mean probabilities of a batch over K draws, factors made before: with new draws for every batch, or with draws that
    /// were made before.
    fn predict(&self, redraw: bool) -> Result<Measured> {
        let draws = self.model.draws(self.options.draws, Key::new(3))?;
        let all = 0..draws.count;
        let label = format!("predict, K = {}{}", draws.count, if redraw { "" } else { ", draws kept" });
        let mut runner = (draws.runner)(draws.passes(all.clone())?);
        let (mut number, numbers) = (0, self.model.likelihood.reading().numbers().is_some());
        self.measure(&label, || {
            if redraw {
                runner.replace(draws.passes(all.clone())?);
            }
            number += 1;
            let mut sum: Option<Tensor> = None;
            runner.run(&self.x, number, &mut |outputs| {
                let said = if numbers { outputs.shallow_clone() } else { outputs.softmax(1, Kind::Float) };
                sum = Some(sum.take().map_or_else(|| said.shallow_clone(), |sum| sum + &said));
                Ok(())
            })?;
            Ok(())
        })
    }

    fn factors(&self) -> Result<Measured> {
        let weights = self.model.network.inducing();
        self.replayed("factors", || Ok(tch::no_grad(|| Factors::of(&weights, Check::Deferred).map(|_| ()))?))
    }

    /// Factors and a draw of all weights, alone or with the gradient of all their numbers and the KL.
    fn draw(&self, gradient: bool) -> Result<Measured> {
        let weights = self.model.network.inducing();
        let noise = Noise::draw(&weights, Key::new(2), Mode::Train);
        let optimiser = Optimiser::new(&self.model.store, self.config.train.optimiser)?;
        let work = || -> Result<()> {
            let factors = Factors::of(&weights, Check::Deferred)?;
            let pass = Pass::with_noise(&weights, &factors, Mode::Train, &noise)?;
            if gradient {
                let kl = sum_kl(pass.kl()).ok_or_else(|| LabError::config("network", "has no Bayesian weights"))?;
                let sums = pass.weights().map(|weight| weight.square().sum(Kind::Float));
                let loss = sums.fold(kl.inducing + kl.conditional, |loss, sum| loss + sum);
                let _ = optimiser.gradient(&loss)?;
            }
            Ok(())
        };
        if gradient {
            self.replayed("factors, draw and their gradient", work)
        } else {
            self.replayed("factors and draw", || tch::no_grad(work))
        }
    }

    /// Forward and backward of the network with weights that are given: what is left when drawing costs nothing.
    fn network(&self) -> Result<Measured> {
        let weights = self.model.network.inducing();
        let factors = tch::no_grad(|| Factors::of(&weights, Check::Deferred))?;
        let given = tch::no_grad(|| Pass::mean(&weights, &factors, Mode::Train))?;
        let leaves: Vec<_> = given.weights().map(|weight| weight.copy().set_requires_grad(true)).collect();
        self.replayed("network with given weights", || {
            let mut pass = given.with_weights(&leaves).computing_in(self.model.compute);
            let outputs = self.model.network.forward(&self.x, &mut pass)?;
            let loss = self.model.nll(&outputs, &self.y);
            Tensor::f_run_backward(&[loss], &leaves, false, false)?;
            Ok(())
        })
    }

    /// Work of fixed inputs: on CUDA captured and replayed, elsewhere done again.
    fn replayed(&self, what: &str, work: impl Fn() -> Result<()>) -> Result<Measured> {
        let Device::Cuda(index) = self.options.device else { return self.measure(what, work) };
        let failed = |error| LabError::config("CUDA graph", format!("{what}: {error}"));
        let (device, stream) = (self.options.device, SideStream::new(index).map_err(failed)?);
        aside(device, stream, || (0..3).try_for_each(|_| work())).map_err(failed)??;
        let (graph, ()) = record(device, stream, &work).map_err(failed)?;
        self.measure(what, || graph.replay().map_err(failed))
    }

    fn measure(&self, what: &str, mut work: impl FnMut() -> Result<()>) -> Result<Measured> {
        let wait = || synchronise(self.options.device);
        let cuda = self.options.device.is_cuda();
        let (warm_up, repeats) = if cuda { (CUDA_WARM_UP, CUDA_REPEATS) } else { (WARM_UP, 1) };
        (0..warm_up).try_for_each(|_| work())?;
        let mut samples = Vec::with_capacity(self.options.rounds);
        for _ in 0..self.options.rounds {
            wait();
            let started = Instant::now();
            (0..repeats).try_for_each(|_| work())?;
            wait();
            samples.push(started.elapsed().as_secs_f64() * 1e3 / repeats as f64);
        }
        samples.sort_by(f64::total_cmp);
        let (least_ms, largest_ms) = (samples[0], samples[samples.len() - 1]);
        Ok(Measured { what: what.to_owned(), median_ms: samples[samples.len() / 2], least_ms, largest_ms })
    }
}
