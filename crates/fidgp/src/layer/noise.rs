//! The randomness of one run through a network, as tensors that can be kept and overwritten.

use std::collections::BTreeMap;

use tch::{Device, Tensor};

use super::Mode;
use crate::linalg::Batching;
use crate::posterior::InducingNoise;
use crate::weight::{self, ConditionalNoise, InducingWeight, WeightNoise};
use crate::{Error, Key, Result};

/// Noise of every Bayesian weight, and of the outputs of layers that draw it there.
#[derive(Debug)]
pub struct Noise {
    /// Of the weights, in their order.
    pub weights: Vec<WeightNoise>,
    /// Of the outputs.
    pub outputs: OutputNoise,
    /// What the noise of the weights is cut from, where it was drawn in bulk.
    bulk: Option<Tensor>,
}

impl Noise {
    /// Draws the noise of the weights; that of the outputs follows from the key when a layer asks for it.
    ///
    /// On the CPU each layer draws from its own key. On CUDA, where every draw costs a launch, all normals of a network
    /// are drawn in one call and cut up: they depend on the key and on the network's shape, and on nothing else.
    pub fn draw(weights: &[&InducingWeight], key: Key, mode: Mode) -> Self {
        let training = mode == Mode::Train;
        let outputs = OutputNoise::keyed(key);
        let Some(first) = weights.first().filter(|_| weight::batching(weights) == Batching::Together) else {
            let weights = weights.iter().map(|weight| weight.noise(key, training)).collect();
            return Self { weights, outputs, bulk: None };
        };
        let (kind, device) = (first.prior.z_row.kind(), first.prior.z_row.device());
        let mut length = 0;
        let empty = Tensor::zeros([1], (kind, device));
        for weight in weights {
            weight.noise_of(key, training, &mut |_, shape| {
                length += padded(shape);
                empty.expand(shape, false)
            });
        }
        let bulk = bulk_key(key).normal(&[length], kind, device);
        let mut start = 0;
        let mut cut = |_: Key, shape: &[i64]| {
            let part = bulk.narrow(0, start, shape.iter().product()).view(shape);
            start += padded(shape);
            part
        };
        let weights = weights.iter().map(|weight| weight.noise_of(key, training, &mut cut)).collect();
        Self { weights, outputs, bulk: Some(bulk) }
    }

    /// Overwrites all numbers with those of another key, outputs that have been kept included. Only for noise that was
    /// drawn on CUDA, from weights all of which are replayable.
    pub fn redraw(&mut self, key: Key) {
        tch::no_grad(|| {
            if let Some(bulk) = &mut self.bulk {
                bulk_key(key).refill_normal(bulk);
            }
        });
        self.outputs.redraw(key);
    }
}

fn bulk_key(key: Key) -> Key {
    key.fold("weights")
}

/// Numbers that a part of the bulk takes up: every part starts at a place that matrix products like.
fn padded(shape: &[i64]) -> i64 {
    const ALIGNMENT: i64 = 64;
    (shape.iter().product::<i64>() + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT
}

/// The noise of the weights of several draws, for prediction.
#[derive(Debug)]
pub(super) enum NoiseOfDraws<'a> {
    /// All of it at once.
    Held(Vec<Vec<WeightNoise>>),
    /// That of W given U draw after draw, in the tensors of the last one: memory that is new has to be cleared by the system
    /// first.
    Reused { weights: &'a [&'a InducingWeight], keys: &'a [Key], tensors: Vec<Tensor> },
}

impl<'a> NoiseOfDraws<'a> {
    /// One draw for each key. Portable noise is that of the CPU's generator, layer by layer, whatever the device.
    pub(super) fn new(weights: &'a [&'a InducingWeight], keys: &'a [Key], portable: bool, batching: Batching) -> Self {
        let of_key = |&key: &Key| {
            if portable { portable_noise(weights, key) } else { Noise::draw(weights, key, Mode::Eval).weights }
        };
        match batching {
            Batching::Together => Self::Held(keys.iter().map(of_key).collect()),
            Batching::Apart => Self::Reused { weights, keys, tensors: Vec::new() },
        }
    }

    /// That of V for each draw and weight.
    pub(super) fn inducing(&self) -> Vec<Vec<InducingNoise>> {
        match self {
            Self::Held(noise) => {
                noise.iter().map(|draw| draw.iter().map(|noise| noise.inducing.share()).collect()).collect()
            }
            Self::Reused { weights, keys, .. } => keys
                .iter()
                .map(|&key| weights.iter().map(|weight| weight.inducing_noise(key, false)).collect())
                .collect(),
        }
    }

    /// That of W given U for each weight.
    pub(super) fn conditional(&mut self, k: usize) -> Vec<ConditionalNoise> {
        match self {
            Self::Held(noise) => noise[k].iter().map(|noise| noise.conditional.share()).collect(),
            Self::Reused { weights, keys, tensors } => {
                let mut next = 0;
                let mut refilled = |weight: &InducingWeight| {
                    let (kind, device) = (weight.prior.z_row.kind(), weight.prior.z_row.device());
                    weight.conditional_noise(keys[k], &mut |key, shape| {
                        match tensors.get_mut(next) {
                            Some(tensor) => key.refill_normal(tensor),
                            None => tensors.push(key.normal(shape, kind, device)),
                        }
                        next += 1;
                        tensors[next - 1].shallow_clone()
                    })
                };
                weights.iter().map(|weight| refilled(weight)).collect()
            }
        }
    }
}

