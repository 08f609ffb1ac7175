//! A run of data that are divided several times: every division is a task, several at a time, and the results are their means.

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::sync::Mutex;
use std::sync::atomic::Ordering;
use std::time::Duration;

use rayon::prelude::*;

use super::fitting::Fitting;
use super::members::Place;
use super::results::{blank_results, metrics};
use super::task::{Divided, SplitRole};
use crate::error::{LabError, Result};
use crate::files::COMMAND_FILE;
use crate::json;
use crate::model::{Model, Parts};
use crate::record::{RESULTS_FILE, Results, SplitMetrics, Splits};
use crate::run_folder::{Lock, RunContext, keep_command, open_folder};
use crate::train::{NO_FOLDER, Watch};

pub fn run(data: &dyn Divided, context: &RunContext, watch: &mut (dyn Watch + Send)) -> Result<Results> {
    let (config, own) = (data.config(), wanted(context, data.len())?);
    let model = Model::init(config, &data.signature(), context.device)?;
    let observations = own.iter().map(|&split| {
        let task = data.task(split)?;
        Ok(task.examples(&model, SplitRole::Training)?.observations())
    });
    let fewest = observations.collect::<Result<Vec<_>>>()?.into_iter().min().unwrap_or(0);
    let _lock = open_folder(config, context, &model, fewest)?;
    keep_asked(context, &own)?;
    train(data, context, &own, watch)?;
    let _all = Lock::of_splits(&context.run)?; // who comes last has all of them
    let asked: BTreeSet<usize> = json::read(&context.run.join(ASKED_FILE))?;
    let rows = asked.iter().filter_map(|&split| done(context, split)).collect();
    let mut results = blank_results(config, context, &model)?;
    results.set_splits(Splits::new(rows));
    (results.metric_notes, results.published) = (data.notes(), data.published());
    results.command = fidgp_files::text(&context.run.join(COMMAND_FILE)).ok().map(|text| text.trim().to_owned());
    results.write(&context.run.join(RESULTS_FILE))?;
    Ok(results)
}

/// Between looks at splits that other processes train.
const PAUSE: Duration = Duration::from_millis(200);

/// Trains splits, several at a time. Those that another process trains are waited for, and taken over if it ends without them.
fn train(data: &dyn Divided, context: &RunContext, splits: &[usize], watch: &mut (dyn Watch + Send)) -> Result<()> {
    let pool = rayon::ThreadPoolBuilder::new()
        .num_threads(context.parallel.max(1))
        .start_handler(|_| tch::set_num_threads(1))
        .build();
    let pool = pool.map_err(|error| LabError::config("--parallel", error.to_string()))?;
    let (watch, total) = (Mutex::new((watch, 0)), splits.len());
    let one = |&split: &usize| {
        let row = one_split(data, context, split).map_err(|error| error.of_split(split))?;
        let Some(row) = row else { return Ok(Some(split)) };
        if let Ok(mut guard) = watch.lock() {
            guard.1 += 1;
            let done = guard.1;
            let nll = row.metrics.get(data.chosen_by()).copied().flatten().unwrap_or(f64::NAN);
            guard.0.step(0, done, total as u64, nll);
        }
        Ok(None)
    };
    let mut left = splits.to_vec();
    loop {
        let elsewhere = pool.install(|| left.par_iter().map(one).collect::<Result<Vec<_>>>())?;
        left = elsewhere.into_iter().flatten().collect();
        if left.is_empty() {
            return Ok(());
        }
        std::thread::sleep(PAUSE);
    }
}

/// The file that says which splits a run is asked for.
const ASKED_FILE: &str = "splits/asked.json";

/// The splits that this process trains, in order: those asked for now and, where it goes on with a run, those it was asked for
/// before.
fn wanted(context: &RunContext, all: usize) -> Result<Vec<usize>> {
    let before = if context.resume { asked_before(context)? } else { BTreeSet::new() };
    let now = match &context.splits {
        Some(some) if !some.is_empty() => some.clone(),
        None if !before.is_empty() => Vec::new(),
        _ => (0..all).collect(),
    };
    if let Some(split) = now.iter().find(|split| **split >= all) {
        let why = format!("{split} is not among the {all} splits, which count from 0");
        return Err(LabError::config("--splits", why));
    }
    let others = context.shares && context.splits.is_some(); // are somebody else's
    Ok(before.into_iter().filter(|_| !others).chain(now).collect::<BTreeSet<_>>().into_iter().collect())
}

fn asked_before(context: &RunContext) -> Result<BTreeSet<usize>> {
    let path = context.run.join(ASKED_FILE);
    if path.exists() { json::read(&path) } else { Ok(BTreeSet::new()) }
}

/// Adds splits to those that a run has, and writes down the command that trains them all.
fn keep_asked(context: &RunContext, own: &[usize]) -> Result<()> {
    let _others = Lock::of_splits(&context.run)?;
    let before = if context.resume || context.shares { asked_before(context)? } else { BTreeSet::new() };
    let splits: BTreeSet<usize> = before.iter().chain(own).copied().collect();
    json::write(&context.run.join(ASKED_FILE), &splits)?;
    let Some(command) = context.command.as_deref() else { return Ok(()) };
    let added = !before.is_empty() && splits != before;
    let names_some = context.shares && command.contains(" --splits");
    let whole = if added || names_some { with_splits(command, &splits) } else { command.to_owned() };
    keep_command(&context.run, &whole)
}

/// A command with other splits.
fn with_splits(command: &str, splits: &BTreeSet<usize>) -> String {
    let mut words: Vec<&str> = command.split(' ').collect();
    if let Some(place) = words.iter().position(|word| *word == "--splits") {
        words.drain(place..(place + 2).min(words.len()));
    }
    words.retain(|word| !word.starts_with("--splits="));
    let splits: Vec<_> = splits.iter().map(ToString::to_string).collect();
    format!("{} --splits {}", words.join(" "), splits.join(","))
}

/// What an earlier run of a split left, or another process.
fn done(context: &RunContext, split: usize) -> Option<SplitMetrics> {
    fidgp_files::bytes(&file_of(context, split)).ok().and_then(|bytes| serde_json::from_slice(&bytes).ok())
}

fn file_of(context: &RunContext, split: usize) -> PathBuf {
    context.run.join("splits").join(format!("{split:02}.json"))
}

/// Trains and tests one split, or reads what an earlier run of it left; none while another process does.
fn one_split(data: &dyn Divided, context: &RunContext, split: usize) -> Result<Option<SplitMetrics>> {
    if let Some(done) = done(context, split) {
        return Ok(Some(done));
    }
    if context.stop.load(Ordering::Relaxed) {
        return Err(LabError::Interrupted {
            epoch: 0,
            step: 0,
            kept: NO_FOLDER,
            command: context.resume_command.clone(),
        });
    }
    let mine = if context.shares { Lock::split(&context.run, split)? } else { None };
    if context.shares && mine.is_none() {
        return Ok(None);
    }
    if let Some(done) = done(context, split) {
        return Ok(Some(done)); // while the lock was taken
    }
    let task = data.task(split)?;
    let (fitting, mut model) = Fitting::new(task.as_ref(), (context.device, Parts::default()), false)?;
    let stop = (context.stop, context.resume_command.as_str());
    let outcome = fitting.run(&mut model, &Place::default(), stop, &mut ())?; // side by side: epochs are not shown
    let metrics = metrics(task.as_ref(), &model)?;
    let row = SplitMetrics { split, metrics, train_seconds: outcome.map(|outcome| outcome.seconds) };
    json::write(&file_of(context, split), &row)?;
    Ok(Some(row))
}
