//! What a count says about a probability, exactly.

use statrs::function::beta::beta_reg;

use crate::{bootstrap::Interval, check, error::Result};

/// Largest success probability that `k` of `n` does not refute: `p` with `P(Bin(n, p) ≤ k) = alpha` (Clopper & Pearson).
///
/// ```
/// use fidgp_metrics::binomial::upper_bound;
///
/// let none_of_59 = upper_bound(0, 59, 0.05)?;
/// assert!((none_of_59 - (1.0 - 0.05_f64.powf(1.0 / 59.0))).abs() < 1e-12);
/// # Ok::<(), fidgp_metrics::MetricError>(())
/// ```
pub fn upper_bound(k: usize, n: usize, alpha: f64) -> Result<f64> {
    check::level(alpha)?;
    if k >= n {
        return Ok(1.0);
    }
    Ok(beta_quantile(k as f64 + 1.0, (n - k) as f64, 1.0 - alpha))
}

/// Smallest success probability that `k` of `n` does not refute: `p` with `P(Bin(n, p) ≥ k) = alpha`.
pub fn lower_bound(k: usize, n: usize, alpha: f64) -> Result<f64> {
    check::level(alpha)?;
    if k == 0 || n == 0 {
        return Ok(0.0);
    }
    Ok(beta_quantile(k as f64, (n - k.min(n)) as f64 + 1.0, alpha))
}

/// Interval of a probability that was seen `k` times in `n`, both ends exact.
pub fn interval(k: usize, n: usize, level: f64) -> Result<Interval> {
    check::level(level)?;
    let tail = (1.0 - level) / 2.0;
    Ok(Interval { lo: lower_bound(k, n, tail)?, hi: upper_bound(k, n, tail)?, level })
}

/// `P(Bin(n, p) ≤ k) = I_{1−p}(n − k, k + 1)`.
pub fn at_most(k: usize, n: usize, p: f64) -> f64 {
    if k >= n || p <= 0.0 {
        return 1.0;
    }
    if p >= 1.0 {
        return 0.0;
    }
    beta_reg((n - k) as f64, k as f64 + 1.0, 1.0 - p)
}

/// Quantile of `Beta(a, b)` by bisection to the last bit.
pub fn beta_quantile(a: f64, b: f64, q: f64) -> f64 {
    let (mut lo, mut hi) = (0.0_f64, 1.0_f64);
    loop {
        let mid = 0.5 * (lo + hi);
        if mid <= lo || mid >= hi {
            return mid;
        }
        if beta_reg(a, b, mid) < q { lo = mid } else { hi = mid }
    }
}
