//! Hamiltonian Monte Carlo in f64: trajectories of random length, step size by dual averaging, a diagonal metric.

use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha8Rng;
use rand_distr::{Distribution, StandardNormal};

/// A log-density and its gradient.
pub type Density<'a> = dyn Fn(&[f64]) -> (f64, Vec<f64>) + Sync + 'a;

/// How a chain is run.
#[derive(Clone, Copy, Debug)]
pub struct HmcConfig {
    /// Draws in which step size and metric are found; they are dropped.
    pub warmup: usize,
    /// Draws that are kept.
    pub draws: usize,
    /// Leapfrog steps of a trajectory at most.
    pub most_steps: usize,
}

/// The share of proposals that the step size is to have accepted.
const ACCEPTED: f64 = 0.8;
/// Mean length of a trajectory, in units of the metric: a quarter turn of a standard normal.
const LENGTH: f64 = std::f64::consts::FRAC_PI_2;

/// A chain and how often its proposals were accepted.
#[derive(Debug)]
pub struct Chain {
    /// Draws, one after another.
    pub draws: Vec<Vec<f64>>,
    /// Mean probability of acceptance.
    pub accepted: f64,
}

/// Runs a chain from a point.
pub fn chain(density: &Density, start: Vec<f64>, config: &HmcConfig, seed: u64) -> Chain {
    let mut sampler = Sampler::new(density, start, config.most_steps, seed);
    let third = config.warmup / 3;
    sampler.adapt(third);
    let seen: Vec<_> = (0..third).map(|_| sampler.adapted_draw()).collect();
    sampler.set_metric(&seen);
    sampler.adapt(config.warmup - 2 * third);
    if config.warmup > 0 {
        sampler.step = sampler.averaging.settled();
    }
    let mut accepted = 0.0;
    let draws = (0..config.draws).map(|_| {
        accepted += sampler.draw();
        sampler.place.clone()
    });
    let draws = draws.collect();
    Chain { draws, accepted: accepted / config.draws.max(1) as f64 }
}

struct Sampler<'a> {
    density: &'a Density<'a>,
    rng: ChaCha8Rng,
    place: Vec<f64>,
    at: (f64, Vec<f64>),
    /// Variances of the coordinates.
    metric: Vec<f64>,
    step: f64,
    averaging: Averaging,
    most_steps: usize,
}

impl<'a> Sampler<'a> {
    fn new(density: &'a Density<'a>, place: Vec<f64>, most_steps: usize, seed: u64) -> Self {
        let (at, metric) = (density(&place), vec![1.0; place.len()]);
        let (rng, step) = (ChaCha8Rng::seed_from_u64(seed), 0.01);
        Self { density, rng, place, at, metric, step, averaging: Averaging::around(step), most_steps }
    }

    fn adapt(&mut self, draws: usize) {
        (0..draws).for_each(|_| drop(self.adapted_draw()));
    }

    fn adapted_draw(&mut self) -> Vec<f64> {
        let accepted = self.draw();
        self.step = self.averaging.next(accepted);
        self.place.clone()
    }

    /// Variances of what was seen, drawn a little towards a small number where little was seen.
    fn set_metric(&mut self, seen: &[Vec<f64>]) {
        let n = seen.len() as f64;
        if seen.len() < 10 {
            return;
        }
        for (i, own) in self.metric.iter_mut().enumerate() {
            let mean = seen.iter().map(|draw| draw[i]).sum::<f64>() / n;
            let variance = seen.iter().map(|draw| (draw[i] - mean).powi(2)).sum::<f64>() / (n - 1.0);
            *own = (n * variance + 5.0 * 1e-3) / (n + 5.0);
        }
        self.averaging = Averaging::around(self.step);
    }