/// The noise of a prediction from the CPU's generator: the same draw everywhere.
fn portable_noise(weights: &[&InducingWeight], key: Key) -> Vec<WeightNoise> {
    let of_weight = |weight: &&InducingWeight| {
        let (kind, device) = (weight.prior.z_row.kind(), weight.prior.z_row.device());
        weight.noise_of(key, false, &mut |key, shape| key.normal(shape, kind, Device::Cpu).to_device(device))
    };
    weights.iter().map(of_weight).collect()
}

/// What noise on outputs was drawn into, by layer.
#[derive(Debug, Default)]
pub struct OutputTensors(BTreeMap<String, Tensor>);

/// Where the noise of a pass follows from.
#[derive(Clone, Copy, Debug)]
struct Keys {
    /// Of a batch: noise on outputs.
    batch: Key,
    /// Of the draw, the same for all its batches: weights that layers draw themselves.
    draw: Key,
}

/// Which rows of a batch have which noise on outputs.
#[derive(Clone, Copy, Debug)]
enum Rows {
    /// Every row has its own, in this part of a batch; part 0 has the noise of a whole one.
    Own(u64),
    /// All rows of all batches have the same.
    One,
}

impl Default for Rows {
    fn default() -> Self {
        Self::Own(0)
    }
}

/// What becomes of noise once a layer has had it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Holding {
    /// It is drawn anew when it is asked for again.
    #[default]
    Nothing,
    /// That on outputs is kept for the pass that follows.
    Lent,
    /// All of it is kept.
    Kept,
}

/// Noise on the outputs of layers, by name.
#[derive(Debug, Default)]
pub struct OutputNoise {
    /// None in a pass at the means.
    keys: Option<Keys>,
    rows: Rows,
    holding: Holding,
    /// Whether weights that layers draw themselves are the same on every device.
    portable: bool,
    drawn: BTreeMap<String, Tensor>,
    /// Of weights that layers draw themselves.
    drawn_weights: BTreeMap<String, Tensor>,
}

impl OutputNoise {
    /// Noise that follows from the key when a layer asks for it.
    pub(super) fn keyed(key: Key) -> Self {
        Self { keys: Some(Keys { batch: key, draw: key }), ..Self::default() }
    }

    /// Draws the noise of weights as the CPU does, whatever the device.
    #[must_use]
    pub(super) fn portable(mut self, portable: bool) -> Self {
        self.portable = portable;
        self
    }

    /// Draws one noise for all rows of all batches: a draw is then one network, and its outputs for a row do not depend on
    /// what stands beside it.
    #[must_use]
    pub(super) fn one_for_all(mut self) -> Self {
        self.rows = Rows::One;
        self
    }

    /// Draws for one of several parts of a batch: rows of different parts must not have the same noise. Weights that layers
    /// draw themselves stay the same for all parts.
    #[must_use]
    pub fn of_part(mut self, part: u64) -> Self {
        self.rows = Rows::Own(part);
        self
    }

    /// Keeps what is drawn from now on, so that the next pass finds the same tensors.
    #[must_use]
    pub fn kept(mut self) -> Self {
        self.holding = Holding::Kept;
        self
    }

    /// Goes on with the noise of another key: what has been kept is overwritten with it.
    pub(crate) fn redraw(&mut self, key: Key) {
        self.set_batch(key);
        let rows = self.rows;
        tch::no_grad(|| {
            for (layer, noise) in &mut self.drawn {
                output_key(key, rows, layer).refill_normal(noise);
            }
        });
    }

