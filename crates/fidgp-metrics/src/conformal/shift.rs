//! The same promise where the inputs to come are others than those calibrated on, and only the inputs.

use rand::Rng;

use crate::{
    check,
    error::{MetricError, Result},
};

/// Calibration scores with a weight each: the density of the inputs to come over that of the calibration inputs
/// (Tibshirani et al. 2019).
#[derive(Debug, Clone)]
pub struct ShiftedThreshold {
    scores: Vec<f64>, // rising
    below: Vec<f64>,  // weight of the scores up to each
    level: f64,
}

impl ShiftedThreshold {
    /// Sorts scores with their weights, which need not sum to anything.
    ///
    /// # Shapes
    /// `scores`, `weights`: `[N]`
    pub fn new(scores: &[f64], weights: &[f64], level: f64) -> Result<Self> {
        check::level(level)?;
        check::non_empty("scores", scores)?;
        check::not_nan("scores", scores)?;
        check::length("weights", weights, scores.len())?;
        check::positive("weights", weights)?;
        let mut order: Vec<usize> = (0..scores.len()).collect();
        order.sort_by(|&a, &b| scores[a].total_cmp(&scores[b]));
        let mut sum = 0.0;
        let below = order.iter().map(|&i| {
            sum += weights[i];
            sum
        });
        let below = below.collect();
        Ok(Self { scores: order.iter().map(|&i| scores[i]).collect(), below, level })
    }

    /// The threshold for an input of this weight: the least score with `Σ_{s_i ≤ s} w_i ≥ level · (Σ w_i + w)`; +∞ where
    /// the input weighs too much.
    pub fn at(&self, weight: f64) -> f64 {
        let all = self.below.last().copied().unwrap_or(0.0) + weight;
        let place = self.below.partition_point(|&below| below < self.level * all * (1.0 - 1e-12));
        self.scores.get(place).copied().unwrap_or(f64::INFINITY)
    }
}

/// Examples that stand for inputs to come: each stays with probability `w/max w` (rejection sampling). As far as the weights
/// are right, what stays is distributed as the inputs to come, so that every rule for exchangeable examples holds for
/// them with its whole law, whatever the rule is.
///
/// ```
/// use fidgp_metrics::conformal::resampled;
/// use rand::SeedableRng;
///
/// let weights: Vec<f64> = (0..1000).map(|i| if i < 500 { 1.0 } else { 0.1 }).collect();
/// let kept = resampled(&weights, &mut rand_chacha::ChaCha8Rng::seed_from_u64(0))?;
/// assert!(kept[..500] == (0..500).collect::<Vec<_>>()[..] && (25..80).contains(&(kept.len() - 500)));
/// # Ok::<(), fidgp_metrics::MetricError>(())
/// ```
pub fn resampled(weights: &[f64], rng: &mut impl Rng) -> Result<Vec<usize>> {
    check::non_empty("weights", weights)?;
    check::positive("weights", weights)?;
    let most = weights.iter().copied().fold(0.0, f64::max);
    Ok((0..weights.len()).filter(|&i| rng.random::<f64>() * most < weights[i]).collect())
}

/// How many equally weighted examples these weights are worth: `(Σ w)²/Σ w²`.
pub fn effective_size(weights: &[f64]) -> f64 {
    let sum: f64 = weights.iter().sum();
    sum * sum / weights.iter().map(|w| w * w).sum::<f64>()
}

/// Steps of Newton's method; a handful is enough.
const STEPS: usize = 50;

