//! The linearised posterior, fitted once when the training is over.

use std::cell::RefCell;
use std::path::Path;

use fidgp::Key;
use fidgp::linearised::{LinearisedPosterior, Observed, Others, fit_with};
use fidgp::objective::Likelihood;
use fidgp_decision::CALIBRATION_FILE;
use tch::{Kind, Tensor};

use super::results::assess;
use super::task::{self, SplitRole, Task};
use super::together::digest;
use crate::config::{LinearisedConfig, RunConfig};
use crate::error::Result;
use crate::files::{CONFIG_FILE, TEMPERATURE_FILE};
use crate::model::Model;
use crate::model_folder::{card, keep_posterior};
use crate::predict::Trained;
use crate::record::{RESULTS_FILE, Results, Time};
use crate::run_folder::posterior::{self, PosteriorRecord};
use crate::run_folder::{RunContext, forget_measurements, same_classes, same_examples};
use crate::source::Source;
use crate::train::group::agree;

/// Fits the posterior that a config asks for to all training data, unchanged, and keeps it in the run's folder. Does nothing
/// for other configs.
///
/// # Errors
/// When an example cannot be read, the structure does not fit into memory, or a matrix cannot be decomposed.
pub fn fit_linearised(config: &RunConfig, model: &mut Model, source: &dyn Source, run: Option<&Path>) -> Result<()> {
    let Some(linearised) = config.linearised() else { return Ok(()) };
    model.posterior = Some(linearise(config, linearised, model, source)?);
    run.map_or(Ok(()), |run| posterior::keep(config, model, run))
}

/// What [`fit_posterior`] left.
#[derive(Debug)]
pub struct FittedPosterior {
    /// What was fitted; none where weights are drawn from now on.
    pub record: Option<PosteriorRecord>,
    /// The run measured anew; none for a model folder, for a run that is not finished, and where it was not asked for.
    pub results: Option<Results>,
    /// Files in the folder that were fitted to what predicted before.
    pub outdated: Vec<&'static str>,
}

/// Fits the posterior that a config asks for to what is trained already, and keeps it in the folder of the run or model; a
/// config with `posterior.kind = "flow"` removes what is there. `results.json` of a run is then measured again, since it is of
/// what predicts, if `measure`; what else was measured of it is forgotten.
///
/// # Errors
/// When the training data cannot be read or are others than the run's, or as [`fit_linearised`].
pub fn fit_posterior(
    predictor: &mut Trained,
    config: &RunConfig,
    context: &RunContext,
    measure: bool,
) -> Result<FittedPosterior> {
    config.check()?;
    let folder = context.run.as_path();
    let task = task::reopen(predictor, &context.data_root)?;
    task.trained_on().map_or(Ok(()), |now| same_examples(folder, &now))?;
    same_classes(folder, task.classes())?;
    if let Some(group) = predictor.model.parts.group() {
        agree(group, "the data", &digest(task.as_ref()))?;
    }
    let source = task.examples(&predictor.model, SplitRole::Measuring)?;
    let before = posterior::digest(&predictor.model)?;
    predictor.model.posterior = match config.linearised() {
        Some(linearised) => Some(linearise(config, linearised, &predictor.model, source.as_ref())?),
        None => None,
    };
    let (is_run, is_new) = (folder.join(CONFIG_FILE).exists(), before != posterior::digest(&predictor.model)?);
    let parts = predictor.model.parts.clone();
    let has_results =
        parts.all(measure && is_run && folder.join(RESULTS_FILE).exists(), "whether results are there")?;
    if !parts.is_first() {
        // the rest is the first one's, but for the examples that are measured together
        if has_results {
            assess((task.as_ref(), context, &predictor.model), None, true)?;
        }
        return Ok(FittedPosterior { record: None, results: None, outdated: Vec::new() });
    }
    if is_run {
        posterior::keep(config, &predictor.model, folder)?;
    } else {
        keep_posterior(folder, &predictor.model)?;
        card::says_what_predicts(folder, predictor)?;
    }
    let fitted_before = [TEMPERATURE_FILE, CALIBRATION_FILE].into_iter().filter(|file| folder.join(file).exists());
    let outdated = fitted_before.filter(|_| is_new).collect();
    if is_run && is_new {
        forget_measurements(folder)?;
    }
    let results = if has_results { Some(measured_again(task.as_ref(), predictor, context)?) } else { None };
    Ok(FittedPosterior { record: posterior::record(folder)?, results, outdated })
}

