//! Whole runs: data, model, training, evaluation and record for each kind of data.

mod images;
mod members;
mod meter;
pub(crate) mod norms;
mod paper;
mod run_folder;
mod segmentation;
mod sets;
mod settle;
mod start;
mod synthetic;
pub(crate) mod table;
mod uci;
mod wrap;

pub(crate) use meter::Meter;
pub use run_folder::COMMAND_FILE;
pub(crate) use run_folder::forget_measurements;
pub(crate) use run_folder::same_examples;
use run_folder::{TrainedOn, from_the_beginning, keep_command, keep_examples, open_folder, refuse_to_mix};
pub(crate) use sets::{Sets, Use};
pub use wrap::{Stage, WrapReport, wrap};

use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicBool;

use tch::Device;

use crate::calibrate;
use crate::config::{DataConfig, RunConfig, Select};
use crate::error::{LabError, Result};
use crate::json;
use crate::model::Model;
use crate::predict::Predictor;
use crate::record::{Cost, EpochRecord, EpochWriter, Results, Schema, Time, commit};
use crate::train::{Outcome, Watch, checkpoint};

/// The file with the resolved config in a run folder.
pub const CONFIG_FILE: &str = "run.toml";

/// The file with the names of the classes in a run folder.
pub const CLASSES_FILE: &str = "classes.json";

/// What a run is given beside its config.
pub struct Setting<'a> {
    /// Where it computes.
    pub device: Device,
    /// Where data sets are.
    pub data_root: PathBuf,
    /// The folder it writes to.
    pub run: PathBuf,
    /// Go on from the last checkpoint.
    pub resume: bool,
    /// Forget the run that the folder holds, once this one is known to be possible.
    pub force: bool,
    /// Train only this member of a deep ensemble, for which others may share the folder.
    pub member: Option<i64>,
    /// Which splits of a data set that has several; all when empty. None is for those that a run was asked for before, and
    /// all where it begins.
    pub splits: Option<Vec<usize>>,
    /// Splits that are trained at the same time.
    pub parallel: usize,
    /// Raised to stop after the current step.
    pub stop: &'a AtomicBool,
    /// The command that was given, for the record.
    pub command: Option<String>,
    /// The command that goes on with the run when it was stopped.
    pub go_on: String,
}

/// Trains, evaluates and records a run; everything it leaves is in `setting.run`. There are no results when only a member of
/// an ensemble was asked for.
///
/// # Errors
/// When data, training or disk fail; what was done before is kept.
pub fn run(config: &RunConfig, setting: &Setting, watch: &mut (dyn Watch + Send)) -> Result<Option<Results>> {
    config.check()?;
    setting.member.map_or(Ok(()), |member| members::check(config, member))?;
    if setting.splits.as_ref().is_some_and(|splits| !splits.is_empty())
        && !matches!(config.data, DataConfig::Uci { .. })
    {
        let why = "is for data.set = \"uci\"; this data set has one division into training and test data";
        return Err(LabError::config("--splits", why));
    }
    refuse_to_mix(config, setting)?;
    let setting = &from_the_beginning(config, setting)?;
    let results = match &config.data {
        DataConfig::Synthetic1d { .. } => synthetic::run(config, setting, watch)?,
        DataConfig::Uci { .. } => Some(uci::run(config, setting, watch)?),
        DataConfig::Table(table) => table::run(config, table, setting, watch)?,
        DataConfig::Images { .. } | DataConfig::Arrays(_) | DataConfig::Folder(_) => {
            images::run(config, setting, watch)?
        }
        DataConfig::Segmentation(pairs) => segmentation::run(config, pairs, setting, watch)?,
    };
    if let Some(results) = &results {
        results.write(&setting.run.join(crate::record::RESULTS_FILE))?;
    }
    Ok(results)
}

/// Measures a trained network again, that of a run or of a model folder; nothing is written.
///
/// # Errors
/// When the data cannot be read or do not fit the network.
pub fn evaluate(predictor: &mut Predictor, setting: &Setting) -> Result<Results> {
    match &predictor.config.data {
        DataConfig::Synthetic1d { .. } => synthetic::evaluate(predictor, setting),
        DataConfig::Table(table) => table::evaluate(predictor, table, setting),
        DataConfig::Images { .. } | DataConfig::Arrays(_) | DataConfig::Folder(_) => {
            images::evaluate(predictor, setting)
        }
        DataConfig::Segmentation(pairs) => segmentation::evaluate(predictor, pairs, setting),
        DataConfig::Uci { .. } => Err(LabError::config(
            "data.set",
            "= \"uci\" keeps no weights of its splits; their metrics are in results.json",
        )),
    }
}

/// Puts the weights that a run chose into its model, with the draws' statistics and the temperature that belong to them.
///
/// # Errors
/// When there is no whole checkpoint, or it belongs to another network.
pub fn restore(config: &RunConfig, run: &Path, model: &mut Model) -> Result<()> {
    let step = restore_as_trained(config, run, model)?;
    calibrate::read(run, step)?.map_or(Ok(()), |temperature| model.temper(temperature))
}

