//! The band around a curve, in numbers.

use crate::record::Grid;

/// Width of the band, in standard deviations.
pub const SIGMAS: f64 = 3.0;

/// `sqrt(epistemic² + noise²)`.
pub fn total_sd(grid: &Grid) -> Vec<f64> {
    grid.epistemic_sd.iter().zip(&grid.noise_sd).map(|(e, n)| e.hypot(*n)).collect()
}

/// Points of two lists, as far as both go.
pub fn pairs(x: &[f64], y: &[f64]) -> Vec<(f64, f64)> {
    x.iter().copied().zip(y.iter().copied()).collect()
}

/// Linear between the grid points; `None` outside the grid.
pub fn interpolate(xs: &[f64], ys: &[f64], x: f64) -> Option<f64> {
    let right = xs.partition_point(|&grid| grid < x);
    let (y1, x1) = (*ys.get(right)?, *xs.get(right)?);
    let Some(left) = right.checked_sub(1) else { return (x1 <= x).then_some(y1) };
    let (x0, y0) = (xs[left], *ys.get(left)?);
    Some(y0 + (y1 - y0) * ((x - x0) / (x1 - x0)))
}
