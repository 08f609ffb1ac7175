//! Images made worse in a controlled way, after the protocol of Hendrycks & Dietterich (2019): a list of corruptions, each in
//! five severities.
//!
//! Formulas and strengths are ours, chosen for images of 32 pixels; lengths grow with the shorter side. Results are therefore
//! not those of the published CIFAR-10-C files. Everything random follows from the seed, the corruption, the severity and the
//! row of the image: an image is corrupted in the same way whatever stands beside it.

#![allow(clippy::unnecessary_wraps)] // all corruptions have one type, though only one of them can fail

use std::f64::consts::TAU;

use image::ExtendedColorType;
use image::codecs::jpeg::JpegEncoder;
use rand_chacha::ChaCha8Rng;
use rand_distr::{Distribution, Poisson, StandardNormal};

use super::Picture;
use crate::random::{below, generator, unit};
use crate::{Error, Result};

/// How many severities there are; 1 is the mildest.
pub const SEVERITIES: usize = 5;
/// The side for which lengths are given.
const USUAL_SIDE: f64 = 32.0;

/// A way to make an image worse.
#[derive(Debug)]
pub struct Corruption {
    /// Its name.
    pub name: &'static str,
    /// What it does, and how strongly by severity.
    pub about: &'static str,
    strengths: [f64; SEVERITIES],
    apply: fn(&mut Planes, f64, &mut ChaCha8Rng) -> Result<()>,
}

/// All of them.
pub static CORRUPTIONS: [Corruption; 12] = [
    Corruption {
        name: "gaussian-noise",
        about: "a normal number is added to every value, deviation 0.04 to 0.12 of white",
        strengths: [0.04, 0.06, 0.08, 0.10, 0.12],
        apply: gaussian_noise,
    },
    Corruption {
        name: "shot-noise",
        about: "every value is a count of photons, 500 to 50 for white",
        strengths: [500.0, 250.0, 120.0, 75.0, 50.0],
        apply: shot_noise,
    },
    Corruption {
        name: "impulse-noise",
        about: "1 to 10 % of the values become black or white",
        strengths: [0.01, 0.02, 0.04, 0.07, 0.10],
        apply: impulse_noise,
    },
    Corruption {
        name: "defocus-blur",
        about: "mean over a disc, radius 0.6 to 2 pixels",
        strengths: [0.6, 0.9, 1.2, 1.6, 2.0],
        apply: defocus_blur,
    },
    Corruption {
        name: "motion-blur",
        about: "mean along a line of random direction, length 2 to 6 pixels",
        strengths: [2.0, 3.0, 4.0, 5.0, 6.0],
        apply: motion_blur,
    },
    Corruption {
        name: "zoom-blur",
        about: "mean of enlargements up to 1.06 to 1.3 times",
        strengths: [1.06, 1.12, 1.18, 1.24, 1.30],
        apply: zoom_blur,
    },
    Corruption {
        name: "fog",
        about: "a smooth random veil, 0.2 to 1.2 of white at its thickest, then scaled back into range",
        strengths: [0.2, 0.4, 0.6, 0.9, 1.2],
        apply: fog,
    },
    Corruption {
        name: "brightness",
        about: "0.05 to 0.3 of white is added",
        strengths: [0.05, 0.1, 0.15, 0.2, 0.3],
        apply: brightness,
    },
    Corruption {
        name: "contrast",
        about: "distances from the mean of each channel are multiplied by 0.75 to 0.15",
        strengths: [0.75, 0.5, 0.4, 0.3, 0.15],
        apply: contrast,
    },
    Corruption {
        name: "saturation",
        about: "distances from grey are multiplied by 0.7 to 0.1; grey images stay",
        strengths: [0.7, 0.5, 0.35, 0.2, 0.1],
        apply: saturation,
    },
    Corruption {
        name: "pixelate",
        about: "reduced to 0.9 to 0.5 of the side by means, enlarged again without smoothing",
        strengths: [0.9, 0.8, 0.7, 0.6, 0.5],
        apply: pixelate,
    },
    Corruption {
        name: "jpeg",
        about: "stored as a JPEG of quality 80 to 30",
        strengths: [80.0, 65.0, 55.0, 45.0, 30.0],
        apply: jpeg,
    },
];

