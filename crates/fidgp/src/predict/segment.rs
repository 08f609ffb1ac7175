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
/// their probabilities are averaged.
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
    let places: Vec<_> = starts(height, rows)
        .into_iter()
        .flat_map(|top| starts(width, cols).into_iter().map(move |left| (top, left)))
        .collect();
    let (rows, cols) = (rows.min(height), cols.min(width));
    let cut = |tensor: &Tensor, (top, left): (i64, i64)| tensor.narrow(-2, top, rows).narrow(-1, left, cols);
    let batches: Vec<_> = places.iter().map(|&place| cut(images, place)).collect();
    let options = (Kind::Float, images.device());
    let mut probs = Tensor::zeros([n, classes, height, width], options);
    let mut aleatoric = Tensor::zeros([n, height, width], options);
    let mut seen = Tensor::zeros([height, width], options);
    for &place in &places {
        let _ = cut(&seen, place).g_add_scalar_(1.0);
    }
    let members = draws.network.members();
    let passes = (draws.count as i64 * members) as f64;
    draws.one_by_one(&batches, |index, logits| {
        let given = logits.size();
        if given.len() != 4 || given[0] != n * members || given[1] < classes {
            return Err(Error::shape("outputs", &given, format!("[{}, at least {classes}, h, w]", n * members)));
        }
        for logits in logits.narrow(1, 0, classes).split(n, 0) {
            let log_p = logits.to_kind(Kind::Float).f_upsample_bilinear2d([rows, cols], false, None, None)?;
            let log_p = log_p.log_softmax(1, Kind::Float);
            let p = log_p.exp();
            let entropy = (&p * &log_p).sum_dim_intlist(1, false, Kind::Float);
            let _ = cut(&probs, places[index]).f_add_(&p)?;
            let _ = cut(&aleatoric, places[index]).f_sub_(&entropy)?;
        }
        Ok(())
    })?;
    seen = seen * passes;
    probs = probs / &seen;
    aleatoric = aleatoric / &seen;
    let total = -(&probs * probs.clamp_min(1e-38).log()).sum_dim_intlist(1, false, Kind::Float);
    Ok(Segmented { epistemic: (&total - &aleatoric).clamp_min(0.0), probs, total, aleatoric })
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
