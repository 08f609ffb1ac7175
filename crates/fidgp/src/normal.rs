//! Standard normals in f32, many at a time: the transform of Box and Muller in operations that processors do eight or sixteen
//! of at once. Every processor gives the same numbers: all operations are correctly rounded.

#![expect(
    clippy::inline_always,
    reason = "wide instructions reach only what is inlined into the function that has them"
)]

use std::f32::consts::{FRAC_PI_4, LN_2, SQRT_2};

use pulp::{Arch, NullaryFnOnce};
use rand::RngCore;

/// Normals made at a time: two words become two normals.
const BLOCK: usize = 1024;
const PAIRS: usize = BLOCK / 2;

/// Overwrites all values with independent standard normals.
pub fn fill_normal(rng: &mut impl RngCore, values: &mut [f32]) {
    let arch = Arch::new();
    let mut bytes = [0; 4 * BLOCK];
    let mut normals = [0.0; BLOCK];
    for part in values.chunks_mut(BLOCK) {
        rng.fill_bytes(&mut bytes);
        arch.dispatch(Transform { bytes: &bytes, normals: &mut normals });
        part.copy_from_slice(&normals[..part.len()]);
    }
}

/// What is compiled once for each kind of processor.
struct Transform<'a> {
    bytes: &'a [u8; 4 * BLOCK],
    normals: &'a mut [f32; BLOCK],
}

impl NullaryFnOnce for Transform<'_> {
    type Output = ();

    #[inline(always)]
    fn call(self) {
        let (radii, angles) = self.bytes.split_at(4 * PAIRS);
        let (cosines, sines) = self.normals.split_at_mut(PAIRS);
        let word = |bytes: &[u8]| u32::from_le_bytes([bytes[0], bytes[1], bytes[2], bytes[3]]);
        for index in 0..PAIRS {
            let bytes = 4 * index..4 * index + 4;
            (cosines[index], sines[index]) = pair(word(&radii[bytes.clone()]), word(&angles[bytes]));
        }
    }
}

/// Two independent normals from two words of random bits: `√(−2 ln u) (cos φ, sin φ)`.
#[inline(always)]
fn pair(radius: u32, angle: u32) -> (f32, f32) {
    let u = ((radius >> 1) | 1) as i32 as f32 * (1.0 / 2_147_483_648.0); // (0, 1]
    let r = (-2.0 * ln(u)).sqrt();
    // thirty bits say where in a quarter turn, as an angle within ±π/4; the other two say which quarter
    let (sin, cos) = sin_cos((((angle << 2) as i32) >> 2) as f32 * (FRAC_PI_4 / 536_870_912.0));
    let (x, y) = if angle & 0x4000_0000 == 0 { (cos, sin) } else { (sin, cos) };
    let sign = angle & 0x8000_0000;
    (f32::from_bits((r * x).to_bits() ^ sign), f32::from_bits((r * y).to_bits() ^ sign))
}

/// `ln u` for u in (0, 1]: `u = 2^e m` with m in [1/√2, √2), and the series of `ln (1 + t) = 2 artanh (t / (2 + t))`.
#[inline(always)]
fn ln(u: f32) -> f32 {
    const LEAST: u32 = (0.5 * SQRT_2).to_bits();
    let exponent = u.to_bits().wrapping_sub(LEAST) & 0xff80_0000;
    let t = f32::from_bits(u.to_bits().wrapping_sub(exponent)) - 1.0;
    let s = t / (2.0 + t);
    let z = s * s;
    let series = (2.0f32 / 9.0).mul_add(z, 2.0 / 7.0).mul_add(z, 2.0 / 5.0).mul_add(z, 2.0 / 3.0);
    let exponent = ((exponent as i32) >> 23) as f32;
    exponent.mul_add(LN_2, (series * z).mul_add(s, 2.0 * s))
}