/// Weights of inputs for data to come, from unlabelled examples of both: `w = e^{s(x)}`, s the log odds of a logistic
/// regression (ridge 1 on standardised features) that tells the two apart, less those of the group sizes.
///
/// # Shapes
/// `here [N, columns]`, `there [M, columns]` row-major → weights of `here` `[N]` and of `there` `[M]`
pub fn density_ratio(here: &[f64], there: &[f64], columns: usize) -> Result<(Vec<f64>, Vec<f64>)> {
    check::at_least_one("columns", columns)?;
    for (what, values) in [("calibration inputs", here), ("target inputs", there)] {
        check::non_empty(what, values)?;
        check::finite(what, values)?;
        check::length(what, values, values.len() / columns * columns)?;
    }
    let rows = standardised(here, there, columns);
    let count = here.len() / columns;
    let beta = logistic(&rows, count, columns + 1)?;
    let odds = (there.len() as f64 / here.len() as f64).ln();
    let weight = |row: &[f64]| (dot(row, &beta) - odds).clamp(-30.0, 30.0).exp();
    let mut weights: Vec<f64> = rows.chunks_exact(columns + 1).map(weight).collect();
    let of_there = weights.split_off(count);
    Ok((weights, of_there))
}

/// Both groups below one another, centred and scaled by all rows, with a column of ones. `[N + M, columns + 1]`
fn standardised(here: &[f64], there: &[f64], columns: usize) -> Vec<f64> {
    let rows = || here.chunks_exact(columns).chain(there.chunks_exact(columns));
    let n = rows().count() as f64;
    let scale: Vec<(f64, f64)> = (0..columns)
        .map(|c| {
            let mean = rows().map(|row| row[c]).sum::<f64>() / n;
            let sd = (rows().map(|row| (row[c] - mean).powi(2)).sum::<f64>() / n).sqrt();
            (mean, if sd > 0.0 { sd } else { 1.0 })
        })
        .collect();
    rows()
        .flat_map(|row| row.iter().zip(&scale).map(|(x, (mean, sd))| (x - mean) / sd).chain([1.0]).collect::<Vec<_>>())
        .collect()
}

fn dot(a: &[f64], b: &[f64]) -> f64 {
    a.iter().zip(b).map(|(a, b)| a * b).sum()
}

/// Newton's method on the penalised likelihood of "row is of the second group".
fn logistic(rows: &[f64], first_group: usize, width: usize) -> Result<Vec<f64>> {
    let mut beta = vec![0.0; width];
    for _ in 0..STEPS {
        let mut slope: Vec<f64> = beta.iter().map(|b| -b).collect();
        let mut curvature = vec![0.0; width * width];
        for i in 0..width {
            curvature[i * width + i] = 1.0;
        }
        for (i, row) in rows.chunks_exact(width).enumerate() {
            let p = 1.0 / (1.0 + (-dot(row, &beta)).exp());
            let truth = f64::from(u8::from(i >= first_group));
            for (a, x) in row.iter().enumerate() {
                slope[a] += (truth - p) * x;
                for (b, y) in row.iter().enumerate().take(a + 1) {
                    curvature[a * width + b] += p * (1.0 - p) * x * y;
                }
            }
        }
        let step = solve(&mut curvature, slope, width)?;
        let size = step.iter().fold(0.0_f64, |most, s| most.max(s.abs()));
        beta.iter_mut().zip(&step).for_each(|(b, s)| *b += s);
        if size < 1e-10 {
            break;
        }
    }
    check::finite("log odds", &beta)?;
    Ok(beta)
}

/// Solves `A x = b` by Cholesky; of A only the lower half is read.
fn solve(a: &mut [f64], mut b: Vec<f64>, n: usize) -> Result<Vec<f64>> {
    for j in 0..n {
        for k in 0..j {
            let factor = a[j * n + k];
            for i in j..n {
                a[i * n + j] -= a[i * n + k] * factor;
            }
        }
        let root = a[j * n + j].sqrt();
        if root.is_nan() || root <= 0.0 {
            return Err(MetricError::NotPositive { what: "curvature", index: j, value: root });
        }
        (j..n).for_each(|i| a[i * n + j] /= root);
    }
    for i in 0..n {
        b[i] = (b[i] - (0..i).map(|k| a[i * n + k] * b[k]).sum::<f64>()) / a[i * n + i];
    }
    for i in (0..n).rev() {
        b[i] = (b[i] - (i + 1..n).map(|k| a[k * n + i] * b[k]).sum::<f64>()) / a[i * n + i];
    }
    Ok(b)
}
