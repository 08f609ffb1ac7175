//! What one run through a network carries: mode, weights, noise, KL and taps. Nothing of it is kept in a layer.

use std::collections::{BTreeMap, HashMap};

use tch::{Kind, Tensor};

use super::noise::ReusedNoise;
use super::{Noise, Norm, OutputNoise};
use crate::linalg::{Batching, Check};
use crate::posterior::InducingDraw;
use crate::prior::PriorFactors;
use crate::weight::{self, Drawn, InducingWeight, Kl, Stack, WeightNoise};
use crate::{Error, Key, Result};

/// Training or evaluation: decides BatchNorm's statistics, dropout and the power iteration. Gradients flow in both.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// Batch statistics, dropout on, one power-iteration step.
    Train,
    /// Running statistics, no dropout, state untouched.
    Eval,
}

/// Prior factors of all Bayesian layers of a network, by layer name.
///
/// They depend on parameters only: make them once per optimiser step, or once per model at inference.
#[derive(Debug, Default)]
pub struct Factors {
    stacks: Vec<Stack>,
    /// Stack and place in it, by layer name.
    places: HashMap<String, (usize, i64)>,
}

impl Factors {
    /// Factors of all weights in one batched factorisation for each size.
    ///
    /// # Errors
    /// When a covariance cannot be factorised; the error names layer and matrix.
    pub fn of(weights: &[&InducingWeight], check: Check) -> Result<Self> {
        let stacks = weight::factors(weights, check)?;
        let places = stacks.iter().enumerate().flat_map(|(stack, Stack { members, .. })| {
            members.iter().zip(0..).map(move |(&member, place)| (weights[member].name.clone(), (stack, place)))
        });
        Ok(Self { places: places.collect(), stacks })
    }

    /// The factors of one layer.
    ///
    /// # Errors
    /// When the layer was not among the weights the factors were made of.
    pub fn get(&self, layer: &str) -> Result<PriorFactors> {
        let &(stack, place) = self.place(layer)?;
        Ok(self.stacks[stack].factors.layer(place))
    }

    /// The stacks, for weights that are exactly those the factors were made of.
    fn stacks_of(&self, weights: &[&InducingWeight]) -> Result<&[Stack]> {
        for (index, weight) in weights.iter().enumerate() {
            let &(stack, place) = self.place(&weight.name)?;
            if self.stacks[stack].members[place as usize] != index || weights.len() != self.places.len() {
                let advice = "stands elsewhere in the factors: draw all the weights they were made of, in that order";
                return Err(Error::setting("layer", &weight.name, advice));
            }
        }
        Ok(&self.stacks)
    }

    fn place(&self, layer: &str) -> Result<&(usize, i64)> {
        let advice = "has no factors: make `Factors::of` all Bayesian weights";
        self.places.get(layer).ok_or_else(|| Error::setting("layer", layer, advice))
    }
}

/// What a draw can do without factors: the inducing matrices. On a GPU both are made at once.
#[derive(Debug)]
pub struct Ahead(Vec<Option<InducingDraw>>);

impl Ahead {
    /// Draws the inducing matrices that need no factors; in training the power iterations of their flows advance.
    ///
    /// # Errors
    /// When flows that should be alike are not.
    pub fn draw(weights: &[&InducingWeight], mode: Mode, noise: &Noise) -> Result<Self> {
        Ok(Self(weight::draw_ahead(weights, &noise.weights, mode == Mode::Train)?))
    }
}

/// Features recorded on the way, by name.
#[derive(Debug, Default)]
pub struct Taps {
    wanted: Vec<String>,
    inputs: HashMap<String, Tensor>,
    seen: HashMap<String, Tensor>,
}

impl Taps {
    /// Asks for the inputs and outputs of the named layers.
    pub fn on(layers: &[&str]) -> Self {
        Self { wanted: layers.iter().map(ToString::to_string).collect(), ..Self::default() }
    }

    /// Whether this was asked for.
    pub fn wants(&self, layer: &str) -> bool {
        self.wanted.iter().any(|wanted| wanted == layer)
    }

    /// What the layer was given in the last pass.
    pub fn input(&self, layer: &str) -> Option<&Tensor> {
        self.inputs.get(layer)
    }

    /// What the layer gave in the last pass.
    pub fn feature(&self, layer: &str) -> Option<&Tensor> {
        self.seen.get(layer)
    }
}

