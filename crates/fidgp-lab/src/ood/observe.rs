//! What one model with one U says about images: logits, features, and per layer what the scores need.
//!
//! Evaluation-mode BatchNorm, the model's own normalisation, pseudo-labels, and the *sum* of the losses: each image's
//! gradient is its own, whatever else is in the batch.

use fidgp::Key;
use fidgp::layer::{Conv2dConfig, Factors, LayerGeometry, Mode, Operation, Pass, Taps};
use fidgp::linalg::Check;
use fidgp::objective::Reading;
use fidgp::ood::{Tap, log_unexplained, pooled_product};
use fidgp::predict::{ClassDraws, Classified, Gather, joined_logits, mean_features};
use fidgp::prior::PriorFactors;
use fidgp::weight::InducingWeight;
use fidgp_zoo::baseline::activation::Head;
use fidgp_zoo::baseline::odin;
use fidgp_zoo::methods::ddu::LOG_DENSITY;
use tch::{Kind, Tensor};

use super::inducing::{Inducing, plain};
use super::linearised::OwnLaw;
use super::members::{self, pooled};
use super::observed::Observed;
use super::scorer::named;
use super::scores::Needs;
use crate::error::{LabError, Result};
use crate::model::{MEMBERS, Model, Normalisation, Parts};
use crate::predict::{FEATURES, Trained};

/// A pooled input with fewer channels than this has no subspace worth the name.
const FEWEST_CHANNELS: i64 = 8;

/// Rows to quantities; each row's must not depend on the other rows.
pub trait Observe {
    /// # Errors
    /// When the inputs do not fit.
    fn observe(&self, inputs: &Tensor) -> Result<Observed>;

    /// What scores are fitted on alone: neither answers of other draws nor perturbed inputs, which cost most of the passes.
    ///
    /// # Errors
    /// As [`Self::observe`].
    fn observe_to_fit(&self, inputs: &Tensor) -> Result<Observed> {
        self.observe(inputs)
    }

    /// The processes that look together; this one alone, unless the model is shared.
    fn parts(&self) -> Parts {
        Parts::default()
    }
}

/// How closely images are looked at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Look {
    /// For everything that is fitted.
    ToFit,
    /// For every score.
    ToScore,
}

/// A model with one U.
#[derive(Debug)]
pub struct ModelObserver<'a> {
    model: &'a Model,
    normalisation: Normalisation,
    pass: Pass,
    weights: Vec<Tensor>,
    /// The Bayesian layers.
    pub inducing: Vec<Inducing>,
    head: Option<Head>,
    pooled: Vec<String>,
    gradients: bool,
    perturb: bool,
    draws: Vec<Vec<Tensor>>,
    /// The linearised posterior, which predicts in place of draws.
    law: Option<OwnLaw<'a>>,
    /// Draws of layers that draw themselves, and the key of them.
    own_draws: (u64, Key),
    block: Option<i64>,
}

/// Which U.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WeightChoice {
    /// The centre of q(U).
    Mean,
    /// The draw of this number.
    Draw(u64),
}

impl std::fmt::Display for WeightChoice {
    fn fmt(&self, f: &mut std::fmt::Formatter) -> std::fmt::Result {
        match self {
            Self::Mean => write!(f, "mean"),
            Self::Draw(k) => write!(f, "draw {k}"),
        }
    }
}

