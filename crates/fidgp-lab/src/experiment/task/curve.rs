//! The one-dimensional regression with a gap: does the network know where it has seen data?

use fidgp_data::{Table, synthetic};
use fidgp_metrics::rmse;

use crate::config::{DataConfig, RunConfig};
use crate::error::{LabError, Result};
use crate::evaluate::Meter;
use crate::model::Model;
use crate::record::{Grid, Metrics, Points, Regression1d};

/// Where the gap is measured: well away from its edges.
const GAP: (f64, f64) = (0.85, 1.15);
/// Where "outside" begins on either side.
const OUTSIDE: (f64, f64) = (0.3, 1.9);
/// The axis of the figure.
const AXIS: (f64, f64) = (0.0, 2.2);

/// Points of the figure's axis.
const POINTS: usize = 441;

/// Evenly spaced points of the axis.
pub fn axis(points: usize) -> Vec<f64> {
    synthetic::grid(AXIS.0, AXIS.1, points)
}

/// The points of a config, always one for validation, and whether that is used.
pub fn draw(config: &RunConfig) -> Result<(synthetic::Synthetic, bool)> {
    let DataConfig::Synthetic1d { train, validation, test } = config.data else {
        return Err(LabError::config("data.set", "must be \"synthetic-1d\""));
    };
    Ok((synthetic::draw(train, validation.max(1), test, config.seed)?, validation > 0))
}

/// The prediction along the axis, and what it shows as numbers.
pub fn figure(data: &synthetic::Synthetic, meter: &Meter, model: &Model) -> Result<(Regression1d, Metrics)> {
    let grid = Table::new("grid", axis(POINTS), 1, vec![0.0; POINTS])?;
    let (mean, epistemic_sd, noise_sd) = meter.forecast(model, &grid, meter.config.predict.draws)?.split()?;
    let x = grid.features().to_vec();
    let points = |table: &Table| Points { x: table.features().to_vec(), y: table.targets().to_vec() };
    let figure = Regression1d {
        grid: Grid { truth: x.iter().map(|&x| synthetic::truth(x)).collect(), x, mean, epistemic_sd, noise_sd },
        train: points(&data.train),
        validation: points(&data.validation),
        test: points(&data.test),
        gaps: gaps(),
        kl_weight: meter.config.train.kl.weight,
    };
    let shape = shape_metrics(&figure.grid)?;
    Ok((figure, shape))
}

/// Where no point falls: outside the data on either side, and in the gap.
fn gaps() -> Vec<[f64; 2]> {
    let (left, gap, right) = ([AXIS.0, synthetic::LEFT.0], synthetic::GAP, [synthetic::RIGHT.1, AXIS.1]);
    vec![left, [gap.0, gap.1], right]
}

/// What the figure shows, as numbers: error against the noiseless truth, and by region the epistemic deviation and the share of
/// points whose truth lies within two of it.
pub fn shape_metrics(grid: &Grid) -> Result<Metrics> {
    let pick = |values: &[f64], keep: &dyn Fn(f64) -> bool| -> Vec<f64> {
        grid.x.iter().zip(values).filter(|(x, _)| keep(**x)).map(|(_, value)| *value).collect()
    };
    let covered = |x: f64| synthetic::is_covered(x);
    let mean_of = |values: Vec<f64>| values.iter().sum::<f64>() / values.len() as f64;
    let in_range = mean_of(pick(&grid.epistemic_sd, &covered));
    let in_gap = |x: f64| (GAP.0..=GAP.1).contains(&x);
    let is_outside = |x: f64| x < OUTSIDE.0 || x > OUTSIDE.1;
    let gap = mean_of(pick(&grid.epistemic_sd, &in_gap));
    let outside = mean_of(pick(&grid.epistemic_sd, &is_outside));
    let truth_rmse = rmse(&pick(&grid.mean, &covered), &pick(&grid.truth, &covered))?;
    let ratio = |value: f64| (in_range > 0.0).then(|| value / in_range);
    let holds = |i: usize| (grid.mean[i] - grid.truth[i]).abs() <= 2.0 * grid.epistemic_sd[i];
    let inside: Vec<f64> = (0..grid.x.len()).map(|i| f64::from(u8::from(holds(i)))).collect();
    let held = |keep: &dyn Fn(f64) -> bool| Some(mean_of(pick(&inside, keep)));
    let entries = [
        ("reg/RMSE_truth", Some(truth_rmse)),
        ("reg/EpistemicSD_in_range", Some(in_range)),
        ("reg/EpistemicSD_gap", Some(gap)),
        ("reg/EpistemicSD_outside", Some(outside)),
        ("reg/EpistemicSD_gap_ratio", ratio(gap)),
        ("reg/EpistemicSD_outside_ratio", ratio(outside)),
        ("reg/TruthInside_in_range", held(&covered)),
        ("reg/TruthInside_gap", held(&in_gap)),
        ("reg/TruthInside_outside", held(&is_outside)),
    ];
    Ok(entries.into_iter().map(|(name, value)| (name.to_owned(), value)).collect())
}
