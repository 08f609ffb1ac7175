//! Prediction with K weight draws: means, and doubt split into aleatoric and epistemic.
//!
//! Each draw's weights are made once and used for the whole data set, and what stands before the first Bayesian layer is
//! computed once for all draws of a batch. What is kept of the outputs does not grow with K.

mod adaptive;
mod segment;

pub use adaptive::{Spent, classify_to};
pub use segment::{Segmented, segment, windows};

use std::ops::Range;

use tch::{Kind, Tensor};

use crate::layer::{CustomWeight, Factors, Mode, Network, Norm, NormStatistics, OutputTensors, Pass, Slot};
use crate::linalg::Check;
use crate::objective::Gaussian;
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
        if count == 0 {
            return Err(Error::setting("draws", 0, "prediction needs at least one draw"));
        }
        let weights = network.inducing();
        let count = if network.is_random() { count } else { 1 };
        let factors = Factors::of(&weights, Check::Now)?;
        tch::no_grad(|| {
            network.slots().into_iter().filter_map(Slot::custom).try_for_each(CustomWeight::check)?;
            weights.iter().try_for_each(|weight| weight.check_finite(&factors.get(&weight.name)?))
        })?;
        let runner: MakeRunner = Box::new(|passes| Box::new(passes));
        Ok(Self {
            network,
            factors,
            key: Some(key),
            norms: Vec::new(),
            portable: false,
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
        if norms.len() < self.count as usize {
            let advice = format!(
                "is more than the {} whose BatchNorm statistics are known: ask for at most so many",
                norms.len()
            );
            return Err(Error::setting("draws", self.count, advice));
        }
        self.norms = norms.iter().map(NormStatistics::copy).collect();
        self.portable = true;
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
            Ok(Passes { network: self.network, drawn: passes, keys, compute: self.compute, tensors })
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
    /// once and held for all batches.
    ///
    /// # Errors
    /// When a batch does not fit the network.
    pub fn one_by_one(&self, batches: &[Tensor], mut each: impl FnMut(usize, Tensor) -> Result<()>) -> Result<()> {
        let before = |batch| before_draws(self.network, batch, self.compute);
        let shared = batches.iter().map(before).collect::<Result<Vec<_>>>()?;
        for k in 0..self.count {
            let mut passes = self.passes(k..k + 1)?;
            for (index, shared) in shared.iter().enumerate() {
                passes.set_noise(self.first_batch + index as u64);
                passes.outputs_from(shared, &mut |outputs| each(index, outputs))?;
            }
        }
        Ok(())
    }

    /// The same of some of the draws.
    fn outputs_of(
        &self,
        draws: Range<u64>,
        batches: &[Tensor],
        mut each: impl FnMut(usize, Tensor) -> Result<()>,
    ) -> Result<()> {
        let at_once = self.at_once(batches.first().is_some_and(|batch| batch.device().is_cuda()));
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
    /// stage is shared by the draws; else as many as a bound allows, since shared stages are computed anew for each lot.
    fn at_once(&self, on_cuda: bool) -> u64 {
        let sizes = self.network.inducing().iter().map(|weight| weight.sizes()).collect::<Vec<_>>();
        let numbers: i64 = sizes.iter().map(|sizes| sizes.d_out * sizes.d_in).sum();
        match on_cuda {
            true => (NUMBERS_ON_CUDA / numbers.max(1)).max(1) as u64,
            false if self.network.first_drawn_stage() == 0 => 1,
            false => (NUMBERS_ON_CPU / numbers.max(1)).max(1) as u64,
        }
    }
}

/// What a batch becomes before the first stage that is drawn.
fn before_draws(network: &dyn Network, batch: &Tensor, compute: Option<Kind>) -> Result<Tensor> {
    let mut pass = Pass::plain(Mode::Eval).computing_in(compute);
    tch::no_grad(|| run_stages(network, 0..network.first_drawn_stage(), batch, &mut pass))
}

/// Some stages of the forward pass.
fn run_stages(network: &dyn Network, mut stages: Range<usize>, x: &Tensor, pass: &mut Pass) -> Result<Tensor> {
    stages.try_fold(x.shallow_clone(), |h, stage| network.stage(stage, &h, pass))
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
    compute: Option<Kind>,
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

    /// Outputs of a batch for all draws: what stands before the first Bayesian layer is computed once.
    ///
    /// # Errors
    /// When the batch does not fit the network.
    pub fn outputs(&mut self, batch: &Tensor, each: &mut dyn FnMut(Tensor) -> Result<()>) -> Result<()> {
        let shared = before_draws(self.network, batch, self.compute)?;
        self.outputs_from(&shared, each)
    }

    /// The same from where the draws begin to differ.
    fn outputs_from(&mut self, shared: &Tensor, each: &mut dyn FnMut(Tensor) -> Result<()>) -> Result<()> {
        let drawn = self.network.first_drawn_stage()..self.network.stages();
        let lend = !shared.device().is_cuda();
        tch::no_grad(|| {
            for pass in &mut self.drawn {
                if lend {
                    pass.noise.lend(std::mem::take(&mut self.tensors));
                }
                let outputs = run_stages(self.network, drawn.clone(), shared, pass);
                if lend {
                    self.tensors = pass.noise.give_back();
                }
                each(outputs?)?;
            }
            Ok(())
        })
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

/// What K draws say about the class of each input.
#[derive(Debug)]
pub struct Classified {
    /// `mean_k p_k`. `[N, classes]`
    pub probs: Tensor,
    /// Entropy of the mean. `[N]`
    pub total: Tensor,
    /// Mean of the entropies. `[N]`
    pub aleatoric: Tensor,
    /// Their difference: the mutual information between label and weights. `[N]`
    pub epistemic: Tensor,
    /// `mean_k −log p_k(label)` of each input, when labels were given: the paper's CIFAR script reports its mean. `[N]`
    pub mean_nll: Option<Tensor>,
}

/// Classifies batches with K draws.
///
/// # Shapes
/// batches of `[n_i, ..]`, labels `[N]` → fields of N rows
///
/// # Errors
/// When there is no batch, a batch does not fit the network, or the labels do not fit the inputs.
pub fn classify(draws: &Draws, batches: &[Tensor], labels: Option<&Tensor>) -> Result<Classified> {
    let offsets = offsets(batches)?;
    let rows = batches.iter().map(|batch| batch.size()[0]).sum::<i64>();
    if let Some(labels) = labels.filter(|labels| labels.size() != [rows]) {
        return Err(Error::shape("labels", &labels.size(), format!("[{rows}], one label for each input")));
    }
    let k = draws.count as f64;
    let mut probs: Vec<Option<Tensor>> = batches.iter().map(|_| None).collect();
    let mut entropies: Vec<Option<Tensor>> = batches.iter().map(|_| None).collect();
    let mut nlls: Vec<Option<Tensor>> = batches.iter().map(|_| None).collect();
    draws.outputs(batches, |index, logits| {
        let log_p = logits.to_kind(Kind::Double).log_softmax(-1, Kind::Double); // in f32 one of e⁻¹⁰⁴ is none
        let p = log_p.exp();
        add(&mut entropies[index], entropy_of(&p, &log_p) / k);
        add(&mut probs[index], p / k);
        if let Some(labels) = labels {
            let part = labels.narrow(0, offsets[index], batches[index].size()[0]).to_device(log_p.device());
            add(&mut nlls[index], log_p.f_gather(-1, &part.unsqueeze(-1), false)?.squeeze_dim(-1) * (-1.0 / k));
        }
        Ok(())
    })?;
    let join = |parts: Vec<Option<Tensor>>| Tensor::cat(&parts.into_iter().flatten().collect::<Vec<_>>(), 0);
    let (probs, aleatoric) = (join(probs), join(entropies));
    let total = entropy_of(&probs, &probs.clamp_min(f64::MIN_POSITIVE).log());
    let mean_nll = labels.map(|_| join(nlls));
    Ok(Classified { epistemic: (&total - &aleatoric).clamp_min(0.0), probs, total, aleatoric, mean_nll })
}

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

fn add(slot: &mut Option<Tensor>, term: Tensor) {
    *slot = Some(match slot.take() {
        Some(sum) => sum + term,
        None => term,
    });
}

/// `−Σ_c p log p`. `[.., classes]` → `[..]`
fn entropy_of(p: &Tensor, log_p: &Tensor) -> Tensor {
    -(p * log_p).sum_dim_intlist(-1, false, p.kind())
}

/// Means and noise variances of every draw, from which all regression metrics follow.
#[derive(Debug)]
pub struct Regressed {
    /// `[K, N]`
    pub means: Tensor,
    /// `[K, N]`
    pub noise: Tensor,
}

impl Regressed {
    /// Mean of the draws' means. `[N]`
    pub fn mean(&self) -> Tensor {
        self.means.mean_dim(0, false, Kind::Double)
    }

    /// Variance of the draws' means. `[N]`
    pub fn epistemic(&self) -> Tensor {
        self.means.var_dim(0, false, false)
    }

    /// Mean of the draws' noise variances. `[N]`
    pub fn aleatoric(&self) -> Tensor {
        self.noise.mean_dim(0, false, Kind::Double)
    }
}

/// Predicts a Gaussian for each input with K draws.
///
/// # Shapes
/// batches of `[n_i, features]` → `[K, N]`
///
/// # Errors
/// When there is no batch, or one does not fit the network.
pub fn regress(draws: &Draws, likelihood: &Gaussian, batches: &[Tensor]) -> Result<Regressed> {
    offsets(batches)?;
    let mut means: Vec<Vec<Tensor>> = batches.iter().map(|_| Vec::new()).collect();
    let mut noise: Vec<Vec<Tensor>> = batches.iter().map(|_| Vec::new()).collect();
    draws.outputs(batches, |index, outputs| {
        let output = likelihood.output(&outputs.to_kind(Kind::Double));
        means[index].push(output.mean);
        noise[index].push(output.variance.to_kind(Kind::Double));
        Ok(())
    })?;
    let join = |parts: Vec<Vec<Tensor>>| {
        Tensor::cat(&parts.iter().map(|draws| Tensor::stack(draws, 0)).collect::<Vec<_>>(), 1).detach()
    };
    Ok(Regressed { means: join(means), noise: join(noise) })
}
