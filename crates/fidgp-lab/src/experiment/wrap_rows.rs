//! Wrapping a trained network for the rows of a table.

use super::inert::judged;
use super::linearise::fit_linearised;
use super::task::{self, HeldOut, SplitRole, Task, Want};
use super::wrap::{Stage, WrapReport, checked, with_posterior};
use super::{norms, start};
use crate::config::{DataConfig, RunConfig};
use crate::error::{LabError, Result};
use crate::model::Model;
use crate::record::commit;
use crate::run_folder::posterior;
use crate::run_folder::{RunContext, keep_command, keep_examples, open_folder, write_classes};
use crate::train::{Optimiser, checkpoint};

/// Whether a config is for rows of a table.
pub(super) fn is_for(config: &RunConfig) -> bool {
    matches!(config.data, DataConfig::Table(_))
}

/// As [`wrap`](super::wrap) for pictures: measured on the test rows, started, its statistics and posterior fitted to the training rows.
pub(super) fn wrap(
    config: &RunConfig,
    context: &RunContext,
    save: bool,
    say: &mut dyn FnMut(&str),
) -> Result<WrapReport> {
    let statistics_images = checked(config, context, save)?.statistics_images;
    let (config, _) = with_posterior(config.clone(), None)?;
    let task = task::open(&config, &context.data_root)?;
    let (task, config) = (task.as_ref(), task.config().clone());
    let file = config.start.as_ref().map(|start| start.weights.clone()).unwrap_or_default();
    let signature = task.signature()?;
    let (plain, weights) = start::plain(&config, &signature, &file, context.device)?;
    let mut model = Model::init(&config, &signature, context.device)?;
    say("measuring the trained network on the test rows");
    let mut stages = vec![stage("trained network", task, &plain, 1)?];
    let begun = start::wrap(&model, &plain)?;
    let rows = task.examples(&model, SplitRole::Measuring)?;
    let statistics_kept = (statistics_images == 0).then(|| "start.statistics_images is 0".to_owned());
    start::reestimate(&config, &model, rows.as_ref(), statistics_images)?;
    norms::estimate(&config, &mut model, rows.as_ref())?;
    let draws = config.predict.draws;
    let name = format!("wrapped, mean of {draws} weight draw{}", if draws == 1 { "" } else { "s" });
    say("measuring the mean of draws");
    stages.push(stage(&name, task, &model, draws)?);
    if config.linearised().is_some() {
        say("fitting the linearised posterior to the training rows, and measuring with it");
        fit_linearised(&config, &mut model, rows.as_ref(), None)?;
        let name = model.posterior.as_ref().map_or_else(String::new, |posterior| format!("… {}", posterior.words()));
        stages.push(stage(&name, task, &model, draws)?);
    }
    let spreads = tch::no_grad(|| task.spreads(&model, draws))?;
    let spreads = spreads.ok_or_else(|| LabError::config("data", "has no rows to look at the uncertainty of"))?;
    let (uncertainty, images) = (judged(&config, &model, &spreads), test_rows(task, &plain)?);
    if save {
        keep(&config, context, &model, task, rows.len())?;
    }
    Ok(WrapReport {
        weights,
        start: begun,
        stages,
        images,
        uncertainty,
        statistics_kept,
        posterior_missing: None,
        config,
        commit: commit(),
        hardware: crate::device::hardware(context.device),
        command: context.command.clone(),
    })
}

fn measured(task: &dyn Task, model: &Model, draws: u64, want: Want) -> Result<task::Measured> {
    let measure = task.measure(HeldOut::Test, model)?;
    tch::no_grad(|| measure.ok_or_else(|| LabError::config("data", "has no test rows"))?(model, draws, want))
}

fn stage(name: &str, task: &dyn Task, model: &Model, draws: u64) -> Result<Stage> {
    let metrics = measured(task, model, draws, Want::Metrics)?.metrics;
    Ok(Stage::of(name, &metrics))
}

fn test_rows(task: &dyn Task, plain: &Model) -> Result<usize> {
    let examples = measured(task, plain, 1, Want::Everything(None))?.examples;
    Ok(examples.and_then(|examples| examples.0.values().next().map(Vec::len)).unwrap_or(0))
}

/// Leaves a run folder that `fidgp train --resume` trains from its first step.
fn keep(config: &RunConfig, context: &RunContext, model: &Model, task: &dyn Task, rows: usize) -> Result<()> {
    let _lock = open_folder(config, context, model, rows)?;
    task.keep(&context.run)?;
    write_classes(&context.run, task.classes())?;
    task.trained_on().map_or(Ok(()), |examples| keep_examples(&context.run, &examples))?;
    if let Some(command) = &context.command {
        keep_command(&context.run, &format!("{command} && {}", context.resume_command))?;
    }
    let mut tensors = checkpoint::variables(&model.store);
    tensors.extend(Optimiser::new(&model.store, config.train.optimiser)?.state());
    checkpoint::save(&checkpoint::last(&context.run), &tensors, &checkpoint::Progress::default())?;
    posterior::write(&context.run, model, 0)
}