impl<'a> ModelObserver<'a> {
    /// Fixes U, once; `draws` more passes give the total entropy and the mutual information (none for 0), `gradients` the
    /// backward passes for the residuals and for ODIN.
    ///
    /// # Errors
    /// When the model is no classifier of images, or a covariance cannot be factorised.
    pub fn new(predictor: &'a Trained, u: WeightChoice, draws: u64, gradients: bool) -> Result<Self> {
        let model = &predictor.model;
        let Some(normalisation) = model.normalisation.as_ref().filter(|_| predictor.square_view().is_some()) else {
            let why = "is a regression; out-of-distribution scores need a classifier of images";
            return Err(LabError::config("MODEL", why));
        };
        if draws == 1 {
            let why = "has no mutual information: take at least 2 draws, or 0 to leave it out";
            return Err(LabError::config("--draws 1", why));
        }
        tch::no_grad(|| {
            let weights = model.network.inducing();
            let factors = Factors::of(&weights, Check::Now)?;
            let key = Key::new(predictor.config.seed).fold("predict");
            let pass = Pass::mean(&weights, &factors, Mode::Eval)?;
            let mut drawn = Vec::new();
            let mut inducing = Vec::new();
            for weight in &weights {
                let own = factors.get(&weight.name)?;
                let (w, v) = at(weight, &own, u, key)?;
                drawn.push((weight.name.clone(), w));
                if layer(model, &weight.name).is_some_and(|layer| layer.training_only) {
                    continue;
                }
                inducing.push(Inducing {
                    name: weight.name.clone(),
                    u: own.unwhiten(&v),
                    conv: convolution(model, &weight.name),
                    t_row: own.t_row().to_kind(Kind::Double),
                    factors: in_f64(own),
                });
            }
            drawn.sort_by(|a, b| a.0.cmp(&b.0)); // the order of a pass's weights
            let head = head(model, &drawn);
            let weights_of = |k: u64| -> Result<Vec<Tensor>> {
                let pass = Pass::draw(&weights, &factors, Mode::Eval, key.at(k))?;
                Ok(pass.weights().collect())
            };
            let own_draws = (if members::draw_themselves(model) { draws } else { 0 }, key);
            let law = OwnLaw::of(model, key)?;
            let draws = if weights.is_empty() || law.is_some() { 0 } else { draws };
            Ok(Self {
                model,
                law,
                normalisation: normalisation.share(),
                pass,
                weights: drawn.into_iter().map(|(_, w)| w).collect(),
                inducing,
                head,
                pooled: pooled_layers(model),
                gradients: gradients && !weights.is_empty(),
                perturb: gradients,
                draws: (0..draws).map(weights_of).collect::<Result<_>>()?,
                own_draws,
                block: None,
            })
        })
    }

    /// Takes images in blocks of exactly this size, filled up with copies of the first. Kernels are chosen by the size of a
    /// batch, and where they differ in the last digit a ReLU may open or close: in blocks of one size an image has one score.
    #[must_use]
    pub fn in_blocks(self, size: usize) -> Self {
        Self { block: Some(size.max(1) as i64), ..self }
    }

    /// Scores that this model does not have, and why.
    pub(super) fn left_out(&self) -> Vec<String> {
        let mut all = Vec::new();
        let mut lacks = |needs: &[Needs], why: &str| all.push(format!("{}: {why}", named(needs)));
        let one_answer = self.inducing.is_empty() && !members::draw_themselves(self.model);
        let has_draws = self.law.is_some() || self.own_draws.0 > 0 || !self.draws.is_empty();
        if self.model.network.members() == 1 && (one_answer || !has_draws) {
            let why = if one_answer { "the network has neither draws nor members" } else { "no draws were asked for" };
            lacks(&[Needs::Draws], why);
        }
        if self.inducing.is_empty() {
            lacks(&[Needs::Inducing, Needs::Linearised], "the network has no inducing weights");
        } else if self.law.is_none() {
            lacks(&[Needs::Linearised], "the model has no linearised posterior; `fidgp fit-posterior` fits one");
        }
        if self.has_many_features() {
            lacks(&[Needs::Features, Needs::Head], "the members have features of their own");
        } else if self.head.is_none() {
            lacks(&[Needs::Head], "the last layer is the method's own, no plain linear one with a bias");
        }
        all
    }

    /// Whether the network is several, each with features of its own: a deep ensemble.
    fn has_many_features(&self) -> bool {
        let names: Vec<_> = self.model.store.variables().into_keys().collect();
        self.model.network.members() > 1 && names.iter().any(|name| name.starts_with(MEMBERS))
    }

    /// The last layer, at the same U; none where it is no linear one.
    pub fn head(&self) -> Option<Head> {
        let share = |head: &Head| Head { weight: head.weight.shallow_clone(), bias: head.bias.shallow_clone() };
        self.head.as_ref().map(share)
    }