    /// One proposal; the probability with which it is accepted.
    fn draw(&mut self) -> f64 {
        let standard = |rng: &mut ChaCha8Rng| -> f64 { StandardNormal.sample(rng) };
        let mut momentum: Vec<f64> = self.metric.iter().map(|m| standard(&mut self.rng) / m.sqrt()).collect();
        let before = self.at.0 - self.kinetic(&momentum);
        let length = LENGTH * self.rng.random_range(0.5..1.5);
        let steps = ((length / self.step).ceil() as usize).clamp(1, self.most_steps);
        let (mut place, mut at) = (self.place.clone(), self.at.clone());
        for _ in 0..steps {
            kick(&mut momentum, &at.1, self.step / 2.0);
            let moves = place.iter_mut().zip(&momentum).zip(&self.metric);
            moves.for_each(|((q, p), m)| *q += self.step * m * p);
            at = (self.density)(&place);
            kick(&mut momentum, &at.1, self.step / 2.0);
            if !at.0.is_finite() {
                return 0.0;
            }
        }
        let accepted = (at.0 - self.kinetic(&momentum) - before).exp().min(1.0);
        if self.rng.random::<f64>() < accepted {
            (self.place, self.at) = (place, at);
        }
        if accepted.is_nan() { 0.0 } else { accepted }
    }

    fn kinetic(&self, momentum: &[f64]) -> f64 {
        momentum.iter().zip(&self.metric).map(|(p, m)| p * p * m).sum::<f64>() / 2.0
    }
}

fn kick(momentum: &mut [f64], gradient: &[f64], by: f64) {
    momentum.iter_mut().zip(gradient).for_each(|(p, g)| *p += by * g);
}

/// Nesterov's dual averaging of a logarithmic step size (Hoffman & Gelman 2014, section 3.2).
struct Averaging {
    centre: f64,
    errors: f64,
    mean: f64,
    count: f64,
}

impl Averaging {
    fn around(step: f64) -> Self {
        Self { centre: (10.0 * step).ln(), errors: 0.0, mean: step.ln(), count: 0.0 }
    }

    fn next(&mut self, accepted: f64) -> f64 {
        self.count += 1.0;
        let weight = 1.0 / (self.count + 10.0);
        self.errors = (1.0 - weight) * self.errors + weight * (ACCEPTED - accepted);
        let log = self.centre - self.count.sqrt() / 0.05 * self.errors;
        let weight = self.count.powf(-0.75);
        self.mean = weight * log + (1.0 - weight) * self.mean;
        log.exp()
    }

    fn settled(&self) -> f64 {
        self.mean.exp()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use fidgp_metrics::chains::converged;

    /// A normal of deviations 0.1 and 3, correlated in the first two coordinates.
    #[test]
    fn a_normal_is_recovered() {
        let (sds, rho) = ([0.1, 3.0, 1.0], 0.6);
        let density = |q: &[f64]| {
            let z: Vec<f64> = q.iter().zip(sds).map(|(q, sd)| q / sd).collect();
            let c = 1.0 / (1.0 - rho * rho);
            let value = -0.5 * (c * (z[0] * z[0] - 2.0 * rho * z[0] * z[1] + z[1] * z[1]) + z[2] * z[2]);
            let own = [c * (z[0] - rho * z[1]), c * (z[1] - rho * z[0]), z[2]];
            (value, own.iter().zip(sds).map(|(g, sd)| -g / sd).collect())
        };
        let config = HmcConfig { warmup: 600, draws: 1500, most_steps: 200 };
        let chains: Vec<_> = (0..4).map(|seed| chain(&density, vec![0.2, -4.0, 2.0], &config, seed)).collect();
        assert!(chains.iter().all(|chain| (0.6..0.97).contains(&chain.accepted)), "{:?}", chains[0].accepted);
        for i in 0..3 {
            for (power, expected, spread) in [(1, 0.0, 1.0), (2, 1.0, 2.0_f64.sqrt())] {
                let of = |chain: &Chain| chain.draws.iter().map(|q| (q[i] / sds[i]).powi(power)).collect::<Vec<_>>();
                let values: Vec<_> = chains.iter().map(of).collect();
                let found = converged(&values).unwrap();
                assert!(found.r_hat < 1.02 && found.effective > 400.0, "{i} {power}: {found:?}");
                let mean = values.concat().iter().sum::<f64>() / 6000.0;
                let away = (mean - expected).abs() / (spread / found.effective.sqrt());
                assert!(away < 4.0, "{i} {power}: {mean}, {away} standard errors from {expected}");
            }
        }
    }
}
