//! `fidgp train`

use std::num::NonZero;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;

use fidgp_lab::config::{self, DataConfig, RunConfig};
use fidgp_lab::experiment;
use fidgp_lab::files::CONFIG_FILE;
use fidgp_lab::model::Signature;
use fidgp_lab::run_folder::{RunContext, is_begun};
use fidgp_lab::train::Watch;
use fidgp_lab::{LabError, device};
use fidgp_report::record::Results;
use fidgp_torch::Group;

use super::threads::threads_of_one;
pub(super) use super::threads::{cores, threads_for};
use super::{Outcome, processes};
use crate::args::Train;
use crate::progress::{EpochBar, SplitBar};

pub fn run(arguments: &Train) -> Outcome {
    let (config, run, resume) = plan(arguments)?;
    if arguments.dry_run {
        return dry_run(arguments, &config, &run);
    }
    let launched = processes::launched()?;
    let device = device::choose(&processes::device_name(&arguments.place.device, launched.as_ref()))?;
    tch::set_num_threads(threads_of_one(&config, arguments.place.threads, launched.as_ref())?);
    device::bound_threads(cores() / launched.as_ref().map_or(1, |others| others.local_size)); // unless --threads has done it
    let here = launched.as_ref().map_or(1, |others| others.local_size);
    let by_splits = matches!(config.data, DataConfig::Uci { .. });
    let names_splits = arguments.splits.as_ref().is_some_and(|splits| splits != "all");
    if by_splits && launched.is_some() && arguments.force {
        let why = "works with one process only; with several, remove the folder first";
        return Err(LabError::config("--force", why));
    }
    let context = RunContext {
        device,
        data_root: data_root(arguments.place.data.as_deref(), &config)?,
        run: run.clone(),
        resume,
        force: arguments.force,
        member: arguments.member,
        splits: arguments.splits.as_deref().map(splits).transpose()?,
        shares: by_splits && (launched.is_some() || arguments.resume.is_none() && !arguments.force && names_splits),
        parallel: arguments.parallel.map_or_else(|| (cores() / here).max(1), NonZero::get),
        stop: super::stop_on_interrupt(),
        command: Some(command_of_run()),
        resume_command: resume_command(arguments, &run),
    };
    let group = if by_splits { None } else { launched.as_ref() };
    if let Some(group) = processes::join(group, device)? {
        return together(&config, &context, &group);
    }
    let is_first = launched.as_ref().is_none_or(|others| others.rank == 0);
    let mut watch: Box<dyn Watch + Send> = match config.data {
        _ if !is_first => Box::new(()),
        DataConfig::Uci { .. } => Box::new(SplitBar::new()),
        _ => Box::new(EpochBar::new(&config)),
    };
    let results = experiment::run(&config, &context, watch.as_mut())?;
    drop(watch);
    let Some(results) = results else {
        tell!("\nonce all members are there: {}", super::resume_command(&run, &arguments.place));
        return Ok(ExitCode::SUCCESS);
    };
    if is_first { show(&results, &run) } else { Ok(ExitCode::SUCCESS) }
}

/// Says what would be done.
fn dry_run(arguments: &Train, config: &RunConfig, run: &Path) -> Outcome {
    let (device, place) = (device::choose(&arguments.place.device)?, &arguments.place);
    tch::set_num_threads(threads_for(config, place.threads)?);
    let found = experiment::dry_run(config, &data_root(place.data.as_deref(), config)?, device)?;
    let (takes, gives) = match found.signature {
        Signature::Regression { features } => (format!("{features} numbers"), "a number".to_owned()),
        Signature::Rows { features, classes } => (format!("{features} numbers"), format!("one of {classes} classes")),
        Signature::Classification { image: [c, h, w], classes, .. } => {
            (format!("images of {c} × {h} × {w}"), format!("one of {classes} classes"))
        }
        Signature::Segmentation { crop: [h, w], classes, .. } => {
            (format!("pictures, {h} × {w} of each in training"), format!("one of {classes} classes for every pixel"))
        }
    };
    let networks =
        if found.networks > 1 { format!(", {} networks one after another", found.networks) } else { String::new() };
    let validation = if found.has_validation { "" } else { ", none held out for validation and calibration" };
    super::print(&format!(
        "data        {} training examples{validation}\nnetwork     {} of method {}, {} parameters\ntakes       {takes}\n\
         gives       {gives}\ntraining    {} epochs of {} steps, batches of {}{networks}\n\
         time        {} here, without the evaluation at the end: a step takes {}\nwould write {}\n",
        found.examples,
        config.network.name(),
        config.method.name(),
        found.parameters,
        found.epochs,
        found.steps,
        config.train.batch_size,
        about(found.seconds),
        short(found.step_seconds),
        run.display()
    ))?;
    Ok(ExitCode::SUCCESS)
}