    /// With another normalisation than the model's own, as nobody should.
    pub(super) fn with_normalisation(self, normalisation: Normalisation) -> Self {
        Self { normalisation, ..self }
    }

    fn inputs(&self, pixels: &Tensor) -> Tensor {
        let pixels = pixels.to_device(self.model.store.device()).to_kind(Kind::Float);
        tch::no_grad(|| self.normalisation.apply(&pixels)).detach()
    }

    /// The mean patch that each Bayesian layer sees, a bias's 1 at the end. `[N, d_in]` each, in f64
    pub(super) fn patches(&self, pixels: &Tensor) -> Result<Vec<Tensor>> {
        let names: Vec<&str> = self.inducing.iter().map(|layer| layer.name.as_str()).collect();
        tch::no_grad(|| {
            let (_, pass) = self.forward(&self.inputs(pixels), &self.weights, Taps::on(&names))?;
            let missing = |name: &str| LabError::config(name, "was not reached by the forward pass");
            let patch = |layer: &Inducing| {
                let input = pass.taps.input(&layer.name).ok_or_else(|| missing(&layer.name))?;
                layer.patch(input, pixels.size()[0])
            };
            self.inducing.iter().map(patch).collect()
        })
    }

    /// The logits alone. `[N, K]`
    pub(super) fn logits(&self, pixels: &Tensor) -> Result<Tensor> {
        tch::no_grad(|| Ok(plain(&self.forward(&self.inputs(pixels), &self.weights, Taps::default())?.0)))
    }

    /// The variance score of each Bayesian layer. `[N]` each
    pub(super) fn unexplained(&self, pixels: &Tensor) -> Result<Vec<Tensor>> {
        let patches = self.patches(pixels)?;
        let layers = self.inducing.iter().zip(&patches);
        Ok(tch::no_grad(|| layers.map(|(layer, x)| plain(&log_unexplained(&layer.factors, x))).collect()))
    }

    /// `q = T_rowᵀ Σ_hw h·g` of each Bayesian layer. `[N, R]` each
    pub(super) fn rows(&self, pixels: &Tensor) -> Result<Vec<Tensor>> {
        let names: Vec<&str> = self.inducing.iter().map(|layer| layer.name.as_str()).collect();
        let leaf = self.inputs(pixels).set_requires_grad(true);
        let (logits, pass) = self.forward(&leaf, &self.weights, Taps::on(&names))?;
        let taps = self.taps(&logits, &pass)?;
        let row = |(layer, tap): (&Inducing, &Tap)| Ok(plain(&pooled_product(tap)?.matmul(&layer.t_row)));
        tch::no_grad(|| self.inducing.iter().zip(&taps).map(row).collect())
    }

    /// `h ⊙ g` of the Bayesian layers, flattened. `[N, ..]` each
    pub(super) fn products(&self, pixels: &Tensor) -> Result<Vec<Tensor>> {
        let names: Vec<&str> = self.inducing.iter().map(|layer| layer.name.as_str()).collect();
        let leaf = self.inputs(pixels).set_requires_grad(true);
        let (logits, pass) = self.forward(&leaf, &self.weights, Taps::on(&names))?;
        Ok(self.taps(&logits, &pass)?.iter().map(Tap::product).collect::<fidgp::Result<_>>()?)
    }

    /// Logits of the input moved against the gradient of ODIN's loss, which is taken at `leaf`.
    fn perturbed(&self, pixels: &Tensor, leaf: &Tensor, logits: &Tensor) -> Result<Tensor> {
        let gradient = Tensor::f_run_backward(&[odin::loss(logits)], &[leaf], true, false)?;
        let pixels = pixels.to_device(leaf.device()).to_kind(Kind::Float);
        let moved = odin::perturbed(&pixels, &gradient[0], 255.0 * odin::EPSILON);
        tch::no_grad(|| Ok(plain(&self.forward(&self.normalisation.apply(&moved), &self.weights, Taps::default())?.0)))
    }

    fn forward(&self, x: &Tensor, weights: &[Tensor], taps: Taps) -> Result<(Tensor, Pass)> {
        let mut pass = self.pass.with_weights(weights).with_taps(taps);
        let logits = self.model.network.forward(x, &mut pass)?;
        let logits = members::of_pictures(self.model, &logits);
        Ok((joined_logits(&logits, self.model.network.members())?, pass))
    }

