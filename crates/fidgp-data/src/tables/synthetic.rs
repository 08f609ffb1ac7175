//! The one-dimensional regression set: two islands of points on a cosine, with a gap between them.
//!
//! `x ~ ½ U[0.5, 0.8] + ½ U[1.2, 1.6]` and `y ~ N(cos(4x + 0.8), 0.01)`, where 0.01 is the variance.

use fidgp_files::limits::ROWS;
use rand_chacha::ChaCha8Rng;
use rand_distr::{Distribution, StandardNormal};

use super::Table;
use crate::{
    Error, Result,
    random::{generator, unit},
};

/// The left island.
pub const LEFT: (f64, f64) = (0.5, 0.8);
/// The right island.
pub const RIGHT: (f64, f64) = (1.2, 1.6);
/// Where no point falls: uncertainty should grow here, and outside the islands.
pub const GAP: (f64, f64) = (0.8, 1.2);
/// The variance of the noise.
pub const NOISE_VARIANCE: f64 = 0.01;
/// Its square root.
pub const NOISE_SD: f64 = 0.1;

/// Three independent samples of the set.
#[derive(Debug, Clone, PartialEq)]
pub struct Synthetic {
    /// For fitting.
    pub train: Table,
    /// For choosing.
    pub validation: Table,
    /// For reporting.
    pub test: Table,
}

/// Draws the set; points alternate between the islands, the left one first.
///
/// Each part has its own stream: a longer part begins with the points of the shorter one, and changes no other part.
///
/// ```
/// let data = fidgp_data::synthetic::draw(20, 10, 10, 42)?;
/// assert_eq!((data.train.rows(), data.train.columns()), (20, 1));
/// # Ok::<(), fidgp_data::Error>(())
/// ```
pub fn draw(n_train: usize, n_validation: usize, n_test: usize, seed: u64) -> Result<Synthetic> {
    Ok(Synthetic {
        train: part("synthetic train", n_train, seed, 0)?,
        validation: part("synthetic validation", n_validation, seed, 1)?,
        test: part("synthetic test", n_test, seed, 2)?,
    })
}

/// The mean of `y` at `x`: `cos(4x + 0.8)`.
pub fn truth(x: f64) -> f64 {
    (4.0 * x + 0.8).cos()
}

/// Whether points fall at `x`.
pub fn is_covered(x: f64) -> bool {
    [LEFT, RIGHT].iter().any(|&(from, to)| (from..=to).contains(&x))
}

/// `n` evenly spaced points from `from` to `to`, both included (only `from` where `n` is 1): the axis of a plot.
pub fn grid(from: f64, to: f64, n: usize) -> Vec<f64> {
    let steps = n.saturating_sub(1).max(1) as f64;
    (0..n).map(|i| from + (to - from) * i as f64 / steps).collect()
}

fn part(name: &str, n: usize, seed: u64, stream: u64) -> Result<Table> {
    ROWS.check(n as u64).map_err(|exceeded| Error::value(name, exceeded.problem(), exceeded.limit.advice))?;
    let mut rng = generator(seed, *b"islands1", stream);
    let (x, y) = (0..n).map(|i| point(if i % 2 == 0 { LEFT } else { RIGHT }, &mut rng)).unzip();
    Table::new(name, x, 1, y)
}

fn point((from, to): (f64, f64), rng: &mut ChaCha8Rng) -> (f64, f64) {
    let x = from + (to - from) * unit(rng);
    let noise: f64 = StandardNormal.sample(rng);
    (x, truth(x) + NOISE_SD * noise)
}