    /// Draws into the tensors of a pass that has ended, and keeps what it draws beside them for [`Self::give_back`]: on the CPU
    /// many normals at once, in memory that is there already, are faster than a few before each layer.
    pub fn lend(&mut self, ended: OutputTensors) {
        self.drawn = ended.0;
        if self.holding == Holding::Nothing {
            self.holding = Holding::Lent;
        }
        if let Some(keys) = self.keys {
            self.redraw(keys.batch);
        }
    }

    /// The tensors, for the next pass.
    pub fn give_back(&mut self) -> OutputTensors {
        if self.holding == Holding::Lent {
            self.holding = Holding::Nothing;
        }
        OutputTensors(std::mem::take(&mut self.drawn))
    }

    /// The same tensors, not copies.
    pub(super) fn share(&self) -> Self {
        let share = |drawn: &BTreeMap<String, Tensor>| {
            drawn.iter().map(|(layer, tensor)| (layer.clone(), tensor.shallow_clone())).collect()
        };
        let (drawn, drawn_weights) = (share(&self.drawn), share(&self.drawn_weights));
        Self { drawn, drawn_weights, ..*self }
    }

    /// Other noise from another key, where there is any.
    pub(super) fn set_key(&mut self, key: Key) {
        self.set_batch(key);
        self.drawn.clear();
    }

    fn set_batch(&mut self, key: Key) {
        self.keys = self.keys.map(|keys| Keys { batch: key, ..keys });
    }

    /// Standard normals for a layer's weight, the same for all batches of a draw; none in a pass without noise.
    pub fn of_weight(&mut self, layer: &str, like: &Tensor) -> Option<Tensor> {
        if let Some(drawn) = self.drawn_weights.get(layer) {
            return Some(drawn.shallow_clone());
        }
        let device = if self.portable { Device::Cpu } else { like.device() };
        let noise =
            weight_key(self.keys?.draw, layer).normal(&like.size(), like.kind(), device).to_device(like.device());
        if self.holding == Holding::Kept {
            self.drawn_weights.insert(layer.to_owned(), noise.shallow_clone());
        }
        Some(noise)
    }

    /// Goes on with the draw of other noise: what has been kept for weights is overwritten.
    pub(super) fn follow(&mut self, other: &Self) {
        (self.keys, self.portable) = (other.keys, other.portable);
        let Some(Keys { draw, .. }) = self.keys else { return };
        tch::no_grad(|| {
            for (layer, noise) in &mut self.drawn_weights {
                let key = weight_key(draw, layer);
                if self.portable {
                    noise.copy_(&key.normal(&noise.size(), noise.kind(), Device::Cpu));
                } else {
                    key.refill_normal(noise);
                }
            }
        });
    }

    /// Whether the pass has noise, or runs at the means.
    pub fn is_on(&self) -> bool {
        self.keys.is_some()
    }

    /// Standard normals for a layer's outputs (or inputs), the same for the same key and layer. Of what is kept, tensors of
    /// another size are left alone.
    ///
    /// # Errors
    /// When the pass has no noise.
    pub fn of(&mut self, layer: &str, like: &Tensor) -> Result<Tensor> {
        if matches!(self.rows, Rows::One) {
            return self.of_every_row(layer, like);
        }
        let kept = self.drawn.get(layer);
        if let Some(drawn) = kept.filter(|drawn| drawn.size() == like.size()) {
            return Ok(drawn.shallow_clone());
        }
        let keep = self.holding != Holding::Nothing && kept.is_none();
        let noise = self.output_key(layer)?.normal(&like.size(), like.kind(), like.device());
        if keep {
            self.drawn.insert(layer.to_owned(), noise.shallow_clone());
        }
        Ok(noise)
    }

    /// The noise of a single row, for each of them. `[N, ..]`
    fn of_every_row(&self, layer: &str, like: &Tensor) -> Result<Tensor> {
        let mut row = like.size();
        if let Some(rows) = row.first_mut() {
            *rows = 1;
        }
        Ok(self.output_key(layer)?.normal(&row, like.kind(), like.device()).expand_as(like))
    }

    fn output_key(&self, layer: &str) -> Result<Key> {
        let keys = self.keys.ok_or_else(|| Error::setting("pass", "mean", "has no noise for outputs"))?;
        Ok(output_key(keys.batch, self.rows, layer))
    }
}

fn weight_key(key: Key, layer: &str) -> Key {
    key.fold(layer).fold("weight")
}

fn output_key(key: Key, rows: Rows, layer: &str) -> Key {
    let key = key.fold(layer).fold("outputs");
    match rows {
        Rows::One | Rows::Own(0) => key,
        Rows::Own(part) => key.fold("part").at(part),
    }
}