impl Corruption {
    /// One of them by its name.
    pub fn find(name: &str) -> Result<&'static Self> {
        CORRUPTIONS.iter().find(|corruption| corruption.name == name).ok_or_else(|| {
            let all: Vec<_> = CORRUPTIONS.iter().map(|corruption| corruption.name).collect();
            Error::value(name, format!("is no corruption; there are {}", all.join(", ")), "name one of these")
        })
    }

    /// An image made worse; `row` is its place in its set.
    ///
    /// # Shapes
    /// `image` is planar, `[channels, height, width]`, as `size` says; so is the result
    pub fn apply(&self, image: &[u8], size: [usize; 3], severity: usize, (seed, row): (u64, u64)) -> Result<Vec<u8>> {
        let Some(strength) = severity.checked_sub(1).and_then(|place| self.strengths.get(place)) else {
            let problem = format!("severity {severity} is not among 1 to {SEVERITIES}");
            return Err(Error::value(self.name, problem, "1 is the mildest"));
        };
        let mut planes = Planes::of(image, size)?;
        let mut purpose = [b' '; 8];
        purpose.iter_mut().zip(self.name.bytes()).for_each(|(to, from)| *to = from);
        let mut random = generator(seed, purpose, row * SEVERITIES as u64 + severity as u64 - 1);
        (self.apply)(&mut planes, *strength, &mut random)?;
        Ok(planes.bytes())
    }
}

/// An image whose white is 1.
struct Planes {
    channels: Vec<Vec<f64>>,
    height: usize,
    width: usize,
}

impl Planes {
    fn of(image: &[u8], [channels, height, width]: [usize; 3]) -> Result<Self> {
        if image.is_empty() || channels * height * width != image.len() {
            let problem = format!("{} bytes are no image of {channels}×{height}×{width}", image.len());
            return Err(Error::value("image", problem, "give channels × height × width bytes"));
        }
        let plane = |bytes: &[u8]| bytes.iter().map(|&value| f64::from(value) / 255.0).collect();
        Ok(Self { channels: image.chunks_exact(height * width).map(plane).collect(), height, width })
    }

    fn bytes(&self) -> Vec<u8> {
        self.channels.iter().flatten().map(|value| (value * 255.0).round().clamp(0.0, 255.0) as u8).collect()
    }

    fn values(&mut self) -> impl Iterator<Item = &mut f64> {
        self.channels.iter_mut().flatten()
    }

    /// How much longer lengths are than in an image of the usual side.
    fn scale(&self) -> f64 {
        self.height.min(self.width) as f64 / USUAL_SIDE
    }

    /// A value between pixels, bilinear; beyond the border its nearest pixel.
    fn at(&self, channel: usize, y: f64, x: f64) -> f64 {
        let (y, x) = (y.clamp(0.0, self.height as f64 - 1.0), x.clamp(0.0, self.width as f64 - 1.0));
        let (top, left) = (y.floor() as usize, x.floor() as usize);
        let (bottom, right) = ((top + 1).min(self.height - 1), (left + 1).min(self.width - 1));
        let (down, across) = (y - top as f64, x - left as f64);
        let row = |y: usize| {
            let plane = &self.channels[channel][y * self.width..];
            plane[left] * (1.0 - across) + plane[right] * across
        };
        row(top) * (1.0 - down) + row(bottom) * down
    }

    /// Every value made anew from where it stands: channel, y, x.
    fn remade(&mut self, make: impl Fn(&Self, usize, usize, usize) -> f64) {
        let (height, width) = (self.height, self.width);
        let places = || (0..height).flat_map(|y| (0..width).map(move |x| (y, x)));
        let channels = 0..self.channels.len();
        self.channels = channels.map(|c| places().map(|(y, x)| make(self, c, y, x)).collect()).collect();
    }

    /// The mean over places beside each pixel, as `(y, x)` from it.
    fn mean_over(&mut self, beside: &[(f64, f64)]) {
        let count = beside.len().max(1) as f64;
        self.remade(|own, c, y, x| {
            beside.iter().map(|(down, across)| own.at(c, y as f64 + down, x as f64 + across)).sum::<f64>() / count
        });
    }
}

