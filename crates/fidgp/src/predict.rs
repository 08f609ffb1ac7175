//! Prediction with K weight draws: means, and uncertainty split into aleatoric and epistemic.
//!
//! Each draw's weights are made once and used for the whole data set, and what stands before the first Bayesian layer is
//! computed once for all draws of a batch. What is kept of the outputs does not grow with K.

mod classes;
mod gather;
mod kept;
mod law;
mod members;
mod numbers;
mod segment;

pub use classes::{ClassDraws, Classified, classify, classify_to};
pub use gather::{Gather, Spent};
pub use kept::WeightDraws;
pub use law::{Batch, Effort, PredictiveLaw};
pub use members::{by_member, joined_logits, mean_features};
pub use numbers::{NumberDraws, Regressed, regress};
pub use segment::{PixelDraws, Segmented, segment, windows};

use std::ops::Range;
use std::sync::OnceLock;

use tch::{Kind, Tensor};

use crate::layer::{
    CustomWeight, Factors, Kept, Mode, Network, Norm, NormStatistics, OutputTensors, Pass, blocks_before_randomness,
    trace_on,
};
use crate::linalg::Check;
use crate::{Error, Key, Result};

/// K draws of a network's weights, the factors made once.
pub struct Draws<'a> {
    network: &'a dyn Network,
    factors: Factors,
    key: Option<Key>,
    /// BatchNorm statistics of every draw's own; none where the running ones are used.
    norms: Vec<NormStatistics>,
    /// Whether the draws are the same on every device, as draws with statistics of their own must be.
    portable: bool,
    /// How many leading blocks of the network no draw touches, once a batch has shown it.
    untouched: OnceLock<usize>,
    /// K; 1 for a network that is not random.
    pub count: u64,
    /// The number of the first batch: noise on outputs is numbered from it, when a set is predicted in several parts.
    pub first_batch: u64,
    /// The type in which the network computes; that of its parameters when `None`.
    pub compute: Option<Kind>,
    /// Who runs the drawn networks: by default [`Passes`], launching operation by operation.
    pub runner: MakeRunner<'a>,
}

impl std::fmt::Debug for Draws<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Draws").field("count", &self.count).field("compute", &self.compute).finish_non_exhaustive()
    }
}

impl<'a> Draws<'a> {
    /// Factorises the network once.
    ///
    /// # Errors
    /// When K is zero, a parameter is not finite, or a covariance cannot be factorised; the error names the layer.
    pub fn new(network: &'a dyn Network, count: u64, key: Key) -> Result<Self> {
        Self::check_count(count, &[])?;
        let weights = network.inducing();
        let count = if network.is_random() { count } else { 1 };
        let factors = Factors::of(&weights, Check::Now)?;
        tch::no_grad(|| {
            network.custom().into_iter().try_for_each(CustomWeight::check)?;
            weights.iter().try_for_each(|weight| weight.check_finite(&factors.get(&weight.name)?))
        })?;
        let runner: MakeRunner = Box::new(|passes| Box::new(passes));
        Ok(Self {
            network,
            factors,
            key: Some(key),
            norms: Vec::new(),
            portable: false,
            untouched: OnceLock::new(),
            count,
            first_batch: 0,
            compute: None,
            runner,
        })
    }

    /// No draw: one pass with every weight at its posterior mean.
    ///
    /// # Errors
    /// As [`Self::new`].
    pub fn at_mean(network: &'a dyn Network) -> Result<Self> {
        Ok(Self { key: None, ..Self::new(network, 1, Key::new(0))? })
    }