/// A time that is known roughly.
fn about(seconds: f64) -> String {
    match seconds {
        s if s < 1.0 => "less than a second".to_owned(),
        s if s < 100.0 => format!("about {s:.0} s"),
        s if s < 6000.0 => format!("about {:.0} min", s / 60.0),
        s if s < 172_800.0 => format!("about {:.1} h", s / 3600.0),
        s => format!("about {:.1} days", s / 86_400.0),
    }
}

/// A short time.
fn short(seconds: f64) -> String {
    if seconds < 0.1 { format!("{:.2} ms", 1000.0 * seconds) } else { format!("{seconds:.2} s") }
}

fn show(results: &Results, run: &Path) -> Outcome {
    super::print_metrics(results)?;
    tell!("\nrun: {}\nlook at it with: fidgp report {}", run.display(), super::quoted(&run.display().to_string()));
    Ok(ExitCode::SUCCESS)
}

/// Trains as one of several processes. The others are told when this one fails.
fn together(config: &RunConfig, context: &RunContext, group: &Arc<Group>) -> Outcome {
    let mut watch: Box<dyn Watch + Send> =
        if group.rank() == 0 { Box::new(EpochBar::new(config)) } else { Box::new(()) };
    let done = experiment::run_together(config, context, group, watch.as_mut());
    drop(watch);
    processes::end(group, &done);
    done?.map_or(Ok(ExitCode::SUCCESS), |results| show(&results, &context.run))
}

/// The command that goes on with a run, for the same member or splits.
fn resume_command(arguments: &Train, run: &Path) -> String {
    let member = arguments.member.map_or(String::new(), |member| format!(" --member {member}"));
    let splits = arguments.splits.as_ref().map_or(String::new(), |some| format!(" --splits {}", super::quoted(some)));
    super::resume_command(run, &arguments.place) + &member + &splits
}

/// What is run, where, and whether it goes on: from a config, or from the folder of an earlier run.
fn plan(arguments: &Train) -> Result<(RunConfig, PathBuf, bool), LabError> {
    if let Some(run) = &arguments.resume {
        if !run.join(CONFIG_FILE).exists() {
            let why = format!("holds no run ({CONFIG_FILE}); give the folder that a training was written to");
            return Err(LabError::config(run.display().to_string(), why));
        }
        return Ok((config::read(&run.join(CONFIG_FILE), &[])?, run.clone(), true));
    }
    let path = arguments.config.as_deref().unwrap_or(Path::new(""));
    let config = config::read(path, &arguments.overrides)?;
    let run = arguments.out.clone().unwrap_or_else(|| Path::new("runs").join(&config.name));
    let resume = arguments.resume_if_begun && is_begun(&config, &run)?;
    Ok((config, run, resume))
}

pub(super) fn data_root(given: Option<&Path>, config: &RunConfig) -> Result<PathBuf, LabError> {
    let absolute = config.data.path().filter(|path| path.is_absolute()); // needs no root
    match (given.or(absolute), &config.data) {
        (Some(path), _) if !path.exists() => {
            let key = if given.is_some() { "--data" } else { "data.path" };
            Err(LabError::config(key, format!("`{}` is not there; name the folder with the data", path.display())))
        }
        (Some(path), _) => Ok(path.to_owned()),
        (None, DataConfig::Synthetic1d { .. }) => Ok(PathBuf::from("data")),
        (None, _) => Ok(fidgp_data::catalogue::data_root()?),
    }
}

pub(super) fn splits(text: &str) -> Result<Vec<usize>, LabError> {
    if text == "all" {
        return Ok(Vec::new());
    }
    let numbers = text.split(',').map(|part| part.trim().parse()).collect::<Result<std::collections::BTreeSet<_>, _>>();
    numbers
        .map(|numbers| numbers.into_iter().collect())
        .map_err(|_| LabError::config("--splits", format!("`{text}` is neither `all` nor numbers such as 0,1,2")))
}

/// What was typed, the program by its name; what is no text is shown as far as it is.
fn words() -> Vec<String> {
    let typed = std::env::args_os().skip(1).map(|word| word.to_string_lossy().into_owned());
    std::iter::once("fidgp".to_owned()).chain(typed).collect()
}

/// The command as it was typed, without the path of the program.
pub(super) fn command_line() -> String {
    super::typed(words().into_iter())
}

/// The command that produces a whole run: a member trained by itself is the one of all members.
fn command_of_run() -> String {
    let mut words = words();
    if let Some(place) = words.iter().position(|word| word == "--member") {
        words.drain(place..(place + 2).min(words.len()));
    }
    words.retain(|word| !word.starts_with("--member="));
    super::typed(words.into_iter())
}
