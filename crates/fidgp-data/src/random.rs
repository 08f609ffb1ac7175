//! Portable randomness: the generator and every step from its words to numbers are fixed here.

use rand_chacha::{
    ChaCha8Rng,
    rand_core::{RngCore, SeedableRng},
};

/// A generator for `(seed, purpose, stream)`.
///
/// The key is the seed followed by the purpose, so two purposes never share numbers; `stream` counts epochs or parts.
pub fn generator(seed: u64, purpose: [u8; 8], stream: u64) -> ChaCha8Rng {
    let mut key = [0; 32];
    key[..8].copy_from_slice(&seed.to_le_bytes());
    key[8..16].copy_from_slice(&purpose);
    let mut rng = ChaCha8Rng::from_seed(key);
    rng.set_stream(stream);
    rng
}

/// Uniform on `[0, 1)`, 53 bits.
pub fn unit(rng: &mut ChaCha8Rng) -> f64 {
    (rng.next_u64() >> 11) as f64 / (1_u64 << 53) as f64
}

/// Uniform on `0..n`, without bias: words in the last, incomplete block of `n` are thrown away.
pub fn below(rng: &mut ChaCha8Rng, n: usize) -> usize {
    let n = n as u64;
    let limit = u64::MAX - u64::MAX % n;
    loop {
        let word = rng.next_u64();
        if word < limit {
            return (word % n) as usize;
        }
    }
}

/// Fisher–Yates.
pub fn shuffle<T>(items: &mut [T], rng: &mut ChaCha8Rng) {
    for last in (1..items.len()).rev() {
        items.swap(last, below(rng, last + 1));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn purposes_and_streams_are_apart() {
        let first = |p: &[u8; 8], s| generator(1, *p, s).next_u64();
        assert_ne!(first(b"aaaaaaaa", 0), first(b"bbbbbbbb", 0));
        assert_ne!(first(b"aaaaaaaa", 0), first(b"aaaaaaaa", 1));
        assert_eq!(first(b"aaaaaaaa", 3), first(b"aaaaaaaa", 3));
    }

    #[test]
    fn below_is_uniform() {
        let mut rng = generator(7, *b"testtest", 0);
        let mut counts = [0_i32; 3];
        (0..30_000).for_each(|_| counts[below(&mut rng, 3)] += 1);
        // Binomial(30000, 1/3): sd 81.6.
        assert!(counts.iter().all(|c| (c - 10_000).abs() < 410), "{counts:?}");
    }
}