    /// Gradients of the summed loss at the outputs of the Bayesian layers.
    fn taps(&self, logits: &Tensor, pass: &Pass) -> Result<Vec<Tap>> {
        let met =
            self.inducing.iter().filter_map(|layer| Some((layer, pass.taps.feature(&layer.name)?.shallow_clone())));
        let (layers, outputs): (Vec<&Inducing>, Vec<Tensor>) = met.unzip();
        // In f64: where the network is sure, p − 1 has no digits left in f32.
        let loss = -logits.log_softmax(-1, Kind::Double).amax([-1_i64].as_slice(), false).sum(Kind::Double);
        let gradients = Tensor::f_run_backward(&[loss], &outputs, false, false)?;
        let given = layers.iter().zip(&outputs).zip(&gradients);
        given.map(|((layer, output), gradient)| layer.tap(output, gradient, logits.size()[0])).collect()
    }

    fn entropies(&self, x: &Tensor) -> Result<Option<(Tensor, Tensor)>> {
        let drawn = |weights: &Vec<Tensor>| Ok(self.forward(x, weights, Taps::default())?.0);
        let all = if self.own_draws.0 > 0 || self.model.network.members() > 1 {
            members::passes(self.model, x, self.own_draws.0, self.own_draws.1)?
        } else {
            self.draws.iter().map(drawn).collect::<Result<_>>()?
        };
        if all.is_empty() {
            return Ok(None);
        }
        let mut classes = ClassDraws::new(1);
        all.iter().try_for_each(|logits| classes.add(logits))?;
        let Classified { total, aleatoric, .. } = classes.done()?;
        Ok(Some((plain(&total), plain(&(&total - aleatoric))))) // not cut off at 0: rounding must not make ties
    }
}

impl Observe for ModelObserver<'_> {
    fn observe(&self, pixels: &Tensor) -> Result<Observed> {
        self.in_turn(pixels, Look::ToScore)
    }

    fn observe_to_fit(&self, pixels: &Tensor) -> Result<Observed> {
        self.in_turn(pixels, Look::ToFit)
    }

    fn parts(&self) -> Parts {
        self.model.parts.clone()
    }
}

impl ModelObserver<'_> {
    /// Block by block where blocks have one size.
    fn in_turn(&self, pixels: &Tensor, look: Look) -> Result<Observed> {
        let Some(size) = self.block else { return self.observe_together(pixels, look) };
        let mut blocks = Vec::new();
        for part in pixels.split(size, 0) {
            let count = part.size()[0];
            let mut shape = part.size();
            shape[0] = size - count;
            let full = Tensor::cat(&[&part, &part.narrow(0, 0, 1).expand(shape, false)], 0);
            blocks.push(self.observe_together(&full, look)?.first(count));
        }
        Ok(if blocks.len() == 1 { blocks.swap_remove(0) } else { Observed::join(blocks) })
    }

    fn observe_together(&self, pixels: &Tensor, look: Look) -> Result<Observed> {
        let x = self.inputs(pixels);
        let layers = self.inducing.iter().map(|layer| layer.name.as_str());
        let last = self.model.network.head().unwrap_or(FEATURES);
        let wanted: Vec<&str> =
            layers.chain(self.pooled.iter().map(String::as_str)).chain([FEATURES, LOG_DENSITY, last]).collect();
        let (mut taps, mut perturbed) = (Vec::new(), None);
        let closely = look == Look::ToScore;
        let (logits, pass) = if self.gradients || self.perturb && closely {
            let leaf = x.detach().set_requires_grad(true);
            let (logits, pass) = self.forward(&leaf, &self.weights, Taps::on(&wanted))?;
            if closely {
                perturbed = Some(self.perturbed(pixels, &leaf, &logits)?);
            }
            if self.gradients {
                taps = self.taps(&logits, &pass)?;
            }
            (logits, pass)
        } else {
            tch::no_grad(|| self.forward(&x, &self.weights, Taps::on(&wanted)))?
        };
        let single = |taken: &Tensor| mean_features(taken, self.model.network.members(), x.size()[0]);
        let (draws, linearised) = match &self.law {
            _ if !closely => (None, None),
            Some(law) => law.said(&x).map(|(entropies, variance)| (Some(entropies), Some(variance)))?,
            None => (tch::no_grad(|| self.entropies(&x))?, None),
        };
        tch::no_grad(|| {
            let features = pass.taps.feature(FEATURES).or_else(|| pass.taps.input(last));
            let mut seen = Observed {
                logits: plain(&logits),
                features: features.and_then(single).map(|features| plain(&pooled(&features))),
                perturbed,
                draws,
                linearised,
                log_density: pass.taps.feature(LOG_DENSITY).map(plain),
                ..Observed::default()
            };
            for name in &self.pooled {
                if let Some(input) = pass.taps.input(name).and_then(single) {
                    seen.pooled
                        .push((name.clone(), plain(&input.mean_dim([2_i64, 3].as_slice(), false, input.kind()))));
                }
            }
            for layer in &self.inducing {
                if let Some(input) = pass.taps.input(&layer.name) {
                    seen.unexplained.push((layer.name.clone(), plain(&layer.unexplained(input, x.size()[0])?)));
                }
            }
            for (layer, tap) in self.inducing.iter().zip(taps) {
                let q = pooled_product(&tap)?.matmul(&layer.t_row);
                seen.rows.push((layer.name.clone(), plain(&q)));
                seen.products.push((layer.name.clone(), tap.product()?));
            }
            Ok(seen)
        })
    }
}

