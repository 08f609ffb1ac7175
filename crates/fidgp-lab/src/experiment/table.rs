//! Regression on a table of one's own.

use std::path::Path;
use std::time::Instant;

use fidgp_data::Standardiser;

use super::members::{Place, Training};
use super::meter::Meter;
use super::settle::{prepare, settle};
use super::{Setting, TrainedOn, blank_results};
use crate::config::{DataConfig, RunConfig, TableConfig, TableParts};
use crate::error::{LabError, Result};
use crate::evaluate;
use crate::json;
use crate::model::{Model, Signature};
use crate::predict::Predictor;
use crate::record::{Examples, Figure, Results, Time};
use crate::source::{Source, TableSource, TableView};
use crate::train::Watch;

/// The file that says how rows become inputs of a run's network.
pub const VIEW_FILE: &str = "table.json";

pub fn run(
    config: &RunConfig,
    table: &TableConfig,
    setting: &Setting,
    watch: &mut dyn Watch,
) -> Result<Option<Results>> {
    let parts = table.read(&setting.data_root)?;
    let trained_on = TrainedOn { examples: parts.train.rows(), sha256: parts.train.fingerprint() };
    if setting.resume {
        super::same_examples(&setting.run, &trained_on)?;
    }
    let config = &RunConfig { data: DataConfig::Table(parts.config.clone()), ..config.clone() };
    let view = TableView {
        features: parts.config.feature_names(),
        target: parts.config.target_name(),
        scale: Standardiser::fit(&parts.train)?,
    };
    let signature = Signature::Regression { features: parts.train.columns() as i64 };
    let model = Model::init(config, &signature, setting.device)?;
    let source = TableSource::new(&view.scale.transform(&parts.train)?, setting.device)?;
    if !setting.resume {
        prepare(config, &model, &source)?;
    }
    let _lock = super::open_folder(config, setting, &model, source.observations())?;
    json::write(&setting.run.join(VIEW_FILE), &view)?;
    if !setting.resume {
        super::keep_examples(&setting.run, &trained_on)?;
    }
    let meter = Meter { config, scale: Some(&view.scale), device: setting.device };
    let validate = |model: &Model| match &parts.validation {
        Some(rows) => meter.validation_nll(model, rows),
        None => Ok(f64::INFINITY),
    };
    let training = Training {
        config,
        model: &model,
        signature: &signature,
        source: &source,
        validate: parts.validation.is_some().then_some(&validate),
        stop: setting.stop,
        go_on: &setting.go_on,
    };
    let Some(outcome) = training.run(&Place::of(setting), watch)? else { return Ok(None) };
    let fitting = Instant::now();
    settle(config, &model, &source, Some(&setting.run))?;
    let outcome = outcome.and(fitting.elapsed());
    let (mut results, examples) = assess(&meter, setting, &model, &parts)?;
    examples.write(&setting.run)?;
    results.time = Time { predict_seconds: results.time.predict_seconds, ..super::training_time(config, &outcome) };
    Ok(Some(results))
}

/// Measures the network that a run has trained.
pub fn evaluate(predictor: &Predictor, table: &TableConfig, setting: &Setting) -> Result<Results> {
    let view =
        predictor.table.as_ref().ok_or_else(|| LabError::config("MODEL", "does not say how it takes a table"))?;
    let meter = Meter { config: &predictor.config, scale: Some(&view.scale), device: setting.device };
    Ok(assess(&meter, setting, &predictor.model, &table.read(&setting.data_root)?)?.0)
}

/// How rows become inputs of a run's network.
///
/// # Errors
/// When the file is missing or broken.
pub fn read_view(run: &Path) -> Result<TableView> {
    let path = run.join(VIEW_FILE);
    let view: TableView = json::read(&path)?;
    view.check().map_err(|why| LabError::File { path, why })?;
    Ok(view)
}

/// Metrics on the test rows, also one by one, and beside them on the validation rows.
fn assess(meter: &Meter, setting: &Setting, model: &Model, parts: &TableParts) -> Result<(Results, Examples)> {
    let mut results = blank_results(meter.config, setting, model)?;
    let (started, draws, targets) = (Instant::now(), meter.config.predict.draws, parts.test.targets());
    let forecast = meter.forecast(model, &parts.test, draws)?;
    results.time.predict_seconds = Some(started.elapsed().as_secs_f64());
    results.metrics = evaluate::metrics(&forecast, targets)?;
    results.metric_notes = evaluate::notes();
    results.test_sha256 = Some(parts.test.fingerprint());
    results.figures = vec![Figure::Forecasts(evaluate::figure(&forecast, targets)?)];
    if let Some(rows) = &parts.validation {
        let chosen = meter.metrics(model, rows, draws)?;
        results.metrics.extend(chosen.into_iter().map(|(name, value)| (format!("validation/{name}"), value)));
    }
    Ok((results, evaluate::examples(&forecast, targets)?))
}
