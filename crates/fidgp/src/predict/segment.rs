//! A class and a doubt for every pixel. Draws are streamed into sums, so memory does not grow with K.

use tch::{Kind, Tensor};

use super::Draws;
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
    let [n, _, height, width] = images.size()[..] else {
        return Err(Error::shape("images", &images.size(), "[N, C, H, W]"));
    };
    let [rows, cols] = window.unwrap_or([height, width]).map(|side| side.max(1));
    let places = places([height, width], [rows, cols]);
    let (rows, cols) = (rows.min(height), cols.min(width));
    let cut = |tensor: &Tensor, (top, left): (i64, i64)| tensor.narrow(-2, top, rows).narrow(-1, left, cols);
    let batches: Vec<_> = places.iter().map(|&place| cut(images, place)).collect();
    let members = draws.network.members();
    let zeros = |shape: &[i64]| Tensor::zeros(shape, (Kind::Float, images.device()));
    let seen = zeros(&[height, width]);
    for &place in &places {
        let _ = cut(&seen, place).g_add_scalar_(1.0);
    }
    let mut sums = Sums { probs: zeros(&[n, classes, height, width]), entropy: zeros(&[n, height, width]), passes: 0 };
    let mut canvas = zeros(&[n * members, classes, height, width]); // one draw, all windows
    draws.one_by_one(&batches, |index, logits| {
        let given = logits.size();
        if given.len() != 4 || given[0] != n * members || given[1] < classes {
            return Err(Error::shape("outputs", &given, format!("[{}, at least {classes}, h, w]", n * members)));
        }
        let logits = logits.narrow(1, 0, classes).to_kind(Kind::Float);
        let p = logits.f_upsample_bilinear2d([rows, cols], false, None, None)?.softmax(1, Kind::Float);
        let _ = cut(&canvas, places[index]).f_add_(&p)?;
        if index + 1 == places.len() {
            canvas /= &seen;
            sums.add(&canvas, n);
            let _ = canvas.zero_();
        }
        Ok(())
    })?;
    let Sums { probs, entropy, passes } = sums;
    let (probs, aleatoric) = (probs / passes as f64, entropy / passes as f64);
    let total = entropy_of(&probs);
    Ok(Segmented { epistemic: (&total - &aleatoric).clamp_min(0.0), probs, total, aleatoric })
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

/// What is kept of the draws.
struct Sums {
    /// `[N, classes, H, W]`
    probs: Tensor,
    /// `[N, H, W]`
    entropy: Tensor,
    passes: i64,
}

impl Sums {
    /// Adds the members of one draw. `[members·N, classes, H, W]`
    fn add(&mut self, probs: &Tensor, images: i64) {
        for own in probs.split(images, 0) {
            self.probs += &own;
            self.entropy += entropy_of(&own);
            self.passes += 1;
        }
    }
}

/// `−Σ_c p log p`. `[N, classes, H, W]` → `[N, H, W]`
fn entropy_of(probs: &Tensor) -> Tensor {
    -(probs * probs.clamp_min(1e-38).log()).sum_dim_intlist(1, false, Kind::Float)
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
