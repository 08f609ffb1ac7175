//! Several configs under the same seeds: run, measured, and set side by side.

mod difference;
mod ood;
mod settings;
mod summary;
mod tempered;

pub use ood::Aurocs;

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use tch::Device;

use crate::calibrate;
use crate::config::{self, DataConfig, RunConfig};
use crate::error::{LabError, Result};
use crate::experiment;
use crate::files::CONFIG_FILE;
use crate::json;
use crate::record::comparison::{Comparison, Failed};
use crate::record::{Examples, RESULTS_FILE, commit};
use crate::report::{Run, pages};
use crate::run_folder::{Lock, RunContext, forget_measurements};
use crate::train::Watch;

/// The file with everything the page shows.
pub const COMPARISON_FILE: &str = "comparison.json";

/// What a comparison is given beside its configs.
pub struct Plan<'a> {
    /// Where it computes.
    pub device: Device,
    /// Where data sets are.
    pub data_root: PathBuf,
    /// The folder it writes to: `<name>/seed-<n>/` for each run, and the page.
    pub out: PathBuf,
    /// Runs of each config, all under the same seeds, which count up from that of the first.
    pub seeds: u64,
    /// Which splits of a data set that has several; all when empty.
    pub splits: Vec<usize>,
    /// Splits that are trained at the same time.
    pub parallel: usize,
    /// Sets whose images every run is asked to tell apart from those of its data; none when empty.
    pub ood: Vec<String>,
    /// Most images of each of them, and of the data's own.
    pub ood_limit: Option<usize>,
    /// Whether every classification is measured once more with a temperature fitted on its validation examples.
    pub temperature: bool,
    /// Raised to stop after the current step.
    pub stop: &'a AtomicBool,
    /// The command that was given, for the record.
    pub command: Option<String>,
    /// Whether this process writes the comparison; of several that share its runs one does.
    pub writes: bool,
}

/// Who watches each run.
pub type Watcher<'a> = dyn FnMut(&RunConfig) -> Box<dyn Watch + Send> + 'a;

/// One finished run and what it left.
struct Finished {
    /// The config as it was run, with what the data had to say.
    config: RunConfig,
    run: Run,
    examples: Option<Examples>,
    ood: Option<ood::OfRun>,
    tempered: Option<tempered::Tempered>,
}

/// Runs every config under every seed, unless its folder has the results already, and writes one report. A config that
/// fails by itself is named in it and keeps no other from being compared.
///
/// # Errors
/// When two configs share a name or do not share data, a folder holds another run, the disk or the data fail, or no config is
/// left; what is finished is kept, and the same command goes on.
pub fn run(configs: &[RunConfig], plan: &Plan, watcher: &mut Watcher) -> Result<Comparison> {
    check(configs, plan)?;
    let (mut left, mut finished, mut failed) = (Vec::new(), Vec::new(), Vec::new());
    for (config, runs) in configs.iter().zip(sweep(configs, plan, watcher)?) {
        match runs {
            Ok(runs) => {
                left.push(config.clone());
                finished.push(runs);
            }
            Err(failure) => failed.push(failure),
        }
    }
    let configs = &left[..];
    if configs.is_empty()
        && let Some((Failed { name, seed, .. }, error)) = failed.pop()
    {
        return Err(LabError::Contender { name, seed, error });
    }
    same_examples(configs, &finished)?;
    let contenders = summary::contenders(configs, &finished)?;
    let differences = difference::against_first(configs, &finished)?;
    let page = plan.out.join("report.html");
    let comparison = Comparison {
        schema: "fidgp-comparison/1",
        settings: settings::differing(configs)?,
        commit: commit(),
        hardware: crate::device::hardware(plan.device),
        command: plan.command.clone(),
        contenders,
        failed: failed.into_iter().map(|(failed, _)| failed).collect(),
        differences,
        page,
    };
    if plan.writes {
        json::write(&plan.out.join(COMPARISON_FILE), &comparison)?;
        let runs: Vec<Run> = finished.into_iter().flatten().map(|finished| finished.run).collect();
        pages::comparison::write(&comparison, &runs)?;
    }
    Ok(comparison)
}

/// The runs of a config, or the first that failed by itself.
type Runs = std::result::Result<Vec<Finished>, (Failed, Box<LabError>)>;

