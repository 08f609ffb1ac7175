//! The randomness of one run through a network, as tensors that can be kept and overwritten.

use std::collections::BTreeMap;

use tch::Tensor;

use super::Mode;
use crate::weight::{InducingWeight, WeightNoise};
use crate::{Error, Key, Result};

/// Noise of every Bayesian weight, and of the outputs of layers that draw it there.
#[derive(Debug)]
pub struct Noise {
    /// Of the weights, in their order.
    pub weights: Vec<WeightNoise>,
    /// Of the outputs.
    pub outputs: OutputNoise,
}

impl Noise {
    /// Draws the noise of the weights; that of the outputs follows from the key when a layer asks for it.
    pub fn draw(weights: &[&InducingWeight], key: Key, mode: Mode) -> Self {
        let training = mode == Mode::Train;
        let weights = weights.iter().map(|weight| weight.noise(key, training)).collect();
        Self { weights, outputs: OutputNoise::keyed(key) }
    }

    /// Noise of another key in the shapes of this one, outputs included.
    pub fn draw_like(&self, weights: &[&InducingWeight], key: Key, mode: Mode) -> Self {
        let mut noise = Self::draw(weights, key, mode);
        for (layer, tensor) in &self.outputs.drawn {
            noise.outputs.drawn.insert(layer.clone(), noise_of_outputs(key, layer, tensor));
        }
        noise
    }

    /// Overwrites the numbers with those of `other`, which was drawn like this one.
    pub fn copy_from(&mut self, other: &Self) {
        let (mut mine, theirs) = (self.tensors(), other.tensors());
        debug_assert_eq!(mine.len(), theirs.len());
        tch::no_grad(|| mine.iter_mut().zip(theirs).for_each(|(mine, theirs)| mine.copy_(&theirs)));
    }

    fn tensors(&self) -> Vec<Tensor> {
        let weights = self.weights.iter().flat_map(WeightNoise::tensors);
        weights.chain(self.outputs.drawn.values()).map(Tensor::shallow_clone).collect()
    }
}

/// Noise on the outputs of layers, by name.
#[derive(Debug, Default)]
pub struct OutputNoise {
    key: Option<Key>,
    keep: bool,
    drawn: BTreeMap<String, Tensor>,
}

impl OutputNoise {
    fn keyed(key: Key) -> Self {
        Self { key: Some(key), ..Self::default() }
    }

    /// Keeps what is drawn from now on, so that the next pass can be given the same tensors.
    #[must_use]
    pub fn kept(mut self) -> Self {
        self.keep = true;
        self
    }

    /// The same tensors, not copies.
    pub(super) fn share(&self) -> Self {
        let drawn = self.drawn.iter().map(|(layer, tensor)| (layer.clone(), tensor.shallow_clone())).collect();
        Self { key: self.key, keep: self.keep, drawn }
    }

    /// Other noise from another key, where there is any.
    pub(super) fn set_key(&mut self, key: Key) {
        self.key = self.key.map(|_| key);
        self.drawn.clear();
    }

    /// Standard normals for a layer's outputs, the same for the same key and layer.
    pub(super) fn of(&mut self, layer: &str, like: &Tensor) -> Result<Tensor> {
        if let Some(drawn) = self.drawn.get(layer) {
            return Ok(drawn.shallow_clone());
        }
        let key = self.key.ok_or_else(|| Error::setting("pass", "mean", "has no noise for outputs"))?;
        let noise = noise_of_outputs(key, layer, like);
        if self.keep {
            self.drawn.insert(layer.to_owned(), noise.shallow_clone());
        }
        Ok(noise)
    }
}

fn noise_of_outputs(key: Key, layer: &str, like: &Tensor) -> Tensor {
    key.fold(layer).fold("outputs").normal(&like.size(), like.kind(), like.device())
}