/// One run through a network.
#[derive(Debug)]
pub struct Pass {
    /// Training or evaluation.
    pub mode: Mode,
    /// Recorded features.
    pub taps: Taps,
    /// The type in which large products are computed; that of the parameters when `None`. Draws, factors and KL are not
    /// touched by it.
    pub compute: Option<Kind>,
    /// BatchNorm uses its running statistics although the mode is training: what is trained is then what predicts.
    pub frozen_norm: bool,
    /// BatchNorm leaves its running statistics as they are, although it uses those of the batch.
    pub keep_statistics: bool,
    /// Which statistics BatchNorm uses in evaluation.
    pub norm: Norm,
    /// Noise on the outputs of layers.
    pub noise: OutputNoise,
    drawn: BTreeMap<String, Drawn>,
    kl: Vec<(String, Kl)>,
}

impl Pass {
    /// A pass with one draw of every Bayesian weight.
    ///
    /// # Errors
    /// When a draw fails; the error names the layer.
    pub fn draw(weights: &[&InducingWeight], factors: &Factors, mode: Mode, key: Key) -> Result<Self> {
        Self::with_noise(weights, factors, mode, &Noise::draw(weights, key, mode))
    }

    /// The same with noise that was drawn before.
    ///
    /// # Errors
    /// When a draw fails; the error names the layer.
    pub fn with_noise(weights: &[&InducingWeight], factors: &Factors, mode: Mode, noise: &Noise) -> Result<Self> {
        Self::with_ahead(weights, factors, mode, noise, Ahead::draw(weights, mode, noise)?)
    }

    /// The same with what was drawn ahead from that noise.
    ///
    /// # Errors
    /// When a draw fails; the error names the layer.
    pub fn with_ahead(
        weights: &[&InducingWeight],
        factors: &Factors,
        mode: Mode,
        noise: &Noise,
        ahead: Ahead,
    ) -> Result<Self> {
        let mut pass = Self { noise: noise.outputs.share(), ..Self::plain(mode) };
        let draws = weight::draw_all(weights, factors.stacks_of(weights)?, &noise.weights, ahead.0)?;
        for (weight, (drawn, kl)) in weights.iter().zip(draws) {
            pass.drawn.insert(weight.name.clone(), drawn);
            pass.kl.push((weight.name.clone(), kl));
        }
        Ok(pass)
    }

    /// Passes for prediction with one draw each: no KL. Draws that are portable are the same on every device.
    ///
    /// # Errors
    /// When a draw fails; the error names the layer.
    pub fn draw_many(
        weights: &[&InducingWeight],
        factors: &Factors,
        keys: &[Key],
        portable: bool,
    ) -> Result<Vec<Self>> {
        let stacks = factors.stacks_of(weights)?;
        let draws = match weight::batching(weights) {
            Batching::Together => {
                let of_key = |&key: &Key| {
                    if portable { Noise::portable(weights, key) } else { Noise::draw(weights, key, Mode::Eval).weights }
                };
                let noise: Vec<_> = keys.iter().map(of_key).collect();
                let inducing = |noise: &Vec<WeightNoise>| noise.iter().map(|noise| noise.inducing.share()).collect();
                let mut conditional = |k: usize| noise[k].iter().map(|noise| noise.conditional.share()).collect();
                let inducing: Vec<_> = noise.iter().map(inducing).collect();
                weight::draw_many(weights, stacks, &inducing, &mut conditional, Batching::Together)?
            }
            Batching::Apart => {
                let inducing = |key: &Key| weights.iter().map(|weight| weight.inducing_noise(*key, false)).collect();
                let mut reused = ReusedNoise::default();
                let mut conditional = |k: usize| reused.conditional(weights, keys[k]);
                let inducing: Vec<_> = keys.iter().map(inducing).collect();
                weight::draw_many(weights, stacks, &inducing, &mut conditional, Batching::Apart)?
            }
        };
        let passes = keys.iter().zip(draws).map(|(&key, draw)| {
            let drawn = weights.iter().map(|weight| weight.name.clone()).zip(draw).collect();
            Self { noise: OutputNoise::keyed(key).portable(portable), drawn, ..Self::plain(Mode::Eval) }
        });
        Ok(passes.collect())
    }

    /// A pass with every Bayesian weight at its posterior mean: no noise, no KL.
    ///
    /// # Errors
    /// When a weight has no factors.
    pub fn mean(weights: &[&InducingWeight], factors: &Factors, mode: Mode) -> Result<Self> {
        let mut pass = Self::plain(mode);
        for weight in weights {
            pass.drawn.insert(weight.name.clone(), Drawn::Weight(weight.mean(&factors.get(&weight.name)?)));
        }
        Ok(pass)
    }

