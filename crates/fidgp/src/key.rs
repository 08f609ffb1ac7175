//! Randomness as a value.
//!
//! A [`Key`] is a number from which random tensors follow and nothing else: no generator is advanced, so a layer's
//! noise does not depend on what was drawn before it. Keys are derived from keys, by name or by number:
//!
//! ```
//! use fidgp::Key;
//! let step = Key::new(42).fold("train").at(7);
//! assert_eq!(step.fold("layer1"), Key::new(42).fold("train").at(7).fold("layer1"));
//! assert_ne!(step.fold("layer1"), step.fold("layer2"));
//! ```

use rand::distr::StandardUniform;
use rand::{RngCore, SeedableRng};
use rand_chacha::ChaCha8Rng;
use rand_distr::{Distribution, StandardNormal};
use rayon::prelude::*;
use tch::kind::Element;
use tch::{Device, Kind, Tensor};

use crate::normal::fill_normal;

/// Numbers drawn from one ChaCha stream. Part of what a key means: changing it changes every seeded result on the CPU.
const CHUNK: usize = 1 << 14;

/// A source of random numbers that can be copied, named and replayed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Key(u64);

impl Key {
    /// The root key of a run.
    pub fn new(seed: u64) -> Self {
        Self(mix(seed ^ 0x6669_6467_705f_6b65))
    }

    /// The key of a part with a name: a layer, a role, a phase.
    #[must_use]
    pub fn fold(self, name: &str) -> Self {
        // FNV-1a over the name, started from this key.
        let hash =
            name.bytes().fold(self.0 ^ 0xcbf2_9ce4_8422_2325, |h, b| (h ^ u64::from(b)).wrapping_mul(0x0100_0000_01b3));
        Self(mix(hash))
    }

    /// The key of a part with a number: a step, a draw, a member.
    #[must_use]
    pub fn at(self, index: u64) -> Self {
        Self(mix(self.0.wrapping_add(mix(index.wrapping_add(0x9e37_79b9_7f4a_7c15)))))
    }

    /// The number behind the key, for seeding generators outside this crate.
    pub fn seed(self) -> u64 {
        self.0
    }

    /// Independent standard normals.
    ///
    /// On the CPU they come from ChaCha8 in chunks, the same for every number of threads and every processor; on CUDA from
    /// the device's own Philox generator, seeded with this key just before the draw.
    pub fn normal(self, shape: &[i64], kind: Kind, device: Device) -> Tensor {
        if device.is_cuda() {
            tch::Cuda::manual_seed_all(self.0);
            return Tensor::randn(shape, (kind, device));
        }
        if kind == Kind::Double {
            return self.filled(shape, |rng, part: &mut [f64]| one_by_one(StandardNormal, rng, part));
        }
        self.filled(shape, |rng, part: &mut [f32]| fill_normal(rng, part)).to_kind(kind)
    }

    /// Overwrites a tensor with independent standard normals: those of [`Self::normal`].
    pub fn refill_normal(self, tensor: &mut Tensor) {
        if tensor.device().is_cuda() {
            tch::Cuda::manual_seed_all(self.0);
            let _ = tensor.normal_(0.0, 1.0);
        } else if tensor.kind() == Kind::Float && tensor.is_contiguous() {
            self.fill(tensor, |rng, part: &mut [f32]| fill_normal(rng, part));
        } else {
            tensor.copy_(&self.normal(&tensor.size(), tensor.kind(), tensor.device()));
        }
    }

    /// Independent uniforms on [0, 1).
    pub fn uniform(self, shape: &[i64], kind: Kind, device: Device) -> Tensor {
        if device.is_cuda() {
            tch::Cuda::manual_seed_all(self.0);
            return Tensor::rand(shape, (kind, device));
        }
        if kind == Kind::Double {
            return self.filled(shape, |rng, part: &mut [f64]| one_by_one(StandardUniform, rng, part));
        }
        self.filled(shape, |rng, part: &mut [f32]| one_by_one(StandardUniform, rng, part)).to_kind(kind)
    }

    /// A new tensor on the CPU.
    fn filled<T>(self, shape: &[i64], fill: impl Fn(&mut ChaCha8Rng, &mut [T]) + Sync) -> Tensor
    where
        T: Element + Default + Copy,
    {
        let tensor = Tensor::empty(shape, (T::KIND, Device::Cpu));
        self.fill(&tensor, fill);
        tensor
    }

    /// Overwrites a contiguous tensor on the CPU, chunk by chunk, each from a stream of its own: a chunk is still in the
    /// cache when it is copied to its place.
    fn fill<T>(self, tensor: &Tensor, fill: impl Fn(&mut ChaCha8Rng, &mut [T]) + Sync)
    where
        T: Element + Default + Copy,
    {
        let chunk = |(stream, mut place): (usize, Tensor)| {
            let mut values = vec![T::default(); place.numel()];
            let mut rng = ChaCha8Rng::seed_from_u64(self.0);
            rng.set_stream(stream as u64);
            fill(&mut rng, &mut values);
            place.copy_(&Tensor::from_slice(&values));
        };
        let mut places = tensor.view([-1]).split(CHUNK as i64, 0);
        if places.len() > 1 {
            places.into_par_iter().enumerate().for_each(chunk);
        } else if let Some(place) = places.pop() {
            chunk((0, place));
        }
    }

    /// A generator for plain Rust code (permutations, indices).
    pub fn rng(self) -> impl RngCore + Clone {
        ChaCha8Rng::seed_from_u64(self.0)
    }
}

fn one_by_one<T>(law: impl Distribution<T>, rng: &mut ChaCha8Rng, values: &mut [T]) {
    for value in values {
        *value = law.sample(rng);
    }
}

/// The finaliser of SplitMix64: every input bit reaches every output bit.
fn mix(mut z: u64) -> u64 {
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_replays_and_its_children_differ() {
        let key = Key::new(1);
        let draw = |k: Key| Vec::<f32>::try_from(k.normal(&[5], Kind::Float, Device::Cpu)).unwrap();
        assert_eq!(draw(key), draw(key));
        assert_ne!(draw(key.fold("a")), draw(key.fold("b")));
        assert_ne!(draw(key.at(0)), draw(key.at(1)));
        assert_ne!(key.fold("a").at(1), key.at(1).fold("a"));
    }

    #[test]
    fn the_values_do_not_depend_on_the_number_of_threads() {
        let key = Key::new(3);
        let count = 3 * CHUNK as i64 + 17;
        let draw = || key.normal(&[count], Kind::Double, Device::Cpu);
        let one = rayon::ThreadPoolBuilder::new().num_threads(1).build().unwrap().install(draw);
        assert_eq!(one, draw());
    }

    #[test]
    fn normals_have_mean_zero_and_variance_one() {
        let n = 400_000_i64;
        let x = Key::new(5).normal(&[n], Kind::Double, Device::Cpu);
        let mean = x.mean(Kind::Double).double_value(&[]);
        let second = x.square().mean(Kind::Double).double_value(&[]);
        // standard errors: 1/√n and √(2/n)
        assert!(mean.abs() < 4.0 / (n as f64).sqrt(), "{mean}");
        assert!((second - 1.0).abs() < 4.0 * (2.0 / n as f64).sqrt(), "{second}");
    }
}
