use crate::{
    check,
    error::{MetricError, Result},
    normal,
};

/// Observation variance σ² of the draws.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Noise<'a> {
    /// One variance for everything.
    Shared(f64),
    /// One variance per point, `[N]`.
    PerPoint(&'a [f64]),
    /// One variance per draw and point, `[K, N]`.
    PerDraw(&'a [f64]),
}

impl Noise<'_> {
    pub(crate) fn check(&self, draws: usize, points: usize) -> Result<()> {
        match self {
            Noise::Shared(v) => check::positive("noise", &[*v]),
            Noise::PerPoint(v) => check::length("noise", v, points).and_then(|()| check::positive("noise", v)),
            Noise::PerDraw(v) => check::length("noise", v, draws * points).and_then(|()| check::positive("noise", v)),
        }
    }

    pub(crate) fn at(&self, draw: usize, point: usize, points: usize) -> f64 {
        match self {
            Noise::Shared(v) => *v,
            Noise::PerPoint(v) => v[point],
            Noise::PerDraw(v) => v[draw * points + point],
        }
    }
}

/// K equal-weight Gaussians per target, one per weight draw: `p(y_n) = (1/K) Σ_k N(y_n; μ_kn, σ_kn²)`.
#[derive(Debug, Clone, Copy)]
pub struct MixtureForecast<'a> {
    means: &'a [f64],
    noise: Noise<'a>,
    target: &'a [f64],
    draws: usize,
}

impl<'a> MixtureForecast<'a> {
    /// Checks and wraps a forecast; K is read off the lengths.
    ///
    /// # Shapes
    /// `means [K, N]` row-major (draw by draw), `target [N]`.
    ///
    /// ```
    /// use fidgp_metrics::{GaussianForecast, MixtureForecast, Noise};
    ///
    /// let one_draw = MixtureForecast::new(&[0.1, 0.2], Noise::Shared(0.5), &[0.0, 1.0])?;
    /// let gaussian = GaussianForecast::new(&[0.1, 0.2], &[0.5, 0.5], &[0.0, 1.0])?;
    /// assert!((one_draw.nll() - gaussian.nll()).abs() < 1e-12);
    /// assert!((one_draw.crps() - gaussian.crps()).abs() < 1e-12);
    /// # Ok::<(), fidgp_metrics::MetricError>(())
    /// ```
    pub fn new(means: &'a [f64], noise: Noise<'a>, target: &'a [f64]) -> Result<Self> {
        let draws = draw_count(means, target.len())?;
        check::finite("means", means)?;
        check::finite("target", target)?;
        noise.check(draws, target.len())?;
        Ok(Self { means, noise, target, draws })
    }

    /// Number of draws K.
    pub fn draws(&self) -> usize {
        self.draws
    }

    /// Negative log density of the mixture `−(1/N) Σ ln (1/K) Σ_k N(y_n; μ_kn, σ_kn²)`, in nats, by log-sum-exp.
    pub fn nll(&self) -> f64 {
        self.average(|n| self.nll_at(n))
    }

    /// The same of each target, `[N]`.
    pub fn nll_of_each(&self) -> Vec<f64> {
        (0..self.target.len()).map(|n| self.nll_at(n)).collect()
    }

    fn nll_at(&self, n: usize) -> f64 {
        let logs: Vec<f64> = self.components(n).map(|(m, v)| normal::log_density(self.target[n], m, v)).collect();
        (self.draws as f64).ln() - log_sum_exp(&logs)
    }

    /// Continuous ranked probability score, closed form (Grimit et al. 2006), in target units:
    /// `(1/K) Σ_k A(y − μ_k, σ_k²) − (1/2K²) Σ_kl A(μ_k − μ_l, σ_k² + σ_l²)` with `A(μ, σ²) = E|μ + σZ|`.
    pub fn crps(&self) -> f64 {
        let k = self.draws as f64;
        self.average(|n| {
            let y = self.target[n];
            let distance: f64 = self.components(n).map(|(m, v)| normal::mean_absolute(y - m, v)).sum();
            distance / k - self.spread(n) / (2.0 * k * k)
        })
    }

    /// Fraction of targets in the central interval of the mixture itself: `|2F(y) − 1| ≤ level`.
    pub fn coverage(&self, level: f64) -> Result<f64> {
        check::level(level)?;
        Ok(self.average(|n| f64::from((2.0 * self.cdf(n) - 1.0).abs() <= level)))
    }

    /// Probability integral transforms `F_n(y_n)`, `[N]`; uniform on [0, 1] when well calibrated.
    pub fn pit(&self) -> Vec<f64> {
        (0..self.target.len()).map(|n| self.cdf(n)).collect()
    }

    fn cdf(&self, n: usize) -> f64 {
        let y = self.target[n];
        self.components(n).map(|(m, v)| normal::cdf((y - m) / v.sqrt())).sum::<f64>() / self.draws as f64
    }

    /// `Σ_kl A(μ_k − μ_l, σ_k² + σ_l²)`.
    fn spread(&self, n: usize) -> f64 {
        self.components(n)
            .flat_map(|(m, v)| self.components(n).map(move |(ml, vl)| normal::mean_absolute(m - ml, v + vl)))
            .sum()
    }

    /// (μ_kn, σ_kn²) over the draws k.
    fn components(&self, n: usize) -> impl Iterator<Item = (f64, f64)> {
        let points = self.target.len();
        (0..self.draws).map(move |k| (self.means[k * points + n], self.noise.at(k, n, points)))
    }

    fn average(&self, score: impl Fn(usize) -> f64) -> f64 {
        (0..self.target.len()).map(score).sum::<f64>() / self.target.len() as f64
    }
}

/// K of a `[K, N]` table.
pub(crate) fn draw_count(means: &[f64], points: usize) -> Result<usize> {
    check::at_least_one("number of points", points)?;
    check::non_empty("means", means)?;
    let draws = means.len().div_ceil(points);
    if means.len() == draws * points {
        Ok(draws)
    } else {
        Err(MetricError::Length { what: "means", expected: draws * points, got: means.len() })
    }
}

fn log_sum_exp(logs: &[f64]) -> f64 {
    let top = logs.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    if top == f64::NEG_INFINITY { top } else { top + logs.iter().map(|l| (l - top).exp()).sum::<f64>().ln() }
}
