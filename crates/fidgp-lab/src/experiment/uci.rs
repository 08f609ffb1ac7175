//! UCI regression on the standard splits or those with a gap, several at a time.

use std::collections::BTreeSet;
use std::sync::Mutex;
use std::sync::atomic::Ordering;

use fidgp::Key;
use fidgp_data::split::Parts;
use fidgp_data::{Standardiser, uci::Uci};
use fidgp_metrics::names;
use rayon::prelude::*;

use super::fitting::Fitting;
use super::members::Place;
use super::results::{blank_results, metrics};
use super::task::{Regression, Task};
use crate::config::{DataConfig, RunConfig, UciSplits};
use crate::error::{LabError, Result};
use crate::evaluate;
use crate::json;
use crate::model::{Model, Signature};
use crate::record::{Metrics, Published, Results, SplitMetrics, Splits};
use crate::run_folder::{RunContext, keep_command, open_folder};
use crate::train::{NO_FOLDER, Watch};

pub fn run(config: &RunConfig, context: &RunContext, watch: &mut (dyn Watch + Send)) -> Result<Results> {
    let DataConfig::Uci { name, splits: kind, .. } = &config.data else {
        return Err(LabError::config("data.set", "must be \"uci\""));
    };
    let uci = Uci::read(&context.data_root.join("uci"), name)?;
    let all = if *kind == UciSplits::Gap { uci.table().columns() } else { uci.splits() };
    let (splits, command) = asked(context, all)?;
    let model = Model::init(config, &Signature::Regression { features: uci.table().columns() as i64 }, context.device)?;
    let parts = splits.iter().map(|&split| parts(config, &uci, split).map(|parts| parts.train.len()));
    let fewest = parts.collect::<Result<Vec<_>>>()?.into_iter().min().unwrap_or(0);
    let _lock = open_folder(config, context, &model, fewest)?;
    json::write(&context.run.join(ASKED_FILE), &splits)?;
    if let Some(command) = &command {
        keep_command(&context.run, command)?;
    }
    let watch = Mutex::new((watch, 0));
    let pool = rayon::ThreadPoolBuilder::new()
        .num_threads(context.parallel.max(1))
        .start_handler(|_| tch::set_num_threads(1))
        .build();
    let pool = pool.map_err(|error| LabError::config("--parallel", error.to_string()))?;
    let total = splits.len();
    let rows: Vec<SplitMetrics> = pool.install(|| {
        splits
            .par_iter()
            .map(|&split| {
                let row = one_split(config, context, &uci, split).map_err(|error| error.of_split(split))?;
                if let Ok(mut guard) = watch.lock() {
                    guard.1 += 1;
                    let done = guard.1;
                    let nll = row.metrics.get(names::REG_NLL).copied().flatten().unwrap_or(f64::NAN);
                    guard.0.step(0, done, total as u64, nll);
                }
                Ok(row)
            })
            .collect::<Result<_>>()
    })?;
    let mut results = blank_results(config, context, &model)?;
    results.set_splits(Splits::new(rows));
    results.metric_notes = evaluate::notes();
    if *kind == UciSplits::Standard {
        results.published = published(name);
    }
    results.command = command;
    Ok(results)
}

/// The file that says which splits a run is asked for.
const ASKED_FILE: &str = "splits/asked.json";