/// The same without the temperature, as `results.json` has it; says which training step the weights are of.
///
/// # Errors
/// When there is no whole checkpoint, or it belongs to another network.
pub fn restore_as_trained(config: &RunConfig, run: &Path, model: &mut Model) -> Result<u64> {
    let path = chosen_checkpoint(config, run);
    if config.train.select == Select::Best && path == checkpoint::last(run) {
        tracing::warn!("{}: no best epoch was kept there (train.select), the last one is used", run.display());
    }
    let saved = checkpoint::load(&path)?;
    checkpoint::restore(&path, &saved, &model.store)?;
    model.norms = norms::read(&run.join(norms::NORMS_FILE), saved.progress.step, config, model)?;
    Ok(saved.progress.step)
}

/// The checkpoint that a run's results are of.
pub(crate) fn chosen_checkpoint(config: &RunConfig, run: &Path) -> PathBuf {
    let best = checkpoint::best(run);
    if config.train.select == Select::Best && best.exists() { best } else { checkpoint::last(run) }
}

/// Writes the names of the classes into a run folder, for those who use the network without the data.
fn write_classes(run: &Path, classes: &[String]) -> Result<()> {
    json::write(&run.join(CLASSES_FILE), classes)
}

/// The names of the classes that a run folder has, if it has them.
///
/// # Errors
/// When the file cannot be read.
pub fn read_classes(run: &Path) -> Result<Option<Vec<String>>> {
    let path = run.join(CLASSES_FILE);
    if !path.exists() {
        return Ok(None);
    }
    json::read(&path).map(Some)
}

/// Refuses to go on with (or measure) a run on data whose classes are others: a label would mean something else.
pub(crate) fn same_classes(run: &Path, classes: &[String]) -> Result<()> {
    let Some(before) = read_classes(run)? else { return Ok(()) };
    if before == classes {
        return Ok(());
    }
    let other = before.iter().zip(classes).find(|(before, now)| before != now);
    let example = other.map_or(String::new(), |(before, now)| format!(", such as `{before}`, now `{now}`"));
    let (before, now) = (before.len(), classes.len());
    let why =
        format!("has other classes ({now}) than the run was trained with ({before}){example}; give it its own data");
    Err(LabError::config("data", why))
}

/// Refuses data of another number of classes than a network has outputs.
fn as_many_classes(predictor: &Predictor, classes: &[String]) -> Result<()> {
    let (outputs, found) = (predictor.classes.len(), classes.len());
    if outputs == found {
        return Ok(());
    }
    Err(LabError::config(
        "data",
        format!("has {found} classes, the network tells {outputs} apart; give it its own data"),
    ))
}

/// How long a training took.
fn training_time(config: &RunConfig, outcome: &Outcome) -> Time {
    let seconds = outcome.seconds;
    let per_epoch = (config.train.epochs > 0).then(|| seconds / config.train.epochs as f64);
    Time { train_seconds: Some(seconds), seconds_per_epoch: per_epoch, predict_seconds: None }
}

/// A results document with everything but metrics and times.
fn blank_results(config: &RunConfig, setting: &Setting, model: &Model) -> Result<Results> {
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
        hardware: crate::device::hardware(setting.device),
        command: setting.command.clone(),
        config: json,
        test_sha256: None,
        metrics: crate::record::Metrics::new(),
        metric_notes: crate::record::MetricNotes::new(),
        cost: Cost { parameters, bytes: cost.bytes_f32 as u64, macs: (cost.flops_ours / 2) as u64 },
        time: Time::default(),
        splits: None,
        published: Vec::new(),
        figures: Vec::new(),
    })
}

/// Passes everything on to another watch and writes every epoch to `metrics.jsonl`.
struct Logged<'a> {
    writer: EpochWriter,
    inner: &'a mut dyn Watch,
}

impl<'a> Logged<'a> {
    fn new(run: &Path, resume: bool, inner: &'a mut dyn Watch) -> Result<Self> {
        let path = run.join(crate::record::EPOCHS_FILE);
        let writer = if resume { EpochWriter::append_to(&path)? } else { EpochWriter::create(&path)? };
        Ok(Self { writer, inner })
    }
}

impl Watch for Logged<'_> {
    fn step(&mut self, epoch: u64, step: u64, steps: u64, loss: f64) {
        self.inner.step(epoch, step, steps, loss);
    }

    fn epoch(&mut self, record: &EpochRecord) {
        if let Err(error) = self.writer.append(record) {
            tracing::warn!(%error, "an epoch could not be logged");
        }
        let EpochRecord { epoch, loss, nll, kl_inducing, kl_conditional, beta, seconds, .. } = record;
        tracing::info!(epoch, loss, nll, kl_inducing, kl_conditional, beta, seconds);
        self.inner.epoch(record);
    }

    fn says(&mut self, what: &str) {
        self.inner.says(what);
    }
}
