use serde::{Deserialize, Serialize};

use crate::{
    check,
    classification::entropy,
    error::Result,
    mixture::{Noise, draw_count},
};

/// Class probabilities of K weight draws, checked.
#[derive(Debug, Clone, Copy)]
pub struct DrawProbs<'a> {
    probs: &'a [f64],
    points: usize,
    classes: usize,
}

/// Entropies per point, in nats: `total = aleatoric + epistemic`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct EntropySplit {
    /// Entropy of the mean prediction, `H[(1/K) Σ_k p_k]`.
    pub total: Vec<f64>,
    /// Mean entropy of the draws, `(1/K) Σ_k H[p_k]`: what more training data would not remove.
    pub aleatoric: Vec<f64>,
    /// Mutual information of prediction and weights, their difference: what the draws disagree about.
    pub epistemic: Vec<f64>,
}

impl<'a> DrawProbs<'a> {
    /// Checks and wraps the draws.
    ///
    /// # Shapes
    /// `probs [draws, points, classes]`, row-major.
    ///
    /// ```
    /// use fidgp_metrics::DrawProbs;
    ///
    /// // two draws of two points: both sure but at odds about the first, both unsure about the second
    /// let probs = [1.0, 0.0, 0.5, 0.5, 0.0, 1.0, 0.5, 0.5];
    /// let split = DrawProbs::new(&probs, 2, 2, 2)?.entropy_split();
    /// let ln2 = 2.0_f64.ln();
    /// assert_eq!(split.aleatoric, [0.0, ln2]);
    /// assert_eq!(split.epistemic, [ln2, 0.0]);
    /// # Ok::<(), fidgp_metrics::MetricError>(())
    /// ```
    pub fn new(probs: &'a [f64], draws: usize, points: usize, classes: usize) -> Result<Self> {
        check::at_least_one("draws", draws)?;
        check::at_least_one("points", points)?;
        check::at_least_one("classes", classes)?;
        check::length("probs", probs, draws.saturating_mul(points).saturating_mul(classes))?;
        check::distributions(probs, classes)?;
        Ok(Self { probs, points, classes })
    }

    /// The draws one by one, each `[points, classes]`.
    pub fn draws(&self) -> impl ExactSizeIterator<Item = &'a [f64]> {
        self.probs.chunks_exact(self.points * self.classes)
    }

    /// Mean prediction `(1/K) Σ_k p_k`, `[points, classes]`.
    pub fn mean(&self) -> Vec<f64> {
        average(self.points * self.classes, self.draws().map(<[f64]>::to_vec))
    }

    /// Splits the entropy of every point; rounding below zero is clamped.
    pub fn entropy_split(&self) -> EntropySplit {
        let total = self.entropies(&self.mean());
        let aleatoric = average(self.points, self.draws().map(|draw| self.entropies(draw)));
        let epistemic = total.iter().zip(&aleatoric).map(|(t, a)| (t - a).max(0.0)).collect();
        EntropySplit { total, aleatoric, epistemic }
    }

    fn entropies(&self, probs: &[f64]) -> Vec<f64> {
        probs.chunks_exact(self.classes).map(entropy).collect()
    }
}

/// Predictive mean and variance per point: `total = aleatoric + epistemic`, in squared target units.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct VarianceSplit {
    /// Mean over draws, `(1/K) Σ_k μ_k`.
    pub mean: Vec<f64>,
    /// Mean noise variance, `(1/K) Σ_k σ_k²`.
    pub aleatoric: Vec<f64>,
    /// Variance of the means, `(1/K) Σ_k (μ_k − μ̄)²`.
    pub epistemic: Vec<f64>,
}

impl VarianceSplit {
    /// The variance of the mixture, to hand to a [`GaussianForecast`](crate::GaussianForecast).
    pub fn total(&self) -> Vec<f64> {
        self.aleatoric.iter().zip(&self.epistemic).map(|(a, e)| a + e).collect()
    }
}

/// Law of total variance over K draws: `Var y = E_k[σ_k²] + Var_k[μ_k]`.
///
/// # Shapes
/// `means [K, points]` row-major; every output is `[points]`.
///
/// ```
/// use fidgp_metrics::{Noise, total_variance};
///
/// let split = total_variance(&[1.0, 3.0], 1, Noise::Shared(0.5))?;
/// assert_eq!((split.mean[0], split.epistemic[0], split.total()[0]), (2.0, 1.0, 1.5));
/// # Ok::<(), fidgp_metrics::MetricError>(())
/// ```
pub fn total_variance(means: &[f64], points: usize, noise: Noise) -> Result<VarianceSplit> {
    let draws = draw_count(means, points)?;
    check::finite("means", means)?;
    noise.check(draws, points)?;
    let noises = (0..draws).map(|k| (0..points).map(|n| noise.at(k, n, points)).collect());
    let mean = average(points, means.chunks_exact(points).map(<[f64]>::to_vec));
    let squares = means.chunks_exact(points).map(|draw| draw.iter().zip(&mean).map(|(m, c)| (m - c).powi(2)).collect());
    let (aleatoric, epistemic) = (average(points, noises), average(points, squares));
    Ok(VarianceSplit { mean, aleatoric, epistemic })
}

/// Element-wise mean of equally long rows.
fn average(len: usize, rows: impl ExactSizeIterator<Item = Vec<f64>>) -> Vec<f64> {
    let count = rows.len() as f64;
    let mut sum = vec![0.0; len];
    rows.for_each(|row| sum.iter_mut().zip(row).for_each(|(s, v)| *s += v));
    sum.into_iter().map(|s| s / count).collect()
}
