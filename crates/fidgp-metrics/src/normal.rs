use std::f64::consts::{FRAC_1_SQRT_2, PI};

use crate::{check, error::Result};

/// Density `φ(z) = exp(−z²/2) / sqrt(2π)`.
pub fn pdf(z: f64) -> f64 {
    (-0.5 * z * z).exp() / (2.0 * PI).sqrt()
}

/// Distribution function `Φ(z) = erfc(−z/√2)/2`, accurate in both tails.
pub fn cdf(z: f64) -> f64 {
    0.5 * libm::erfc(-z * FRAC_1_SQRT_2)
}

/// Natural logarithm of the density of `N(mean, variance)` at `x`.
pub fn log_density(x: f64, mean: f64, variance: f64) -> f64 {
    -0.5 * ((2.0 * PI * variance).ln() + (x - mean).powi(2) / variance)
}

/// Half width, in standard deviations, of the central interval that holds `level` of the mass: `z` with
/// `P(|Z| > z) = 1 − level`, by bisection to the last bit.
///
/// ```
/// use fidgp_metrics::normal::central_z;
///
/// assert!((central_z(0.95)? - 1.959_963_984_540_054).abs() < 1e-12);
/// # Ok::<(), fidgp_metrics::MetricError>(())
/// ```
pub fn central_z(level: f64) -> Result<f64> {
    check::level(level)?;
    let (mut lo, mut hi) = (0.0, 40.0);
    loop {
        let mid = 0.5 * (lo + hi);
        if mid <= lo || mid >= hi {
            return Ok(mid);
        }
        if libm::erf(mid * FRAC_1_SQRT_2) < level { lo = mid } else { hi = mid }
    }
}

/// `A(μ, σ²) = E|μ + σZ| = 2σ φ(μ/σ) + μ (2Φ(μ/σ) − 1)`, the building block of every Gaussian CRPS.
pub(crate) fn mean_absolute(mean: f64, variance: f64) -> f64 {
    let sd = variance.sqrt();
    2.0 * sd * pdf(mean / sd) + mean * libm::erf(mean / sd * FRAC_1_SQRT_2)
}
