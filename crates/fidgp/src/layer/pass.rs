//! What one run through a network carries: mode, weights, noise, KL and taps. Nothing of it is kept in a layer.

use std::collections::{BTreeMap, HashMap};

use tch::{Kind, Tensor};

use super::blocks::Blocks;
use super::noise::NoiseOfDraws;
use super::{Across, Layer, LayerGeometry, Noise, Norm, Operation, OutputNoise};
use crate::linalg::Check;
use crate::prior::PriorFactors;
use crate::weight::{self, Drawn, InducingWeight, Kl, Stack, WhitenedDraws};
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

    /// The same tensors, not copies.
    #[must_use]
    pub fn share(&self) -> Self {
        Self { stacks: self.stacks.iter().map(Stack::share).collect(), places: self.places.clone() }
    }

    fn place(&self, layer: &str) -> Result<&(usize, i64)> {
        let advice = "has no factors: make `Factors::of` all Bayesian weights";
        self.places.get(layer).ok_or_else(|| Error::setting("layer", layer, advice))
    }
}

/// Features recorded on the way, by name.
#[derive(Debug, Default)]
pub struct Taps {
    wanted: Vec<String>,
    inputs: HashMap<String, Tensor>,
    seen: HashMap<String, Tensor>,
    operations: HashMap<String, (Operation, u32)>,
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

    /// What the layer does with its weight, and how often it did so in the last pass.
    pub fn operation(&self, layer: &str) -> Option<(Operation, u32)> {
        self.operations.get(layer).copied()
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
    /// Those of a batch in training are of the parts of all these processes.
    pub across: Option<Across>,
    /// Noise on the outputs of layers.
    pub noise: OutputNoise,
    /// The layers met so far, where only that is wanted of the pass.
    pub(super) trace: Option<Vec<LayerGeometry>>,
    pub(super) blocks: Blocks,
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
        let ahead = WhitenedDraws::draw(weights, &noise.weights, mode == Mode::Train)?;
        Self::with_ahead(weights, factors, mode, noise, ahead)
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
        ahead: WhitenedDraws,
    ) -> Result<Self> {
        let mut pass = Self { noise: noise.outputs.share(), ..Self::plain(mode) };
        let draws = weight::draw(weights, factors.stacks_of(weights)?, &noise.weights, ahead)?;
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
        let batching = weight::batching(weights);
        let mut noise = NoiseOfDraws::new(weights, keys, portable, batching);
        let inducing = noise.inducing();
        let mut conditional = |k: usize| noise.conditional(k);
        let draws = weight::draw_many(weights, factors.stacks_of(weights)?, &inducing, &mut conditional, batching)?;
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
            across: None,
            noise: OutputNoise::default(),
            trace: None,
            blocks: Blocks::default(),
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

    /// Bytes of the drawn weights.
    pub(crate) fn bytes(&self) -> u64 {
        let of = |tensor: &Tensor| tensor.numel() as u64 * tensor.kind().elt_size_in_bytes() as u64;
        self.drawn.values().flat_map(Drawn::tensors).map(of).sum()
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

    /// Offers the input of a layer, and what it does with it, to the taps.
    pub(super) fn tap_input(&mut self, layer: &dyn Layer, x: &Tensor) {
        let name = layer.name();
        if self.taps.wants(name) {
            self.taps.inputs.insert(name.to_owned(), x.shallow_clone());
            self.taps.operations.entry(name.to_owned()).or_insert((layer.operation(), 0)).1 += 1;
        }
    }

    /// Offers a feature to the taps.
    pub fn tap(&mut self, layer: &str, feature: &Tensor) {
        if self.taps.wants(layer) {
            self.taps.seen.insert(layer.to_owned(), feature.shallow_clone());
        }
    }
}