/// Sine and cosine of an angle within ±π/4, by their series.
#[inline(always)]
fn sin_cos(t: f32) -> (f32, f32) {
    let z = t * t;
    let sin = (1.0f32 / 362_880.0).mul_add(z, -1.0 / 5040.0).mul_add(z, 1.0 / 120.0).mul_add(z, -1.0 / 6.0);
    let cos = (1.0f32 / 40_320.0).mul_add(z, -1.0 / 720.0).mul_add(z, 1.0 / 24.0).mul_add(z, -0.5);
    ((sin * z).mul_add(t, t), cos.mul_add(z, 1.0))
}

#[cfg(test)]
mod tests {
    use super::*;
    use rand::SeedableRng;
    use rand_chacha::ChaCha8Rng;

    #[test]
    fn a_pair_is_the_transform_of_its_two_words() {
        let mut rng = ChaCha8Rng::seed_from_u64(1);
        let corners =
            [0, 1, 2, u32::MAX, u32::MAX - 1, 1 << 31, (1 << 31) - 1, 1 << 30, 3 << 30, (1 << 29) - 1, 1 << 29];
        let words: Vec<_> = (0..100_000).map(|_| rng.next_u32()).chain(corners).collect();
        for (&radius, &angle) in words.iter().zip(&words[1..]) {
            let u = f64::from(((radius >> 1) | 1) as f32) / 2f64.powi(31);
            let r = (-2.0 * u.ln()).sqrt();
            let (x, y) = pair(radius, angle);
            let (x, y) = (f64::from(x), f64::from(y));
            assert!((x.hypot(y) - r).abs() <= 5e-7 * r, "{radius:x}: {} for {r}", x.hypot(y));
            let inside = f64::from(((angle << 2) as i32) >> 2) / f64::from(1 << 29) * std::f64::consts::FRAC_PI_4;
            let (cos, sin) =
                if angle & (1 << 30) == 0 { (inside.cos(), inside.sin()) } else { (inside.sin(), inside.cos()) };
            let sign = if angle >> 31 == 0 { 1.0 } else { -1.0 };
            assert!((x - sign * r * cos).abs() <= 5e-7 * r, "{radius:x} {angle:x}: {x}");
            assert!((y - sign * r * sin).abs() <= 5e-7 * r, "{radius:x} {angle:x}: {y}");
        }
    }

    /// The share of numbers below each of a grid of points against the normal distribution, and that pairs are uncorrelated.
    #[test]
    fn the_law_is_the_standard_normal() {
        let count = 1 << 22;
        let mut values = vec![0.0; count];
        fill_normal(&mut ChaCha8Rng::seed_from_u64(7), &mut values);
        let n = count as f64;
        for step in -45..=45 {
            let point = f64::from(step) / 10.0;
            let below = values.iter().filter(|&&value| f64::from(value) < point).count() as f64 / n;
            let expected = 0.5 * libm::erfc(-point / std::f64::consts::SQRT_2);
            let error = (expected * (1.0 - expected) / n).sqrt();
            assert!((below - expected).abs() < 5.0 * error, "below {point}: {below} for {expected}");
        }
        let product: f64 =
            values.chunks(BLOCK).flat_map(|block| (0..PAIRS).map(|i| block[i] * block[i + PAIRS])).map(f64::from).sum();
        assert!((product / (n / 2.0)).abs() < 5.0 / (n / 2.0).sqrt());
        let fourth: f64 = values.iter().map(|&value| f64::from(value).powi(4)).sum::<f64>() / n;
        assert!((fourth - 3.0).abs() < 5.0 * (96.0 / n).sqrt(), "{fourth}");
    }

    /// The transform with the widest operations of this processor against the same one number at a time.
    #[test]
    fn every_width_gives_the_same_numbers() {
        let mut bytes = [0; 4 * BLOCK];
        ChaCha8Rng::seed_from_u64(3).fill_bytes(&mut bytes);
        let (mut wide, mut narrow) = ([0.0; BLOCK], [0.0; BLOCK]);
        Arch::new().dispatch(Transform { bytes: &bytes, normals: &mut wide });
        Arch::Scalar.dispatch(Transform { bytes: &bytes, normals: &mut narrow });
        assert_eq!(wide.map(f32::to_bits), narrow.map(f32::to_bits));
    }
}
