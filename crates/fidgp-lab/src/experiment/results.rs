//! What a trained network is worth, as a document.

use std::path::Path;
use std::time::Instant;

use fidgp::linearised::LinearisedPosterior;

use super::inert::uncertainty;
use super::task::{HeldOut, Measured, Task, Want};
use crate::config::RunConfig;
use crate::error::{LabError, Result};
use crate::model::Model;
use crate::record::{Cost, Examples, MetricNotes, Metrics, Results, Schema, Time, commit};
use crate::run_folder::RunContext;
use crate::train::Outcome;

/// Metrics on the test examples, also one by one, and beside them on the validation examples where they are the run's own;
/// pictures go into a run folder, where one is given.
pub fn assess(
    (task, context, model): (&dyn Task, &RunContext, &Model),
    run: Option<&Path>,
    validate: bool,
) -> Result<(Results, Option<Examples>)> {
    let (measured, seconds) = measured(task, model, Want::Everything(run), validate)?;
    let mut results = blank_results(task.config(), context, model)?;
    results.time.predict_seconds = Some(seconds);
    (results.metrics, results.metric_notes) = (measured.metrics, measured.notes);
    (results.test_sha256, results.published) = (task.test_sha256(), task.published());
    results.figures = measured.figure.into_iter().collect();
    if model.parts.is_first() {
        results.uncertainty = uncertainty(task, model)?;
    }
    Ok((results, measured.examples))
}

/// How long a training took.
pub fn training_time(config: &RunConfig, outcome: &Outcome) -> Time {
    let seconds = outcome.seconds;
    let per_epoch = (config.train.epochs > 0).then(|| seconds / config.train.epochs as f64);
    Time { train_seconds: Some(seconds), seconds_per_epoch: per_epoch, predict_seconds: None }
}

/// Metrics on the test and validation examples alone.
pub fn metrics(task: &dyn Task, model: &Model) -> Result<Metrics> {
    Ok(measured(task, model, Want::Metrics, true)?.0.metrics)
}

/// What is wanted of the test examples, with the seconds it took, and metrics of the validation examples under names of their own.
fn measured(task: &dyn Task, model: &Model, want: Want, validate: bool) -> Result<(Measured, f64)> {
    let (draws, started) = (task.config().predict.draws, Instant::now());
    let test = task.measure(HeldOut::Test, model)?;
    let test = test.ok_or_else(|| LabError::config("data", "has no test examples"))?;
    let mut measured = test(model, draws, want)?;
    let seconds = started.elapsed().as_secs_f64() - measured.aside;
    let validation = if validate { task.measure(HeldOut::Validation, model)? } else { None };
    if let Some(measure) = validation {
        let Measured { metrics, notes, .. } = measure(model, draws, Want::Metrics)?;
        let named = |name: String| format!("validation/{name}");
        measured.metrics.extend(metrics.into_iter().map(|(name, value)| (named(name), value)));
        measured.notes.extend(notes.into_iter().map(|(name, notes)| (named(name), notes)));
    }
    Ok((measured, seconds))
}

/// A results document with everything but metrics and times.
pub fn blank_results(config: &RunConfig, context: &RunContext, model: &Model) -> Result<Results> {
    let json = serde_json::to_value(config).map_err(|error| LabError::config("config", error.to_string()))?;
    let parameters = model.parameter_count() as u64;
    let cost = fidgp_zoo::cost::cost(&model.geometry, &config.layer_plan(), fidgp_zoo::cost::Counting::Ours)?;
    let cost = cost.times(config.copies());
    Ok(Results {
        schema: Schema,
        name: config.name.clone(),
        method: config.method.name().to_owned(),
        data: config.data.name(),
        seed: config.seed,
        commit: commit(),
        hardware: crate::device::hardware(context.device),
        command: context.command.clone(),
        config: json,
        test_sha256: None,
        predicts_with: model.posterior.as_ref().map(LinearisedPosterior::words),
        metrics: Metrics::new(),
        metric_notes: MetricNotes::new(),
        uncertainty: None,
        cost: Cost { parameters, bytes: cost.bytes_f32 as u64, macs: (cost.flops_ours / 2) as u64 },
        time: Time::default(),
        splits: None,
        published: Vec::new(),
        figures: Vec::new(),
    })
}
