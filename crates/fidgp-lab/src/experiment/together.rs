//! A run by several processes.

use std::sync::Arc;

use fidgp_torch::Group;

use super::{Task, run_task_in, task};
use crate::config::RunConfig;
use crate::error::{LabError, Result};
use crate::record::{Results, commit};
use crate::run_folder::{RunContext, from_the_beginning, is_begun, refuse_to_mix};
use crate::train::Watch;
use crate::train::group::agree;

/// Trains a run by all processes of a group: each computes its part of every batch, as [`super::run`] does alone. Rank 0
/// writes, and evaluates when the training is over; the others return nothing then.
///
/// # Errors
/// When data, training or disk fail, when another process is missing or trains something else.
pub fn run_together(
    config: &RunConfig,
    context: &RunContext,
    group: &Arc<Group>,
    watch: &mut dyn Watch,
) -> Result<Option<Results>> {
    config.check()?;
    refuse(config, context)?;
    agree(group, "the program's commit", &commit())?;
    agree(group, "the config", &config.to_toml()?)?;
    let context = &begun(config, context, group)?;
    let task = task::open(config, &context.data_root)?;
    agree(group, "the data", &digest(task.as_ref()))?;
    run_task_in(Some(group), task.as_ref(), context, watch)
}

/// What has parts that need nothing of each other is not trained together but side by side.
fn refuse(config: &RunConfig, context: &RunContext) -> Result<()> {
    let no = |key: &str, why: &str| Err(LabError::config(key, why));
    if config.data.has_splits() {
        return no(
            "data.set",
            "= \"uci\" has splits, each of which is trained by one process: `fidgp train` shares them out, without a group",
        );
    }
    if config.method.about().trains_members_by.is_some() || context.member.is_some() {
        return no(
            "method",
            "= \"ensemble\" has members, which are not trained by several processes: start `fidgp train … --member K` once for \
             each, without a launcher (a job array does), then `fidgp train --resume RUN`",
        );
    }
    Ok(())
}

/// The context with which the run begins or goes on, as rank 0 finds its folder. A launcher that restarts gives the same
/// command again: then a run that was begun with this config goes on.
fn begun<'a>(config: &RunConfig, context: &RunContext<'a>, group: &Group) -> Result<RunContext<'a>> {
    // the launcher of each machine counts for itself
    let attempts = group.texts("the number of restarts", &group.launched().attempt.to_string())?;
    let restarted = attempts.iter().any(|attempt| attempt != "0") && is_begun(config, &context.run)?;
    let own = RunContext { resume: context.resume || restarted, ..copy(context) };
    let own = if group.rank() == 0 {
        refuse_to_mix(config, &own)?;
        from_the_beginning(config, &own)?
    } else {
        own
    };
    let resume = group.text_of_first("whether the run goes on", if own.resume { "yes" } else { "no" })? == "yes";
    Ok(RunContext { resume, ..own })
}

fn copy<'a>(context: &RunContext<'a>) -> RunContext<'a> {
    RunContext {
        data_root: context.data_root.clone(),
        run: context.run.clone(),
        splits: context.splits.clone(),
        command: context.command.clone(),
        resume_command: context.resume_command.clone(),
        ..*context
    }
}

/// What tells data sets apart: what is trained on and what is tested on.
pub(super) fn digest(task: &dyn Task) -> String {
    let trained_on = task.trained_on().map(|examples| format!("{} {}", examples.examples, examples.sha256));
    format!("{trained_on:?} {:?} {:?}", task.test_sha256(), task.classes())
}