    /// Gives every draw BatchNorm statistics of its own: those of the given inputs, training examples, under its weights.
    /// What no draw touches keeps the running ones. Does nothing for a network that is not random.
    ///
    /// # Shapes
    /// batches of `[n_i, ..]`; large ones, as each is normalised by itself on its way through the network
    ///
    /// # Errors
    /// When there is no batch, or one does not fit the network.
    pub fn estimate_norms(&mut self, batches: &[Tensor]) -> Result<()> {
        offsets(batches)?;
        if !self.network.is_random() {
            return Ok(());
        }
        self.norms.clear();
        self.portable = true;
        let rows = |tensor: &Tensor| tensor.size()[0] as f64;
        let all: f64 = batches.iter().map(rows).sum();
        let mut norms = Vec::new();
        for k in 0..self.count {
            let mut passes = self.passes(k..k + 1)?;
            let mut found = NormStatistics::default();
            for (number, batch) in batches.iter().enumerate() {
                passes.set_noise(NORM_BATCHES + number as u64);
                passes.drawn[0].norm = Norm::Gathering { found, share: rows(batch) / all };
                passes.outputs(batch, &mut |_| Ok(()))?;
                found = passes.drawn[0].norm.take_found();
            }
            found.settle();
            if let Some((name, _)) =
                found.named().find(|(_, tensor)| !bool::try_from(tensor.isfinite().all()).unwrap_or(false))
            {
                return Err(Error::setting(
                    "batches",
                    &name,
                    "is not finite: give more examples, and at least two at once",
                ));
            }
            norms.push(found);
        }
        self.norms = norms;
        Ok(())
    }

    /// The statistics of every draw, where they have their own.
    pub fn norms(&self) -> &[NormStatistics] {
        &self.norms
    }

    /// Goes on with statistics that were estimated before, under the same key.
    ///
    /// # Errors
    /// When there are more draws than statistics.
    pub fn set_norms(&mut self, norms: &[NormStatistics]) -> Result<()> {
        Self::check_count(self.count, norms)?;
        self.norms = norms.iter().map(NormStatistics::copy).collect();
        self.portable = true;
        Ok(())
    }

    /// Whether so many draws can be made, with statistics of their own where there are any.
    fn check_count(count: u64, norms: &[NormStatistics]) -> Result<()> {
        if count == 0 {
            return Err(Error::setting("draws", 0, "prediction needs at least one draw"));
        }
        if !norms.is_empty() && norms.len() < count as usize {
            let known = norms.len();
            let advice =
                format!("is more than the {known} whose BatchNorm statistics are known: ask for at most so many");
            return Err(Error::setting("draws", count, advice));
        }
        Ok(())
    }

    /// The weights of some of the draws.
    ///
    /// # Errors
    /// When a draw fails; the error names the layer.
    pub fn passes(&self, draws: Range<u64>) -> Result<Passes<'a>> {
        let weights = self.network.inducing();
        let keys: Option<Vec<_>> = draws.clone().map(|k| self.key.map(|key| key.at(k))).collect();
        let norm = |k: u64| self.norms.get(k as usize).map_or(Norm::Running, |norm| Norm::Own(norm.copy()));
        tch::no_grad(|| {
            let passes = match &keys {
                Some(keys) => Pass::draw_many(&weights, &self.factors, keys, self.portable)?,
                None => vec![Pass::mean(&weights, &self.factors, Mode::Eval)?],
            };
            let ready = |(k, mut pass): (u64, Pass)| {
                pass.norm = norm(k);
                pass.computing_in(self.compute).with_cast_weights()
            };
            let passes = draws.zip(passes).map(ready).collect();
            let tensors = OutputTensors::default();
            let untouched = self.untouched.clone();
            Ok(Passes { network: self.network, drawn: passes, keys, untouched, tensors })
        })
    }

    /// Outputs of every batch and draw, in evaluation mode and without gradients; of one batch the draws come in order.
    ///
    /// # Errors
    /// When a batch does not fit the network.
    pub fn outputs(&self, batches: &[Tensor], each: impl FnMut(usize, Tensor) -> Result<()>) -> Result<()> {
        self.outputs_of(0..self.count, batches, each)
    }

    /// The same with weights drawn one after the other: memory does not grow with K. What no draw touches is computed
    /// for the first and held for all batches.
    ///
    /// # Errors
    /// When a batch does not fit the network.
    pub fn one_by_one(&self, batches: &[Tensor], each: impl FnMut(usize, Tensor) -> Result<()>) -> Result<()> {
        self.one_by_one_of(0..self.count, batches, each)
    }

    /// The same of some of the draws.
    fn one_by_one_of(
        &self,
        draws: Range<u64>,
        batches: &[Tensor],
        mut each: impl FnMut(usize, Tensor) -> Result<()>,
    ) -> Result<()> {
        let mut kept: Vec<_> = batches.iter().map(|_| Kept::default()).collect();
        batches.first().map(|batch| self.untouched(batch));
        for k in draws {
            let mut passes = self.passes(k..k + 1)?;
            for (index, (batch, kept)) in batches.iter().zip(&mut kept).enumerate() {
                passes.set_noise(self.first_batch + index as u64);
                passes.outputs_with(batch, kept, &mut |outputs| each(index, outputs))?;
            }
        }
        Ok(())
    }

    /// [`Self::outputs`] of some of the draws.
    fn outputs_of(
        &self,
        draws: Range<u64>,
        batches: &[Tensor],
        mut each: impl FnMut(usize, Tensor) -> Result<()>,
    ) -> Result<()> {
        let at_once = batches.first().map_or(1, |batch| self.at_once(batch));
        let mut last: Option<(u64, Box<dyn Runner<'a> + 'a>)> = None;
        for start in draws.clone().step_by(at_once as usize) {
            let end = draws.end.min(start + at_once);
            let passes = self.passes(start..end)?;
            let mut runner = match last.take() {
                Some((count, mut runner)) if count == end - start => {
                    runner.replace(passes);
                    runner
                }
                _ => (self.runner)(passes),
            };
            for (index, batch) in batches.iter().enumerate() {
                runner.run(batch, self.first_batch + index as u64, &mut |outputs| each(index, outputs))?;
            }
            last = Some((end - start, runner));
        }
        Ok(())
    }
}