    /// A pass with weights that are given, in the order of [`Self::weights`]: no noise, no KL.
    #[must_use]
    pub fn with_weights(&self, weights: &[Tensor]) -> Self {
        let mut pass = Self::plain(self.mode);
        let given = self.drawn.keys().cloned().zip(weights.iter().map(|weight| Drawn::Weight(weight.shallow_clone())));
        pass.drawn = given.collect();
        pass
    }

    /// A pass for a network without Bayesian weights.
    pub fn plain(mode: Mode) -> Self {
        Self {
            mode,
            taps: Taps::default(),
            compute: None,
            frozen_norm: false,
            keep_statistics: false,
            norm: Norm::Running,
            noise: OutputNoise::default(),
            drawn: BTreeMap::new(),
            kl: Vec::new(),
        }
    }

    /// Records features on the way.
    #[must_use]
    pub fn with_taps(mut self, taps: Taps) -> Self {
        self.taps = taps;
        self
    }

    /// Noise on outputs is the same for all rows of all batches: one draw is then one network for every example.
    #[must_use]
    pub fn with_one_noise(mut self) -> Self {
        self.noise = std::mem::take(&mut self.noise).one_for_all();
        self
    }

    /// The same weights with other noise on the outputs: for the next batch of the same draw.
    pub fn set_noise(&mut self, key: Key) {
        self.noise.set_key(key);
    }

    /// Every drawn weight, or its mean where the noise is drawn on the outputs, in the order of their names.
    pub fn weights(&self) -> impl Iterator<Item = Tensor> {
        self.drawn.values().map(Drawn::matrix)
    }

    /// KL of each Bayesian layer, in the order of the draw.
    pub fn kl(&self) -> &[(String, Kl)] {
        &self.kl
    }

    /// Adds the KL of a layer that draws its weight itself.
    pub fn charge(&mut self, layer: &str, kl: Kl) {
        self.kl.push((layer.to_owned(), kl));
    }

    /// Computes large products in another type, such as bf16.
    #[must_use]
    pub fn computing_in(mut self, kind: Option<Kind>) -> Self {
        self.compute = kind;
        self
    }

    /// Drawn weights in the type of the computation, for passes that are used many times.
    #[must_use]
    pub(crate) fn with_cast_weights(mut self) -> Self {
        if let Some(kind) = self.compute {
            self.drawn.values_mut().for_each(|drawn| *drawn = drawn.map(|tensor| tensor.to_kind(kind)));
        }
        self
    }

    /// Overwrites every drawn weight, and the draw's own statistics, with those of another pass through the same network.
    pub(crate) fn overwrite(&mut self, other: &Self) {
        for (drawn, other) in self.drawn.values().zip(other.drawn.values()) {
            drawn
                .tensors()
                .into_iter()
                .zip(other.tensors())
                .for_each(|(mine, theirs)| mine.shallow_clone().copy_(theirs));
        }
        if let (Norm::Own(mine), Norm::Own(theirs)) = (&self.norm, &other.norm) {
            mine.overwrite(theirs);
        }
        self.noise.follow(&other.noise);
    }

    /// A tensor in the type of the computation.
    pub(super) fn cast(&self, tensor: &Tensor) -> Tensor {
        self.compute.map_or_else(|| tensor.shallow_clone(), |kind| tensor.to_kind(kind))
    }

    pub(super) fn batch_statistics(&self) -> bool {
        self.mode == Mode::Train && !self.frozen_norm
    }

    pub(super) fn drawn(&self, layer: &str) -> Result<Drawn> {
        self.drawn.get(layer).map(Drawn::share).ok_or_else(|| {
            Error::setting("layer", layer, "was not drawn: make the pass from the network's own weights")
        })
    }

    /// Offers the input of a layer to the taps.
    pub(super) fn tap_input(&mut self, layer: &str, x: &Tensor) {
        if self.taps.wants(layer) {
            self.taps.inputs.insert(layer.to_owned(), x.shallow_clone());
        }
    }

    /// Offers a feature to the taps.
    pub fn tap(&mut self, layer: &str, feature: &Tensor) {
        if self.taps.wants(layer) {
            self.taps.seen.insert(layer.to_owned(), feature.shallow_clone());
        }
    }
}