fn gaussian_noise(planes: &mut Planes, deviation: f64, random: &mut ChaCha8Rng) -> Result<()> {
    planes.values().for_each(|value| {
        let normal: f64 = StandardNormal.sample(random);
        *value += deviation * normal;
    });
    Ok(())
}

fn shot_noise(planes: &mut Planes, photons: f64, random: &mut ChaCha8Rng) -> Result<()> {
    for value in planes.values() {
        // a pixel without light has no photons
        if let Ok(counts) = Poisson::new(*value * photons) {
            *value = counts.sample(random) / photons;
        }
    }
    Ok(())
}

fn impulse_noise(planes: &mut Planes, share: f64, random: &mut ChaCha8Rng) -> Result<()> {
    planes.values().for_each(|value| {
        if unit(random) < share {
            *value = below(random, 2) as f64;
        }
    });
    Ok(())
}

fn defocus_blur(planes: &mut Planes, radius: f64, _: &mut ChaCha8Rng) -> Result<()> {
    let radius = radius * planes.scale();
    let steps = 9; // across the disc, whatever its size: places between pixels are interpolated
    let offset = |step: usize| radius * (2.0 * step as f64 / (steps as f64 - 1.0) - 1.0);
    let square = (0..steps).flat_map(|y| (0..steps).map(move |x| (offset(y), offset(x))));
    let disc: Vec<_> = square.filter(|(y, x)| y.hypot(*x) <= radius * 1.001).collect();
    planes.mean_over(&disc);
    Ok(())
}

fn motion_blur(planes: &mut Planes, length: f64, random: &mut ChaCha8Rng) -> Result<()> {
    let (length, (sin, cos)) = (length * planes.scale(), (unit(random) * TAU).sin_cos());
    let steps = (4.0 * length).ceil() as usize + 1;
    let along = |step: usize| length * (step as f64 / (steps as f64 - 1.0) - 0.5);
    let line: Vec<_> = (0..steps).map(|step| (along(step) * sin, along(step) * cos)).collect();
    planes.mean_over(&line);
    Ok(())
}

fn zoom_blur(planes: &mut Planes, most: f64, _: &mut ChaCha8Rng) -> Result<()> {
    let steps = 12;
    let zooms: Vec<_> = (0..steps).map(|step| 1.0 + (most - 1.0) * f64::from(step) / f64::from(steps - 1)).collect();
    let (middle_y, middle_x) = ((planes.height as f64 - 1.0) / 2.0, (planes.width as f64 - 1.0) / 2.0);
    planes.remade(|own, c, y, x| {
        let (from_y, from_x) = (y as f64 - middle_y, x as f64 - middle_x);
        let all = zooms.iter().map(|zoom| own.at(c, middle_y + from_y / zoom, middle_x + from_x / zoom));
        all.sum::<f64>() / zooms.len() as f64
    });
    Ok(())
}

fn fog(planes: &mut Planes, thickest: f64, random: &mut ChaCha8Rng) -> Result<()> {
    let (height, width) = (planes.height, planes.width);
    let mut veil = vec![0.0; height * width];
    for octave in 0..4_u32 {
        let cells = 2_usize << octave;
        let knots = (0..(cells + 1) * (cells + 1)).map(|_| unit(random)).collect();
        let coarse = Planes { channels: vec![knots], height: cells + 1, width: cells + 1 };
        let place = |at: usize, side: usize| at as f64 / (side as f64 - 1.0).max(1.0) * cells as f64;
        for (index, value) in veil.iter_mut().enumerate() {
            let (y, x) = (place(index / width, height), place(index % width, width));
            *value += coarse.at(0, y, x) * 0.5_f64.powi(octave as i32);
        }
    }
    let (least, most) = veil.iter().fold((f64::INFINITY, 0.0_f64), |(low, high), &v| (low.min(v), high.max(v)));
    let spread = (most - least).max(f64::MIN_POSITIVE);
    let brightest = planes.channels.iter().flatten().copied().fold(0.0, f64::max);
    for plane in &mut planes.channels {
        for (value, veil) in plane.iter_mut().zip(&veil) {
            *value =
                (*value + thickest * (veil - least) / spread) * brightest.max(0.5) / (brightest.max(0.5) + thickest);
        }
    }
    Ok(())
}

