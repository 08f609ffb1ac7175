//! One training step: its losses and its gradient.
//!
//! On CUDA a step is thousands of small kernels, and launching them one by one takes longer than running them. So after a
//! few steps the whole of it (factors, draw, forward, backward) is captured as a CUDA graph, and from then on only its
//! inputs are overwritten: the batch, the noise, β. Whatever cannot be captured runs as before.

use fidgp::Key;
use fidgp::layer::{Across, Factors, Mode, Noise, OutputNoise, OutputTensors, Pass, Slot, Taps};
use fidgp::linalg::{Check, check_finite};
use fidgp::linearised::unexplained;
use fidgp::objective::{DatasetSize, KlSum, negative_elbo, sum_kl};
use fidgp::weight::WhitenedDraws;
use fidgp_torch::{Graph, GraphError, SideStream};
use tch::{Device, Kind, Tensor};

use super::Stepped;
use super::group::{Part, Share};
use super::optimiser::Optimiser;
use crate::capture::{aside, record};
use crate::error::{LabError, Result};
use crate::model::Model;

/// Steps before the capture: they choose kernels and allocate workspaces, which a capture may not.
const WARM_UP: usize = 3;

/// What a step is given, beside the parameters.
#[derive(Debug)]
pub struct StepInput {
    /// Inputs. `[N, ..]`
    pub x: Tensor,
    /// Targets. `[N]`
    pub y: Tensor,
    /// All its randomness.
    pub key: Key,
    /// Weight of the KL.
    pub beta: f64,
    /// Whether BatchNorm uses its running statistics.
    pub frozen_norm: bool,
    /// Which part of a batch it is, where several processes have one each.
    pub part: Part,
}

/// Computes steps of one model.
#[derive(Debug)]
pub struct Stepper<'a> {
    model: &'a Model,
    examples: DatasetSize,
    sharpness: Option<f64>,
    alignment: f64,
    check: Check,
    /// This process's share, where several train.
    share: Option<Share>,
    capture: Capture,
    /// Where inducing matrices are drawn while the factors are made.
    beside: Option<SideStream>,
    /// Noise on outputs is drawn into these, step after step, on the CPU.
    tensors: OutputTensors,
}

/// How far the capture is.
#[derive(Debug)]
enum Capture {
    /// Kernels are launched one by one.
    Off,
    /// So many steps were warm-up, on the stream that will be captured.
    Warming(SideStream, usize, Warmed),
    /// Steps of this batch size are replayed.
    Ready(SideStream, Box<Captured>),
}

impl Capture {
    fn warming(stream: SideStream) -> Self {
        Self::Warming(stream, 0, Warmed::default())
    }
}

/// What the last step of a warm-up leaves for the capture, which must be of the very same shapes.
#[derive(Debug, Default)]
struct Warmed {
    size: Vec<i64>,
    outputs: OutputNoise,
}

#[derive(Debug)]
struct Captured {
    graph: Graph,
    fixed: Fixed,
    frozen_norm: bool,
    stepped: Stepped,
}

/// The tensors a captured step reads.
#[derive(Debug)]
struct Fixed {
    x: Tensor,
    y: Tensor,
    noise: Noise,
    beta: Tensor,
}

impl<'a> Stepper<'a> {
    /// Steps on batches of `examples` in all; captured on CUDA when `capture` is set and all randomness is in tensors.
    pub fn new(model: &'a Model, examples: DatasetSize, capture: bool) -> Self {
        let replayable = model.network.inducing().iter().all(|weight| weight.is_replayable());
        let capture = match model.store.device() {
            Device::Cuda(device) if capture && replayable => match SideStream::new(device) {
                Ok(stream) => Capture::warming(stream),
                Err(error) => not_captured(&error),
            },
            _ => Capture::Off,
        };
        let beside = match (&capture, model.store.device()) {
            (Capture::Warming(..), Device::Cuda(device)) => SideStream::new(device).ok(),
            _ => None,
        };
        let check = if model.store.device().is_cuda() { Check::Deferred } else { Check::Now };
        Self {
            model,
            examples,
            sharpness: None,
            alignment: 0.0,
            check,
            share: None,
            capture,
            beside,
            tensors: OutputTensors::default(),
        }
    }

    /// Looks at factorisations when told, and not by the rule that the host never waits for a GPU.
    #[must_use]
    pub fn with_check(self, check: Check) -> Self {
        Self { check, ..self }
    }

