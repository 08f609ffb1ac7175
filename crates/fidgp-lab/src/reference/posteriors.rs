//! The posteriors that serve as references.

use fidgp::linearised::{FitConfig, Observed, StructureKind, Tangent, fit};
use fidgp_metrics::chains::converged;
use rayon::prelude::*;
use tch::{Kind, Tensor};

use super::hmc::{Chain, chain};
use super::{Chains, Law, Problem, ReferenceConfig, matrix};
use crate::error::Result;
use crate::predict::Trained;

/// The posterior by Hamiltonian Monte Carlo over the weights in units of their prior. Chains start at draws of half the prior.
pub fn sampled(problem: &Problem, config: &ReferenceConfig) -> Result<(Law, Chains)> {
    let density = |unit: &[f64]| problem.density(unit);
    let start = |seed: u64| -> Vec<f64> {
        let key = fidgp::Key::new(seed).fold("reference start");
        let normal = key.normal(&[problem.prior.len() as i64], Kind::Double, tch::Device::Cpu) * 0.5;
        Vec::try_from(normal).unwrap_or_default()
    };
    let seeds = 0..config.chains as u64;
    let chains: Vec<Chain> =
        seeds.into_par_iter().map(|seed| chain(&density, start(seed), &config.hmc, seed + 1)).collect();
    let curves: Vec<Vec<Vec<f64>>> = chains.par_iter().map(|chain| problem.curves(&chain.draws)).collect();
    let (mut mean, mut sd, mut converging) = (Vec::new(), Vec::new(), Vec::new());
    for point in 0..problem.axis.len() {
        let values: Vec<Vec<f64>> = curves.iter().map(|own| own.iter().map(|f| f[point]).collect()).collect();
        let all = values.concat();
        let centre = all.iter().sum::<f64>() / all.len() as f64;
        let variance = all.iter().map(|f| (f - centre).powi(2)).sum::<f64>() / all.len() as f64;
        mean.push(centre);
        sd.push(variance.sqrt());
        converging.push((problem.axis[point], converged(&values)?));
    }
    let worst = |keep: &dyn Fn(f64) -> bool| {
        converging.iter().filter(|(x, _)| keep(*x)).map(|(_, found)| found.r_hat).fold(1.0, f64::max)
    };
    let chains = Chains {
        count: config.chains,
        draws: config.hmc.draws,
        warmup: config.hmc.warmup,
        r_hat: worst(&|_| true),
        r_hat_in_range: worst(&fidgp_data::synthetic::is_covered),
        effective: converging.iter().map(|(_, found)| found.effective).fold(f64::INFINITY, f64::min),
        accepted: chains.iter().map(|chain| chain.accepted).sum::<f64>() / chains.len() as f64,
    };
    Ok(((mean, sd), chains))
}

impl Problem<'_> {
    /// Log-posterior of weights in units of their prior, up to a constant.
    pub fn density(&self, unit: &[f64]) -> (f64, Vec<f64>) {
        let weights: Vec<f64> = unit.iter().zip(&self.prior).map(|(u, sd)| u * sd).collect();
        let mut gradient = vec![0.0; unit.len()];
        let mut value = -0.5 * unit.iter().map(|u| u * u).sum::<f64>();
        let precision = self.noise.powi(-2);
        for (x, y) in self.train.features().iter().zip(self.train.targets()) {
            let mut pull = |f: f64| {
                value -= 0.5 * precision * (y - f).powi(2);
                precision * (y - f)
            };
            self.network.add_gradient(&weights, *x, &mut pull, &mut gradient);
        }
        gradient.iter_mut().zip(unit.iter().zip(&self.prior)).for_each(|(g, (u, sd))| *g = *g * sd - u);
        (value, gradient)
    }

    /// The curve of each draw. `[draws][axis]`
    fn curves(&self, draws: &[Vec<f64>]) -> Vec<Vec<f64>> {
        let curve = |unit: &Vec<f64>| {
            let weights: Vec<f64> = unit.iter().zip(&self.prior).map(|(u, sd)| u * sd).collect();
            self.axis.iter().map(|x| self.network.gradient(&weights, *x).0).collect()
        };
        draws.iter().map(curve).collect()
    }

    /// `σ_p ∂f/∂w` at the centre, point by point. `[N, D]`
    fn jacobian(&self, points: &[f64]) -> (Vec<f64>, Tensor) {
        let row = |x: &f64| {
            let (value, gradient) = self.network.gradient(&self.centre, *x);
            (value, gradient.iter().zip(&self.prior).map(|(g, sd)| g * sd).collect::<Vec<_>>())
        };
        let (values, rows): (Vec<f64>, Vec<Vec<f64>>) = points.iter().map(row).unzip();
        (values, matrix(&rows))
    }
}

/// The Gaussian process of the network linearised in all its weights.
pub fn of_all_weights(problem: &Problem) -> Result<Law> {
    let (mean, at) = problem.jacobian(&problem.axis);
    let (_, train) = problem.jacobian(problem.train.features());
    Ok((mean, deviations(&at, &train, problem.noise)?))
}