/// Puts what predicts now in the place of what was measured before. Times of the training and its command stay.
fn measured_again(task: &dyn Task, predictor: &Trained, context: &RunContext) -> Result<Results> {
    let (run, path) = (context.run.as_path(), context.run.join(RESULTS_FILE));
    let earlier = Results::read(&path)?;
    let (mut results, examples) = assess((task, context, &predictor.model), Some(run), true)?;
    examples.map_or(Ok(()), |examples| examples.write(run))?;
    results.time = Time { predict_seconds: results.time.predict_seconds, ..earlier.time };
    let both = |first: String, then: &String| format!("{first} && {then}");
    results.command = match (earlier.command, &context.command) {
        (Some(first), Some(then)) => {
            // of several fits the last counts
            let trained =
                first.split(" && ").filter(|part| !part.starts_with("fidgp fit-posterior")).collect::<Vec<_>>();
            Some(both(trained.join(" && "), then))
        }
        (first, then) => first.or_else(|| then.clone()),
    };
    results.write(&path)?;
    Ok(results)
}

/// The linearised posterior of a trained model.
///
/// # Errors
/// As [`fit_linearised`].
pub fn linearise(
    config: &RunConfig,
    linearised: &LinearisedConfig,
    model: &Model,
    source: &dyn Source,
) -> Result<LinearisedPosterior> {
    let mut tangent = model.centre(&linearised.layers)?;
    let directions = linearised.directions(config.data.has_images());
    (tangent.directions, tangent.conditional) = (directions, linearised.conditional());
    let (targets, rows) = (RefCell::new(Vec::new()), chosen(config, linearised, source));
    let part = model.parts.part(rows.len().div_ceil(config.predict.batch_size));
    let own = &rows[part.rows(config.predict.batch_size, rows.len())];
    let mut failed = None;
    let mut batches = own.chunks(config.predict.batch_size).map_while(|rows| {
        match source.batch(&Tensor::from_slice(rows).to_device(model.store.device()), None) {
            Ok((x, y)) => {
                targets.borrow_mut().push(y);
                Some(Ok(x))
            }
            Err(error) => {
                failed = Some(error);
                None
            }
        }
    });
    let observe = |batch: usize, start: i64, outputs: &Tensor| {
        let targets = targets.borrow()[batch].narrow(0, start, outputs.size()[0]);
        tch::no_grad(|| Ok(observed(model.likelihood.as_ref(), outputs, &targets)))
    };
    let others = Some(&part as &dyn Others);
    let fitted = fit_with(&tangent, &mut batches, (rows.len() as i64, others), &observe, &linearised.fit(directions));
    failed.map_or(Ok(()), Err)?;
    let fitted = fitted?;
    tracing::info!(
        target: "start",
        "linearised posterior ({}): prior precision {:.4e}, the data decide {:.1} of {} directions",
        fitted.structure.kind(), fitted.precision.prior, fitted.decided, tangent.size()
    );
    Ok(fitted)
}

/// The examples that a posterior is fitted to, in order.
fn chosen(config: &RunConfig, linearised: &LinearisedConfig, source: &dyn Source) -> Vec<i64> {
    let all = source.len();
    if linearised.examples == 0 || linearised.examples >= all {
        return (0..all as i64).collect();
    }
    let order = fidgp_data::epoch_order(all, Key::new(config.seed).fold("posterior").seed(), 0);
    let mut rows: Vec<_> = order.into_iter().take(linearised.examples).map(|row| row as i64).collect();
    rows.sort_unstable();
    rows
}

fn observed(likelihood: &dyn Likelihood, outputs: &Tensor, targets: &Tensor) -> Observed {
    let misfit = likelihood.reading().numbers().map(|numbers| {
        let output = numbers.output(outputs);
        (targets.to_kind(Kind::Double) - output.mean).square() / output.variance
    });
    Observed { curvature: likelihood.curvature(outputs), misfit }
}