impl Draws<'_> {
    /// How many draws are held at once. On CUDA many, since a call makes many of them as fast as one. On the CPU one, where no
    /// block is shared by the draws; else as many as a bound allows, since shared blocks are computed anew for each lot.
    fn at_once(&self, batch: &Tensor) -> u64 {
        let sizes = self.network.inducing().iter().map(|weight| weight.sizes()).collect::<Vec<_>>();
        let numbers: i64 = sizes.iter().map(|sizes| sizes.d_out * sizes.d_in).sum();
        match batch.device().is_cuda() {
            true => (NUMBERS_ON_CUDA / numbers.max(1)).max(1) as u64,
            false if self.untouched(batch) == 0 => 1,
            false => (NUMBERS_ON_CPU / numbers.max(1)).max(1) as u64,
        }
    }

    fn untouched(&self, batch: &Tensor) -> usize {
        *self.untouched.get_or_init(|| untouched(self.network, batch))
    }
}

/// How many leading blocks of a network no draw touches; none where it cannot be traced.
fn untouched(network: &dyn Network, batch: &Tensor) -> usize {
    trace_on(network, batch, Mode::Eval).map_or(0, |layers| blocks_before_randomness(&layers))
}

/// The outputs of a drawn network, from what earlier draws have kept of the batch. On the CPU the tensors of noise are lent.
fn run_drawn(
    network: &dyn Network,
    pass: &mut Pass,
    (batch, untouched): (&Tensor, usize),
    kept: &mut Kept,
    tensors: &mut OutputTensors,
) -> Result<Tensor> {
    let lend = !batch.device().is_cuda();
    if lend {
        pass.noise.lend(std::mem::take(tensors));
    }
    pass.begin(untouched, std::mem::take(kept));
    let outputs = tch::no_grad(|| network.forward(batch, pass));
    *kept = pass.end();
    if lend {
        *tensors = pass.noise.give_back();
    }
    outputs
}

/// Makes a runner of drawn networks.
pub type MakeRunner<'a> = Box<dyn Fn(Passes<'a>) -> Box<dyn Runner<'a> + 'a> + 'a>;

/// Runs the networks of some draws.
pub trait Runner<'a> {
    /// Outputs of a batch, draw by draw, in evaluation mode and without gradients. Noise on outputs follows from the batch's
    /// number.
    ///
    /// # Errors
    /// When the batch does not fit the network.
    fn run(&mut self, batch: &Tensor, number: u64, each: &mut dyn FnMut(Tensor) -> Result<()>) -> Result<()>;

    /// Goes on with as many other draws.
    fn replace(&mut self, passes: Passes<'a>);
}

