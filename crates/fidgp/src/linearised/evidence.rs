//! The prior's precision, and the level of the noise, where the evidence is highest.

use tch::{Kind, Tensor};

use crate::{Error, Result};

/// The two numbers in `Σ⁻¹ = δI + sH`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Precision {
    /// δ, 1 for the whitened prior.
    pub prior: f64,
    /// s, by how much the noise's precision differs from that of the training.
    pub curvature: f64,
}

impl Default for Precision {
    fn default() -> Self {
        Self { prior: 1.0, curvature: 1.0 }
    }
}

impl Precision {
    /// # Errors
    /// When one of them is not positive.
    pub fn check(self) -> Result<Self> {
        let sound = |number: f64| number > 0.0 && number.is_finite();
        match self {
            Self { prior, .. } if !sound(prior) => {
                Err(Error::setting("prior precision", prior, "must be greater than 0"))
            }
            Self { curvature, .. } if !sound(curvature) => {
                Err(Error::setting("noise precision", curvature, "must be greater than 0"))
            }
            sound => Ok(sound),
        }
    }
}

/// How well the network fits, in units of its own noise.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Misfit {
    /// `Σ_n (y_n − f_m(x_n))²/σ_n²`.
    pub energy: f64,
    /// N.
    pub examples: f64,
}

/// The Laplace approximation of the evidence, less what depends on neither δ nor s:
/// `½[N ln s − s·misfit] − ½δ‖m‖² − ½ Σ_i ln(1 + s h_i/δ)`, h the eigenvalues of H.
#[derive(Debug)]
pub struct Evidence {
    /// h.
    pub eigenvalues: Tensor,
    /// `‖m‖²`.
    pub energy: f64,
    /// Of a regression.
    pub misfit: Option<Misfit>,
}

/// Where the logarithm of δ is looked for.
const RANGE: (f64, f64) = (-18.420_680_743_952_367, 18.420_680_743_952_367); // 1e-8 … 1e8
const STEPS: i32 = 64;
const ROUNDS: usize = 100;

impl Evidence {
    /// Its logarithm.
    pub fn log(&self, Precision { prior, curvature }: Precision) -> f64 {
        let log_det = (&self.eigenvalues * (curvature / prior)).log1p().sum(Kind::Double).double_value(&[]);
        let fit = self.misfit.map_or(0.0, |Misfit { energy, examples }| examples * curvature.ln() - curvature * energy);
        0.5 * (fit - prior * self.energy - log_det)
    }

    /// How many directions the data decide: `γ = Σ_i s h_i/(δ + s h_i)`.
    pub fn decided(&self, Precision { prior, curvature }: Precision) -> f64 {
        let known = &self.eigenvalues * curvature;
        (&known / (&known + prior)).sum(Kind::Double).double_value(&[])
    }

    /// The best δ for an s: the best point of a grid, then by golden section between its neighbours.
    pub fn best_prior(&self, curvature: f64) -> f64 {
        let of = |log: f64| self.log(Precision { prior: log.exp(), curvature });
        let width = (RANGE.1 - RANGE.0) / f64::from(STEPS);
        let grid = (0..=STEPS).map(|step| RANGE.0 + width * f64::from(step));
        let best = grid.max_by(|a, b| of(*a).total_cmp(&of(*b))).unwrap_or(0.0);
        golden(&of, best - width, best + width).exp()
    }

    /// The best s for a δ, where there is a misfit: else 1.
    pub fn best_curvature(&self, prior: f64) -> Precision {
        let mut now = Precision { prior, curvature: 1.0 };
        let Some(misfit) = self.misfit.filter(|misfit| misfit.energy > 0.0) else { return now };
        for _ in 0..ROUNDS {
            now.curvature = self.next_curvature(now, misfit);
        }
        now
    }

    /// `s = (N − γ)/misfit`.
    fn next_curvature(&self, now: Precision, Misfit { energy, examples }: Misfit) -> f64 {
        (examples - self.decided(now)).max(f64::MIN_POSITIVE.sqrt()) / energy
    }

    /// The best δ and, where there is a misfit, s: `s = (N − γ)/misfit` and the best δ in turns, until neither moves.
    pub fn best(&self) -> Precision {
        let mut now = Precision { prior: self.best_prior(1.0), curvature: 1.0 };
        let Some(misfit) = self.misfit.filter(|misfit| misfit.energy > 0.0) else { return now };
        for _ in 0..ROUNDS {
            let curvature = self.next_curvature(now, misfit);
            let next = Precision { prior: self.best_prior(curvature), curvature };
            let still = (next.prior / now.prior).ln().abs() + (next.curvature / now.curvature).ln().abs() < 1e-6;
            now = next;
            if still {
                break;
            }
        }
        now
    }
}

/// The maximum of a function between two points.
fn golden(of: &dyn Fn(f64) -> f64, mut low: f64, mut high: f64) -> f64 {
    const RATIO: f64 = 0.618_033_988_749_894_9;
    while high - low > 1e-7 {
        let (a, b) = (high - RATIO * (high - low), low + RATIO * (high - low));
        if of(a) > of(b) { high = b } else { low = a }
    }
    f64::midpoint(low, high)
}
