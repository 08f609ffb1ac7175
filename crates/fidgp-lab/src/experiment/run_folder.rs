//! The folder of a run: made, or cleared of an earlier run, once the new one is known to be possible.

use std::fs::{File, TryLockError};
use std::io::ErrorKind;
use std::path::Path;

use fidgp::objective::DatasetSize;
use serde::{Deserialize, Serialize};

use super::{CLASSES_FILE, CONFIG_FILE, Setting, norms, table};
use crate::calibrate::TEMPERATURE_FILE;
use crate::compare::{OOD_FOLDER, TEMPERED_FILE};
use crate::config::{self, DataConfig, Method, RunConfig};
use crate::error::{LabError, Result};
use crate::json;
use crate::model::{MEMBERS, Model};
use crate::model_folder::{MODEL_CONFIG_FILE, WEIGHTS_FILE};
use crate::record::{EPOCHS_FILE, EXAMPLES_FILE, RESULTS_FILE, write_atomically};
use crate::report;
use crate::train::{Optimiser, checkpoint};

/// The file with the command that began a run.
pub const COMMAND_FILE: &str = "command.txt";

/// The file that says which examples a run is trained on.
const TRAINED_ON_FILE: &str = "trained-on.json";

/// The file that a process holds locked while it trains in a folder. It stays; its lock goes with the process.
const LOCK_FILE: &str = ".lock";

/// What keeps other processes out of a run folder, until it is dropped.
#[must_use]
pub struct Lock {
    _held: Vec<File>,
}

impl Lock {
    /// Takes the folder of a run; members of an ensemble share it and take their own.
    fn take(setting: &Setting) -> Result<Self> {
        let mut held =
            vec![hold(&setting.run, if setting.member.is_some() { File::try_lock_shared } else { File::try_lock })?];
        if let Some(member) = setting.member {
            held.push(hold(&setting.run.join(MEMBERS).join(member.to_string()), File::try_lock)?);
        }
        Ok(Self { _held: held })
    }
}

fn hold(folder: &Path, lock: fn(&File) -> Result<(), TryLockError>) -> Result<File> {
    let path = folder.join(LOCK_FILE);
    let failed = |error: std::io::Error| LabError::File {
        path: folder.to_owned(),
        why: format!("nothing can be written there: {error}"),
    };
    std::fs::create_dir_all(folder).map_err(failed)?;
    let file = File::create(&path).map_err(failed)?;
    match lock(&file) {
        Err(TryLockError::WouldBlock) => {
            let why = "is in use: another process trains in it; wait until it is done, or choose another --out";
            Err(LabError::config(folder.display().to_string(), why))
        }
        // A file system without locks is no reason not to train.
        Ok(()) | Err(TryLockError::Error(_)) => Ok(file),
    }
}

/// Whether a member of an ensemble finds its run begun by another: it joins it, and no run is mixed or forgotten.
fn joins(config: &RunConfig, setting: &Setting) -> Result<bool> {
    let begun = setting.run.join(CONFIG_FILE);
    Ok(setting.member.is_some() && begun.exists() && config.has_begun(&config::read(&begun, &[])?))
}

/// Two runs do not share a folder, and results that came there in another way are not written over.
pub fn refuse_to_mix(config: &RunConfig, setting: &Setting) -> Result<()> {
    if setting.resume || setting.force || joins(config, setting)? {
        return Ok(());
    }
    let refused = |why: String| Err(LabError::config(setting.run.display().to_string(), why));
    if setting.run.join(CONFIG_FILE).exists() {
        let why = "holds a run already; go on with --resume, choose another --out, or pass --force to start again";
        return refused(why.to_owned());
    }
    if [MODEL_CONFIG_FILE, WEIGHTS_FILE].iter().all(|file| setting.run.join(file).exists()) {
        return refused("holds a model folder, whose files a run would mix with; choose another --out".to_owned());
    }
    if setting.run.join(RESULTS_FILE).exists() {
        return refused(format!(
            "holds a {RESULTS_FILE}, which a run would write over; choose another --out, or pass --force to do so"
        ));
    }
    Ok(())
}

/// The setting with which a run truly runs: one that is to be gone on with but stopped before its first checkpoint starts at
/// the beginning, and the command is the one that began it.
pub fn from_the_beginning<'a>(config: &RunConfig, setting: &Setting<'a>) -> Result<Setting<'a>> {
    let begun = setting.resume || joins(config, setting)?;
    let resume = begun && !is_untouched(config, &setting.run);
    if begun && !resume {
        tracing::warn!("{} has no checkpoint yet: it starts at the beginning", setting.run.display());
    }
    Ok(Setting {
        resume,
        force: setting.force || (begun && !resume), // what it left is of no use
        command: if begun { Some(command_of(&setting.run)) } else { setting.command.clone() },
        data_root: setting.data_root.clone(),
        run: setting.run.clone(),
        splits: setting.splits.clone(),
        go_on: setting.go_on.clone(),
        ..*setting
    })
}

