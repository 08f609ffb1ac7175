use std::f64::consts::PI;

use crate::{check, error::Result, normal};

/// Root mean squared error `sqrt((1/N) Σ (μ_n − y_n)²)`, in target units.
///
/// ```
/// use fidgp_metrics::{mae, rmse};
///
/// assert_eq!(rmse(&[0.0, 0.0], &[3.0, -3.0])?, 3.0);
/// assert_eq!(mae(&[0.0, 0.0], &[3.0, -1.0])?, 2.0);
/// # Ok::<(), fidgp_metrics::MetricError>(())
/// ```
pub fn rmse(mean: &[f64], target: &[f64]) -> Result<f64> {
    mean_loss(mean, target, |error| error * error).map(f64::sqrt)
}

/// Mean absolute error `(1/N) Σ |μ_n − y_n|`, in target units.
pub fn mae(mean: &[f64], target: &[f64]) -> Result<f64> {
    mean_loss(mean, target, f64::abs)
}

fn mean_loss(mean: &[f64], target: &[f64], loss: impl Fn(f64) -> f64) -> Result<f64> {
    check::pair(("mean", mean), ("target", target))?;
    Ok(mean.iter().zip(target).map(|(m, y)| loss(m - y)).sum::<f64>() / mean.len() as f64)
}

/// One Gaussian per target: `y_n ~ N(μ_n, σ_n²)`.
///
/// Undo any standardisation of the targets first, means and variances alike, to read the metrics in target units.
#[derive(Debug, Clone, Copy)]
pub struct GaussianForecast<'a> {
    mean: &'a [f64],
    variance: &'a [f64],
    target: &'a [f64],
}

impl<'a> GaussianForecast<'a> {
    /// Checks and wraps a forecast.
    ///
    /// # Shapes
    /// `mean`, `variance` (noise included), `target`: all `[N]`.
    ///
    /// ```
    /// use fidgp_metrics::GaussianForecast;
    ///
    /// let forecast = GaussianForecast::new(&[0.0, 0.0], &[1.0, 1.0], &[0.5, 3.0])?;
    /// assert_eq!(forecast.coverage(0.95)?, 0.5);
    /// assert!((forecast.interval_width(0.95)? - 2.0 * 1.959_963_984_540_054).abs() < 1e-12);
    /// # Ok::<(), fidgp_metrics::MetricError>(())
    /// ```
    pub fn new(mean: &'a [f64], variance: &'a [f64], target: &'a [f64]) -> Result<Self> {
        check::pair(("mean", mean), ("target", target))?;
        check::length("variance", variance, mean.len())?;
        check::positive("variance", variance)?;
        Ok(Self { mean, variance, target })
    }

    /// Negative log density `(1/N) Σ ½ [ln 2πσ_n² + (y_n − μ_n)²/σ_n²]`, in nats.
    pub fn nll(&self) -> f64 {
        self.average(|mean, variance, y| -normal::log_density(y, mean, variance))
    }

    /// Continuous ranked probability score `(1/N) Σ σ [z (2Φ(z) − 1) + 2φ(z) − 1/√π]`, `z = (y − μ)/σ`, in target
    /// units.
    pub fn crps(&self) -> f64 {
        self.average(|mean, variance, y| normal::mean_absolute(y - mean, variance) - (variance / PI).sqrt())
    }

    /// Fraction of targets inside the central interval `μ ± z σ`, ends included; well calibrated means `level`.
    pub fn coverage(&self, level: f64) -> Result<f64> {
        let z = normal::central_z(level)?;
        Ok(self.average(|mean, variance, y| f64::from((y - mean).abs() <= z * variance.sqrt())))
    }

    /// Mean width `2zσ` of the central interval, in target units.
    pub fn interval_width(&self, level: f64) -> Result<f64> {
        let z = normal::central_z(level)?;
        Ok(self.average(|_, variance, _| 2.0 * z * variance.sqrt()))
    }

    fn average(&self, score: impl Fn(f64, f64, f64) -> f64) -> f64 {
        let points = self.mean.iter().zip(self.variance).zip(self.target);
        points.map(|((&mean, &variance), &y)| score(mean, variance, y)).sum::<f64>() / self.mean.len() as f64
    }
}