/// Between looks at runs that other processes have.
const PAUSE: Duration = Duration::from_millis(500);

/// Every config under every seed. Several processes share them out: a run that another one has is left to it, and looked at again
/// when the others are done.
fn sweep(configs: &[RunConfig], plan: &Plan, watcher: &mut Watcher) -> Result<Vec<Runs>> {
    let first = configs.first().map_or(0, |config| config.seed);
    let count = plan.seeds as usize;
    let mut found: Vec<Option<Finished>> = (0..configs.len() * count).map(|_| None).collect();
    let mut failed: Vec<Option<(Failed, Box<LabError>)>> = configs.iter().map(|_| None).collect();
    loop {
        let mut elsewhere = 0;
        for (place, run) in found.iter_mut().enumerate().filter(|(_, run)| run.is_none()) {
            let (config, failure) = (&configs[place / count], &mut failed[place / count]);
            if failure.is_some() {
                continue;
            }
            match one(&RunConfig { seed: first + (place % count) as u64, ..config.clone() }, plan, watcher) {
                Ok(finished) => *run = Some(finished),
                Err(LabError::Contender { error, .. }) if matches!(*error, LabError::InUse { .. }) => elsewhere += 1,
                Err(LabError::Contender { name, seed, error }) if error.is_of_one_run() => {
                    tracing::error!("{name}, seed {seed}: {error}. The comparison goes on without {name}");
                    *failure = Some((Failed { name, seed, why: error.to_string() }, error));
                }
                Err(error) => return Err(error),
            }
        }
        if elsewhere == 0 {
            break;
        }
        unless_stopped(plan)?;
        std::thread::sleep(PAUSE);
    }
    let mut found = found.into_iter();
    let runs = |failure: Option<_>| {
        let own: Vec<_> = found.by_ref().take(count).flatten().collect();
        failure.map_or(Ok(own), Err)
    };
    Ok(failed.into_iter().map(runs).collect())
}

fn check(configs: &[RunConfig], plan: &Plan) -> Result<()> {
    if plan.seeds == 0 {
        return Err(LabError::config("--seeds", "must be at least 1"));
    }
    if let Some(config) = configs.iter().find(|config| !plan.ood.is_empty() && !config.data.has_images()) {
        return Err(LabError::config("--ood", format!("is for images; `{}` is not of images", config.name)));
    }
    if let Some(config) = configs.iter().find(|config| !plan.ood.is_empty() && config.train.checkpoint_every == 0) {
        return Err(LabError::config("--ood", format!("needs weights; `{}` keeps no checkpoint", config.name)));
    }
    if plan.temperature {
        configs.iter().try_for_each(calibrate::check)?;
        if let Some(config) = configs.iter().find(|config| config.train.checkpoint_every == 0) {
            let why = format!("needs weights; `{}` keeps no checkpoint", config.name);
            return Err(LabError::config("--temperature", why));
        }
    }
    for set in &plan.ood {
        crate::ood::sets::check(&plan.data_root, set)?;
    }
    if !plan.ood.is_empty() {
        configs.iter().try_for_each(|config| ood::check(config, plan))?;
    }
    for (index, config) in configs.iter().enumerate() {
        if let Some(other) = configs[..index].iter().find(|other| other.name == config.name) {
            let why = format!(
                "`{}` names two configs; give each a `name` of its own, or compare methods of one file with --methods",
                other.name
            );
            return Err(LabError::config("name", why));
        }
        if config.data.name() != configs[0].data.name() {
            let (a, b) = (configs[0].data.name(), config.data.name());
            let why = format!(
                "`{}` is on {b}, `{}` on {a}: only runs on the same data compare",
                config.name, configs[0].name
            );
            return Err(LabError::config("data", why));
        }
    }
    Ok(())
}

/// One run, named in what goes wrong with it; a stop is not the run's.
fn one(config: &RunConfig, plan: &Plan, watcher: &mut Watcher) -> Result<Finished> {
    run_one(config, plan, watcher).map_err(|error| match error {
        LabError::Interrupted { .. } => error,
        error => LabError::Contender { name: config.name.clone(), seed: config.seed, error: Box::new(error) },
    })
}