/// The weights of some draws, made once and used for any number of batches.
#[derive(Debug)]
pub struct Passes<'a> {
    network: &'a dyn Network,
    drawn: Vec<Pass>,
    keys: Option<Vec<Key>>,
    untouched: OnceLock<usize>,
    /// Lent to one draw after the other on the CPU.
    tensors: OutputTensors,
}

impl<'a> Passes<'a> {
    /// Keeps the noise on outputs in tensors of their own, made by the next run and of its batch's size: from then on,
    /// [`Self::renew_noise`] overwrites them.
    pub fn keep_noise(&mut self) {
        for pass in &mut self.drawn {
            pass.noise = std::mem::take(&mut pass.noise).kept();
        }
    }

    /// Goes on with the noise on outputs of another batch, in the same tensors where they are kept.
    pub fn renew_noise(&mut self, number: u64) {
        for (pass, key) in self.drawn.iter_mut().zip(self.keys.iter().flatten()) {
            pass.noise.redraw(key.at(number));
        }
    }

    /// Outputs of a batch for all draws: blocks before the first Bayesian layer are computed once.
    ///
    /// # Errors
    /// When the batch does not fit the network.
    pub fn outputs(&mut self, batch: &Tensor, each: &mut dyn FnMut(Tensor) -> Result<()>) -> Result<()> {
        self.outputs_with(batch, &mut Kept::default(), each)
    }

    /// The same with what earlier draws have kept of this batch.
    fn outputs_with(
        &mut self,
        batch: &Tensor,
        kept: &mut Kept,
        each: &mut dyn FnMut(Tensor) -> Result<()>,
    ) -> Result<()> {
        let untouched = *self.untouched.get_or_init(|| untouched(self.network, batch));
        let mut run = |pass| each(run_drawn(self.network, pass, (batch, untouched), kept, &mut self.tensors)?);
        tch::no_grad(|| self.drawn.iter_mut().try_for_each(&mut run))
    }

    /// Noise on outputs of the batch with this number.
    fn set_noise(&mut self, number: u64) {
        for (pass, key) in self.drawn.iter_mut().zip(self.keys.iter().flatten()) {
            pass.set_noise(key.at(number));
        }
    }

    /// Overwrites the weights with those of other draws, tensor by tensor.
    pub fn overwrite(&mut self, other: Passes<'a>) {
        tch::no_grad(|| self.drawn.iter_mut().zip(&other.drawn).for_each(|(pass, other)| pass.overwrite(other)));
        self.keys = other.keys;
    }
}

impl<'a> Runner<'a> for Passes<'a> {
    fn run(&mut self, batch: &Tensor, number: u64, each: &mut dyn FnMut(Tensor) -> Result<()>) -> Result<()> {
        self.set_noise(number);
        self.outputs(batch, each)
    }

    fn replace(&mut self, passes: Passes<'a>) {
        *self = Passes { tensors: std::mem::take(&mut self.tensors), ..passes };
    }
}

/// Numbers of the batches that BatchNorm statistics are gathered on: those that predict count from 0 and must not share noise.
const NORM_BATCHES: u64 = 1 << 32;

/// Numbers in the weights of all draws that are held at once on CUDA: 1 GiB in f32.
const NUMBERS_ON_CUDA: i64 = 1 << 28;

/// The same on the CPU, where draws share stages: 128 MiB.
const NUMBERS_ON_CPU: i64 = 1 << 25;

/// The row at which each batch starts.
fn offsets(batches: &[Tensor]) -> Result<Vec<i64>> {
    if batches.is_empty() {
        return Err(Error::setting("batches", 0, "prediction needs at least one batch of inputs"));
    }
    if batches.iter().any(|batch| batch.dim() == 0) {
        return Err(Error::shape("batch", &[], "[N, ..]"));
    }
    Ok(batches.iter().scan(0, |next, batch| Some(std::mem::replace(next, *next + batch.size()[0]))).collect())
}
