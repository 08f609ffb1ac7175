//! Reference posteriors of the curve with a gap: what a network's uncertainty would be, computed slowly and exactly.
//!
//! A small trained network is taken with its own prior, noise and training points. *Hamiltonian Monte Carlo* draws all its
//! weights in f64, without any approximation but its chains' length, which R̂ and the effective number of draws judge. The
//! *exact Gaussian process of the linearised network* comes from kernels of Jacobians, in the space of all weights and in
//! that of the inducing matrices; the latter is what the dense linearised posterior must be.

mod hmc;
mod plain;
mod posteriors;

pub use hmc::HmcConfig;

use fidgp::linearised::Tangent;
use fidgp::objective::{GaussianSettings, NoiseConfig};
use fidgp_data::{Table, synthetic};
use fidgp_zoo::MlpConfig;
use serde::Serialize;
use tch::{Device, Kind, Tensor};

use crate::config::{DataConfig, LikelihoodConfig, NetworkConfig};
use crate::error::{LabError, Result};
use crate::evaluate::Meter;
use crate::experiment::task::curve;
use crate::predict::Trained;
use crate::record::{Grid, Metrics};
use plain::PlainNetwork;

/// What is compared, along the axis of the curve.
#[derive(Debug, Serialize)]
pub struct Reference {
    /// One row for each posterior: its name and what it says by region.
    pub posteriors: Vec<Compared>,
    /// How far the chains are.
    pub chains: Chains,
    /// Largest difference between the deviations of the dense linearised posterior and those of the exact Gaussian process in
    /// the same space, relative to the largest.
    pub dense_error: f64,
    /// Number of weights.
    pub weights: usize,
}

/// A posterior of the curve.
#[derive(Debug, Serialize)]
pub struct Compared {
    /// What it is.
    pub name: String,
    /// Its epistemic deviations by region, ratios, the truth within two deviations, and the error of its mean.
    pub metrics: Metrics,
}

/// What the chains of the reference say of themselves.
#[derive(Debug, Serialize)]
pub struct Chains {
    /// How many.
    pub count: usize,
    /// Draws of each, and before those.
    pub draws: usize,
    /// Draws that were dropped.
    pub warmup: usize,
    /// The largest split R̂ of the curve at any point of the axis.
    pub r_hat: f64,
    /// The largest among the training points.
    pub r_hat_in_range: f64,
    /// The smallest effective number of draws at any point.
    pub effective: f64,
    /// Mean probability of acceptance.
    pub accepted: f64,
}

/// How many chains there are and how long.
#[derive(Clone, Copy, Debug)]
pub struct ReferenceConfig {
    /// Chains.
    pub chains: usize,
    /// Each of them.
    pub hmc: HmcConfig,
    /// Points of the axis.
    pub points: usize,
}

/// A trained network as the reference sees it.
struct Problem<'a> {
    network: PlainNetwork,
    /// σ_p of every weight.
    prior: Vec<f64>,
    /// The weights at the centre of the run's posterior.
    centre: Vec<f64>,
    noise: f64,
    train: &'a Table,
    axis: Vec<f64>,
}

/// Compares a run's uncertainty with reference posteriors of the same network.
///
/// # Errors
/// When the run is not of a small plain network on the curve with a fixed noise.
pub fn compare(predictor: &Trained, config: &ReferenceConfig) -> Result<Reference> {
    let (points, _) = curve::draw(&predictor.config)?;
    let tangent = predictor.model.centre(&[])?;
    let problem = problem(predictor, &tangent, &points.train, config.points)?;
    let (sampled, chains) = posteriors::sampled(&problem, config)?;
    let whole = posteriors::of_all_weights(&problem)?;
    let (inducing, dense_error) = posteriors::of_inducing(&problem, predictor, &tangent)?;
    let own = own(predictor, &problem)?;
    let kind = if predictor.model.posterior.is_some() { "this run, linearised" } else { "this run, as trained" };
    let named = [
        ("Hamiltonian Monte Carlo", sampled),
        ("Gaussian process, all weights", whole),
        ("Gaussian process, inducing space", inducing),
        (kind, own),
    ];
    let compared = |(name, (mean, sd)): (&str, Law)| {
        let grid = problem.grid(mean, sd);
        Ok(Compared { name: name.to_owned(), metrics: curve::shape_metrics(&grid)? })
    };
    let posteriors = named.into_iter().map(compared).collect::<Result<_>>()?;
    Ok(Reference { posteriors, chains, dense_error, weights: problem.centre.len() })
}

/// Means and deviations along the axis.
type Law = (Vec<f64>, Vec<f64>);

impl Problem<'_> {
    fn grid(&self, mean: Vec<f64>, epistemic_sd: Vec<f64>) -> Grid {
        let noise_sd = vec![self.noise; self.axis.len()];
        let truth = self.axis.iter().map(|&x| synthetic::truth(x)).collect();
        Grid { x: self.axis.clone(), truth, mean, epistemic_sd, noise_sd }
    }
}

/// What the run itself says.
fn own(predictor: &Trained, problem: &Problem) -> Result<Law> {
    let axis = Table::new("axis", problem.axis.clone(), 1, vec![0.0; problem.axis.len()])?;
    let meter = Meter { config: &predictor.config, scale: None, device: predictor.model.store.device() };
    let (mean, sd, _) = meter.forecast(&predictor.model, &axis, predictor.config.predict.draws)?.split()?;
    Ok((mean, sd))
}

fn problem<'a>(predictor: &Trained, tangent: &Tangent, train: &'a Table, points: usize) -> Result<Problem<'a>> {
    let config = &predictor.config;
    let misfit = |key: &str, why: &str| Err(LabError::config(key, format!("{why} for a reference posterior")));
    let DataConfig::Synthetic1d { .. } = config.data else {
        return misfit("data.set", "must be \"synthetic-1d\"");
    };
    let NetworkConfig::Mlp(MlpConfig { hidden, activation, batch_norm: false, frequency, .. }) = &config.network else {
        return misfit("network", "must be an \"mlp\" with batch_norm = false");
    };
    if (frequency - 1.0).abs() > f64::EPSILON {
        return misfit("network.frequency", "must be 1");
    }
    let LikelihoodConfig::Gaussian(GaussianSettings { noise: NoiseConfig::Fixed { sd: noise }, .. }) =
        config.likelihood
    else {
        return misfit("likelihood.noise", "must be fixed");
    };
    let widths = [&[1], &hidden[..], &[1]].concat().into_iter().map(|width| width as usize).collect();
    let network = PlainNetwork::new(widths, *activation)?;
    let (mut prior, mut centre) = (Vec::new(), Vec::new());
    for (layer, size) in tangent.layers().iter().zip(network.sizes()) {
        prior.extend(vec![layer.scale; size]);
    }
    for weight in tangent.weights() {
        centre.extend(Vec::<f64>::try_from(weight.to_kind(Kind::Double).to_device(Device::Cpu).reshape([-1]))?);
    }
    if centre.len() != network.sizes().iter().sum::<usize>() || prior.len() != centre.len() {
        return misfit("inducing.layers", "must be \"all\"");
    }
    Ok(Problem { network, prior, centre, noise, train, axis: curve::axis(points) })
}

/// Rows of numbers as a tensor in f64. `[N, D]`
fn matrix(rows: &[Vec<f64>]) -> Tensor {
    let width = rows.first().map_or(0, Vec::len) as i64;
    Tensor::from_slice(&rows.concat()).view([rows.len() as i64, width])
}