/// Whether a run was begun but has neither a checkpoint nor results. Splits and members are gone on with one by one.
fn is_untouched(config: &RunConfig, run: &Path) -> bool {
    let by_parts = matches!(config.data, DataConfig::Uci { .. }) || config.method == Method::Ensemble;
    !by_parts && !checkpoint::last(run).exists() && !run.join(RESULTS_FILE).exists()
}

/// The command that began the run of a folder; its config always does.
fn command_of(run: &Path) -> String {
    let kept = std::fs::read_to_string(run.join(COMMAND_FILE)).ok().map(|text| text.trim().to_owned());
    kept.unwrap_or_else(|| format!("fidgp train {}", run.join(CONFIG_FILE).display()))
}

/// Writes down the command that began a run, for the record of one that is gone on with.
pub fn keep_command(run: &Path, command: &str) -> Result<()> {
    Ok(write_atomically(&run.join(COMMAND_FILE), format!("{command}\n").as_bytes())?)
}

/// The training examples of a run, as its folder remembers them.
#[derive(Debug, PartialEq, Serialize, Deserialize)]
pub struct TrainedOn {
    /// How many.
    #[serde(alias = "images")]
    pub examples: usize,
    /// Of their numbers, or of their files' places where they are not held in memory.
    pub sha256: String,
}

/// Refuses to go on with a run on other training examples: the KL would have another weight, and examples that were held out
/// for validation might be trained on. A folder from before they were remembered does not say.
pub fn same_examples(run: &Path, now: &TrainedOn) -> Result<()> {
    let path = run.join(TRAINED_ON_FILE);
    if !path.exists() {
        return Ok(());
    }
    let before: TrainedOn = json::read(&path)?;
    if before == *now {
        return Ok(());
    }
    let count = if before.examples == now.examples {
        format!("{} others", now.examples)
    } else {
        format!("{}, were {}", now.examples, before.examples)
    };
    let why = format!("has other training examples than the run began with ({count}); go on with --data at those");
    Err(LabError::config("data", why))
}

/// Remembers the training examples of a run.
pub fn keep_examples(run: &Path, examples: &TrainedOn) -> Result<()> {
    json::write(&run.join(TRAINED_ON_FILE), examples)
}

/// Makes the run folder and writes the resolved config. Called when the data are read and the network is built, so that
/// a run that cannot begin changes nothing on disk; what a training asks of its so many observations is asked here.
pub fn open_folder(config: &RunConfig, setting: &Setting, model: &Model, observations: usize) -> Result<Lock> {
    DatasetSize::new(observations)?;
    Optimiser::check(&model.store, &config.training().groups)?;
    let lock = Lock::take(setting)?;
    refuse_to_mix(config, setting)?; // another process may have begun, or finished, since this was asked first
    if setting.force && !setting.resume {
        clear(&setting.run)?;
    }
    setting.command.as_ref().map_or(Ok(()), |command| keep_command(&setting.run, command))?;
    write_atomically(&setting.run.join(CONFIG_FILE), config.to_toml()?.as_bytes())?; // last: with it the run has begun
    Ok(lock)
}

/// Forgets what was measured of a run's weights beside its results, which others would be taken for.
pub(crate) fn forget_measurements(run: &Path) -> Result<()> {
    let of_ood = ["ood.json", "ood.csv", report::REPORT_FILE].map(|file| run.join(OOD_FOLDER).join(file));
    let files = of_ood.into_iter().chain([run.join(TEMPERED_FILE)]);
    files.into_iter().try_for_each(|file| gone(&file, std::fs::remove_file(&file)))?;
    let scores = run.join(OOD_FOLDER).join("scores");
    gone(&scores, std::fs::remove_dir_all(&scores))
}

/// Forgets an earlier run in a folder: its config, checkpoints, results and report. Nothing else in the folder is touched.
fn clear(run: &Path) -> Result<()> {
    forget_measurements(run)?;
    let drawn = report::Run::read(run).map_or_else(|_| Vec::new(), |earlier| report::files(&earlier, run));
    let record = [RESULTS_FILE, EPOCHS_FILE, EXAMPLES_FILE, report::REPORT_FILE];
    let rest = [
        CONFIG_FILE,
        COMMAND_FILE,
        CLASSES_FILE,
        TRAINED_ON_FILE,
        TEMPERATURE_FILE,
        norms::NORMS_FILE,
        table::VIEW_FILE,
    ];
    let files = record.into_iter().chain(rest).map(|file| run.join(file));
    drawn.into_iter().chain(files).try_for_each(|file| gone(&file, std::fs::remove_file(&file)))?;
    let folders = ["checkpoint", "splits", MEMBERS, crate::maps::MAPS_FOLDER].map(|folder| run.join(folder));
    folders.iter().try_for_each(|folder| gone(folder, std::fs::remove_dir_all(folder)))
}

/// What was to be removed and was not there is gone as well.
fn gone(path: &Path, removed: std::io::Result<()>) -> Result<()> {
    match removed {
        Err(error) if error.kind() != ErrorKind::NotFound => Err(LabError::file(path, &error)),
        _ => Ok(()),
    }
}