    /// Takes the NLL's gradient at `θ + ρ g/‖g‖`, g being that at θ (Foret et al. 2021): the same noise in both passes, no
    /// update of BatchNorm's statistics in the second. The KL's gradient stays that at θ.
    #[must_use]
    pub fn with_sharpness(mut self, rho: Option<f64>) -> Self {
        self.sharpness = rho;
        self
    }

    /// Adds to the loss, with this weight, the share of the layers' inputs that the inducing columns leave unexplained.
    #[must_use]
    pub fn with_alignment(self, weight: f64) -> Self {
        Self { alignment: weight, ..self }
    }

    /// Computes a part of every batch. What talks to other processes on its way is not captured.
    #[must_use]
    pub fn with_share(mut self, share: Option<Share>) -> Self {
        let sums = self.model.likelihood.sums_over_parts() || self.sharpness.is_some();
        if share.as_ref().is_some_and(|share| share.talks_inside() || sums) {
            self.capture = Capture::Off;
        }
        self.share = share;
        self
    }

    /// Losses and gradient. Only batches of the largest size are captured.
    ///
    /// # Errors
    /// When the batch does not fit the network or a covariance cannot be factorised.
    pub fn step(&mut self, input: &StepInput, optimiser: &Optimiser) -> Result<Stepped> {
        if input.part.short && self.share.is_some() {
            return self.plain(input, optimiser); // BatchNorm asks the others
        }
        match std::mem::replace(&mut self.capture, Capture::Off) {
            Capture::Off => self.plain(input, optimiser),
            Capture::Ready(stream, captured)
                if captured.frozen_norm != input.frozen_norm || captured.fixed.x.size()[0] < input.x.size()[0] =>
            {
                drop(captured);
                self.capture = Capture::warming(stream);
                self.step(input, optimiser)
            }
            Capture::Ready(stream, mut captured) => {
                let stepped = if captured.fixed.x.size() == input.x.size() {
                    Self::replay(&mut captured, input).map(Ok)
                } else {
                    Ok(self.plain(input, optimiser))
                };
                match stepped {
                    Ok(stepped) => {
                        self.capture = Capture::Ready(stream, captured);
                        stepped
                    }
                    Err(error) => {
                        self.capture = not_captured(&error);
                        self.plain(input, optimiser)
                    }
                }
            }
            Capture::Warming(stream, done, warmed) if done > 0 && warmed.size[0] > input.x.size()[0] => {
                self.capture = Capture::Warming(stream, done, warmed);
                self.plain(input, optimiser)
            }
            Capture::Warming(stream, done, warmed) if done < WARM_UP || warmed.size != input.x.size() => {
                let done = if warmed.size == input.x.size() { done } else { 0 };
                match aside(self.model.store.device(), stream, || self.warm_up(input, optimiser)) {
                    Ok(warmed) => {
                        let (stepped, outputs) = warmed?;
                        self.capture = Capture::Warming(stream, done + 1, Warmed { size: input.x.size(), outputs });
                        Ok(stepped)
                    }
                    Err(error) => {
                        self.capture = not_captured(&error);
                        self.plain(input, optimiser)
                    }
                }
            }
            Capture::Warming(stream, _, warmed) => match self.captured(stream, input, warmed.outputs, optimiser) {
                Ok(captured) => {
                    self.capture = Capture::Ready(stream, Box::new(captured));
                    self.step(input, optimiser)
                }
                Err(error) => {
                    self.capture = not_captured(&error);
                    self.plain(input, optimiser)
                }
            },
        }
    }

    /// What is not finite: the first layer, in the order of the forward pass, whose outputs are not finite when a step's batch goes through the
    /// network again, in training or evaluation, or the first whose KL is not; none when all are. Parameters stay as they are (power
    /// iterations of flows go one step on).
    ///
    /// # Errors
    /// As [`Self::step`].
    pub fn broken_layer(&self, input: &StepInput, mode: Mode) -> Result<Option<String>> {
        let layers: Vec<_> = self.model.network.slots().into_iter().map(Slot::name).collect();
        let fixed = self.fixed(input, self.noise(input));
        let (_, pass) = tch::no_grad(|| {
            self.forward(&fixed, self.prepare(&fixed)?, None, |pass| {
                pass.mode = mode;
                pass.taps = Taps::on(&layers);
                pass.frozen_norm = input.frozen_norm;
                pass.keep_statistics = true;
            })
        })?;
        let broken =
            |layer: &&&str| pass.taps.feature(layer).is_some_and(|outputs| check_finite("", outputs, "").is_err());
        if let Some(layer) = layers.iter().find(broken) {
            return Ok(Some(format!("the outputs of `{layer}` are not")));
        }
        let infinite = |kl: &Tensor| !kl.double_value(&[]).is_finite();
        let kls = pass
            .kl()
            .iter()
            .flat_map(|(layer, kl)| [(layer, "U", &kl.inducing), (layer, "W given U", &kl.conditional)]);
        Ok(kls
            .into_iter()
            .find(|(.., kl)| infinite(kl))
            .map(|(layer, of, _)| format!("the KL of {of} of `{layer}` is not")))
    }

