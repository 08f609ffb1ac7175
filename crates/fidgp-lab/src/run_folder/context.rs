use std::path::PathBuf;
use std::sync::atomic::AtomicBool;

use tch::Device;

/// What a run is given beside its config.
pub struct RunContext<'a> {
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
    /// Whether other processes train other splits of the same run, or other runs of the same comparison, at the same time.
    pub shares: bool,
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
    pub resume_command: String,
}

impl<'a> RunContext<'a> {
    /// A new run in a folder: all of it, in one process, without a command.
    pub fn new(run: impl Into<PathBuf>, data_root: impl Into<PathBuf>, device: Device, stop: &'a AtomicBool) -> Self {
        Self {
            device,
            data_root: data_root.into(),
            run: run.into(),
            resume: false,
            force: false,
            member: None,
            shares: false,
            splits: None,
            parallel: 1,
            stop,
            command: None,
            resume_command: String::new(),
        }
    }
}
