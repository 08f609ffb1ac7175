//! How well a wrapped network fits the trained one.

use std::fmt::{self, Display, Formatter};

use serde::Serialize;

/// One Bayesian weight against the trained one.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct LayerFit {
    /// The layer.
    pub name: String,
    /// d_out and d_in.
    pub weight: [i64; 2],
    /// R and C.
    pub inducing: [i64; 2],
    /// Rank of the fit.
    pub rank: i64,
    /// Share of the squared singular values within that rank.
    pub energy_kept: f64,
    /// `‖W − Ŵ‖/‖W‖` of the best matrix of that rank.
    pub optimal_error: f64,
    /// `‖W − Ŵ‖/‖W‖` of what the layer computes.
    pub error: f64,
}

/// A whole network's start.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct StartReport {
    /// The Bayesian layers.
    pub layers: Vec<LayerFit>,
    /// Tensors taken over as they were.
    pub copied: usize,
}

impl Display for StartReport {
    fn fmt(&self, f: &mut Formatter) -> fmt::Result {
        let width = self.layers.iter().map(|layer| layer.name.len()).max().unwrap_or(0).max(5);
        writeln!(
            f,
            "{:<width$}  {:>9}  {:>9}  {:>5}  {:>8}  {:>9}",
            "layer", "weight", "inducing", "rank", "energy %", "error %"
        )?;
        for fit in &self.layers {
            let size = |[a, b]: [i64; 2]| format!("{a}x{b}");
            let (weight, inducing, energy, error) =
                (size(fit.weight), size(fit.inducing), 100.0 * fit.energy_kept, 100.0 * fit.error);
            writeln!(
                f,
                "{:<width$}  {weight:>9}  {inducing:>9}  {:>5}  {energy:>8.3}  {error:>9.4}",
                fit.name, fit.rank
            )?;
        }
        writeln!(f, "{} tensors taken over as they were", self.copied)
    }
}