    fn plain(&mut self, input: &StepInput, optimiser: &Optimiser) -> Result<Stepped> {
        let mut noise = self.noise(input);
        if !input.x.device().is_cuda() {
            noise.outputs.lend(std::mem::take(&mut self.tensors));
        }
        let (stepped, mut outputs) =
            self.compute(&self.fixed(input, noise), (input.frozen_norm, input.part), optimiser)?;
        self.tensors = outputs.give_back();
        Ok(stepped)
    }

    /// Launches kernel by kernel; the noise that layers draw on their outputs is kept and comes back.
    fn warm_up(&self, input: &StepInput, optimiser: &Optimiser) -> Result<(Stepped, OutputNoise)> {
        let mut noise = self.noise(input);
        noise.outputs = noise.outputs.kept();
        self.compute(&self.fixed(input, noise), (input.frozen_norm, input.part), optimiser)
    }

    fn noise(&self, input: &StepInput) -> Noise {
        let mut noise = Noise::draw(&self.model.network.inducing(), input.key, Mode::Train);
        if let Some(number) = input.part.number {
            noise.outputs = noise.outputs.of_part(number);
        }
        noise
    }

    /// The step itself, and the noise on outputs it was made with.
    fn compute(
        &self,
        fixed: &Fixed,
        (frozen_norm, part): (bool, Part),
        optimiser: &Optimiser,
    ) -> Result<(Stepped, OutputNoise)> {
        let across = || self.share.as_ref().and_then(|share| share.across(part));
        let prepared = self.prepare(fixed)?;
        let factors = prepared.0.share();
        let (nll, pass) = self.forward(fixed, prepared, Some(part), |pass| {
            pass.frozen_norm = frozen_norm;
            pass.across = across();
            self.tap(pass);
        })?;
        let kl = sum_kl(pass.kl());
        let left = self.unexplained(&factors, &pass)?;
        let elbo = negative_elbo(&nll, kl.as_ref(), &fixed.beta, self.examples);
        let loss = left.as_ref().map_or_else(|| elbo.shallow_clone(), |left| &elbo + left);
        let term = |term: fn(&KlSum) -> &Tensor| kl.as_ref().map_or_else(|| nll.zeros_like(), |kl| term(kl).detach());
        let parts = [loss.detach(), nll.detach(), term(|kl| &kl.inducing), term(|kl| &kl.conditional)];
        let parts = Tensor::stack(&parts.map(|part| part.to_kind(nll.kind())), 0);
        let gradient = match self.sharpness {
            None => optimiser.gradient(&loss)?,
            Some(rho) => {
                let own = optimiser.kept_gradient(&nll)?;
                let at_here =
                    self.share.as_ref().map_or_else(|| Ok(own.shallow_clone()), |share| share.mean(&own, part.mass))?;
                let divergence = negative_elbo(&nll.zeros_like(), kl.as_ref(), &fixed.beta, self.examples);
                let divergence = left.as_ref().map_or_else(|| divergence.shallow_clone(), |left| &divergence + left);
                let divergence =
                    (kl.is_some() || left.is_some()).then(|| optimiser.gradient(&divergence)).transpose()?;
                // A gradient that is not finite must not spread to the parameters before the loss is looked at.
                let away = (&at_here * (rho / (at_here.norm() + 1e-12))).nan_to_num(0.0, 0.0, 0.0);
                optimiser.shift(&away);
                let sharp = self.nll_gradient(fixed, (frozen_norm, part), across(), optimiser);
                optimiser.shift(&-away);
                match divergence {
                    Some(divergence) => divergence + sharp?,
                    None => sharp?,
                }
            }
        };
        Ok((Stepped { parts, gradient }, pass.noise))
    }

    /// Asks for the inputs of the layers that are to be explained.
    fn tap(&self, pass: &mut Pass) {
        if self.alignment > 0.0 {
            let weights = self.model.network.inducing();
            pass.taps = Taps::on(&weights.iter().map(|weight| weight.name.as_str()).collect::<Vec<_>>());
        }
    }