fn brightness(planes: &mut Planes, more: f64, _: &mut ChaCha8Rng) -> Result<()> {
    planes.values().for_each(|value| *value += more);
    Ok(())
}

fn contrast(planes: &mut Planes, left: f64, _: &mut ChaCha8Rng) -> Result<()> {
    for plane in &mut planes.channels {
        let mean = plane.iter().sum::<f64>() / plane.len() as f64;
        for value in plane.iter_mut() {
            *value = mean + left * (*value - mean);
        }
    }
    Ok(())
}

fn saturation(planes: &mut Planes, left: f64, _: &mut ChaCha8Rng) -> Result<()> {
    planes.remade(|own, c, y, x| {
        let at = y * own.width + x;
        let grey = own.channels.iter().map(|plane| plane[at]).sum::<f64>() / own.channels.len() as f64;
        grey + left * (own.channels[c][at] - grey)
    });
    Ok(())
}

fn pixelate(planes: &mut Planes, share: f64, _: &mut ChaCha8Rng) -> Result<()> {
    let (rows, columns) = (planes.height as f64 * share, planes.width as f64 * share);
    let (rows, columns) = (rows.round().max(1.0) as usize, columns.round().max(1.0) as usize);
    // the pixels that the block of a small pixel covers, cut to whole ones
    let block = |at: usize, side: usize, blocks: usize| {
        let own = at * blocks / side;
        (own * side).div_ceil(blocks)..((own + 1) * side).div_ceil(blocks)
    };
    planes.remade(|own, c, y, x| {
        let (down, across) = (block(y, own.height, rows), block(x, own.width, columns));
        let all = down.flat_map(|y| across.clone().map(move |x| (y, x)));
        let (sum, count) = all.fold((0.0, 0.0), |(s, n), (y, x)| (s + own.channels[c][y * own.width + x], n + 1.0));
        sum / f64::max(count, 1.0)
    });
    Ok(())
}