/// The splits of a run, in order, and the command that trains them: those asked for now and, where a run is gone on with,
/// those it was asked for before.
fn asked(context: &RunContext, all: usize) -> Result<(Vec<usize>, Option<String>)> {
    let path = context.run.join(ASKED_FILE);
    let before: BTreeSet<usize> = if context.resume && path.exists() { json::read(&path)? } else { BTreeSet::new() };
    let now = match &context.splits {
        Some(some) if !some.is_empty() => some.clone(),
        None if !before.is_empty() => Vec::new(),
        _ => (0..all).collect(),
    };
    if let Some(split) = now.iter().find(|split| **split >= all) {
        let why = format!("{split} is not among the {all} splits, which count from 0");
        return Err(LabError::config("--splits", why));
    }
    let splits: BTreeSet<usize> = before.iter().copied().chain(now).collect();
    let added = !before.is_empty() && splits != before;
    let command = context.command.as_deref();
    let command = command.map(|command| if added { with_splits(command, &splits) } else { command.to_owned() });
    Ok((splits.into_iter().collect(), command))
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

fn seed_of(config: &RunConfig, split: usize) -> u64 {
    Key::new(config.seed).fold("split").at(split as u64).seed()
}

/// The rows of a split, with a validation part where the config wants one.
fn parts(config: &RunConfig, uci: &Uci, split: usize) -> Result<Parts> {
    let whole = match config.data {
        DataConfig::Uci { splits: UciSplits::Gap, .. } => uci.gap_split(split)?,
        _ => uci.split(split)?,
    };
    Ok(match config.data {
        DataConfig::Uci { validation_fraction, .. } if validation_fraction > 0.0 => {
            whole.with_validation(validation_fraction, seed_of(config, split))?
        }
        _ => Parts { train: whole.train, validation: Vec::new(), test: whole.test },
    })
}

/// The rows of a split, standardised with those it is trained on.
fn task_of(config: RunConfig, uci: &Uci, parts: &Parts) -> Result<Regression> {
    let rows = |rows: &[usize]| uci.table().select(rows);
    let train = rows(&parts.train)?;
    let validation = if parts.validation.is_empty() { None } else { Some(rows(&parts.validation)?) };
    let (scale, test) = (Some(Standardiser::fit(&train)?), rows(&parts.test)?);
    Ok(Regression { config, train, validation, test, scale, view: None, curve: None })
}

/// Trains and tests one split, or reads what an earlier run of it left.
fn one_split(config: &RunConfig, context: &RunContext, uci: &Uci, split: usize) -> Result<SplitMetrics> {
    let path = context.run.join("splits").join(format!("{split:02}.json"));
    if let Some(done) = fidgp_files::bytes(&path).ok().and_then(|bytes| serde_json::from_slice(&bytes).ok()) {
        return Ok(done);
    }
    if context.stop.load(Ordering::Relaxed) {
        return Err(LabError::Interrupted {
            epoch: 0,
            step: 0,
            kept: NO_FOLDER,
            command: context.resume_command.clone(),
        });
    }
    let parts = parts(config, uci, split)?;
    let config = &RunConfig { seed: seed_of(config, split), ..config.clone() };
    let task = task_of(config.clone(), uci, &parts)?;
    let signature = task.signature()?;
    let mut model = Model::init(config, &signature, context.device)?;
    let fitting = Fitting::new(&task, &signature, &model, false)?;
    let stop = (context.stop, context.resume_command.as_str());
    let outcome = fitting.run(&mut model, &Place::default(), stop, &mut ())?; // side by side: epochs are not shown
    let metrics = metrics(&task, &model)?;
    let row = SplitMetrics { split, metrics, train_seconds: outcome.map(|outcome| outcome.seconds) };
    json::write(&path, &row)?;
    Ok(row)
}

/// MC dropout on the same splits (Gal & Ghahramani 2016 protocol, 20 splits).
fn published(name: &str) -> Vec<Published> {
    let table = [
        ("boston", 2.90, 2.40),
        ("concrete", 4.83, 2.94),
        ("energy", 0.54, 1.21),
        ("kin8nm", 0.079, -1.14),
        ("power", 4.01, 2.81),
        ("protein", 4.27, 2.87),
        ("wine", 0.62, 0.93),
        ("yacht", 0.67, 1.25),
    ];
    let row = table.iter().find(|(set, _, _)| *set == name);
    row.map(|&(_, rmse, nll)| Published {
        method: "MC dropout".to_owned(),
        source: "MC dropout by the protocol of Gal & Ghahramani (2016) on the standard splits".to_owned(),
        metrics: Metrics::from([(names::REG_RMSE.to_owned(), Some(rmse)), (names::REG_NLL.to_owned(), Some(nll))]),
    })
    .into_iter()
    .collect()
}
