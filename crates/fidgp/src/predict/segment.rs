//! A class and its uncertainty for every pixel. Draws are streamed into sums, so memory does not grow with K.

use tch::{Kind, Tensor};

use super::{ClassDraws, Classified, Draws, Gather};
use crate::{Error, Result};

/// What K draws say about every pixel.
#[derive(Debug)]
pub struct Segmented {
    /// `mean_k p_k`. `[N, classes, H, W]`
    pub probs: Tensor,
    /// Entropy of the mean. `[N, H, W]`
    pub total: Tensor,
    /// Mean of the entropies. `[N, H, W]`
    pub aleatoric: Tensor,
    /// Their difference. `[N, H, W]`
    pub epistemic: Tensor,
}

/// Segments images with K draws (and the network's members, which count as draws). Outputs past the first `classes` are
/// not used. Images larger than the window are covered by windows that overlap by a third; where several see a pixel,
/// their probabilities are averaged within each draw, so that windows that disagree are not taken for draws that do.
///
/// # Shapes
/// `[N, C, H, W]` → fields of N images
///
/// # Errors
/// When the images do not fit the network, or it gives fewer outputs than there are classes.
pub fn segment(draws: &Draws, images: &Tensor, classes: i64, window: Option<[i64; 2]>) -> Result<Segmented> {
    let mut pixels = PixelDraws::new(images, draws.network.members(), (classes, window))?;
    draws.one_by_one(&pixels.windows(images), |_, logits| pixels.add(&logits))?;
    pixels.done()
}

/// Class probabilities of pixels as draws come, window by window.
#[derive(Debug)]
pub struct PixelDraws {
    /// Images, members, classes.
    counts: [i64; 3],
    places: Vec<(i64, i64)>,
    /// Height and width of a window.
    size: [i64; 2],
    /// How many windows see a pixel. `[H, W]`
    seen: Tensor,
    /// One draw, the windows so far. `[members·N, classes, H, W]`
    canvas: Tensor,
    next: usize,
    pixels: ClassDraws,
}

impl PixelDraws {
    /// Nothing yet of these images.
    ///
    /// # Errors
    /// When they are no images.
    pub fn new(images: &Tensor, members: i64, (classes, window): (i64, Option<[i64; 2]>)) -> Result<Self> {
        let [n, _, height, width] = images.size()[..] else {
            return Err(Error::shape("images", &images.size(), "[N, C, H, W]"));
        };
        let [rows, cols] = window.unwrap_or([height, width]).map(|side| side.max(1));
        let (places, size) = (places([height, width], [rows, cols]), [rows.min(height), cols.min(width)]);
        let zeros = |shape: &[i64]| Tensor::zeros(shape, (Kind::Float, images.device()));
        let seen = zeros(&[height, width]);
        for &place in &places {
            let _ = cut(&seen, place, size).g_add_scalar_(1.0);
        }
        let canvas = zeros(&[n * members, classes, height, width]);
        Ok(Self {
            counts: [n, members, classes],
            places,
            size,
            seen,
            canvas,
            next: 0,
            pixels: ClassDraws::new(members),
        })
    }

    /// Also gathers what the Monte-Carlo error follows from.
    #[must_use]
    pub fn with_error(self) -> Self {
        Self { pixels: self.pixels.with_error(), ..self }
    }

    /// What the network is given of the images, in the order in which [`Gather::add`] takes its outputs.
    pub fn windows(&self, images: &Tensor) -> Vec<Tensor> {
        self.places.iter().map(|&place| cut(images, place, self.size)).collect()
    }

    /// Mean, and the split of its entropy.
    ///
    /// # Errors
    /// When nothing was added.
    pub fn done(self) -> Result<Segmented> {
        let Classified { probs, total, aleatoric, epistemic, .. } = self.pixels.done()?;
        Ok(Segmented { probs, total, aleatoric, epistemic })
    }
}

impl Gather for PixelDraws {
    /// Adds the logits of the next window of a draw. `[members·N, classes or more, h, w]`
    fn add(&mut self, logits: &Tensor) -> Result<()> {
        let (given, [images, members, classes]) = (logits.size(), self.counts);
        if given.len() != 4 || given[0] != images * members || given[1] < classes {
            let expected = format!("[{}, at least {classes}, h, w]", images * members);
            return Err(Error::shape("outputs", &given, expected));
        }
        let logits = logits.narrow(1, 0, classes).to_kind(Kind::Float);
        let p = logits.f_upsample_bilinear2d(self.size, false, None, None)?.softmax(1, Kind::Float);
        let _ = cut(&self.canvas, self.places[self.next], self.size).f_add_(&p)?;
        self.next += 1;
        if self.next == self.places.len() {
            self.canvas /= &self.seen;
            self.pixels.add_probs(&self.canvas)?;
            let _ = self.canvas.zero_();
            self.next = 0;
        }
        Ok(())
    }

    fn error(&self) -> f64 {
        self.pixels.error()
    }
}

/// A window of images. `[.., H, W]` → `[.., h, w]`
fn cut(images: &Tensor, (top, left): (i64, i64), [rows, cols]: [i64; 2]) -> Tensor {
    images.narrow(-2, top, rows).narrow(-1, left, cols)
}

/// How many windows [`segment`] takes of pictures of a height and width: each has noise of its own.
pub fn windows(size: [i64; 2], window: Option<[i64; 2]>) -> usize {
    places(size, window.unwrap_or(size).map(|side| side.max(1))).len()
}

/// Where windows begin: top and left.
fn places([height, width]: [i64; 2], [rows, cols]: [i64; 2]) -> Vec<(i64, i64)> {
    let lefts = starts(width, cols);
    starts(height, rows).into_iter().flat_map(|top| lefts.iter().map(move |&left| (top, left))).collect()
}

/// Where windows begin along an axis: steps of two thirds of the window, the last one at the end.
fn starts(size: i64, window: i64) -> Vec<i64> {
    if window >= size {
        return vec![0];
    }
    let step = (2 * window / 3).max(1);
    let mut all: Vec<_> = (0..size - window).step_by(step as usize).collect();
    all.push(size - window);
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn windows_cover_everything() {
        assert_eq!(starts(10, 10), [0]);
        assert_eq!(starts(10, 12), [0]);
        assert_eq!(starts(10, 6), [0, 4]);
        assert_eq!(starts(14, 6), [0, 4, 8]);
        assert_eq!(starts(3, 1), [0, 1, 2]);
        for (size, window) in [(100, 7), (33, 32), (50, 2)] {
            let all = starts(size, window);
            assert!(all.windows(2).all(|pair| pair[1] - pair[0] <= window), "{size} {window}");
            assert_eq!(all.last(), Some(&(size - window)));
        }
    }
}
