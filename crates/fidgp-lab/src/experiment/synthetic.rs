//! The one-dimensional regression with a gap: does the network know where it has seen data?

use std::time::Instant;

use fidgp_data::{Table, synthetic};
use fidgp_metrics::rmse;

use super::members::{Place, Training};
use super::meter::Meter;
use super::settle::{prepare, settle};
use super::{Setting, blank_results};
use crate::config::{DataConfig, RunConfig};
use crate::error::{LabError, Result};
use crate::evaluate;
use crate::model::{Model, Signature};
use crate::predict::Predictor;
use crate::record::{Figure, Grid, Metrics, Points, Regression1d, Results, Time};
use crate::source::{Source, TableSource};
use crate::train::Watch;

/// Where the gap is measured: well away from its edges.
const GAP: (f64, f64) = (0.85, 1.15);
/// Where "outside" begins on either side.
const OUTSIDE: (f64, f64) = (0.3, 1.9);
/// The axis of the figure.
const AXIS: (f64, f64) = (0.0, 2.2);

pub fn run(config: &RunConfig, setting: &Setting, watch: &mut dyn Watch) -> Result<Option<Results>> {
    let data = draw(config)?;
    let validation = matches!(config.data, DataConfig::Synthetic1d { validation, .. } if validation > 0);
    let signature = Signature::Regression { features: 1 };
    let model = Model::init(config, &signature, setting.device)?;
    let source = TableSource::new(&data.train, setting.device)?;
    if !setting.resume {
        prepare(config, &model, &source)?;
    }
    let _lock = super::open_folder(config, setting, &model, source.observations())?;
    let meter = Meter { config, scale: None, device: setting.device };
    let validate = |model: &Model| meter.validation_nll(model, &data.validation);
    let training = Training {
        config,
        model: &model,
        signature: &signature,
        source: &source,
        validate: validation.then_some(&validate),
        stop: setting.stop,
        go_on: &setting.go_on,
    };
    let Some(outcome) = training.run(&Place::of(setting), watch)? else { return Ok(None) };
    let fitting = Instant::now();
    settle(config, &model, &source, Some(&setting.run))?;
    let outcome = outcome.and(fitting.elapsed());
    let mut results = assess(config, setting, &model, &data)?;
    results.time = Time { predict_seconds: results.time.predict_seconds, ..super::training_time(config, &outcome) };
    Ok(Some(results))
}

/// Measures the network that a run has trained.
pub fn evaluate(predictor: &Predictor, setting: &Setting) -> Result<Results> {
    assess(&predictor.config, setting, &predictor.model, &draw(&predictor.config)?)
}

/// The points of a config; always one for validation, used or not.
fn draw(config: &RunConfig) -> Result<synthetic::Synthetic> {
    let DataConfig::Synthetic1d { train, validation, test } = config.data else {
        return Err(LabError::config("data.set", "must be \"synthetic-1d\""));
    };
    Ok(synthetic::draw(train, validation.max(1), test, config.seed)?)
}

/// Metrics on the test points, and the figure.
fn assess(config: &RunConfig, setting: &Setting, model: &Model, data: &synthetic::Synthetic) -> Result<Results> {
    let mut results = blank_results(config, setting, model)?;
    let started = Instant::now();
    let meter = Meter { config, scale: None, device: setting.device };
    let predict = |table: &Table| meter.forecast(model, table, config.predict.draws);
    results.metrics = evaluate::metrics(&predict(&data.test)?, data.test.targets())?;
    results.metric_notes = evaluate::notes();
    results.time.predict_seconds = Some(started.elapsed().as_secs_f64());
    let grid = Table::new("grid", synthetic::grid(AXIS.0, AXIS.1, 441), 1, vec![0.0; 441])?;
    let figure = figure(&grid, &predict(&grid)?, data, config.train.kl.weight)?;
    results.metrics.extend(shape_metrics(&figure.grid)?);
    results.figures = vec![Figure::Regression1d(figure)];
    Ok(results)
}

fn figure(
    grid: &Table,
    forecast: &evaluate::Forecast,
    data: &synthetic::Synthetic,
    kl_weight: f64,
) -> Result<Regression1d> {
    let (mean, epistemic_sd, noise_sd) = forecast.split()?;
    let x = grid.features().to_vec();
    let points = |table: &Table| Points { x: table.features().to_vec(), y: table.targets().to_vec() };
    Ok(Regression1d {
        grid: Grid { truth: x.iter().map(|&x| synthetic::truth(x)).collect(), x, mean, epistemic_sd, noise_sd },
        train: points(&data.train),
        validation: points(&data.validation),
        test: points(&data.test),
        gaps: vec![[synthetic::GAP.0, synthetic::GAP.1]],
        kl_weight,
    })
}

/// What the figure shows, as numbers: error against the noiseless truth, and epistemic deviation by region.
fn shape_metrics(grid: &Grid) -> Result<Metrics> {
    let pick = |values: &[f64], keep: &dyn Fn(f64) -> bool| -> Vec<f64> {
        grid.x.iter().zip(values).filter(|(x, _)| keep(**x)).map(|(_, value)| *value).collect()
    };
    let covered = |x: f64| synthetic::is_covered(x);
    let mean_of = |values: Vec<f64>| values.iter().sum::<f64>() / values.len() as f64;
    let in_range = mean_of(pick(&grid.epistemic_sd, &covered));
    let gap = mean_of(pick(&grid.epistemic_sd, &|x| (GAP.0..=GAP.1).contains(&x)));
    let outside = mean_of(pick(&grid.epistemic_sd, &|x| x < OUTSIDE.0 || x > OUTSIDE.1));
    let truth_rmse = rmse(&pick(&grid.mean, &covered), &pick(&grid.truth, &covered))?;
    let ratio = |value: f64| (in_range > 0.0).then(|| value / in_range);
    let entries = [
        ("reg/RMSE_truth", Some(truth_rmse)),
        ("reg/EpistemicSD_in_range", Some(in_range)),
        ("reg/EpistemicSD_gap", Some(gap)),
        ("reg/EpistemicSD_outside", Some(outside)),
        ("reg/EpistemicSD_gap_ratio", ratio(gap)),
        ("reg/EpistemicSD_outside_ratio", ratio(outside)),
    ];
    Ok(entries.into_iter().map(|(name, value)| (name.to_owned(), value)).collect())
}