/// Read where it is finished, gone on with where it was begun, begun elsewhere.
fn run_one(config: &RunConfig, plan: &Plan, watcher: &mut Watcher) -> Result<Finished> {
    let folder = plan.out.join(&config.name).join(format!("seed-{}", config.seed));
    let by_splits = matches!(config.data, DataConfig::Uci { .. }); // these are shared out one by one
    let _turn = (!by_splits).then(|| Lock::turn(&folder)).transpose()?;
    let begun = folder.join(CONFIG_FILE).exists();
    if begun && !config.has_begun(&config::read(&folder.join(CONFIG_FILE), &[])?) {
        let why = "holds a run of another config; choose another --out, or remove that folder";
        return Err(LabError::config(folder.display().to_string(), why));
    }
    if !(begun && is_finished(config, &folder, plan)?) {
        forget_measurements(&folder)?;
        let context = RunContext { shares: by_splits, ..context_of(&folder, begun, plan) };
        experiment::run(config, &context, watcher(config).as_mut())?;
    }
    unless_stopped(plan)?;
    let ood = if plan.ood.is_empty() { None } else { Some(ood::of_run(config, &folder, plan)?) };
    unless_stopped(plan)?;
    let tempered = plan.temperature.then(|| tempered::of_run(config, &folder, plan)).transpose()?;
    let mut run = Run::read(&folder)?;
    if !plan.splits.is_empty() {
        run.results.keep_splits(&plan.splits);
    }
    let config = config::read(&folder.join(CONFIG_FILE), &[])?;
    Ok(Finished { config, run, examples: Examples::read(&folder)?, ood, tempered })
}

/// Refuses to set runs side by side that were measured on other test examples. A run from before they were remembered does not
/// say.
fn same_examples(configs: &[RunConfig], finished: &[Vec<Finished>]) -> Result<()> {
    let named = configs.iter().zip(finished).flat_map(|(config, runs)| runs.iter().map(move |run| (config, run)));
    let digest = |run: &Finished| run.run.results.test_sha256.clone();
    let mut said = named.filter_map(|(config, run)| Some((&config.name, run.config.seed, digest(run)?)));
    let Some((name, seed, first)) = said.next() else { return Ok(()) };
    match said.find(|(_, _, own)| *own != first) {
        Some((other, other_seed, _)) => {
            let why = format!(
                "`{other}` (seed {other_seed}) was measured on other test examples than `{name}` (seed {seed}); \
                 remove the folder of the one whose data are no longer there, it is trained again"
            );
            Err(LabError::config("data", why))
        }
        None => Ok(()),
    }
}

/// Stops between two measurements where the user asked for it.
fn unless_stopped(plan: &Plan) -> Result<()> {
    if !plan.stop.load(Ordering::Relaxed) {
        return Ok(());
    }
    let command = plan.command.clone().unwrap_or_default();
    Err(LabError::Interrupted { epoch: 0, step: 0, kept: "finished runs are kept", command })
}

/// What a run of the plan is given.
fn context_of<'a>(folder: &Path, resume: bool, plan: &Plan<'a>) -> RunContext<'a> {
    RunContext {
        resume,
        splits: Some(plan.splits.clone()),
        parallel: plan.parallel,
        command: plan.command.clone(),
        resume_command: plan.command.clone().unwrap_or_default(),
        ..RunContext::new(folder, &plan.data_root, plan.device, plan.stop)
    }
}

/// Whether a folder has the results of all splits that are asked for.
fn is_finished(config: &RunConfig, folder: &Path, plan: &Plan) -> Result<bool> {
    if !folder.join(RESULTS_FILE).exists() {
        return Ok(false);
    }
    let DataConfig::Uci { name, splits, .. } = &config.data else { return Ok(true) };
    let all = || Ok::<_, LabError>((0..splits.count(fidgp_data::uci::find(name)?)).collect());
    let wanted: Vec<usize> = if plan.splits.is_empty() { all()? } else { plan.splits.clone() };
    let done = Run::read(folder)?.results.splits;
    let done: Vec<_> = done.iter().flat_map(|splits| splits.runs.iter().map(|run| run.split)).collect();
    Ok(wanted.iter().all(|split| done.contains(split)))
}