fn in_f64(mut factors: PriorFactors) -> PriorFactors {
    factors.a_col = factors.a_col.to_kind(Kind::Double);
    factors
}

/// The weight and V at the U that was asked for.
fn at(weight: &InducingWeight, prior: &PriorFactors, u: WeightChoice, key: Key) -> Result<(Tensor, Tensor)> {
    let WeightChoice::Draw(k) = u else { return Ok((weight.mean(prior), weight.posterior.centre(prior))) };
    let noise = weight.noise(key.at(k), false);
    let v = weight.posterior.draw(prior, &noise.inducing).whitened;
    Ok((weight.draw(prior, &noise)?.0.matrix(), v))
}

fn layer<'a>(model: &'a Model, name: &str) -> Option<&'a LayerGeometry> {
    model.geometry.iter().find(|layer| layer.name == name)
}

fn convolution(model: &Model, name: &str) -> Option<Conv2dConfig> {
    layer(model, name).and_then(|layer| match layer.operation {
        Operation::Conv(conv) => Some(conv),
        _ => None,
    })
}

/// Convolutions of more than one pixel on enough channels, in the order of the network.
fn pooled_layers(model: &Model) -> Vec<String> {
    let fits = |name: &str| {
        convolution(model, name).is_some_and(|conv| conv.kernel[0] > 1 && conv.in_channels >= FEWEST_CHANNELS)
    };
    model.geometry.iter().filter(|layer| fits(&layer.name)).map(|layer| layer.name.clone()).collect()
}

/// The last layer, if it is a linear one with a bias; divided by the temperature, as logits are.
fn head(model: &Model, drawn: &[(String, Tensor)]) -> Option<Head> {
    if matches!(model.likelihood.reading(), Reading::Pixels { .. }) {
        return None;
    }
    let temperature = model.temperature.unwrap_or(1.0);
    let plain = |tensor: &Tensor| plain(tensor) / temperature;
    let slots = model.network.slots();
    match slots.into_iter().find(|slot| Some(slot.name()) == model.network.head())? {
        fidgp::layer::Slot::Dense(dense) if dense.weight.dim() == 2 => {
            Some(Head { weight: plain(&dense.weight), bias: plain(dense.bias.as_ref()?) })
        }
        fidgp::layer::Slot::Inducing(weight) => {
            let (_, w) = drawn.iter().find(|(name, _)| *name == weight.name)?;
            let inputs = w.size()[1] - 1;
            Some(Head { weight: plain(&w.narrow(1, 0, inputs)), bias: plain(&w.select(1, inputs)) })
        }
        _ => None,
    }
}