/// That of the network linearised in its inducing matrices, and how far the dense structure is from it.
pub fn of_inducing(problem: &Problem, predictor: &Trained, tangent: &Tangent) -> Result<(Law, f64)> {
    let column = |points: &[f64]| Tensor::from_slice(points).to_kind(Kind::Float).unsqueeze(1);
    let (axis, inputs) = (column(&problem.axis), column(problem.train.features()));
    let rows = |x: &Tensor| {
        let mut parts = Vec::new();
        tangent.each(x, |_, linearised| {
            parts.push(linearised.jacobian.flat().flatten(0, 1));
            Ok(())
        })?;
        Ok::<_, crate::LabError>(Tensor::cat(&parts, 0))
    };
    let sd = deviations(&rows(&axis)?, &rows(&inputs)?, problem.noise)?;
    let likelihood = &predictor.model.likelihood;
    let observe = |_: usize, _: i64, outputs: &Tensor| {
        Ok(Observed { curvature: tch::no_grad(|| likelihood.curvature(outputs)), misfit: None })
    };
    let config = FitConfig { structure: StructureKind::Dense, ..FitConfig::default() };
    let examples = inputs.size()[0];
    let posterior = fit(tangent, &mut std::iter::once(Ok(inputs)), examples, &observe, &config)?;
    let (mut mean, mut dense) = (Vec::new(), Vec::new());
    posterior.laws(tangent, std::slice::from_ref(&axis), |outputs, covariance| {
        mean.extend(Vec::<f64>::try_from(outputs.reshape([-1]))?);
        dense.extend(Vec::<f64>::try_from(covariance.reshape([-1]).clamp_min(0.0).sqrt())?);
        Ok(())
    })?;
    let largest = sd.iter().copied().fold(f64::MIN_POSITIVE, f64::max);
    let away = sd.iter().zip(&dense).map(|(a, b)| (a - b).abs()).fold(0.0, f64::max);
    Ok(((mean, sd), away / largest))
}

/// `k(x, x) − k(x, X)(k(X, X) + σ²I)⁻¹k(X, x)` with `k = J Jᵀ`, through a Cholesky factor of the kernel.
fn deviations(at: &Tensor, train: &Tensor, noise: f64) -> Result<Vec<f64>> {
    let gram = train.matmul(&train.mt());
    let noisy = &gram + Tensor::eye(gram.size()[0], (Kind::Double, gram.device())) * (noise * noise);
    let half =
        noisy.f_linalg_cholesky(false)?.f_linalg_solve_triangular(&train.matmul(&at.mt()), false, true, false)?;
    let own = at.square().sum_dim_intlist(1, false, Kind::Double);
    let explained = half.square().sum_dim_intlist(0, false, Kind::Double);
    Ok(Vec::try_from((own - explained).clamp_min(0.0).sqrt())?)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::reference::HmcConfig;
    use crate::reference::plain::PlainNetwork;
    use fidgp_data::Table;
    use fidgp_zoo::Activation;

    const POINTS: [(f64, f64); 5] = [(-1.0, 0.4), (-0.5, 0.1), (0.2, -0.6), (0.9, -0.7), (1.0, -1.3)];
    const NOISE: f64 = 0.4;

    /// A straight line with prior deviations 2 (slope) and 0.5 (offset): mean and covariance of both by hand.
    fn line() -> ([f64; 2], [[f64; 2]; 2]) {
        let (mut precision, mut pull) = ([[0.25, 0.0], [0.0, 4.0]], [0.0; 2]);
        for (x, y) in POINTS {
            let row = [x, 1.0];
            for i in 0..2 {
                pull[i] += row[i] * y / (NOISE * NOISE);
                (0..2).for_each(|j| precision[i][j] += row[i] * row[j] / (NOISE * NOISE));
            }
        }
        let [[a, b], [_, d]] = precision;
        let det = a * d - b * b;
        let covariance = [[d / det, -b / det], [-b / det, a / det]];
        (covariance.map(|row| row[0] * pull[0] + row[1] * pull[1]), covariance)
    }

    fn problem(train: &Table) -> Problem<'_> {
        let network = PlainNetwork::new(vec![1, 1], Activation::Tanh).unwrap();
        let axis = vec![-2.0, 0.0, 3.0];
        Problem { network, prior: vec![2.0, 0.5], centre: line().0.to_vec(), noise: NOISE, train, axis }
    }

    fn train() -> Table {
        let (x, y) = POINTS.into_iter().unzip();
        Table::new("line", x, 1, y).unwrap()
    }

    fn expected(x: f64) -> (f64, f64) {
        let (mean, c) = line();
        (mean[0] * x + mean[1], (c[0][0] * x * x + 2.0 * c[0][1] * x + c[1][1]).sqrt())
    }

    #[test]
    fn all_references_are_exact_for_a_straight_line() {
        let train = train();
        let problem = problem(&train);
        let (mean, sd) = of_all_weights(&problem).unwrap();
        let hmc = HmcConfig { warmup: 600, draws: 2000, most_steps: 100 };
        let config = ReferenceConfig { chains: 4, hmc, points: 3 };
        let ((drawn, spread), chains) = sampled(&problem, &config).unwrap();
        assert!(chains.r_hat < 1.02 && chains.effective > 500.0, "{chains:?}");
        for (i, x) in problem.axis.iter().enumerate() {
            let (centre, deviation) = expected(*x);
            assert!((mean[i] - centre).abs() < 1e-12 && (sd[i] - deviation).abs() < 1e-12, "{x}");
            let error = deviation / chains.effective.sqrt();
            assert!((drawn[i] - centre).abs() < 4.0 * error, "{x}: {} {centre}", drawn[i]);
            assert!((spread[i] - deviation).abs() < 4.0 * error, "{x}: {} {deviation}", spread[i]);
        }
        let ((again, _), _) = sampled(&problem, &config).unwrap();
        assert_eq!(drawn, again, "the same seeds, the same chains");
    }

    #[test]
    fn the_gradient_of_the_density_is_its_derivative() {
        let train = train();
        let problem = problem(&train);
        let at = [0.3, -0.8];
        let (_, gradient) = problem.density(&at);
        for i in 0..2 {
            let moved = |by: f64| {
                let mut moved = at;
                moved[i] += by;
                problem.density(&moved).0
            };
            assert!(((moved(1e-5) - moved(-1e-5)) / 2e-5 - gradient[i]).abs() < 1e-5);
        }
    }
}
