//! Whole runs: a task's data, a model, training, evaluation and record.

pub mod compress;
pub(crate) mod norms;
pub mod task;

mod dry;
mod fitting;
mod inert;
mod linearise;
mod logged;
mod members;
mod posthoc;
mod results;
mod splits;
mod start;
mod together;
mod wrap;
mod wrap_rows;

pub use dry::{DryRun, dry_run};
pub use linearise::{FittedPosterior, fit_posterior};
pub use task::{Spreads, Task};
pub use together::run_together;
pub use wrap::{Stage, WrapReport};

use std::sync::Arc;

use fidgp_torch::Group;

use crate::config::RunConfig;
use crate::error::{LabError, Result};
use crate::model::Parts;
use crate::predict::Trained;
use crate::record::{RESULTS_FILE, Results, Time};
use crate::run_folder::norms::are_missing;
use crate::run_folder::{
    RunContext, from_the_beginning, keep_examples, open_folder, refuse_to_mix, same_classes, same_examples,
};
use crate::train::Watch;
use crate::train::group::agree;
use fitting::Fitting;
use members::Place;
use results::{assess, training_time};
use task::{HeldOut, SplitRole};

/// Trains, evaluates and records a run; everything it leaves is in `context.run`. There are no results when only a member of
/// an ensemble was asked for.
///
/// # Errors
/// When data, training or disk fail; what was done before is kept.
pub fn run(config: &RunConfig, context: &RunContext, watch: &mut (dyn Watch + Send)) -> Result<Option<Results>> {
    config.check()?;
    context.member.map_or(Ok(()), |member| members::check(config, member))?;
    if context.splits.as_ref().is_some_and(|splits| !splits.is_empty()) && !config.data.has_splits() {
        let why = "is for data.set = \"uci\"; this data set has one division into training and test data";
        return Err(LabError::config("--splits", why));
    }
    refuse_to_mix(config, context)?;
    let context = &from_the_beginning(config, context)?;
    if let Some(data) = task::open_divided(config, &context.data_root)? {
        return splits::run(data.as_ref(), context, watch).map(Some);
    }
    run_task(task::open(config, &context.data_root)?.as_ref(), context, watch)
}

/// Wraps the network whose weights a config names and measures it before and after; with `save`, leaves a run folder that
/// `fidgp train --resume` trains from its first step. `say` hears about the progress.
///
/// # Errors
/// When the config names no weights or no Bayesian layers, or weights and data do not fit it.
pub fn wrap(config: &RunConfig, context: &RunContext, save: bool, say: &mut dyn FnMut(&str)) -> Result<WrapReport> {
    if wrap_rows::is_for(config) {
        return wrap_rows::wrap(config, context, save, say);
    }
    wrap::wrap(config, context, save, say)
}

/// Trains, evaluates and records a network for a task, which need not be one of ours. Everything it leaves is in
/// `context.run`.
///
/// # Errors
/// When data, training or disk fail; what was done before is kept.
pub fn run_task(task: &dyn Task, context: &RunContext, watch: &mut dyn Watch) -> Result<Option<Results>> {
    run_task_in(None, task, context, watch)
}

/// The same by one process alone or by one of a group: all measure, each its part; none but the first writes and returns results.
fn run_task_in(
    group: Option<&Arc<Group>>,
    task: &dyn Task,
    context: &RunContext,
    watch: &mut dyn Watch,
) -> Result<Option<Results>> {
    let (config, run) = (task.config(), &context.run);
    let writes = group.is_none_or(|group| group.rank() == 0);
    let trained_on = task.trained_on();
    if context.resume && writes {
        same_classes(run, task.classes())?;
        trained_on.as_ref().map_or(Ok(()), |now| same_examples(run, now))?;
    }
    let parts = group.map(Parts::of).unwrap_or_default();
    let (fitting, mut model) = Fitting::new(task, (context.device, parts), context.resume)?;
    let _lock = writes.then(|| open_folder(config, context, &model, fitting.observations())).transpose()?;
    if writes {
        task.keep(run)?;
    }
    if writes && !context.resume {
        trained_on.as_ref().map_or(Ok(()), |examples| keep_examples(run, examples))?;
    }
    let stop = (context.stop, context.resume_command.as_str());
    let Some(outcome) = fitting.run(&mut model, &Place::of(context, group), stop, watch)? else { return Ok(None) };
    if let Some(examples) = task.announces() {
        watch.says(&format!("measuring {examples}, passes of each: {}", config.passes()));
    }
    let (mut results, examples) = assess((task, context, &model), writes.then_some(run.as_path()), true)?;
    if !writes {
        return Ok(None);
    }
    examples.map_or(Ok(()), |examples| examples.write(run))?;
    results.time = Time { predict_seconds: results.time.predict_seconds, ..training_time(config, &outcome) };
    results.write(&run.join(RESULTS_FILE))?;
    Ok(Some(results))
}

/// Measures a trained network again, that of a run or of a model folder; nothing is written.
///
/// # Errors
/// When the data cannot be read or do not fit the network.
pub fn evaluate(predictor: &mut Trained, context: &RunContext) -> Result<Results> {
    let task = task::reopen(predictor, &context.data_root)?;
    same_classes(&context.run, task.classes())?;
    as_many_classes(predictor, task.classes())?;
    if let Some(group) = predictor.model.parts.group() {
        agree(group, "the data", &together::digest(task.as_ref()))?;
    }
    let Trained { config, model, .. } = predictor;
    if are_missing(config, model) {
        let train = task.examples(model, SplitRole::Measuring)?;
        norms::estimate(config, model, train.as_ref())?;
    }
    let own = task.trained_on().is_none_or(|now| same_examples(&context.run, &now).is_ok());
    if !own && task.measure(HeldOut::Validation, model)?.is_some() {
        // some of them may have been trained on
        tracing::warn!("the training examples are not those of the run: nothing is measured on validation examples");
    }
    let mut results = assess((task.as_ref(), context, model), None, own)?.0;
    if let Some(temperature) = model.temperature {
        for name in results.metrics.keys() {
            let notes = results.metric_notes.entry(name.clone()).or_default();
            notes.insert("temperature".to_owned(), temperature.into());
            if let Some(map) = &model.recalibration {
                notes.insert("recalibration".to_owned(), map.kind().name().into());
            }
        }
    }
    Ok(results)
}

/// Refuses data of another number of classes than a network has outputs.
fn as_many_classes(predictor: &Trained, classes: &[String]) -> Result<()> {
    let (outputs, found) = (predictor.classes.len(), classes.len());
    if outputs == found {
        return Ok(());
    }
    Err(LabError::config(
        "data",
        format!("has {found} classes, the network tells {outputs} apart; give it its own data"),
    ))
}
