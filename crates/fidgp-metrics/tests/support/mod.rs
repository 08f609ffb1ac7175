//! Examples drawn from a law that is known, and a test of distributions.
#![allow(dead_code, missing_docs, reason = "each test file uses a part")]

use rand::{Rng, SeedableRng, seq::SliceRandom};
use rand_chacha::ChaCha8Rng;

pub fn rng(seed: u64) -> ChaCha8Rng {
    ChaCha8Rng::seed_from_u64(seed)
}

pub fn normal(rng: &mut impl Rng) -> f64 {
    let (u, v): (f64, f64) = (rng.random(), rng.random());
    (-2.0 * (1.0 - u).ln()).sqrt() * (std::f64::consts::TAU * v).cos()
}

pub fn uniforms(rng: &mut impl Rng, count: usize) -> Vec<f64> {
    (0..count).map(|_| rng.random()).collect()
}

/// Probabilities of a model that is too sure of itself, and labels of the law behind them.
pub struct Pool {
    pub classes: usize,
    pub probs: Vec<f64>,
    pub labels: Vec<usize>,
}

impl Pool {
    pub fn drawn(rows: usize, classes: usize, seed: u64) -> Self {
        let rng = &mut rng(seed);
        let (mut probs, mut labels) = (Vec::new(), Vec::new());
        for _ in 0..rows {
            let sharp = 1.0 + 4.0 * rng.random::<f64>();
            let logits: Vec<f64> = (0..classes).map(|c| sharp * normal(rng) - 0.1 * c as f64).collect();
            labels.push(draw(&softmax(&logits, 1.0), rng.random()));
            probs.extend(softmax(&logits, 1.6));
        }
        Self { classes, probs, labels }
    }

    pub fn row(&self, i: usize) -> &[f64] {
        &self.probs[i * self.classes..(i + 1) * self.classes]
    }

    pub fn part(&self, rows: &[usize]) -> (Vec<f64>, Vec<usize>) {
        (rows.iter().flat_map(|&i| self.row(i).to_vec()).collect(), rows.iter().map(|&i| self.labels[i]).collect())
    }
}

fn softmax(logits: &[f64], sharper: f64) -> Vec<f64> {
    let weights: Vec<f64> = logits.iter().map(|z| (sharper * z).exp()).collect();
    let sum: f64 = weights.iter().sum();
    weights.iter().map(|w| w / sum).collect()
}

fn draw(probs: &[f64], u: f64) -> usize {
    let mut sum = 0.0;
    probs
        .iter()
        .position(|p| {
            sum += p;
            u < sum
        })
        .unwrap_or(probs.len() - 1)
}

pub fn shuffled(rng: &mut impl Rng, n: usize) -> Vec<usize> {
    let mut rows: Vec<usize> = (0..n).collect();
    rows.shuffle(rng);
    rows
}

/// Kolmogorov's p-value of "these follow this distribution function" (asymptotic, good from 35 values on).
pub fn kolmogorov(mut values: Vec<f64>, cdf: impl Fn(f64) -> f64) -> f64 {
    values.sort_by(f64::total_cmp);
    let n = values.len() as f64;
    let far = |(i, &x): (usize, &f64)| {
        let f = cdf(x);
        (f - i as f64 / n).max((i + 1) as f64 / n - f)
    };
    let d = values.iter().enumerate().map(far).fold(0.0, f64::max);
    let t = (n.sqrt() + 0.12 + 0.11 / n.sqrt()) * d;
    let terms = (1..=100).map(|k| 2.0 * (-1.0_f64).powi(k - 1) * (-2.0 * f64::from(k * k) * t * t).exp());
    terms.sum::<f64>().clamp(0.0, 1.0)
}

pub fn mean_and_error(values: &[f64]) -> (f64, f64) {
    (fidgp_metrics::mean(values).unwrap(), fidgp_metrics::standard_error(values).unwrap())
}