fn jpeg(planes: &mut Planes, quality: f64, _: &mut ChaCha8Rng) -> Result<()> {
    let (height, width, count) = (planes.height, planes.width, planes.channels.len());
    let bytes = planes.bytes();
    let plane = height * width;
    let rgb: Vec<u8> = (0..plane).flat_map(|i| [0, 1, 2].map(|c| bytes[(c % count) * plane + i])).collect();
    let broken = |why: String| Error::value("jpeg", why, "take another corruption for this image");
    let mut stored = Vec::new();
    JpegEncoder::new_with_quality(&mut stored, quality as u8)
        .encode(&rgb, width as u32, height as u32, ExtendedColorType::Rgb8)
        .map_err(|error| broken(format!("cannot be written: {error}")))?;
    let read = Picture::decode("jpeg".as_ref(), &stored)?.planar();
    *planes = Planes::of(&read[..count.min(3) * plane], [count.min(3), height, width])?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    const SIZE: [usize; 3] = [3, 32, 32];

    /// A picture with edges, colours and a slope.
    fn picture() -> Vec<u8> {
        let value = |c: usize, y: usize, x: usize| match (c, (y / 8 + x / 8) % 2) {
            (0, 0) => 200 - 2 * y,
            (1, 1) => 40 + 3 * x,
            _ => 90 + y,
        };
        (0..3).flat_map(|c| (0..32).flat_map(move |y| (0..32).map(move |x| value(c, y, x) as u8))).collect()
    }

    /// A picture without edges that blocks of pixels could meet.
    fn speckled() -> Vec<u8> {
        (0..3 * 32 * 32).map(|i: u32| (i.wrapping_mul(2_654_435_761) >> 24) as u8).collect()
    }

    fn distance(a: &[u8], b: &[u8]) -> f64 {
        a.iter().zip(b).map(|(a, b)| (f64::from(*a) - f64::from(*b)).powi(2)).sum::<f64>() / a.len() as f64
    }

    #[test]
    fn every_corruption_grows_with_its_severity_and_follows_its_seed() {
        for corruption in &CORRUPTIONS {
            let image = if corruption.name == "pixelate" { speckled() } else { picture() };
            let made = |severity, seed, row| corruption.apply(&image, SIZE, severity, (seed, row)).unwrap();
            // directions and veils are others at each severity: over some rows
            let rows = |severity| (0..12).map(move |row| (severity, row));
            let mean = |severity| rows(severity).map(|(severity, row)| distance(&image, &made(severity, 1, row))).sum();
            let far: Vec<f64> = (1..=SEVERITIES).map(mean).collect();
            assert!(far[0] > 0.0 && far.windows(2).all(|pair| pair[0] < pair[1]), "{}: {far:?}", corruption.name);
            assert_eq!(made(3, 1, 7), made(3, 1, 7), "{}", corruption.name);
            let random = ["gaussian-noise", "shot-noise", "impulse-noise", "motion-blur", "fog"];
            let (other_row, other_seed) = (made(3, 1, 8) != made(3, 1, 7), made(3, 2, 7) != made(3, 1, 7));
            assert_eq!((other_row, other_seed), (random.contains(&corruption.name), random.contains(&corruption.name)));
        }
    }

    #[test]
    fn noise_has_the_size_it_is_said_to_have() {
        let grey = vec![128_u8; 3 * 32 * 32];
        let of = |name: &str| Corruption::find(name).unwrap().apply(&grey, SIZE, 3, (5, 0)).unwrap();
        let deviation = distance(&grey, &of("gaussian-noise")).sqrt() / 255.0;
        assert!((deviation - 0.08).abs() < 0.005, "{deviation}");
        let expected = (128.0_f64 / 255.0 / 120.0).sqrt();
        let deviation = distance(&grey, &of("shot-noise")).sqrt() / 255.0;
        assert!((deviation - expected).abs() < 0.004, "{deviation}");
        let changed = of("impulse-noise").iter().filter(|value| **value != 128).count() as f64 / grey.len() as f64;
        assert!((changed - 0.04).abs() < 0.012, "{changed}");
    }

    #[test]
    fn blurs_keep_what_is_even_and_the_mean() {
        let (even, image) = (vec![77_u8; 3 * 32 * 32], picture());
        let mean = |image: &[u8]| image.iter().map(|&value| f64::from(value)).sum::<f64>() / image.len() as f64;
        for name in ["defocus-blur", "motion-blur", "zoom-blur", "pixelate", "contrast", "saturation", "jpeg"] {
            let made = |image: &[u8]| Corruption::find(name).unwrap().apply(image, SIZE, 5, (1, 0)).unwrap();
            assert!(made(&even).iter().all(|value| value.abs_diff(77) <= 1), "{name}");
            assert!((mean(&made(&image)) - mean(&image)).abs() < 4.0, "{name}");
        }
        let brighter = Corruption::find("brightness").unwrap().apply(&even, SIZE, 2, (1, 0)).unwrap();
        assert!(brighter.iter().all(|&value| value == 103), "{}", brighter[0]); // 77 + 0.1 · 255, rounded
    }

    #[test]
    fn grey_images_and_other_sizes_are_taken_and_what_cannot_be_is_refused() {
        for corruption in &CORRUPTIONS {
            let slope: Vec<u8> = (0..20 * 50).map(|i| (i % 50 * 5) as u8).collect();
            let made = corruption.apply(&slope, [1, 20, 50], 5, (1, 0)).unwrap();
            assert_eq!(made.len(), slope.len(), "{}", corruption.name);
            assert_eq!(corruption.apply(&[9], [1, 1, 1], 1, (1, 0)).unwrap().len(), 1, "{}", corruption.name);
        }
        let jpeg = Corruption::find("jpeg").unwrap();
        assert!(jpeg.apply(&[0; 12], [3, 2, 2], 6, (1, 0)).unwrap_err().to_string().contains("1 to 5"));
        assert!(jpeg.apply(&[0; 11], [3, 2, 2], 1, (1, 0)).unwrap_err().to_string().contains("11 bytes"));
        let error = Corruption::find("snow").unwrap_err().to_string();
        assert!(error.contains("snow") && error.contains("fog") && error.contains("jpeg"), "{error}");
    }
}