    /// What is added to the loss; none where nothing is.
    fn unexplained(&self, factors: &Factors, pass: &Pass) -> Result<Option<Tensor>> {
        if self.alignment == 0.0 {
            return Ok(None);
        }
        let left = unexplained(&self.model.network.inducing(), factors, &pass.taps)?;
        Ok(left.map(|left| left * self.alignment))
    }

    /// Factors and inducing matrices: on CUDA side by side, since neither fills the device.
    fn prepare(&self, fixed: &Fixed) -> Result<(Factors, WhitenedDraws)> {
        let weights = self.model.network.inducing();
        let factors = || Factors::of(&weights, self.check);
        let ahead = || WhitenedDraws::draw(&weights, &fixed.noise.weights, true);
        let (factors, ahead) = match self.beside {
            Some(stream) => stream.beside(factors, ahead).map_err(|error| LabError::config("CUDA", error.0))?,
            None => (factors(), ahead()),
        };
        Ok((factors?, ahead?))
    }

    /// The NLL of the batch, or of a part of it that is computed beside others, by a pass set up as said.
    fn forward(
        &self,
        fixed: &Fixed,
        (factors, ahead): (Factors, WhitenedDraws),
        part: Option<Part>,
        set: impl FnOnce(&mut Pass),
    ) -> Result<(Tensor, Pass)> {
        let weights = self.model.network.inducing();
        let pass = Pass::with_ahead(&weights, &factors, Mode::Train, &fixed.noise, ahead)?;
        let mut pass = pass.computing_in(self.model.compute);
        set(&mut pass);
        let outputs = self.model.network.forward(&fixed.x, &mut pass)?;
        let nll = match (&self.share, part) {
            (Some(share), Some(part)) => self.model.nll_of_part(&outputs, &fixed.y, &|own| share.sum(own, part))?,
            _ => self.model.nll(&outputs, &fixed.y),
        };
        Ok((nll, pass))
    }

    /// The NLL's gradient where the parameters are now; BatchNorm's statistics stay as they are.
    fn nll_gradient(
        &self,
        fixed: &Fixed,
        (frozen_norm, part): (bool, Part),
        across: Option<Across>,
        optimiser: &Optimiser,
    ) -> Result<Tensor> {
        let (nll, _) = self.forward(fixed, self.prepare(fixed)?, Some(part), |pass| {
            pass.frozen_norm = frozen_norm;
            pass.keep_statistics = true;
            pass.across = across;
        })?;
        optimiser.gradient(&nll)
    }

    fn fixed(&self, input: &StepInput, noise: Noise) -> Fixed {
        let device = self.model.store.device();
        let beta = Tensor::full([0i64; 0], input.beta, (Kind::Float, device));
        Fixed { x: input.x.shallow_clone(), y: input.y.shallow_clone(), noise, beta }
    }

    /// Captures the step with tensors of its own.
    fn captured(
        &self,
        stream: SideStream,
        input: &StepInput,
        outputs: OutputNoise,
        optimiser: &Optimiser,
    ) -> std::result::Result<Captured, GraphError> {
        let mut noise = self.noise(input);
        noise.outputs = outputs;
        let fixed = Fixed { x: input.x.copy(), y: input.y.copy(), ..self.fixed(input, noise) };
        let work = || self.compute(&fixed, (input.frozen_norm, input.part), optimiser);
        let (graph, (stepped, _)) = record(self.model.store.device(), stream, work)?;
        Ok(Captured { graph, fixed, frozen_norm: input.frozen_norm, stepped })
    }

    /// Overwrites the inputs and launches the graph.
    fn replay(captured: &mut Captured, input: &StepInput) -> std::result::Result<Stepped, GraphError> {
        let Captured { graph, fixed, stepped, .. } = captured;
        tch::no_grad(|| {
            fixed.x.copy_(&input.x);
            fixed.y.copy_(&input.y);
            let _ = fixed.beta.fill_(input.beta);
            if let Some(number) = input.part.number {
                fixed.noise.outputs = std::mem::take(&mut fixed.noise.outputs).of_part(number);
            }
            fixed.noise.redraw(input.key);
        });
        graph.replay()?;
        Ok(Stepped { parts: stepped.parts.copy(), gradient: stepped.gradient.shallow_clone() })
    }
}

fn not_captured(error: &GraphError) -> Capture {
    crate::capture::warn("the training step", error);
    Capture::Off
}
