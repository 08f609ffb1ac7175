use serde::{Deserialize, Serialize};

use crate::{
    check,
    error::{MetricError, Result},
};

/// Steps of the descent.
const STEPS: usize = 300;

/// Vector scaling (Guo et al. 2017): logits `w_c z_c + b_c`, a factor and a shift for each class.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct VectorScaling {
    /// w.
    pub factors: Vec<f64>,
    /// b.
    pub shifts: Vec<f64>,
}

impl VectorScaling {
    /// No change.
    pub fn identity(classes: usize) -> Self {
        Self { factors: vec![1.0; classes], shifts: vec![0.0; classes] }
    }

    /// Minimises the NLL of held-out examples plus `pull · (Σ (w_c − w̄)² + Σ b_c²)/2`, by accelerated gradient descent with a
    /// step that halves where it overshoots.
    ///
    /// # Shapes
    /// `logits [N, C]` row-major, `labels [N]`
    ///
    /// ```
    /// use fidgp_metrics::recalibration::VectorScaling;
    ///
    /// let logits = [4.0, 0.0].repeat(100); // sure of class 0, which is right in three of four
    /// let labels: Vec<usize> = (0..100).map(|i| usize::from(i % 4 == 0)).collect();
    /// let fitted = VectorScaling::fit(&logits, 2, &labels, 1e-6)?;
    /// assert!((fitted.probabilities(&[4.0, 0.0])[0] - 0.75).abs() < 1e-2);
    /// # Ok::<(), fidgp_metrics::MetricError>(())
    /// ```
    pub fn fit(logits: &[f64], classes: usize, labels: &[usize], pull: f64) -> Result<Self> {
        check::non_empty("labels", labels)?;
        check::at_least_one("classes", classes)?;
        check::length("logits", logits, labels.len().saturating_mul(classes))?;
        check::finite("logits", logits)?;
        if let Some(row) = labels.iter().position(|&label| label >= classes) {
            return Err(MetricError::Label { row, label: labels[row], classes });
        }
        let examples = Examples { logits, classes, labels, pull };
        Ok(descend(&examples))
    }

    /// `softmax(w ⊙ z + b)`.
    pub fn probabilities(&self, logits: &[f64]) -> Vec<f64> {
        let scaled = logits.iter().zip(&self.factors).zip(&self.shifts).map(|((z, w), b)| w * z + b);
        let scaled: Vec<f64> = scaled.collect();
        let most = scaled.iter().copied().fold(f64::NEG_INFINITY, f64::max);
        let sum: f64 = scaled.iter().map(|z| (z - most).exp()).sum();
        scaled.iter().map(|z| (z - most).exp() / sum).collect()
    }

    fn moved(&self, slope: &Self, step: f64) -> Self {
        let go = |at: &[f64], slope: &[f64]| at.iter().zip(slope).map(|(a, s)| a + step * s).collect();
        Self { factors: go(&self.factors, &slope.factors), shifts: go(&self.shifts, &slope.shifts) }
    }
}

struct Examples<'a> {
    logits: &'a [f64],
    classes: usize,
    labels: &'a [usize],
    pull: f64,
}

impl Examples<'_> {
    /// The loss and its downhill direction.
    fn loss(&self, at: &VectorScaling) -> (f64, VectorScaling) {
        let (c, n) = (self.classes, self.labels.len() as f64);
        let mut down = VectorScaling { factors: vec![0.0; c], shifts: vec![0.0; c] };
        let mut loss = 0.0;
        for (z, &label) in self.logits.chunks_exact(c).zip(self.labels) {
            let p = at.probabilities(z);
            loss -= p[label].max(f64::MIN_POSITIVE).ln() / n;
            for k in 0..c {
                let residual = (f64::from(u8::from(k == label)) - p[k]) / n;
                down.factors[k] += residual * z[k];
                down.shifts[k] += residual;
            }
        }
        let mean = at.factors.iter().sum::<f64>() / c as f64;
        for k in 0..c {
            let off = at.factors[k] - mean;
            loss += self.pull * (off * off + at.shifts[k] * at.shifts[k]) / 2.0;
            down.factors[k] -= self.pull * off;
            down.shifts[k] -= self.pull * at.shifts[k];
        }
        (loss, down)
    }
}

fn descend(examples: &Examples) -> VectorScaling {
    let mut best = VectorScaling::identity(examples.classes);
    let (mut lowest, _) = examples.loss(&best);
    let (mut ahead, mut step, mut age) = (best.clone(), 1.0, 0.0);
    for _ in 0..STEPS {
        let (_, down) = examples.loss(&ahead);
        let next = ahead.moved(&down, step);
        let (loss, _) = examples.loss(&next);
        if loss > lowest {
            (ahead, step, age) = (best.clone(), step / 2.0, 0.0);
            continue;
        }
        age += 1.0;
        let speed = age / (age + 3.0);
        let change = next.moved(&best, -1.0);
        ahead = next.moved(&change, speed);
        (best, lowest, step) = (next, loss, step * 1.1);
    }
    best
}
